-- evidence.sql
--	  Metadata of evidence: the files are outside of the database.
--
-- A row of evidence_file announces a file.  A row of evidence_body is a file that is not announced: it is being
-- received, was given up or has been replaced.  So every file has a row; if a process ends at any point, the next
-- process knows which files to remove.

CREATE TABLE kube_reports_internal.evidence_file (
	cluster_id	integer NOT NULL,
	scan		text COLLATE "C" NOT NULL,
	index		integer NOT NULL,
	name		text COLLATE "C" NOT NULL,
	body		uuid NOT NULL,
	sha256		bytea NOT NULL,
	bytes		bigint NOT NULL,
	encoding	text NOT NULL,
	provider	text NOT NULL,
	place		text COLLATE "C" NOT NULL,
	key			text COLLATE "C" NOT NULL,
	created_at	timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (cluster_id, scan, index, name)
);
CREATE INDEX evidence_file_age ON kube_reports_internal.evidence_file (place, created_at);
COMMENT ON TABLE kube_reports_internal.evidence_file IS 'evidence of scans: see the view kube_reports.evidence';
COMMENT ON COLUMN kube_reports_internal.evidence_file.place
	IS 'the URI of the directory, bucket or server that has the file; the key is the rest of the file''s URI. Empty: '
		'the sender keeps the file, and the key is the URI that the sender gave';

-- No foreign key: a file outlives its cluster until it is removed.
CREATE TABLE kube_reports_internal.evidence_body (
	id			uuid PRIMARY KEY,
	cluster_id	integer NOT NULL,
	place		text COLLATE "C" NOT NULL,
	key			text COLLATE "C" NOT NULL,
	bytes		bigint NOT NULL,
	remove_after timestamptz NOT NULL
);
CREATE INDEX evidence_body_due ON kube_reports_internal.evidence_body (place, remove_after);
COMMENT ON TABLE kube_reports_internal.evidence_body
	IS 'files of evidence that are not announced: they are being received, or are to be removed';
COMMENT ON COLUMN kube_reports_internal.evidence_body.bytes
	IS 'the announced size of a file that is being received, 0 if none was announced; 0 for all other files, which no '
		'longer count';

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.evidence_file', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.evidence_body', '');
