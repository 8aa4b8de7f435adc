-- Copies of a cluster's objects: stored as they are there, compared, followed, and never written over what is newer
-- here.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') > 0 AS known;
-- What the proxy sends: canonical JSON, metadata without resourceVersion and the rest.
CREATE FUNCTION pg_temp.meta(name text, uid integer, more text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT format('{"annotations":{"a":"b"},"creationTimestamp":"2024-05-06T07:08:09Z","generation":7,'
		'"labels":{"l":"%s"},'
		'"managedFields":[{"apiVersion":"wgpolicyk8s.io/v1alpha2","fieldsType":"FieldsV1","fieldsV1":{"f:results":{}},'
		'"manager":"reports-controller","operation":"Update","time":"2024-05-06T07:08:09Z"}],'
		'"name":"%s","namespace":"shop","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p",'
		'"uid":"00000000-0000-0000-0000-0000000000aa"}],"uid":"00000000-0000-0000-0000-%s"%s}',
		name, name, lpad(uid::text, 12, '0'), more)
$$;
CREATE FUNCTION pg_temp.body(result text) RETURNS text LANGUAGE sql AS $$
	SELECT format('{"results":[{"message":"m","policy":"p","result":"%s","rule":"r"}],"summary":{"fail":1}}', result)
$$;
CREATE FUNCTION pg_temp.import(source_versions text[], metadatas text[], bodies text[], overwrite boolean DEFAULT false)
	RETURNS TABLE (place integer, outcome text, reason text) LANGUAGE sql AS $$
	SELECT * FROM kube_reports_internal.api_import('00000000-0000-0000-0000-000000000001', 'wgpolicyk8s.io', 'v1alpha2',
		'policyreports', source_versions, metadatas, bodies, overwrite)
$$;
CREATE FUNCTION pg_temp.verify(names text[], hashes text[]) RETURNS TABLE (place integer, stored boolean,
	metadata text, body text)
	LANGUAGE sql AS $$
	SELECT * FROM kube_reports_internal.api_import_verify('00000000-0000-0000-0000-000000000001', 'wgpolicyk8s.io',
		'v1alpha2',
		'policyreports', array_fill('shop'::text, ARRAY[cardinality(names)]), names, hashes)
$$;
CREATE FUNCTION pg_temp.hash(metadata text, body text) RETURNS text LANGUAGE sql AS $$
	SELECT encode(sha256(convert_to(metadata || body, 'UTF8')), 'hex')
$$;
CREATE FUNCTION pg_temp.cleanup(names text[], uids integer[], source_versions text[])
	RETURNS TABLE (place integer, verdict text, reason text) LANGUAGE sql AS $$
	SELECT * FROM kube_reports_internal.api_cleanup('00000000-0000-0000-0000-000000000001', 'wgpolicyk8s.io',
		'v1alpha2',
		'policyreports', array_fill('shop'::text, ARRAY[cardinality(names)]), names,
		ARRAY(SELECT '00000000-0000-0000-0000-' || lpad(u::text, 12, '0')
			FROM unnest(uids) WITH ORDINALITY x(u, n) ORDER BY n),
		source_versions)
$$;

-- One that is invalid, one that is no JSON and one without a uid stop no other.
SELECT * FROM pg_temp.import('{11,12,13,14,15}',
	ARRAY[pg_temp.meta('a', 1), pg_temp.meta('b', 2), '{"name":', '{"name":"d"}', pg_temp.meta('e', 5)],
	ARRAY[pg_temp.body('fail'), pg_temp.body('bogus'), '{}', '{}', pg_temp.body('pass')]);
SELECT o.name, o.uid, o.metadata::text = pg_temp.meta('a', 1) AS same_metadata,
	o.body::text = pg_temp.body('fail') AS same_body
	FROM kube_reports.object o ORDER BY o.name;
SELECT r.report, r.policy, r.status FROM kube_reports.typed_result r ORDER BY r.report;
SELECT * FROM kube_reports.verify();
SELECT c.operation, c.name, c.version > c.old_version AS above FROM kube_reports_internal.change c ORDER BY c.version;

-- Verified is what is the same when it is read again.
SELECT place, stored, body FROM pg_temp.verify('{a,e,missing}', ARRAY[pg_temp.hash(pg_temp.meta('a', 1),
	pg_temp.body('fail')), 'x', 'x']);
SELECT i.name, i.verified FROM kube_reports_internal.imported i ORDER BY i.name;
SELECT * FROM pg_temp.cleanup('{a,a,a,e,z}', '{1,2,1,5,9}', '{11,11,99,15,1}');

-- Again: nothing is written.
SELECT max(c.version) AS newest FROM kube_reports_internal.change c \gset
SELECT * FROM pg_temp.import('{11,15}', ARRAY[pg_temp.meta('a', 1), pg_temp.meta('e', 5)],
	ARRAY[pg_temp.body('fail'), pg_temp.body('pass')]);
SELECT max(c.version) = :newest AS nothing_written FROM kube_reports_internal.change c;

-- The source goes on: a copy that nobody changed here follows, also to another object of the same name.
SELECT * FROM pg_temp.import('{21,25}', ARRAY[pg_temp.meta('a', 1), pg_temp.meta('e', 6)],
	ARRAY[pg_temp.body('pass'), pg_temp.body('warn')]);
SELECT o.name, o.uid, o.body::text LIKE '%"' || CASE o.name WHEN 'a' THEN 'pass' ELSE 'warn' END || '"%' AS followed
	FROM kube_reports.object o ORDER BY o.name;
SELECT c.operation, c.name FROM kube_reports_internal.change c WHERE c.version > :newest ORDER BY c.version;
SELECT * FROM kube_reports.verify();

-- What was changed or deleted here stays so.
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'shop', 'a',
	'{"metadata":{"labels":{"here":"yes"}}}') IS NOT NULL AS changed;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'shop', 'e');
SELECT * FROM pg_temp.import('{31,25}', ARRAY[pg_temp.meta('a', 1), pg_temp.meta('e', 6)],
	ARRAY[pg_temp.body('error'), pg_temp.body('warn')]);
-- Unless it was deleted here and is still in use there, or the source is to win.
SELECT * FROM pg_temp.import('{35}', ARRAY[pg_temp.meta('e', 6)], ARRAY[pg_temp.body('skip')]);
SELECT * FROM pg_temp.import('{31}', ARRAY[pg_temp.meta('a', 1)], ARRAY[pg_temp.body('error')], true);
SELECT * FROM kube_reports.verify();

-- What may be deleted there: what has the version that was copied and verified; changed or deleted here meanwhile or
-- not.
SELECT * FROM pg_temp.verify('{a,e}', ARRAY[pg_temp.hash(pg_temp.meta('a', 1), pg_temp.body('error')),
	pg_temp.hash(pg_temp.meta('e', 6), pg_temp.body('skip'))]);
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'shop', 'a',
	'{"metadata":{"labels":{"here":"yes"}}}') IS NOT NULL AS changed;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'shop', 'e');
SELECT * FROM pg_temp.cleanup('{a,e,e}', '{1,6,6}', '{31,35,36}');
SELECT kube_reports_internal.api_cleanup_done(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', '{shop,shop}',
	'{a,e}',
	'{00000000-0000-0000-0000-000000000001,00000000-0000-0000-0000-000000000009}');
SELECT i.name FROM kube_reports_internal.imported i ORDER BY i.name;

-- Copies that are gone at the source: counted, and deleted when asked for, unless they were changed here.
SELECT * FROM pg_temp.import('{41,42,43}', ARRAY[pg_temp.meta('f', 11), pg_temp.meta('g', 12), pg_temp.meta('h', 13)],
	ARRAY[pg_temp.body('pass'), pg_temp.body('pass'), pg_temp.body('pass')]);
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'shop', 'g',
	'{"metadata":{"labels":{"here":"yes"}}}') IS NOT NULL AS changed;
SELECT clock_timestamp() AS began \gset
SELECT * FROM pg_temp.import('{41}', ARRAY[pg_temp.meta('f', 11)], ARRAY[pg_temp.body('pass')]);
SELECT kube_reports_internal.api_import_stale(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', :'began', false,
	10);
SELECT kube_reports_internal.api_import_stale(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', :'began', true,
	10);
SELECT o.name FROM kube_reports.object o ORDER BY o.name;
SELECT * FROM kube_reports.verify();
-- Of what neither the source nor this store has, and of what was changed here and is gone there, nothing is kept.
SELECT i.name FROM kube_reports_internal.imported i ORDER BY i.name;

-- What the source has in a state that cannot be stored is not gone.
SELECT clock_timestamp() AS began \gset
SELECT i.outcome FROM pg_temp.import('{61}', ARRAY[pg_temp.meta('f', 11)], ARRAY[pg_temp.body('bogus')]) i;
SELECT kube_reports_internal.api_import_stale(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', :'began', true,
	10);
SELECT i.name FROM kube_reports_internal.imported i ORDER BY i.name;

-- What was deleted here: an import does not store it again, and its row goes when the source no longer has it.
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'shop', 'f');
SELECT clock_timestamp() AS began \gset
SELECT i.outcome, i.reason FROM pg_temp.import('{41}', ARRAY[pg_temp.meta('f', 11)], ARRAY[pg_temp.body('pass')]) i;
SELECT kube_reports_internal.api_import_stale(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', :'began', true,
	10);
SELECT i.name FROM kube_reports_internal.imported i ORDER BY i.name;
SELECT clock_timestamp() AS began \gset
SELECT kube_reports_internal.api_import_stale(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', :'began', false,
	10);
SELECT i.name FROM kube_reports_internal.imported i ORDER BY i.name;
-- Or when no import has asked for it for as long as history is kept; not the row of an object that is here.
SELECT i.outcome FROM pg_temp.import('{71,72}', ARRAY[pg_temp.meta('k', 31), pg_temp.meta('l', 32)],
	ARRAY[pg_temp.body('pass'), pg_temp.body('pass')]) i;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'shop', 'k');
SELECT removed FROM kube_reports_internal.collect_imported('(0,0)', '(1000,0)');
UPDATE kube_reports_internal.imported SET seen_at = kube_reports_internal.history_names_from() - interval '1 hour';
SELECT removed FROM kube_reports_internal.collect_imported('(0,0)', '(1000,0)');
SELECT i.name FROM kube_reports_internal.imported i ORDER BY i.name;

-- A namespace that is being deleted gets nothing more.
INSERT INTO kube_reports_internal.namespace (cluster_id, name, uid, state)
	SELECT c.id, 'shop', 'u', 'terminating' FROM kube_reports.cluster c;
SELECT * FROM pg_temp.import('{51}', ARRAY[pg_temp.meta('n', 20)], ARRAY[pg_temp.body('pass')]);

-- What is not served, and who may not.
SELECT * FROM kube_reports_internal.api_import(:'one', 'wgpolicyk8s.io', 'v1', 'policyreports', '{}', '{}', '{}',
	false);
CREATE ROLE regress_importer LOGIN;
SELECT kube_reports.grant_proxy('regress_importer', '00000000-0000-0000-0000-000000000002');
SELECT current_user AS owner \gset
\c - regress_importer
SELECT * FROM kube_reports_internal.api_import(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', '{}', '{}', '{}',
	false);
SELECT count(*) FROM kube_reports_internal.api_import('00000000-0000-0000-0000-000000000002', 'wgpolicyk8s.io',
	'v1alpha2', 'policyreports', '{}', '{}', '{}', false);
SELECT * FROM kube_reports_internal.api_cleanup(:'one', 'wgpolicyk8s.io', 'v1alpha2', 'policyreports', '{}', '{}',
	'{}', '{}');
SELECT count(*) FROM kube_reports_internal.imported;
\c - :owner
GRANT regress_importer TO current_user;
DROP OWNED BY regress_importer;
DROP ROLE regress_importer;
