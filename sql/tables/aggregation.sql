-- aggregation.sql
--	  Options of the aggregation of reports, and its queue.
--
-- No option is on unless a user turns it on.  Options are dumped.  The queue
-- is not dumped: after a restore it is made again from the objects, so that
-- nothing is merged twice or forgotten.

CREATE TABLE kube_reports_internal.summary_type (
	resource_type integer PRIMARY KEY
);
COMMENT ON TABLE kube_reports_internal.summary_type
	IS 'types whose summaries are filled in where a producer leaves them out: see set_summaries()';

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
COMMENT ON COLUMN kube_reports_internal.aggregation.admission IS 'admission reports of one resource become one';
COMMENT ON COLUMN kube_reports_internal.aggregation.policy_reports
	IS 'resource: a policy report for each resource, from ephemeral reports; policy: for each namespace and policy, '
		'from admission and background scan reports';
COMMENT ON COLUMN kube_reports_internal.aggregation."group" IS 'of the policy reports that are written';
COMMENT ON COLUMN kube_reports_internal.aggregation.delay
	IS 'the time for which reports are collected before they are merged';
COMMENT ON COLUMN kube_reports_internal.aggregation.chunk_size
	IS 'how many results a report of one policy has at most; fewer where they are large';
COMMENT ON COLUMN kube_reports_internal.aggregation.follow_policies
	IS 'proxies that have a kube-apiserver keep active_policy up to date';
COMMENT ON COLUMN kube_reports_internal.aggregation.forms
	IS 'each pair group/policy_reports by which policy reports were ever merged; reports of any other than the present '
		'pair are deleted, so that no result counts twice';

---- which policies are active ----

-- Not dumped: policies that were active at the time of the dump may not be active now, and a result that is dropped
-- because of them is lost for good.
CREATE TABLE kube_reports_internal.active_policy_set (
	cluster_id	integer PRIMARY KEY REFERENCES kube_reports.cluster ON DELETE CASCADE,
	changed_at	timestamptz NOT NULL
);
COMMENT ON TABLE kube_reports_internal.active_policy_set
	IS 'clusters whose active policies are known: in others no result is dropped; never dumped';

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
	IS 'as results name it for a policy of a kind of its own; empty for ClusterPolicy and Policy';
COMMENT ON COLUMN kube_reports_internal.active_policy.policy IS 'its name, or namespace/name';
COMMENT ON COLUMN kube_reports_internal.active_policy.rules
	IS 'names of its rules, those too that are made for pod controllers; null: any';
COMMENT ON COLUMN kube_reports_internal.active_policy.version IS 'its resourceVersion, for labels';

---- the queue ----

CREATE SEQUENCE kube_reports_internal.aggregation_queue_id_seq AS bigint CACHE 32;
COMMENT ON SEQUENCE kube_reports_internal.aggregation_queue_id_seq
	IS 'tells rows of aggregation_queue from each other; never dumped';

-- Writers only append, whatever the queue contains: they never wait for a row.  A merge takes all rows of a group at
-- once.
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
	IS 'makes a key, by which the row is found on a subscriber';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.stage
	IS 'e: everything that is stored is to be queued; a: the admission reports of a resource, r: the policy report of '
		'a resource, p: the policy reports of a namespace; o: policy reports of other forms are to be deleted';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.key IS 'uid of the resource; empty in the other stages';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.after
	IS 'how far an earlier step has come: in stages a and r the name of the last report that was merged, in stages e '
		'and o the key of the last object that was looked at; empty: nowhere';
COMMENT ON COLUMN kube_reports_internal.aggregation_queue.attempts
	IS 'how often the merge failed for lack of memory, disk or time; each failure makes the pause longer, and the '
		'group is tried alone';
CREATE INDEX aggregation_queue_group ON kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key);
CREATE INDEX aggregation_queue_failed ON kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key)
	WHERE attempts > 0;

---- what pg_dump takes along ----

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.summary_type', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.aggregation', '');

