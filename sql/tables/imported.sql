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
	IS 'resourceVersion of the object that was copied, where it came from';
COMMENT ON COLUMN kube_reports_internal.imported.version
	IS 'version of the object here when it was copied: an object that has another one by now was changed here since';
COMMENT ON COLUMN kube_reports_internal.imported.verified
	IS 'the stored document was read again after its commit, and was the document that was copied';
COMMENT ON COLUMN kube_reports_internal.imported.seen_at IS 'when the object was last seen where it came from';
COMMENT ON COLUMN kube_reports_internal.imported.source
	IS 'where the copy came from: cluster, reports-server or sender. Only a run that reads this source may delete it';

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
	IS 'states that import_report() and import_deletion() were given where there is no engine; see import_step()';
COMMENT ON COLUMN kube_reports_internal.import_waiting.id IS 'states of one report are imported in this order';
COMMENT ON COLUMN kube_reports_internal.import_waiting.at IS 'the time that the state is of';
COMMENT ON COLUMN kube_reports_internal.import_waiting.document IS 'null: the report was deleted';
COMMENT ON COLUMN kube_reports_internal.import_waiting.reason IS 'why it was refused: it is not tried again; null: it '
		'waits';
CREATE INDEX import_waiting_report ON kube_reports_internal.import_waiting (lane, namespace, name, id);
CREATE INDEX import_waiting_next ON kube_reports_internal.import_waiting (id) WHERE reason IS NULL;

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.import_waiting_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.import_waiting', '');
