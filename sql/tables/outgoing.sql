-- outgoing.sql
--	  Webhooks that new failures are sent to, and their progress.
--
-- The owner writes one table and senders write the other, so that neither waits for the other.  The tables hold no
-- secret: tokens, keys and CAs are files of the proxies, and a row has only the names of the files.

CREATE TABLE kube_reports_internal.webhook (
	cluster_id	integer NOT NULL,
	name		text COLLATE "C" NOT NULL,
	url			text NOT NULL,
	filter		jsonb NOT NULL,
	token_file	text,
	hmac_file	text,
	ca_file		text,
	batch_size	integer NOT NULL CHECK (batch_size BETWEEN 1 AND 1000),
	timeout		interval NOT NULL CHECK (timeout BETWEEN '100 milliseconds' AND '60 seconds'),
	paused		boolean NOT NULL DEFAULT false,
	PRIMARY KEY (cluster_id, name)
);
COMMENT ON TABLE kube_reports_internal.webhook
	IS 'the targets to which new failures of a cluster are sent: see add_webhook()';
COMMENT ON COLUMN kube_reports_internal.webhook.token_file
	IS 'name of a file in the proxies'' --webhook-directory, as are hmac_file and ca_file';

CREATE TABLE kube_reports_internal.webhook_progress (
	cluster_id	integer NOT NULL,
	name		text COLLATE "C" NOT NULL,
	version		bigint NOT NULL,
	key			bigint NOT NULL,
	sent		bigint NOT NULL DEFAULT 0,
	acknowledged_at timestamptz,
	failures	integer NOT NULL DEFAULT 0,
	failed_at	timestamptz,
	error		text,
	next_attempt_at timestamptz NOT NULL DEFAULT '-infinity',
	holder		text,
	held_until	timestamptz NOT NULL DEFAULT '-infinity',
	PRIMARY KEY (cluster_id, name)
) WITH (fillfactor = 50);
COMMENT ON TABLE kube_reports_internal.webhook_progress
	IS 'the place of each target in history: each event up to version and key was acknowledged, or does not match the '
		'target''s filter';
COMMENT ON COLUMN kube_reports_internal.webhook_progress.sent IS 'the number of acknowledged events';
COMMENT ON COLUMN kube_reports_internal.webhook_progress.failures
	IS 'the number of failed attempts since the last acknowledgement';
COMMENT ON COLUMN kube_reports_internal.webhook_progress.holder
	IS 'identifies the sender of the present batch, if there is one, until held_until at the latest; each batch has '
		'another value';

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.webhook', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.webhook_progress', '');
