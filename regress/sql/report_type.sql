-- Type report: input, output, casts, storage.
SELECT '{"b": 1, "a": [true, null, "x\u00e9"]}'::kube_reports.report;
SELECT ('{"a":1}'::kube_reports.report)::jsonb -> 'a' AS a, ('{"a":1}'::kube_reports.report)::json ->> 'a' AS b,
	('{"a":1}'::kube_reports.report)::text AS c;
SELECT '{"a": {"b": 1.50}}'::jsonb::kube_reports.report, '{"x": 2}'::json::kube_reports.report,
	'{}'::text::kube_reports.report;

-- Casts are explicit.
SELECT length('{}'::kube_reports.report);
SELECT '{}'::kube_reports.report = '{}'::text;

-- Anything but one JSON object is refused, with the position.
\set VERBOSITY default
SELECT '[1]'::kube_reports.report;
SELECT ''::kube_reports.report;
SELECT '{"a":1'::kube_reports.report;
SELECT '{"a":1} x'::kube_reports.report;
SELECT '{"a" 1}'::kube_reports.report;
SELECT '{"a":01}'::kube_reports.report;
SELECT '"text"'::text::kube_reports.report;
SELECT '[]'::jsonb::kube_reports.report;
SELECT repeat('{"a":', 1001)::kube_reports.report;
\set VERBOSITY terse

-- Binary input and output.
CREATE TEMP TABLE r (doc kube_reports.report);
INSERT INTO r VALUES ('{"k": "v"}'), (NULL), (('{"big":"' || repeat('x', 100000) || '"}')::kube_reports.report);
\copy r TO 'results/report_type.bin' (FORMAT binary)
CREATE TEMP TABLE r2 (LIKE r);
\copy r2 FROM 'results/report_type.bin' (FORMAT binary)
SELECT count(*), count(doc), sum(kube_reports.document_size(doc)) FROM r2;
SELECT (SELECT string_agg(doc::text, '' ORDER BY length(doc::text))
	FROM r) = (SELECT string_agg(doc::text, '' ORDER BY length(doc::text)) FROM r2);

-- Labels as search terms.
SELECT kube_reports.label_terms('{"labels":{"b":"2","a":"1","n":3}}');
SELECT kube_reports.label_terms('{"name":"x"}');
SELECT kube_reports.label_terms('{"labels":null}');
