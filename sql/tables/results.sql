-- results.sql
--	  Typed results, their history and their counts.
--
-- A text that many results share is stored once: the id of a criterion, subject, detail or actor is a hash of its
-- fields (field_hash()).  So a writer computes the ids without a lookup, ids stay the same in a dump, and both variants
-- make the same ids.  origin gives a report a number that outlives the report: a report that is deleted and created
-- again has the same origin.
--
-- There are no foreign keys: each row of results would lock the rows to which it refers, and every writer refers to the
-- same rows.  Rows to which no row refers any more are removed while no writer is active (see collect_garbage()).
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
COMMENT ON TABLE kube_reports_internal.origin
	IS 'the reports that have or had results, each with a number; a row is kept as long as results or history refer '
		'to it';
COMMENT ON COLUMN kube_reports_internal.origin.first_seen
	IS 'when results of the report were first stored; result_since has the times of results that appeared or changed '
		'later';

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
	IS 'the check that makes results: source, policy and rule, with the category and the severity that the source '
		'gives';
COMMENT ON COLUMN kube_reports_internal.criterion.policy_id
	IS 'the same number for all criteria that differ only in their rule; counts without rules are grouped by it';
COMMENT ON COLUMN kube_reports_internal.criterion.last_counted
	IS 'when garbage collection last removed a count of the criterion, or first found that it has none: later history '
		'does not refer to the criterion; null: neither has happened';

CREATE TABLE kube_reports_internal.subject (
	id			bigint PRIMARY KEY,
	cluster_id	integer NOT NULL,
	api_version text COLLATE "C" NOT NULL,
	kind		text COLLATE "C" NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	uid			text COLLATE "C" NOT NULL,
	unused_since timestamptz
);
COMMENT ON TABLE kube_reports_internal.subject IS 'the resources that results are about; each belongs to a cluster';
COMMENT ON COLUMN kube_reports_internal.subject.unused_since
	IS 'garbage collection found no result of the subject, and all of its history is older than this time; null: it '
		'has results, or had some when it was last looked for. Writers set null before they store results';

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
COMMENT ON TABLE kube_reports_internal.actor IS 'the writers in history: API users and database roles';
COMMENT ON COLUMN kube_reports_internal.actor.last_used
	IS 'when the actor first wrote in the last month in which it wrote: history of later months does not refer to it';

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
	IS 'one row for each result of a stored report, and for each resource of the result, if results of the type are '
		'current; derived from the documents';
COMMENT ON COLUMN kube_reports_internal.result.key
	IS 'the key of the result in its report: a hash of source, policy, rule, subject and the values that the type''s '
		'mapping adds; not of status, message or time';
COMMENT ON COLUMN kube_reports_internal.result.first_seen IS 'when the result appeared';
COMMENT ON COLUMN kube_reports_internal.result.since IS 'when the result got its status';
COMMENT ON COLUMN kube_reports_internal.result.score
	IS 'a score such as CVSS, in the type of decimal literals in comparisons; 0: the source gives none (a null would '
		'take eight bytes a row)';
COMMENT ON COLUMN kube_reports_internal.result.status IS 'pass, warn, fail, error, skip by its first letter';
COMMENT ON COLUMN kube_reports_internal.result.namespace
	IS 'the namespace of the report; empty for reports of cluster scope';
COMMENT ON COLUMN kube_reports_internal.result.native_status
	IS 'the word of the source for the status, if it is not one of the five statuses (such as MANUAL); otherwise '
		'empty';

-- Each of these indexes has few distinct keys, and equal keys share an entry.
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
-- The distribution of scores of all rows.  From the partial index, ANALYZE would learn only the distribution in the
-- rows of the index, and use it for all rows.
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
	IS 'times of current results that differ from the times of their origin. Documents do not contain these times, so '
		'a dump must';

-- Lanes whose results must be derived again: after a restore and after rebuild().
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
	IS 'lanes whose results are being derived again from the documents, each with the key up to which this is done; '
		'never dumped';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.restoring
	IS 'whether the results are restored: they are not new, so no day''s counts change';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.attempts IS 'the number of refusals since a step last succeeded';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.retry_at IS 'the time until which the lane is put aside';
COMMENT ON COLUMN kube_reports_internal.result_rebuild.reason IS 'why it was last refused; null: it was not refused';

-- Reports whose results follow their documents later: expensive work is not done while other writers wait for the lane.
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
COMMENT ON TABLE kube_reports_internal.result_pending
	IS 'reports whose results, history and counts do not match the document yet: see catch_up(). Rows are added and '
		'removed under the lane''s lock; never dumped';
COMMENT ON COLUMN kube_reports_internal.result_pending.first
	IS 'results do not include the changes of the report from this version on';
COMMENT ON COLUMN kube_reports_internal.result_pending.last
	IS 'the version up to which results are being updated; null: the update has not begun';
COMMENT ON COLUMN kube_reports_internal.result_pending.part
	IS 'the number of parts that are done; results are divided in the order of their keys';
COMMENT ON COLUMN kube_reports_internal.result_pending.parts IS 'the number of parts; each is a transaction';
CREATE INDEX result_pending_first ON kube_reports_internal.result_pending (first);

-- Used while a past state is imported.
CREATE TABLE kube_reports_internal.import_time (
	lane		integer PRIMARY KEY,
	at			timestamptz NOT NULL
);
COMMENT ON TABLE kube_reports_internal.import_time
	IS 'lanes to which a past state is being written, with the time of the state: see import_report(). A row exists '
		'within one transaction only; never dumped';

---- history ----

-- A write changes many results of one report: a row with arrays takes a tenth of the space and time of one row for each
-- result.  What all results of the row have in common is stored once.  So for a new report, little more than its keys
-- and criteria is stored.  An array has a header of 24 bytes, so all ids are in one array, and statuses are letters of
-- a text.  joined_ids(), common(), letters() and packed() make a row, and unpacked_changes() reads it.
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
	criterion	bigint,
	subject		bigint,
	cluster_id	integer NOT NULL,
	namespace	text COLLATE "C" NOT NULL,
	ids			bigint[] NOT NULL,
	old_statuses text COLLATE "C",
	new_statuses text COLLATE "C",
	gone_with	text COLLATE "C",
	first_seen	timestamptz[],
	old_since	timestamptz[]
) PARTITION BY RANGE (at);
-- A primary key would be an index that only subscribers need.  Rows are seldom deleted or updated: only when results
-- come back before settles_at, and by rebuild().
ALTER TABLE kube_reports_internal.report_change REPLICA IDENTITY FULL;
COMMENT ON TABLE kube_reports_internal.report_change
	IS 'history. A row is a change of a report; each array has an element, and each text a letter, for each result '
		'that appeared, changed its status or disappeared. Partitioned by month; the view result_change has a row for '
		'each result';
COMMENT ON COLUMN kube_reports_internal.report_change.version IS 'resourceVersion of the report''s change';
COMMENT ON COLUMN kube_reports_internal.report_change.settles_at
	IS 'until this time, results that disappeared may come back and be taken out of the row, so readers do not count '
		'their disappearance yet; null: no result disappeared';
COMMENT ON COLUMN kube_reports_internal.report_change.criterion
	IS 'the criterion of all results; null: ids has the criterion of each';
COMMENT ON COLUMN kube_reports_internal.report_change.subject
	IS 'the subject of all results; null: ids has the subject of each';
COMMENT ON COLUMN kube_reports_internal.report_change.ids
	IS 'the keys of the results in the report; behind them their criteria, unless column criterion is set; behind '
		'these their subjects, unless column subject is set';
COMMENT ON COLUMN kube_reports_internal.report_change.old_statuses
	IS 'a letter for each result; -: the result appeared. One letter: it stands for all results; null: all appeared';
COMMENT ON COLUMN kube_reports_internal.report_change.new_statuses
	IS 'a letter for each result; -: the result disappeared. One letter: it stands for all results; null: all '
		'disappeared';
COMMENT ON COLUMN kube_reports_internal.report_change.gone_with
	IS 'for results that disappeared: r: with the report; s: with all results of the subject in the report, which has '
		'results of other subjects; -: alone. One letter: it stands for all results; null: all alone, or none '
		'disappeared';
COMMENT ON COLUMN kube_reports_internal.report_change.first_seen
	IS 'when the result had appeared; null for a result that appears in this change. With a null old status: '
		'rebuild() made the event in place of lost events. One element: it stands for all results; no array: all null';
COMMENT ON COLUMN kube_reports_internal.report_change.old_since
	IS 'since when the result had had its old status; null without one. One element: it stands for all results; no '
		'array: all null';

CREATE VIEW kube_reports_internal.result_change AS
	SELECT h.at, h.version, h.origin, e.key, e.criterion, e.subject, h.actor, h.cluster_id, e.old_status, e.new_status,
		e.gone_with, h.namespace, e.first_seen, e.old_since,
		CASE WHEN e.new_status IS NULL THEN h.settles_at END AS settles_at, h.old_statuses IS NOT NULL AS of_known
	FROM kube_reports_internal.report_change h
		CROSS JOIN LATERAL kube_reports_internal.unpacked_changes(h.ids, h.criterion, h.subject, h.old_statuses,
			h.new_statuses, h.gone_with, h.first_seen, h.old_since) e;
COMMENT ON VIEW kube_reports_internal.result_change
	IS 'history, with a row for every appearance (old_status null), change of status and disappearance (new_status '
		'null) of a result; columns as in report_change';
COMMENT ON COLUMN kube_reports_internal.result_change.of_known
	IS 'false: old_status is null in all events of this change of the report. A reader that asks for true need not '
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
-- In the order of result_criterion, so that rows of rollup show which entries of that index are worth reading.
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
COMMENT ON TABLE kube_reports_internal.rollup_policy
	IS 'the number of results of each policy in each namespace, by status, up to the fold mark; never dumped: it is '
		'counted when results are derived';
COMMENT ON COLUMN kube_reports_internal.rollup_policy.policy IS 'policy_id of the policy''s criteria';
CREATE INDEX rollup_policy_criterion ON kube_reports_internal.rollup_policy (criterion);
COMMENT ON COLUMN kube_reports_internal.rollup_policy.criterion
	IS 'the first of the policy''s criteria that was counted; all of them have the same columns except the rule';

-- Writers only append.  From time to time one session folds the rows.  All rows with an xid below the mark are folded.
CREATE SEQUENCE kube_reports_internal.rollup_delta_id_seq AS bigint CACHE 32;
COMMENT ON SEQUENCE kube_reports_internal.rollup_delta_id_seq
	IS 'numbers that distinguish rows of rollup_delta; never dumped';

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
	IS 'the numbers that writes added to the counts or subtracted: a row for each batch, namespace and kind of '
		'resource, with an array element for each count; folded into rollup, rollup_policy, rollup_daily and '
		'score_daily';
COMMENT ON COLUMN kube_reports_internal.rollup_delta.day
	IS 'the day (UTC) whose counts change; null: results were derived again after a restore, which changes no day';
COMMENT ON COLUMN kube_reports_internal.rollup_delta.id IS 'makes a key, by which logical replication finds the row';

CREATE TABLE kube_reports_internal.rollup_mark (
	only_row	boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	mark		xid8 NOT NULL DEFAULT '0',
	rebuilding	boolean NOT NULL DEFAULT false,
	attempts	integer NOT NULL DEFAULT 0,
	retry_at	timestamptz NOT NULL DEFAULT '-infinity'
);
COMMENT ON TABLE kube_reports_internal.rollup_mark
	IS 'one row: deltas of transactions below the mark are folded; never dumped';
COMMENT ON COLUMN kube_reports_internal.rollup_mark.rebuilding
	IS 'whether rebuild() has begun and has not corrected the counts yet';
COMMENT ON COLUMN kube_reports_internal.rollup_mark.attempts
	IS 'how often upkeep was canceled while it finished the rebuild()';
COMMENT ON COLUMN kube_reports_internal.rollup_mark.retry_at IS 'the time until which upkeep does not try that again';
INSERT INTO kube_reports_internal.rollup_mark DEFAULT VALUES;

CREATE TABLE kube_reports_internal.rollup_daily (
	rollup		bigint NOT NULL,
	count		bigint NOT NULL,
	day			date NOT NULL,
	PRIMARY KEY (rollup, day)
) WITH (fillfactor = 80);
COMMENT ON TABLE kube_reports_internal.rollup_daily
	IS 'counts at the end of each day (UTC), only of counts that changed on that day; on a day without a row, the '
		'count of the day before still holds';

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
COMMENT ON TABLE kube_reports_internal.score_daily
	IS 'counts by status at the end of each day (UTC), only of counts that changed on that day; on a day without a '
		'row, the count of the day before still holds';
COMMENT ON COLUMN kube_reports_internal.score_daily.namespace
	IS 'empty for reports of cluster scope; * for the whole cluster';
COMMENT ON COLUMN kube_reports_internal.score_daily.excluded
	IS 'the number of results that do not count in scores, whatever their status: see excluded_from_score()';

-- The second line has the states of remediations: scores count the results of their checks.
CREATE FUNCTION kube_reports_internal.excluded_from_score(native_status text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN native_status IN ('MANUAL', 'NOT-APPLICABLE', 'INCONSISTENT', 'INFO',
	'NotApplied', 'Pending', 'Applied', 'Outdated', 'NeedsReview', 'MissingDependencies');
COMMENT ON FUNCTION kube_reports_internal.excluded_from_score(text)
	IS 'whether this word of a source means that the result has no verdict for a score';

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
COMMENT ON FUNCTION kube_reports_internal.unfolded(xid8)
	IS 'the deltas of transactions from the mark on, one row for each count';

CREATE VIEW kube_reports_internal.rollup_part AS
	SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, r.count
	FROM kube_reports_internal.rollup r
	UNION ALL
	SELECT d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status, d.count
	FROM kube_reports_internal.unfolded((SELECT m.mark FROM kube_reports_internal.rollup_mark m)) d;
COMMENT ON VIEW kube_reports_internal.rollup_part
	IS 'the parts whose sums are current_rollup: folded counts, and later changes of counts, which may be negative';

CREATE VIEW kube_reports_internal.current_rollup AS
	SELECT c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status, sum(c.count)::bigint AS count
	FROM kube_reports_internal.rollup_part c
	WHERE c.count <> 0
	GROUP BY c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status
	HAVING sum(c.count) <> 0;
COMMENT ON VIEW kube_reports_internal.current_rollup
	IS 'the number of results of each kind, exact in the transaction of the query';

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
	IS 'the place of collect_garbage() in each table in which it removes rows; never dumped';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.what IS 'name of the table';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.place IS 'the block at which the next step begins';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.looked_at IS 'the number of rows that this pass has read';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.removed IS 'the number of rows that this pass has removed';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.changes
	IS 'the number of results that had been changed or removed when this pass began, by the counters of the server';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.hurry
	IS 'whether the last whole pass removed much, or many rows were changed since: then this pass does not pause';
COMMENT ON COLUMN kube_reports_internal.garbage_sweep.due_at IS 'when the next step is due';
-- Each table comes after the tables that refer to it.
CREATE FUNCTION kube_reports_internal.swept_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN '{detail,origin,subject,rollup_daily,score_daily,rollup_policy,rollup,criterion,actor,imported}'::text[];
COMMENT ON FUNCTION kube_reports_internal.swept_tables() IS 'the names of the tables in table garbage_sweep';
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

