-- result_rows.sql
--	  The rows of result_difference(), as values: what a proxy has prepared before a lane is locked.

CREATE TYPE kube_reports_internal.result_row AS (
	key			bigint,
	wanted		boolean,
	old_status	"char",
	"position"	integer,
	criterion	bigint,
	source		text,
	policy		text,
	rule		text,
	category	text,
	severity	text,
	subject		bigint,
	api_version text,
	kind		text,
	subject_namespace text,
	subject_name text,
	subject_uid text,
	status		"char",
	native_status text,
	score		double precision,
	detail		bigint,
	message		text,
	properties	text,
	exceptions	text[],
	evaluated_at timestamptz
);
COMMENT ON TYPE kube_reports_internal.result_row IS 'a row of result_difference(), with the same columns';

-- An array of arrays would need the same number of rows for each report.
CREATE TYPE kube_reports_internal.prepared_results AS (rows kube_reports_internal.result_row[]);
COMMENT ON TYPE kube_reports_internal.prepared_results
	IS 'the results of a report that a proxy has prepared; rows null: none, and they follow later';

