-- imported.sql
--	  Objects that "kube-reports-proxy import" has copied, and states of the past
--	  that wait for the engine.
--
-- Copied objects are never dumped: after a restore the next import compares
-- every document anyway and writes these rows again.

CREATE TABLE kube_reports_internal.imported (
	lane		integer NOT NULL REFERENCES kube_reports_internal.lane ON DELETE CASCADE,
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	uid			uuid NOT NULL,
	source_version text COLLATE "C" NOT NULL,
	version		bigint NOT NULL,
	verified	boolean NOT NULL DEFAULT false,
	seen_at		timestamptz NOT NULL,
	source		text NOT NULL,
	PRIMARY KEY (lane, namespace, name)
);
COMMENT ON TABLE kube_reports_internal.imported
	IS 'objects that were copied from a cluster or from a reports-server: see api_import(); never dumped';
COMMENT ON COLUMN kube_reports_internal.imported.source_version
	IS 'resourceVersion of the copied object at its source';
COMMENT ON COLUMN kube_reports_internal.imported.version
	IS 'the version that the copy got here; an object with another version was changed here since';
COMMENT ON COLUMN kube_reports_internal.imported.verified
	IS 'whether the stored document was read again after its commit, and was equal to the copied document';
COMMENT ON COLUMN kube_reports_internal.imported.seen_at IS 'when the object was last seen at its source';
COMMENT ON COLUMN kube_reports_internal.imported.source
	IS 'the source of the copy: cluster, reports-server or sender. Only an import from the same source may delete the '
		'copy';

---- states of the past ----

CREATE SEQUENCE kube_reports_internal.import_waiting_id_seq AS bigint;
COMMENT ON SEQUENCE kube_reports_internal.import_waiting_id_seq IS 'ids of states that wait to be imported';

CREATE TABLE kube_reports_internal.import_waiting (
	id			bigint PRIMARY KEY DEFAULT nextval('kube_reports_internal.import_waiting_id_seq'),
	lane		integer NOT NULL,
	at			timestamptz NOT NULL,
	queued_at	timestamptz NOT NULL DEFAULT now(),
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	actor		text NOT NULL,
	document	kube_reports.report,
	reason		text
);
COMMENT ON TABLE kube_reports_internal.import_waiting
	IS 'past states from import_report() and import_deletion() that wait, if the engine is not in the server; see '
		'import_step()';
COMMENT ON COLUMN kube_reports_internal.import_waiting.id IS 'the order in which states of one report are imported';
COMMENT ON COLUMN kube_reports_internal.import_waiting.at IS 'the time of the state';
COMMENT ON COLUMN kube_reports_internal.import_waiting.document IS 'null: the report was deleted';
COMMENT ON COLUMN kube_reports_internal.import_waiting.reason
	IS 'why the state was refused; then it is not tried again; null: it waits';
CREATE INDEX import_waiting_report ON kube_reports_internal.import_waiting (lane, namespace, name, id);
CREATE INDEX import_waiting_next ON kube_reports_internal.import_waiting (id) WHERE reason IS NULL;

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.import_waiting_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.import_waiting', '');
