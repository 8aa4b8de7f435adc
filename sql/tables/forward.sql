-- forward.sql
--	  Senders of other clusters' results, and how far each has come.
--
-- Credentials and scans are dumped.  The places of streams are not: batches after the number in a dump may already be
-- deleted from the sender's queue.  A sender whose stream is unknown compares all objects.

CREATE TABLE kube_reports_internal.sender_credential (
	kind		text NOT NULL CHECK (kind IN ('token', 'certificate')),
	credential	text COLLATE "C" NOT NULL,
	cluster_id	integer NOT NULL,
	name		text COLLATE "C" NOT NULL,
	created_at	timestamptz NOT NULL DEFAULT now(),
	expires_at	timestamptz NOT NULL DEFAULT 'infinity',
	PRIMARY KEY (kind, credential)
);
COMMENT ON TABLE kube_reports_internal.sender_credential
	IS 'credentials of senders, each for one cluster: see add_sender()';
COMMENT ON COLUMN kube_reports_internal.sender_credential.credential
	IS 'SHA-256 of a token, in hexadecimal; or the common name of a client certificate';

CREATE TABLE kube_reports_internal.ingest_role (
	role		text PRIMARY KEY
);
COMMENT ON TABLE kube_reports_internal.ingest_role
	IS 'roles of proxies that may write for the clusters of senders: see grant_ingest()';

CREATE TABLE kube_reports_internal.forward_assessment (
	cluster_id	integer NOT NULL,
	scan		text COLLATE "C" NOT NULL,
	assessment	text COLLATE "C" NOT NULL,
	seq			integer NOT NULL,
	digest		bytea NOT NULL,
	reply		jsonb NOT NULL,
	finished	boolean NOT NULL,
	latest		boolean NOT NULL,
	received_at timestamptz NOT NULL,
	PRIMARY KEY (cluster_id, scan, assessment)
);
COMMENT ON TABLE kube_reports_internal.forward_assessment
	IS 'runs of scans whose results were forwarded, each with its last batch and the answer to it';
COMMENT ON COLUMN kube_reports_internal.forward_assessment.digest IS 'SHA-256 of the last batch';
COMMENT ON COLUMN kube_reports_internal.forward_assessment.latest
	IS 'whether no later run of the scan has begun. Earlier runs stay for a while, so that a repeated batch is '
		'recognized';

CREATE TABLE kube_reports_internal.forward_seen (
	cluster_id	integer NOT NULL,
	scan		text COLLATE "C" NOT NULL,
	seq			integer NOT NULL,
	keys		bigint[] NOT NULL,
	remediations bigint[],
	PRIMARY KEY (cluster_id, scan, seq)
);
COMMENT ON TABLE kube_reports_internal.forward_seen
	IS 'the results of each batch of the latest run of a scan, until its last batch removes the others';
COMMENT ON COLUMN kube_reports_internal.forward_seen.remediations
	IS 'keys of the remediations of the batch; null: it does not tell about remediations';

CREATE TABLE kube_reports_internal.forward_stream (
	cluster_id	integer NOT NULL REFERENCES kube_reports.cluster ON DELETE CASCADE,
	stream		uuid NOT NULL,
	seq			bigint NOT NULL,
	sender		text NOT NULL,
	received_at timestamptz NOT NULL,
	PRIMARY KEY (cluster_id, stream)
);
COMMENT ON TABLE kube_reports_internal.forward_stream
	IS 'queues of senders, each with its last stored batch; never dumped';

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.sender_credential', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.ingest_role', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.forward_assessment', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.forward_seen', '');
