-- arriving.sql
--	  Rows of a cluster that is received from another database.
--
-- Both tables are empty except during receive_cluster().  They are unlogged: after a crash the cluster is sent again.

CREATE SEQUENCE kube_reports_internal.arriving_row_seq AS bigint;
COMMENT ON SEQUENCE kube_reports_internal.arriving_row_seq IS 'positions of arriving rows';

CREATE UNLOGGED TABLE kube_reports.arriving_row (
	"position"	bigint PRIMARY KEY DEFAULT nextval('kube_reports_internal.arriving_row_seq'),
	relation	text COLLATE "C" NOT NULL,
	content		text NOT NULL
);
COMMENT ON TABLE kube_reports.arriving_row
	IS 'the rows of send_cluster(), loaded by COPY for receive_cluster(); otherwise empty, and never dumped';
COMMENT ON COLUMN kube_reports.arriving_row.relation IS 'the table of the row; begin and end mark a complete cluster';
COMMENT ON COLUMN kube_reports.arriving_row.content IS 'the row, in the text form of its type';
CREATE INDEX arriving_row_relation ON kube_reports.arriving_row (relation, "position");

CREATE UNLOGGED TABLE kube_reports_internal.arriving_subject (
	id			bigint PRIMARY KEY,
	new_id		bigint NOT NULL
);
COMMENT ON TABLE kube_reports_internal.arriving_subject
	IS 'new ids of the subjects of a cluster that is received: the id of a subject is a hash that includes the id of '
		'its cluster';
