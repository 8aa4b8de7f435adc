-- pss.sql
--	  Results of Kyverno's Pod Security Standards policies: 17 policies, 19 rules.
--
-- Makes temporary functions; generate.sql and the benchmark's generator read this file.

CREATE TEMP TABLE pss_rule (number serial, category text, policy text, rule text, pass text, fail text, path text);
INSERT INTO pss_rule (category, policy, rule, pass, fail, path) VALUES
	('Baseline', 'disallow-capabilities', 'adding-capabilities', NULL,
		'Only the capabilities of the baseline list may be added.', 'containers/0/securityContext/capabilities/add'),
	('Restricted', 'disallow-capabilities-strict', 'adding-capabilities-strict', 'rule passed',
		'No capability but NET_BIND_SERVICE may be added.', 'containers/0/securityContext/capabilities/add'),
	('Restricted', 'disallow-capabilities-strict', 'require-drop-all', 'rule passed',
		'Containers must drop the capability ALL.', 'containers/0/securityContext/capabilities/drop'),
	('Baseline', 'disallow-host-namespaces', 'host-namespaces', NULL,
		'The host''s network, PID and IPC namespaces may not be shared.', 'hostNetwork'),
	('Baseline', 'disallow-host-path', 'host-path', NULL,
		'Volumes of type hostPath are not allowed.', 'volumes/0/hostPath'),
	('Baseline', 'disallow-host-ports', 'host-ports-none', NULL, 'Host ports are not allowed.',
		'containers/0/ports/0/hostPort'),
	('Baseline', 'disallow-host-process', 'host-process-containers', NULL,
		'Windows host process containers are not allowed.', 'containers/0/securityContext/windowsOptions/hostProcess'),
	('Restricted', 'disallow-privilege-escalation', 'privilege-escalation', NULL,
		'allowPrivilegeEscalation must be false.', 'containers/0/securityContext/allowPrivilegeEscalation'),
	('Baseline', 'disallow-privileged-containers', 'privileged-containers', NULL,
		'Privileged mode is not allowed.', 'containers/0/securityContext/privileged'),
	('Baseline', 'disallow-proc-mount', 'check-proc-mount', NULL, 'procMount must be Default.',
		'containers/0/securityContext/procMount'),
	('Baseline', 'disallow-selinux', 'selinux-type', NULL, 'The SELinux type is not one that is allowed.',
		'securityContext/seLinuxOptions/type'),
	('Baseline', 'disallow-selinux', 'selinux-user-role', NULL, 'SELinux user and role may not be set.',
		'securityContext/seLinuxOptions/user'),
	('Restricted', 'require-run-as-non-root-user', 'run-as-non-root-user', NULL, 'runAsUser must not be 0.',
		'securityContext/runAsUser'),
	('Restricted', 'require-run-as-nonroot', 'run-as-non-root', 'validation rule ''%s'' anyPattern[1] passed.',
		'Containers must be made to run as a user other than root.', 'securityContext/runAsNonRoot'),
	('Baseline', 'restrict-apparmor-profiles', 'app-armor', NULL, 'The AppArmor profile is not one that is allowed.',
		'metadata/annotations'),
	('Baseline', 'restrict-seccomp', 'check-seccomp', NULL, 'The seccomp profile may not be Unconfined.',
		'securityContext/seccompProfile/type'),
	('Restricted', 'restrict-seccomp-strict', 'check-seccomp-strict', 'validation rule ''%s'' anyPattern[1] passed.',
		'The seccomp profile must be RuntimeDefault or Localhost.', 'securityContext/seccompProfile/type'),
	('Baseline', 'restrict-sysctls', 'check-sysctls', NULL, 'Only safe sysctls may be set.',
		'securityContext/sysctls/0/name'),
	('Restricted', 'restrict-volume-types', 'restricted-volumes', 'rule passed',
		'Only the volume types of the restricted list may be used.', 'volumes/0');

-- The results of one workload.  failing and skipped name rules; at is in seconds since 1970; autogen: rules for
-- controllers' templates.
CREATE FUNCTION pg_temp.pss_results(failing text[], skipped text[], autogen boolean, at bigint) RETURNS json
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT json_agg(json_strip_nulls(json_build_object(
			'source', 'kyverno',
			'policy', r.policy,
			'rule', n.rule,
			'category', format('Pod Security Standards (%s)', r.category),
			'severity', CASE WHEN r.rule = ANY (ARRAY['privileged-containers', 'host-namespaces', 'host-path'])
				THEN 'high' ELSE 'medium' END,
			'result', s.status,
			'scored', true,
			'message', CASE s.status
				WHEN 'pass' THEN format(coalesce(r.pass, 'validation rule ''%s'' passed.'), n.rule)
				WHEN 'fail' THEN format('validation error: %s rule %s failed at path /spec/%s%s/', r.fail, n.rule,
					CASE WHEN autogen THEN 'template/spec/' END, r.path)
				ELSE format('rule skipped due to policy exception %s', r.policy) END,
			'properties', CASE s.status WHEN 'skip' THEN json_build_object('exceptions', 'allow-storage-drivers') END,
			'timestamp', json_build_object('seconds', at + r.number % 2 * 61, 'nanos', 0)))
		ORDER BY r.number)
	FROM pss_rule r,
		LATERAL (SELECT CASE WHEN autogen THEN 'autogen-' ELSE '' END || r.rule) n(rule),
		LATERAL (SELECT CASE WHEN r.rule = ANY (failing) THEN 'fail' WHEN r.rule = ANY (skipped) THEN 'skip'
			ELSE 'pass' END) s(status);
END;

CREATE FUNCTION pg_temp.summary(results json) RETURNS json
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT json_build_object(
		'pass', count(*) FILTER (WHERE r->>'result' = 'pass'), 'fail', count(*) FILTER (WHERE r->>'result' = 'fail'),
		'warn', count(*) FILTER (WHERE r->>'result' = 'warn'), 'error', count(*) FILTER (WHERE r->>'result' = 'error'),
		'skip', count(*) FILTER (WHERE r->>'result' = 'skip'))
	FROM json_array_elements(results) r;
END;

-- The labels cpol.kyverno.io/<policy>: <resourceVersion of the policy>, added to others.
CREATE FUNCTION pg_temp.pss_labels(others jsonb) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT others || jsonb_object_agg('cpol.kyverno.io/' || r.policy, (226100 + r.number * 7)::text) FROM pss_rule r;
END;
