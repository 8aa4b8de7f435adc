-- imported.sql
--	  Objects that "kube-reports-proxy import" has copied.
--
-- Never dumped: after a restore the next import compares every document anyway
-- and writes these rows again.

CREATE TABLE kube_reports_internal.imported (
	lane		integer NOT NULL REFERENCES kube_reports_internal.lane ON DELETE CASCADE,
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	uid			uuid NOT NULL,
	source_version text COLLATE "C" NOT NULL,
	version		bigint NOT NULL,
	verified	boolean NOT NULL DEFAULT false,
	seen_at		timestamptz NOT NULL,
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
