-- Whatever writes what lanes share, inserts it in one order: actor, detail, subject, criterion, and by ids in each.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;

CREATE TEMP TABLE said (n integer GENERATED ALWAYS AS IDENTITY, kind text, id bigint);
CREATE FUNCTION note_said() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO pg_temp.said (kind, id)
	VALUES (TG_TABLE_NAME, NEW.id); RETURN NEW; END $$;
CREATE TRIGGER note_said BEFORE INSERT ON kube_reports_internal.criterion FOR EACH ROW EXECUTE FUNCTION note_said();
CREATE TRIGGER note_said BEFORE INSERT ON kube_reports_internal.subject FOR EACH ROW EXECUTE FUNCTION note_said();
CREATE TRIGGER note_said BEFORE INSERT ON kube_reports_internal.detail FOR EACH ROW EXECUTE FUNCTION note_said();
CREATE TRIGGER note_said BEFORE INSERT ON kube_reports_internal.actor FOR EACH ROW EXECUTE FUNCTION note_said();
-- Tables in the order in which rows came, and whether ids grew in each.
CREATE FUNCTION pg_temp.said_order(OUT tables text, OUT rows bigint, OUT ids_grew boolean) LANGUAGE sql AS $$
	WITH step AS (SELECT s.n, s.kind, s.id, s.kind IS DISTINCT FROM lag(s.kind) OVER w AS begins,
			s.kind IS DISTINCT FROM lag(s.kind) OVER w OR s.id > lag(s.id) OVER w AS grew
		FROM said s WINDOW w AS (ORDER BY s.n)),
		forgotten AS (DELETE FROM said)
	SELECT string_agg(s.kind, ' ' ORDER BY s.n) FILTER (WHERE s.begins), count(*), bool_and(s.grew) FROM step s
$$;
CREATE FUNCTION pg_temp.write(verb text, actor text, name text, policy text, results integer, size integer)
	RETURNS integer LANGUAGE sql AS $$
	SELECT w.codes[1] FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
		ARRAY[jsonb_strip_nulls(jsonb_build_object('verb', verb,
			'group', 'wgpolicyk8s.io', 'version', 'v1alpha2', 'resource', 'policyreports', 'namespace', 'ns',
				'name', CASE WHEN verb = 'patch' THEN name END,
			'contentType', CASE verb WHEN 'patch' THEN 'application/merge-patch+json' ELSE 'application/json' END,
			'user', jsonb_build_object('username', actor)))],
		ARRAY[convert_to((jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'metadata', jsonb_build_object('name', name))
			|| jsonb_build_object('results', (SELECT jsonb_agg(jsonb_build_object('policy', policy, 'rule',
				n::text, 'result', 'fail',
				'message', repeat('m', size) || policy || n, 'resources',
					jsonb_build_array(jsonb_build_object('kind', 'Pod', 'name', policy || n))))
				FROM generate_series(1, results) n)))::text, 'UTF8')], 8, true) w
$$;

-- A new report, one that has changed, a large one whose results follow.
SELECT pg_temp.write('create', 'alice', 'a', 'first', 5, 10) AS code;
SELECT * FROM pg_temp.said_order();
SELECT pg_temp.write('patch', 'bob', 'a', 'second', 5, 10) AS code;
SELECT * FROM pg_temp.said_order();
SELECT pg_temp.write('create', 'carol', 'large', 'third', 5, 100000) AS code;
SELECT * FROM pg_temp.said_order();
SELECT kube_reports_internal.pending_step() AS announced;
SELECT * FROM pg_temp.said_order();
DROP FUNCTION note_said() CASCADE;
