-- results.sql
--	  Typed results, their history and their counts.
--
-- A text that many results share is stored once: the id of a criterion,
-- subject, detail or actor is a hash of its fields (field_hash()).  So a
-- writer knows the ids without a lookup, ids survive a dump, and both variants
-- give the same ids.  origin gives a report a number that outlives the report:
-- a report that is deleted and created again has the same origin.
--
-- There are no foreign keys: each row of results would lock the rows it refers
-- to, and every writer refers to the same rows.  Rows that nothing refers to
-- any more are removed while no writer is active (see collect_garbage()).
-- verify() finds inconsistent rows.

---- contents of results, each stored once ----

CREATE SEQUENCE kube_reports_internal.origin_id_seq AS bigint;
COMMENT ON SEQUENCE kube_reports_internal.origin_id_seq IS 'ids of origins';

CREATE TABLE kube_reports_internal.origin (
	id			bigint PRIMARY KEY DEFAULT nextval('kube_reports_internal.origin_id_seq'),
	first_seen	timestamptz NOT NULL,
	cluster_id	integer NOT NULL,
	resource_type integer NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	UNIQUE (cluster_id, resource_type, namespace, name)
);
COMMENT ON TABLE kube_reports_internal.origin IS 'the reports that results come from or came from: a number for each, '
		'kept as long as results or history refer to it';
COMMENT ON COLUMN kube_reports_internal.origin.first_seen
	IS 'when results of the report were first stored; result_since has the results that came or changed later';

CREATE TABLE kube_reports_internal.criterion (
	id			bigint PRIMARY KEY,
	source		text COLLATE "C" NOT NULL,
	policy		text COLLATE "C" NOT NULL,
	rule		text COLLATE "C" NOT NULL,
	category	text COLLATE "C" NOT NULL,
	severity	text COLLATE "C" NOT NULL CHECK (severity IN ('unknown', 'info', 'low', 'medium', 'high', 'critical')),
	policy_id	bigint NOT NULL GENERATED ALWAYS AS
		(kube_reports_internal.field_hash('policy', source, policy, category, severity)) STORED,
	last_counted timestamptz
);
COMMENT ON TABLE kube_reports_internal.criterion
	IS 'the check behind results: source, policy and rule with the category and the severity that the source gives '
		'them';
COMMENT ON COLUMN kube_reports_internal.criterion.policy_id
	IS 'the same where all but the rule is: what counts that know no rules are grouped by';
COMMENT ON COLUMN kube_reports_internal.criterion.last_counted
	IS 'when garbage collection last removed a count of it, or first found none: history later than that does not '
		'name it; null: neither happened';

CREATE TABLE kube_reports_internal.subject (
	id			bigint PRIMARY KEY,
	cluster_id	integer NOT NULL,
	api_version text COLLATE "C" NOT NULL,
	kind		text COLLATE "C" NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	uid			text COLLATE "C" NOT NULL
);
COMMENT ON TABLE kube_reports_internal.subject IS 'the resources of results: each a resource of a cluster';

CREATE TABLE kube_reports_internal.detail (
	id			bigint PRIMARY KEY,
	message		text NOT NULL,
	properties	jsonb NOT NULL,
	exceptions	text[] COLLATE "C" NOT NULL
);
COMMENT ON TABLE kube_reports_internal.detail IS 'further texts of results: message and properties';
COMMENT ON COLUMN kube_reports_internal.detail.exceptions
	IS 'names of the exceptions that led to the status of the result';

CREATE TABLE kube_reports_internal.actor (
	id			bigint PRIMARY KEY,
	name		text NOT NULL,
	last_used	timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE kube_reports_internal.actor IS 'the writers that history names: API users, database roles';
COMMENT ON COLUMN kube_reports_internal.actor.last_used
	IS 'when it first wrote something in the newest month in which it did: what history has of later months does not '
		'name it';

---- results ----

CREATE TABLE kube_reports_internal.result (
	origin		bigint NOT NULL,
	key			bigint NOT NULL,
	criterion	bigint NOT NULL,
	subject		bigint NOT NULL,
	detail		bigint NOT NULL,
	first_seen	timestamptz NOT NULL,
	since		timestamptz NOT NULL,
	score		double precision NOT NULL,
	cluster_id	integer NOT NULL,
	status		"char" NOT NULL CHECK (status IN ('p', 'w', 'f', 'e', 's')),
	namespace	text COLLATE "C" NOT NULL,
	native_status text COLLATE "C" NOT NULL,
	PRIMARY KEY (origin, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05,
	autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE kube_reports_internal.result
	IS 'one row for each result of a stored report whose type''s results are current, and for each resource of the '
		'result; derived from the documents';
COMMENT ON COLUMN kube_reports_internal.result.key
	IS 'the key of the result in its report: a hash of source, policy, rule, subject and the values that the type''s '
		'mapping adds; not of status, message or time';
COMMENT ON COLUMN kube_reports_internal.result.first_seen IS 'when the result appeared';
COMMENT ON COLUMN kube_reports_internal.result.since IS 'when it got its status';
COMMENT ON COLUMN kube_reports_internal.result.score
	IS 'such as a CVSS score, in the type of decimal literals in comparisons; 0: the source gives none (a null would '
		'cost eight bytes a row)';
COMMENT ON COLUMN kube_reports_internal.result.status IS 'pass, warn, fail, error, skip by its first letter';
COMMENT ON COLUMN kube_reports_internal.result.namespace IS 'the report''s; empty for reports of cluster scope';
COMMENT ON COLUMN kube_reports_internal.result.native_status
	IS 'the source''s own word where it is another one, such as MANUAL; else empty';

-- Each of these indexes has few distinct keys: equal keys share an entry.
CREATE INDEX result_criterion ON kube_reports_internal.result (criterion, status, cluster_id, namespace);
CREATE INDEX result_subject ON kube_reports_internal.result (subject);
CREATE INDEX result_detail ON kube_reports_internal.result (detail, criterion);
CREATE INDEX result_open ON kube_reports_internal.result (cluster_id, namespace, since) WHERE status IN ('w', 'f', 'e');
-- In the column order of searches.  Few sources give scores.
CREATE INDEX result_scored ON kube_reports_internal.result (criterion, status, cluster_id, namespace) WHERE score > 0;
-- The expression is the same as for column score in the readers' views, so that their conditions find this index.  No
-- other index has this predicate.
CREATE INDEX result_score ON kube_reports_internal.result ((nullif(score, 0)), criterion)
	WHERE nullif(score, 0) IS NOT NULL;
-- For reports with high scores, in the order of the reports.
CREATE INDEX result_report_score ON kube_reports_internal.result (origin, score) WHERE score > 0;
CREATE INDEX result_namespace_score ON kube_reports_internal.result (cluster_id, namespace, score) WHERE score > 0;
-- The distribution of scores.  From the partial index ANALYZE would learn only the distribution in its rows, and take
-- it for that of all rows.
CREATE STATISTICS kube_reports_internal.result_scores ON (nullif(score, 0)) FROM kube_reports_internal.result;
ALTER INDEX kube_reports_internal.result_score ALTER COLUMN 1 SET STATISTICS 0;
-- Rows are added in the order of their times.  The few rows that change later do not spoil a range of pages.
CREATE INDEX result_time ON kube_reports_internal.result
	USING brin (since timestamptz_minmax_multi_ops, first_seen timestamptz_minmax_multi_ops)
	WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX subject_name ON kube_reports_internal.subject (cluster_id, namespace, kind, name);
CREATE INDEX subject_uid ON kube_reports_internal.subject (uid) WHERE uid <> '';
CREATE INDEX detail_properties ON kube_reports_internal.detail USING gin (properties jsonb_path_ops)
	WHERE properties <> '{}';
CREATE INDEX detail_exceptions ON kube_reports_internal.detail USING gin (exceptions) WHERE exceptions <> '{}';
CREATE INDEX detail_exempted ON kube_reports_internal.detail (id) WHERE exceptions <> '{}';

CREATE TABLE kube_reports_internal.result_since (
	origin		bigint NOT NULL,
	key			bigint NOT NULL,
	first_seen	timestamptz NOT NULL,
	since		timestamptz NOT NULL,
	PRIMARY KEY (origin, key)
);
COMMENT ON TABLE kube_reports_internal.result_since
	IS 'times of current results that differ from those of their origin: documents do not hold them, so a dump must';

-- Results that must be made again, lane by lane: after a restore and after rebuild().
CREATE TABLE kube_reports_internal.result_rebuild (
	lane		integer PRIMARY KEY,
	namespace	text COLLATE "C" NOT NULL DEFAULT '',
	name		text COLLATE "C" NOT NULL DEFAULT '',
	restoring	boolean NOT NULL DEFAULT false,
	attempts	integer NOT NULL DEFAULT 0,
	retry_at	timestamptz NOT NULL DEFAULT '-infinity',
	reason		text
);
COMMENT ON TABLE kube_reports_internal.result_rebuild
	IS 'lanes whose results are being derived again from the documents, and the key up to which that is done; never '
		'dumped';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.restoring
	IS 'the results are not new: no day''s counts change by them';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.attempts IS 'how often it was refused since it last went on';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.retry_at IS 'it is put aside until then';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.reason IS 'why it was refused last; null: it was not';

-- Results that follow their documents later: expensive work is not done while other writers wait for the lane.
CREATE TABLE kube_reports_internal.result_pending (
	lane		integer NOT NULL REFERENCES kube_reports_internal.lane ON DELETE CASCADE,
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	first		bigint NOT NULL,
	last		bigint,
	part		integer NOT NULL DEFAULT 0,
	parts		integer NOT NULL DEFAULT 1,
	attempts	integer NOT NULL DEFAULT 0,
	retry_at	timestamptz NOT NULL DEFAULT '-infinity',
	reason		text,
	PRIMARY KEY (lane, namespace, name)
);
COMMENT ON TABLE kube_reports_internal.result_pending IS 'reports whose results, history and counts are not yet those '
		'of the document: see catch_up(); rows come and go under the lane''s lock; never dumped';
COMMENT ON COLUMN kube_reports_internal.result_pending.first
	IS 'changes of the report from this version on are not in its results';
COMMENT ON COLUMN kube_reports_internal.result_pending.last
	IS 'up to which version they are being brought; null: not begun';
COMMENT ON COLUMN kube_reports_internal.result_pending.part
	IS 'how many of the parts are done: results in the order of their keys';
COMMENT ON COLUMN kube_reports_internal.result_pending.parts IS 'how many parts there are, each a transaction';
CREATE INDEX result_pending_first ON kube_reports_internal.result_pending (first);

-- While a state of the past is imported: the time of that state.
CREATE TABLE kube_reports_internal.import_time (
	lane		integer PRIMARY KEY,
	at			timestamptz NOT NULL
);
COMMENT ON TABLE kube_reports_internal.import_time IS 'lanes to which a state of the past is being written, and its '
		'time: see import_report(); a row is there within one transaction only; never dumped';

---- history ----

-- A write changes many results of one report: a row with arrays costs a tenth of what a row for each result costs.  An
-- array of one element stands for all results of the row, and a null for nulls (see packed()).  So a new report costs
-- its keys and criteria, and little else.
--
-- make_history() makes the partitions, one for each month.  They are not members of the extension, because pg_dump
-- would then skip them.  The table has neither key nor index: pg_restore would create them on the partitions a second
-- time.
CREATE TABLE kube_reports_internal.report_change (
	at			timestamptz NOT NULL,
	version		bigint NOT NULL,
	origin		bigint NOT NULL,
	actor		bigint NOT NULL,
	settles_at	timestamptz,
	cluster_id	integer NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	keys		bigint[] NOT NULL,
	criteria	bigint[] NOT NULL,
	subjects	bigint[] NOT NULL,
	old_statuses "char"[],
	new_statuses "char"[],
	gone_with	"char"[],
	first_seen	timestamptz[],
	old_since	timestamptz[]
) PARTITION BY RANGE (at);
-- A primary key would be an index that only subscribers need.  Rows are seldom deleted or updated: when results come
-- back before settles_at, and by rebuild().
ALTER TABLE kube_reports_internal.report_change REPLICA IDENTITY FULL;
COMMENT ON TABLE kube_reports_internal.report_change IS 'history: the appearances, changes of status and '
		'disappearances of results that a change of their report made, an element of each array for each; partitioned '
		'by month; result_change has a row for each';
COMMENT ON COLUMN kube_reports_internal.report_change.version IS 'resourceVersion of the report''s change';
COMMENT ON COLUMN kube_reports_internal.report_change.settles_at IS 'of those that are gone: before this time they '
		'may come back and be taken out of the row, so that readers do not count them yet; null: none is gone';
COMMENT ON COLUMN kube_reports_internal.report_change.keys IS 'which results of the report';
COMMENT ON COLUMN kube_reports_internal.report_change.criteria IS 'one element: of all results';
COMMENT ON COLUMN kube_reports_internal.report_change.subjects IS 'one element: of all results';
COMMENT ON COLUMN kube_reports_internal.report_change.old_statuses
	IS 'null: it appeared; one element: of all results; no array: all appeared';
COMMENT ON COLUMN kube_reports_internal.report_change.new_statuses
	IS 'null: it is gone; one element: of all results; no array: all are gone';
COMMENT ON COLUMN kube_reports_internal.report_change.gone_with
	IS 'gone only: r: with its report, s: with all that the report said of its subject, while it says something of '
		'others; null: alone; one element: of all results; no array: all nulls';
COMMENT ON COLUMN kube_reports_internal.report_change.first_seen IS 'when it had appeared; null where it appears. '
		'With a null old status: rebuild() has put the event in the place of some that were lost. One element: of all '
		'results; no array: all nulls';
COMMENT ON COLUMN kube_reports_internal.report_change.old_since IS 'since when it had had the old status; null where '
		'there is none; one element: of all results; no array: all nulls';

CREATE VIEW kube_reports_internal.result_change AS
	SELECT h.at, h.version, h.origin, e.key, e.criterion, e.subject, h.actor, h.cluster_id, e.old_status, e.new_status,
		e.gone_with, h.namespace, e.first_seen, e.old_since,
		CASE WHEN e.new_status IS NULL THEN h.settles_at END AS settles_at, h.old_statuses IS NOT NULL AS of_known
	FROM kube_reports_internal.report_change h
		CROSS JOIN LATERAL kube_reports_internal.unpacked_changes(h.keys, h.criteria, h.subjects, h.old_statuses,
			h.new_statuses, h.gone_with, h.first_seen, h.old_since) e;
COMMENT ON VIEW kube_reports_internal.result_change
	IS 'history, one by one: every appearance (old_status null), change of status and disappearance (new_status null) '
		'of a result, with the columns of report_change';
COMMENT ON COLUMN kube_reports_internal.result_change.of_known
	IS 'false: old_status is null in all events of this change of the report. Readers that ask for true need not '
		'unpack the events of new reports, which are most of history';

---- counts ----

CREATE SEQUENCE kube_reports_internal.rollup_id_seq AS bigint;
COMMENT ON SEQUENCE kube_reports_internal.rollup_id_seq IS 'ids of rollups';

CREATE TABLE kube_reports_internal.rollup (
	id			bigint PRIMARY KEY DEFAULT nextval('kube_reports_internal.rollup_id_seq'),
	criterion	bigint NOT NULL,
	count		bigint NOT NULL,
	cluster_id	integer NOT NULL,
	status		"char" NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	kind		text COLLATE "C" NOT NULL,
	native_status text COLLATE "C" NOT NULL,
	UNIQUE (cluster_id, namespace, criterion, kind, status, native_status)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE kube_reports_internal.rollup
	IS 'the number of results of each kind, up to the fold mark; current_rollup adds later changes';
-- In the order of result_criterion: tells which of its entries are worth reading.
CREATE INDEX rollup_cell ON kube_reports_internal.rollup (criterion, status, cluster_id, namespace);

-- The same counts by namespace, policy and status only: far fewer rows, for the most frequent queries.
CREATE TABLE kube_reports_internal.rollup_policy (
	policy		bigint NOT NULL,
	criterion	bigint NOT NULL,
	pass		bigint NOT NULL,
	warn		bigint NOT NULL,
	fail		bigint NOT NULL,
	error		bigint NOT NULL,
	skip		bigint NOT NULL,
	cluster_id	integer NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	PRIMARY KEY (cluster_id, namespace, policy)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE kube_reports_internal.rollup_policy IS 'how many results of each policy there are in each namespace, '
		'by status, up to the fold mark; never dumped: made with the results';
COMMENT ON COLUMN kube_reports_internal.rollup_policy.policy IS 'policy_id of its criteria';
CREATE INDEX rollup_policy_criterion ON kube_reports_internal.rollup_policy (criterion);
COMMENT ON COLUMN kube_reports_internal.rollup_policy.criterion
	IS 'one of the policy''s criteria, whichever came first: all of them say the same of it';

-- Writers only append.  Now and then one of them folds the rows.  All rows with an xid below the mark are folded.
CREATE SEQUENCE kube_reports_internal.rollup_delta_id_seq AS bigint CACHE 32;
COMMENT ON SEQUENCE kube_reports_internal.rollup_delta_id_seq
	IS 'tells rows of rollup_delta from each other; never dumped';

CREATE TABLE kube_reports_internal.rollup_delta (
	xid			xid8 NOT NULL DEFAULT pg_current_xact_id(),
	id			bigint NOT NULL DEFAULT nextval('kube_reports_internal.rollup_delta_id_seq'),
	cluster_id	integer NOT NULL,
	day			date,
	namespace	text COLLATE "C" NOT NULL,
	kind		text COLLATE "C" NOT NULL,
	criteria	bigint[] NOT NULL,
	statuses	"char"[] NOT NULL,
	native_statuses text[] COLLATE "C" NOT NULL,
	counts		bigint[] NOT NULL,
	PRIMARY KEY (xid, id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE kube_reports_internal.rollup_delta
	IS 'what writes added to the counts and took from them: a row for each batch, namespace and kind, an element of '
		'each array for each count; folded into rollup, rollup_policy, rollup_daily and score_daily';
COMMENT ON COLUMN kube_reports_internal.rollup_delta.day
	IS 'the day (UTC) it counts for; null: results came back after a restore, which is no change of any day';
COMMENT ON COLUMN kube_reports_internal.rollup_delta.id IS 'makes a key, by which the row is found on a subscriber';

CREATE TABLE kube_reports_internal.rollup_mark (
	only_row	boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	mark		xid8 NOT NULL DEFAULT '0'
);
COMMENT ON TABLE kube_reports_internal.rollup_mark
	IS 'one row: deltas of transactions below the mark are folded; never dumped';
INSERT INTO kube_reports_internal.rollup_mark DEFAULT VALUES;

CREATE TABLE kube_reports_internal.rollup_daily (
	rollup		bigint NOT NULL,
	count		bigint NOT NULL,
	day			date NOT NULL,
	PRIMARY KEY (rollup, day)
) WITH (fillfactor = 80);
COMMENT ON TABLE kube_reports_internal.rollup_daily
	IS 'counts at the end of each day (UTC), for those that changed that day; on other days the last ones still hold';

CREATE TABLE kube_reports_internal.score_daily (
	cluster_id	integer NOT NULL,
	day			date NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	source		text COLLATE "C" NOT NULL,
	category	text COLLATE "C" NOT NULL,
	severity	text COLLATE "C" NOT NULL,
	pass		bigint NOT NULL,
	warn		bigint NOT NULL,
	fail		bigint NOT NULL,
	error		bigint NOT NULL,
	skip		bigint NOT NULL,
	excluded	bigint NOT NULL,
	PRIMARY KEY (cluster_id, namespace, source, category, severity, day)
) WITH (fillfactor = 80);
COMMENT ON TABLE kube_reports_internal.score_daily IS 'counts by status at the end of each day (UTC), for those that '
		'changed that day; on other days the last ones still hold';
COMMENT ON COLUMN kube_reports_internal.score_daily.namespace
	IS 'empty for reports of cluster scope; * for the whole cluster';
COMMENT ON COLUMN kube_reports_internal.score_daily.excluded
	IS 'results that no score counts, whatever status they are mapped to: see excluded_from_score()';

-- The second line has the states of remediations: their checks are what a score counts.
CREATE FUNCTION kube_reports_internal.excluded_from_score(native_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN native_status IN ('MANUAL', 'NOT-APPLICABLE', 'INCONSISTENT', 'INFO',
	'NotApplied', 'Pending', 'Applied', 'Outdated', 'NeedsReview', 'MissingDependencies');
COMMENT ON FUNCTION kube_reports_internal.excluded_from_score(text)
	IS 'whether this word of a source stands for a result without a verdict that a score could count';

CREATE FUNCTION kube_reports_internal.unfolded(mark xid8)
	RETURNS TABLE (cluster_id integer, namespace text, criterion bigint, kind text, status "char", native_status text,
		day date, count bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT d.cluster_id, d.namespace, c.criterion, d.kind, c.status, c.native_status, d.day, c.count
	FROM kube_reports_internal.rollup_delta d,
		unnest(d.criteria, d.statuses, d.native_statuses, d.counts) c(criterion, status, native_status, count)
	WHERE d.xid >= mark;
END;
COMMENT ON FUNCTION kube_reports_internal.unfolded(xid8) IS 'the deltas of transactions from the mark on, one by one';

CREATE VIEW kube_reports_internal.current_rollup AS
	SELECT c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status, sum(c.count)::bigint AS count
	FROM (SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, r.count
		FROM kube_reports_internal.rollup r WHERE r.count <> 0
		UNION ALL
		SELECT d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status, d.count
		FROM kube_reports_internal.unfolded((SELECT m.mark FROM kube_reports_internal.rollup_mark m)) d) c
	GROUP BY c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status
	HAVING sum(c.count) <> 0;
COMMENT ON VIEW kube_reports_internal.current_rollup
	IS 'how many results there are of each kind, exact in the transaction that asks';

---- progress of garbage collection ----

CREATE TABLE kube_reports_internal.garbage_sweep (
	what		text PRIMARY KEY,
	place		bigint NOT NULL DEFAULT 0,
	looked_at	bigint NOT NULL DEFAULT 0,
	removed		bigint NOT NULL DEFAULT 0,
	changes		bigint NOT NULL DEFAULT 0,
	hurry		boolean NOT NULL DEFAULT false,
	due_at		timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);
COMMENT ON TABLE kube_reports_internal.garbage_sweep
	IS 'how far collect_garbage() has come in each table that it looks through; never dumped';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.what IS 'name of the table';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.place IS 'the block that the next step begins at';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.looked_at IS 'rows that this pass has looked at';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.removed IS 'rows of these that were removed';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.changes
	IS 'how many results had been changed or removed when this pass began, as the server counts them';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.hurry
	IS 'the last whole pass removed much, or much was changed meanwhile: this one is not to rest';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.due_at IS 'when the next step is to be taken';
-- Each table comes after the tables that refer to it.
CREATE FUNCTION kube_reports_internal.swept_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '{detail,origin,subject,rollup_daily,score_daily,rollup_policy,rollup,criterion,actor}'::text[];
COMMENT ON FUNCTION kube_reports_internal.swept_tables() IS 'the tables that table garbage_sweep has rows of';
INSERT INTO kube_reports_internal.garbage_sweep (what) SELECT unnest(kube_reports_internal.swept_tables());

---- what pg_dump takes along ----

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.origin_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.rollup_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.origin', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.criterion', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.subject', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.actor', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.result_since', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.rollup', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.rollup_delta', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.rollup_daily', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.score_daily', '');

