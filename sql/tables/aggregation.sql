-- aggregation.sql
--	  Options of the aggregation of reports, and its queue.
--
-- No option is on unless a user turns it on.  Options are dumped.  The queue is not dumped: after a restore it is
-- filled again from the objects, so that no report is merged twice or left out.

CREATE TABLE kube_reports_internal.summary_type (
	resource_type integer PRIMARY KEY
);
COMMENT ON TABLE kube_reports_internal.summary_type
	IS 'types whose summaries are filled in if a producer leaves them out: see set_summaries()';

---- options ----

CREATE TABLE kube_reports_internal.aggregation (
	cluster_id	integer PRIMARY KEY,
	admission	boolean NOT NULL DEFAULT false,
	policy_reports text NOT NULL DEFAULT 'off' CHECK (policy_reports IN ('off', 'resource', 'policy')),
	"group"		text COLLATE "C" NOT NULL DEFAULT 'wgpolicyk8s.io' CHECK
		("group" IN ('wgpolicyk8s.io', 'openreports.io')),
	delay		interval NOT NULL DEFAULT '10 seconds' CHECK (delay >= '0'),
	chunk_size	integer NOT NULL DEFAULT 1000 CHECK (chunk_size > 0),
	follow_policies boolean NOT NULL DEFAULT true,
	forms		text[] COLLATE "C" NOT NULL DEFAULT '{}'
);
COMMENT ON TABLE kube_reports_internal.aggregation
	IS 'the options of aggregation of a cluster: see set_aggregation(); no row: no aggregation';
COMMENT ON COLUMN kube_reports_internal.aggregation.admission
	IS 'whether admission reports of one resource become one report';
COMMENT ON COLUMN kube_reports_internal.aggregation.policy_reports
	IS 'resource: a policy report for each resource, from ephemeral reports; policy: for each namespace and policy, '
		'from admission and background scan reports';
COMMENT ON COLUMN kube_reports_internal.aggregation."group" IS 'the group of the policy reports that are written';
COMMENT ON COLUMN kube_reports_internal.aggregation.delay
	IS 'the time for which reports are collected before they are merged';
COMMENT ON COLUMN kube_reports_internal.aggregation.chunk_size
	IS 'the largest number of results in a report of one policy; large results make it smaller';
COMMENT ON COLUMN kube_reports_internal.aggregation.follow_policies
	IS 'whether proxies that have a kube-apiserver keep active_policy up to date';
COMMENT ON COLUMN kube_reports_internal.aggregation.forms
	IS 'each pair group/policy_reports with which policy reports were ever merged. Reports of all pairs but the '
		'present one are deleted, so that no result counts twice';

---- which policies are active ----

-- Not dumped: policies that were active at the time of the dump may be inactive now, and a result that a merge drops is
-- lost.
CREATE TABLE kube_reports_internal.active_policy_set (
	cluster_id	integer PRIMARY KEY REFERENCES kube_reports.cluster ON DELETE CASCADE,
	changed_at	timestamptz NOT NULL
);
COMMENT ON TABLE kube_reports_internal.active_policy_set
	IS 'clusters whose active policies are known; for other clusters, no result is dropped. Never dumped';

CREATE TABLE kube_reports_internal.active_policy (
	cluster_id	integer NOT NULL REFERENCES kube_reports_internal.active_policy_set ON DELETE CASCADE,
	source		text COLLATE "C" NOT NULL,
	policy		text COLLATE "C" NOT NULL,
	rules		text[] COLLATE "C",
	version		text,
	PRIMARY KEY (cluster_id, source, policy)
);
COMMENT ON TABLE kube_reports_internal.active_policy
	IS 'the policies whose results count: see set_active_policies(); never dumped';
COMMENT ON COLUMN kube_reports_internal.active_policy.source
	IS 'the source of the results of a policy whose kind is neither ClusterPolicy nor Policy; empty for these two '
		'kinds';
COMMENT ON COLUMN kube_reports_internal.active_policy.policy IS 'the policy''s name, or namespace/name';
COMMENT ON COLUMN kube_reports_internal.active_policy.rules
	IS 'the names of the policy''s rules, including the rules that Kyverno makes for pod controllers; null: all rules';
COMMENT ON COLUMN kube_reports_internal.active_policy.version IS 'the policy''s resourceVersion, for labels';

---- the queue ----

CREATE SEQUENCE kube_reports_internal.aggregation_queue_id_seq AS bigint CACHE 32;
COMMENT ON SEQUENCE kube_reports_internal.aggregation_queue_id_seq
	IS 'numbers that distinguish rows of aggregation_queue; never dumped';

-- Writers only append, even if the queue has a row of the same group: they never wait for a row.  A merge takes all
-- rows of a group at once.
CREATE TABLE kube_reports_internal.aggregation_queue (
	cluster_id	integer NOT NULL,
	queued_at	timestamptz NOT NULL DEFAULT clock_timestamp(),
	id			bigint NOT NULL DEFAULT nextval('kube_reports_internal.aggregation_queue_id_seq'),
	stage		"char" NOT NULL CHECK (stage IN ('e', 'a', 'r', 'p', 'o')),
	namespace	text COLLATE "C" NOT NULL,
	key			text COLLATE "C" NOT NULL,
	after		text COLLATE "C" NOT NULL DEFAULT '',
	attempts	integer NOT NULL DEFAULT 0,
	PRIMARY KEY (cluster_id, queued_at, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE kube_reports_internal.aggregation_queue IS 'the groups to merge: see aggregate(); never dumped';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.id
	IS 'makes a key, by which logical replication finds the row';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.stage
	IS 'e: all stored reports are to be queued; a: the admission reports of a resource; r: the policy report of a '
		'resource; p: the policy reports of a namespace; o: policy reports of other forms are to be deleted';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.key IS 'uid of the resource; empty in the other stages';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.after
	IS 'the place at which an earlier step ended: in stages a and r the name of the last report that was merged, in '
		'stages e and o the key of the last object that was read; empty: there was no earlier step';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.attempts
	IS 'the number of merges that failed for lack of memory, disk or time. Each failure makes the pause longer, and '
		'the group is tried alone';
CREATE INDEX aggregation_queue_group ON kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key);
CREATE INDEX aggregation_queue_failed ON kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key)
	WHERE attempts > 0;

---- what pg_dump takes along ----

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.summary_type', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.aggregation', '');

