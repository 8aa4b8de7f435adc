-- generate.sql
--	  Seeded reports in any number: Kyverno PSS, Trivy-style, mixed sizes.
--
-- Makes temporary functions; a number gives the same document every time (its times follow base_time).
--
--	pg_temp.generated(style, number, namespace)   a document of style
--		pss			PolicyReport of 19 results, 6 to 7 kB
--		ephemeral	EphemeralReport with the same results and Kyverno's labels, about 7 kB
--		bare		EphemeralReport with results but few labels, 6 kB: what the create benchmark writes
--		small		EphemeralReport with all labels and one result; the number is in its name and resource uid
--		trivy		PolicyReport of 1 to 60 vulnerabilities with CVSS scores
-- fleet what a fleet's namespaces hold, 19 results each: pss, every 49th with exemptions, warnings and errors; in every
-- tenth namespace every fifth is of vulnerabilities instead, of 200 CVEs with scores, packages and images mixed one of
-- the above, or with 1 to 400 results, 0.5 to 130 kB

\ir ../samples/pss.sql

-- Uniform in [0, below), by number and purpose.
CREATE FUNCTION pg_temp.drawn(number bigint, purpose text, below integer) RETURNS integer
LANGUAGE sql IMMUTABLE
RETURN (abs(hashtextextended(purpose, number)) % below)::integer;

CREATE FUNCTION pg_temp.resource_uid(number bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE
RETURN md5('resource ' || number)::uuid;

-- There are few different sets of results: made once, they are looked up.
CREATE TEMP TABLE result_set AS
	SELECT n AS number, r.results::text AS results, pg_temp.summary(r.results)::text AS summary
	FROM generate_series(0, 63) n,
		LATERAL (SELECT pg_temp.pss_results(
			ARRAY(SELECT p.rule FROM pss_rule p WHERE pg_temp.drawn(n * 100 + p.number, 'fails', 100) < n % 4 * 12),
				'{}', n % 2 = 0,
			1700000000 + n)) r(results);
CREATE UNIQUE INDEX ON result_set (number);
ANALYZE result_set;

-- number as text: kind, name, namespace are plain, so the text needs no escapes.
CREATE FUNCTION pg_temp.generated_pss(number bigint, namespace text) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT format(
		'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"%s","namespace":"%s",'
			'"labels":{"app.kubernetes.io/managed-by":"kyverno"},'
			'"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"pod-%s","uid":"%s"}]},'
			'"scope":{"apiVersion":"v1","kind":"Pod","name":"pod-%s","namespace":"%s","uid":"%s"},'
			'"summary":%s,"results":%s}',
		u.uid, namespace, generated_pss.number, u.uid, generated_pss.number, namespace, u.uid, s.summary, s.results)
	FROM result_set s, LATERAL (SELECT pg_temp.resource_uid(generated_pss.number)) u(uid)
	WHERE s.number = pg_temp.drawn(generated_pss.number, 'set', 64);
END;

CREATE TEMP TABLE policy_labels AS SELECT trim('{}' FROM pg_temp.pss_labels('{}')::text) AS labels;

CREATE FUNCTION pg_temp.generated_ephemeral(number bigint, namespace text, labelled boolean) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT format(
		'{"apiVersion":"reports.kyverno.io/v1","kind":"EphemeralReport","metadata":{"name":"%s-%s","namespace":"%s",'
			'"labels":{"app.kubernetes.io/managed-by":"kyverno","audit.kyverno.io/resource.uid":"%s",'
			'"audit.kyverno.io/source":"%s"%s},'
			'"annotations":{"audit.kyverno.io/resource.name":"pod-%s"}},'
			'"spec":{"owner":{"apiVersion":"v1","kind":"Pod","name":"pod-%s","uid":"%s"},"summary":%s,"results":%s}}',
		u.uid, left(md5(generated_ephemeral.number::text), 5), namespace, u.uid,
		CASE WHEN generated_ephemeral.number % 2 = 0 THEN 'admission' ELSE 'background-scan' END,
		CASE WHEN labelled THEN ', ' || (SELECT l.labels FROM policy_labels l) END, generated_ephemeral.number,
			generated_ephemeral.number, u.uid,
		s.summary, s.results)
	FROM result_set s, LATERAL (SELECT pg_temp.resource_uid(generated_ephemeral.number)) u(uid)
	WHERE s.number = pg_temp.drawn(generated_ephemeral.number, 'set', 64);
END;

CREATE FUNCTION pg_temp.generated_results(number bigint, namespace text, amount integer) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT json_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'metadata', json_build_object('name', 'scan-' || number, 'namespace', namespace,
				'labels', json_build_object('trivy-operator.source', 'VulnerabilityReport')),
			'scope', json_build_object('apiVersion', 'apps/v1', 'kind', 'Deployment', 'name', 'app-' || number,
				'namespace', namespace),
			'summary', json_build_object('pass', 0, 'fail', amount, 'warn', 0, 'error', 0, 'skip', 0),
			'results', (SELECT json_agg(json_build_object('source', 'Trivy Vulnerability',
					'policy', format('CVE-%s-%s', 2015 + pg_temp.drawn(number * 1000 + n, 'year', 10),
						1000 + pg_temp.drawn(number * 1000 + n, 'cve', 40000)),
					'category', 'Vulnerability Scan', 'result', 'fail', 'severity',
						(ARRAY['low', 'medium', 'high', 'critical'])[1 + c.score / 25],
					'message', format('package-%s 1.%s is affected',
						pg_temp.drawn(number * 1000 + n, 'package', 3000), n),
					'timestamp', json_build_object('seconds', 1700000000 + n, 'nanos', 0),
					'properties', json_build_object('score', to_char(c.score / 10.0, 'FM90.0'),
						'resource', 'package-' || n,
						'installedVersion', '1.' || n, 'fixedVersion', '2.' || n, 'resultID', md5(number || '/' || n))))
				FROM generate_series(1, amount) n, LATERAL
					(SELECT pg_temp.drawn(number * 1000 + n, 'score', 100)) c(score)))::text;
END;

-- The like of generated_pss(), with what is rare: one result in 50 reports warns, one in 2,500 is in error, some are
-- exempted.
CREATE TEMP TABLE rare_set AS
	SELECT s.number, json_agg(CASE n.number
				WHEN 1 THEN (r.result::jsonb || '{"result": "warn"}')::json
				WHEN 2 THEN CASE WHEN s.number = 0 THEN (r.result::jsonb
					|| '{"result": "error", "message": "the image could not be read"}')::json ELSE r.result END
				WHEN 3 THEN (r.result::jsonb || jsonb_build_object('result', 'skip', 'properties',
					jsonb_build_object('exceptions', 'exception-' || s.number)))::json
				ELSE r.result END ORDER BY n.number)::text AS results
	FROM result_set s, json_array_elements(s.results::json) WITH ORDINALITY n(result, number),
		LATERAL (SELECT n.result) r(result)
	WHERE s.number < 50
	GROUP BY s.number;

CREATE FUNCTION pg_temp.generated_fleet(number bigint, namespace text) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE
		WHEN number % 49 = 7 THEN (SELECT json_build_object('apiVersion', d.document->'apiVersion', 'kind',
			d.document->'kind', 'metadata', d.document->'metadata',
				'scope', d.document->'scope', 'results', r.results::json)::text
			FROM rare_set r, LATERAL (SELECT pg_temp.generated_pss(generated_fleet.number, namespace)::json) d(document)
			WHERE r.number = generated_fleet.number / 49 % 50)
		WHEN namespace LIKE '%0' AND number / 200 % 5 = 1
			THEN json_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'metadata', json_build_object('name', 'scan-' || number, 'namespace', namespace),
			'scope', json_build_object('apiVersion', 'apps/v1', 'kind', 'Deployment', 'name', 'app-' || number,
				'namespace', namespace),
			'results', (SELECT json_agg(json_build_object('source', 'Trivy Vulnerability', 'policy',
				format('CVE-%s-%s', 2015 + c.cve % 10, 1000 + c.cve),
					'category', 'Vulnerability Scan', 'result', 'fail', 'severity',
						(ARRAY['low', 'medium', 'high', 'critical'])[1 + c.cve % 4],
					'message', format('package-%s 1.%s is affected', c.cve % 90, n),
					'properties', json_build_object('score', to_char(c.cve % 100 / 10.0, 'FM90.0'), 'resource',
						'package-' || c.cve % 90,
						'installedVersion', '1.' || n, 'fixedVersion', '2.' || n, 'artifact.repository',
							'image-' || number % 500, 'artifact.tag', 'v1')))
				FROM generate_series(1, 19) n, LATERAL (SELECT (number * 7 + n * 11) % 200) c(cve)))::text
		ELSE pg_temp.generated_pss(number, namespace) END;
END;

CREATE FUNCTION pg_temp.numbered_uid(number bigint) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN '10000000-0000-4000-8000-' || lpad(number::text, 12, '0');

CREATE FUNCTION pg_temp.generated_small(number bigint, namespace text) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT format(
		'{"apiVersion":"reports.kyverno.io/v1","kind":"EphemeralReport","metadata":{"name":"%s","namespace":"%s",'
			'"labels":{"app.kubernetes.io/managed-by":"kyverno","audit.kyverno.io/resource.uid":"%s",%s}},'
			'"spec":{"owner":{"apiVersion":"v1","kind":"Pod","name":"pod-%s","uid":"%s"},"summary":{"pass":1},'
			'"results":[{"source":"kyverno","policy":"require-labels","rule":"owner-label","result":"pass"}]}}',
		u.uid, namespace, u.uid, l.labels, number, u.uid)
	FROM policy_labels l, LATERAL (SELECT pg_temp.numbered_uid(generated_small.number)) u(uid);
END;

CREATE FUNCTION pg_temp.generated(style text, number bigint, namespace text) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE style
		WHEN 'pss' THEN pg_temp.generated_pss(number, namespace)
		WHEN 'ephemeral' THEN pg_temp.generated_ephemeral(number, namespace, true)
		WHEN 'bare' THEN pg_temp.generated_ephemeral(number, namespace, false)
		WHEN 'small' THEN pg_temp.generated_small(number, namespace)
		WHEN 'fleet' THEN pg_temp.generated_fleet(number, namespace)
		WHEN 'trivy' THEN pg_temp.generated_results(number, namespace, 1 + pg_temp.drawn(number, 'amount', 60))
		ELSE CASE pg_temp.drawn(number, 'style', 3)
			WHEN 0 THEN pg_temp.generated_pss(number, namespace)
			WHEN 1 THEN pg_temp.generated_results(number, namespace, 1 + pg_temp.drawn(number, 'amount', 10))
			ELSE pg_temp.generated_results(number, namespace, 1 + pg_temp.drawn(number, 'amount', 400)) END
		END;
END;

-- Stores generated reports as the owner would, by INSERT; 100 namespaces unless fewer are asked for.
CREATE FUNCTION pg_temp.store(cluster uuid, style text, first bigint, last bigint, namespaces integer DEFAULT 100)
	RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
		SELECT c.id, t.id, d.document#>>'{metadata,namespace}', d.document#>>'{metadata,name}',
			(d.document->'metadata')::kube_reports.report,
				(d.document - '{apiVersion,kind,metadata}'::text[])::kube_reports.report
		FROM generate_series(first, last) n,
			-- made once a row
			LATERAL (SELECT pg_temp.generated(style, n, 'ns-' || n % namespaces)::jsonb OFFSET 0) d(document),
			kube_reports.cluster c, kube_reports.resource_type t
		WHERE c.uid = cluster AND t."group" = split_part(d.document->>'apiVersion', '/', 1)
			AND t.kind = d.document->>'kind';
END;
