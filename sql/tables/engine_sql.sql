-- engine_sql.sql
--	  Questions of steps of upkeep to the engine, which runs in the proxy: see
--	  types/engine_sql.sql.

-- Rows exist within one transaction only.
CREATE UNLOGGED TABLE kube_reports_internal.sql_answer (
	backend		integer NOT NULL,
	question	text NOT NULL,
	asked		text,
	answer		text,
	clusters	integer[],
	trial		boolean NOT NULL DEFAULT false,
	PRIMARY KEY (backend, question)
);
COMMENT ON TABLE kube_reports_internal.sql_answer
	IS 'the questions of the running step of upkeep to the engine, and the answers of the proxy; never dumped';
COMMENT ON COLUMN kube_reports_internal.sql_answer.question
	IS 'hash of the question; empty: the row of the step itself, which exists while the step runs';
COMMENT ON COLUMN kube_reports_internal.sql_answer.asked IS 'the question; null: it has been answered';
COMMENT ON COLUMN kube_reports_internal.sql_answer.clusters
	IS 'in the row of a step: the clusters about whose documents the step may ask';
COMMENT ON COLUMN kube_reports_internal.sql_answer.trial
	IS 'in the row of a step: whether the step only collects questions; then it does not lock lanes, and is rolled '
		'back';
