-- Label and field selectors, as functions.
\set VERBOSITY terse
CREATE TEMP TABLE labelled (name text, labels text[]);
INSERT INTO labelled VALUES ('both', '{a=1,b=2}'), ('one', '{a=1}'), ('none', '{}'), ('empty', '{a=}'),
	('number', '{n=7}'), ('prefix', '{example.com/a=1}');
SELECT s.selector, (SELECT array_agg(l.name ORDER BY l.name) FROM labelled l
	WHERE kube_reports.matches_labels(l.labels, s.selector)) AS matches,
		kube_reports.selector_terms(s.selector) AS terms
	FROM (VALUES (1, ''), (2, 'a=1'), (3, 'a==1,b=2'), (4, 'a!=1'), (5, 'a'), (6, '!a'), (7, 'a in (1,2)'),
		(8, 'a notin (1)'), (9, 'a in ()'),
		(10, 'a='), (11, 'n>6'), (12, 'n<7'), (13, 'n > 6, n < 8'), (14, 'example.com/a = 1'),
			(15, 'a in (1),a notin (2)'), (16, 'in=x')) s(n, selector)
	ORDER BY s.n;
SELECT kube_reports.matches_labels('{}', 'a in');
SELECT kube_reports.matches_labels('{}', '-a=1');
SELECT kube_reports.matches_labels('{}', 'a=-1');
SELECT kube_reports.matches_labels('{}', 'n>x');
SELECT kube_reports.matches_labels('{}', 'a,,b');
SELECT kube_reports.matches_fields('ns', 'x', 'metadata.name=x') AS a,
	kube_reports.matches_fields('ns', 'x', 'metadata.name!=x') AS b,
	kube_reports.matches_fields('ns', 'x', 'metadata.namespace=ns,metadata.name=x') AS c,
		kube_reports.matches_fields('ns', 'x', '') AS d;
SELECT kube_reports.matches_fields('ns', 'x', 'spec.x=1');
SELECT kube_reports.matches_fields('ns', 'x', 'metadata.name');
