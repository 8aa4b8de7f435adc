-- outgoing.sql
--	  Delivery of new failures to webhooks.
--
-- A batch of events is read from history, between the place of a target and the horizon.  When the target has
-- acknowledged the batch, a separate transaction moves the place; so batches without an acknowledgement are sent again.
-- A sender keeps neither a connection nor a lock while it waits for the target: it locks the row of the target
-- (skipping locked rows), stores itself as the holder with a time limit, and commits.  So one sender at a time serves a
-- target, and another sender takes over if the first one is gone.  Each batch has a holder of its own: if the place of
-- the target is moved, or the target is removed and added again, the outcome of the old batch is ignored.

---- targets ----

-- proxy/base/url.c says the same of the URLs of flags.
CREATE FUNCTION kube_reports_internal.is_url_host(host text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
BEGIN
	IF host ~ '^\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]$' THEN
		RETURN family(btrim(host, '[]')::inet) = 6;
	END IF;
	RETURN length(rtrim(host, '.')) <= 253 AND host ~ '^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?'
		'(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?$'
		AND (host !~ '(^|\.)[0-9]+\.?$' OR host ~ '^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.|$)){4}$');
EXCEPTION WHEN invalid_text_representation THEN
	RETURN false;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.is_url_host(text)
	IS 'whether a URL can have this host: a DNS name, an IPv4 address, or an IPv6 address in brackets';

CREATE FUNCTION kube_reports_internal.is_https_url(url text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
	SELECT url ~ '^https://[^/?#]+([/?][!-~]*)?$' AND strpos(url, '#') = 0 AND length(url) <= 2000
		AND EXISTS (SELECT FROM regexp_matches(substring(url from '^https://([^/?#]+)'),
				'^(\[[^\]]*\]|[^:\[\]]*)(:([0-9]{1,5}))?$') p(parts)
			WHERE kube_reports_internal.is_url_host(p.parts[1])
				AND coalesce(p.parts[3]::integer, 1) BETWEEN 1 AND 65535)
$$;
COMMENT ON FUNCTION kube_reports_internal.is_https_url(text)
	IS 'whether a text is https://host[:port][/path][?query], with a host and a port that can be';

CREATE FUNCTION kube_reports.add_webhook(name text, cluster uuid, url text, filter jsonb DEFAULT '{}',
	after text DEFAULT NULL,
	token_file text DEFAULT NULL, hmac_file text DEFAULT NULL, ca_file text DEFAULT NULL,
	batch_size integer DEFAULT 100, timeout interval DEFAULT '10 seconds') RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	served		integer := kube_reports_internal.known_cluster(cluster);
	wanted		kube_reports_internal.event_filter := kube_reports_internal.read_event_filter(filter);
	file		text;
	place		record;
BEGIN
	IF name IS NULL OR name !~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$' THEN
		RAISE EXCEPTION 'a webhook''s name has 1 to 63 letters, digits, dots, hyphens and underscores, not "%"',
			coalesce(left(name, 100), '')
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	-- No user and no password: secrets must not be stored here.
	IF kube_reports_internal.is_https_url(url) IS NOT TRUE THEN
		RAISE EXCEPTION 'a webhook''s URL is https://host[:port][/path][?query]'
			USING ERRCODE = 'invalid_parameter_value',
			HINT = 'The host is a DNS name, an IPv4 address or [an IPv6 address], the port 1 to 65535. Credentials are '
				'files of the proxies: token_file, hmac_file.';
	END IF;
	IF filter ?| ARRAY['cluster', 'old_status', 'from', 'to']
		OR NOT wanted.statuses <@ ARRAY['warn', 'fail', 'error'] THEN
		RAISE EXCEPTION 'this filter is none of new failures' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Members are namespace, report, source, policy, rule, category, severity, status (warn, fail, '
				'error), subject_kind, subject_namespace and subject_name.';
	END IF;
	IF batch_size IS NULL OR batch_size NOT BETWEEN 1 AND 1000 THEN
		RAISE EXCEPTION 'a batch has 1 to 1000 events, not %', batch_size USING ERRCODE = 'invalid_parameter_value';
	END IF;
	IF timeout IS NULL OR timeout NOT BETWEEN '100 milliseconds' AND '60 seconds' THEN
		RAISE EXCEPTION 'a target has 100 milliseconds to 60 seconds for its answer, not %',
			timeout USING ERRCODE = 'invalid_parameter_value';
	END IF;
	FOREACH file IN ARRAY ARRAY[token_file, hmac_file, ca_file] LOOP
		IF file !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,251}$' THEN
			RAISE EXCEPTION 'this is no name of a file in --webhook-directory: "%"',
				left(file, 100) USING ERRCODE = 'invalid_parameter_value';
		END IF;
	END LOOP;
	SELECT e.version, e.key INTO place
		FROM kube_reports_internal.event_place(coalesce(after,
			kube_reports_internal.event_id(kube_reports_internal.event_horizon(ARRAY[served]), 9223372036854775807))) e;
	INSERT INTO kube_reports_internal.webhook AS w (cluster_id, name, url, filter, token_file, hmac_file,
		ca_file, batch_size, timeout)
		VALUES (served, add_webhook.name, add_webhook.url, coalesce(add_webhook.filter, '{}'),
			add_webhook.token_file, add_webhook.hmac_file,
			add_webhook.ca_file, add_webhook.batch_size, add_webhook.timeout)
		ON CONFLICT ON CONSTRAINT webhook_pkey DO NOTHING;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'cluster % has a webhook "%" already', cluster, name USING ERRCODE = 'unique_violation',
			HINT = 'Take another name, or remove_webhook() first: webhook_state shows up to where it has sent.';
	END IF;
	INSERT INTO kube_reports_internal.webhook_progress (cluster_id, name, version, key)
		VALUES (served, add_webhook.name, place.version, place.key);
END
$$;
COMMENT ON FUNCTION kube_reports.add_webhook(text, uuid, text, jsonb, text, text, text, text, integer, interval)
	IS 'adds a target for new failures of a cluster: changes to one of the filter''s statuses (by default warn, fail '
		'and error) from a status that is not one of them. The target gets events from now on, or those after the '
		'event with the id after (0-0000000000000000: all of history). Files are named as in the proxies'' '
		'--webhook-directory. Raises 22023 for wrong values, 23505 when a target has this name, 42704 for an unknown '
		'cluster';

CREATE FUNCTION kube_reports.remove_webhook(name text, cluster uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM kube_reports_internal.webhook w WHERE w.cluster_id = kube_reports_internal.known_cluster(cluster)
		AND w.name = remove_webhook.name;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION kube_reports.remove_webhook(text, uuid)
	IS 'removes a target and its place in history; a batch in flight may still arrive. False when there is no such '
		'target. Raises 42704 for an unknown cluster';

CREATE FUNCTION kube_reports.pause_webhook(name text, cluster uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE kube_reports_internal.webhook w SET paused = true
		WHERE w.cluster_id = kube_reports_internal.known_cluster(cluster) AND w.name = pause_webhook.name;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION kube_reports.pause_webhook(text, uuid)
	IS 'stops sending to a target, which keeps its place in history; a batch in flight may still arrive. False when '
		'there is no such target. Raises 42704 for an unknown cluster';

CREATE FUNCTION kube_reports.resume_webhook(name text, cluster uuid, after text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer := kube_reports_internal.known_cluster(cluster);
	place		record;
BEGIN
	IF after IS NOT NULL THEN
		SELECT e.version, e.key INTO place FROM kube_reports_internal.event_place(after) e;
		-- Clear the holder: an acknowledgement of the batch under way is ignored.
		UPDATE kube_reports_internal.webhook_progress p SET version = place.version, key = place.key, holder = NULL,
			held_until = '-infinity'
			WHERE p.cluster_id = served AND p.name = resume_webhook.name;
	END IF;
	UPDATE kube_reports_internal.webhook_progress p SET next_attempt_at = '-infinity'
		WHERE p.cluster_id = served AND p.name = resume_webhook.name;
	UPDATE kube_reports_internal.webhook w SET paused = false WHERE w.cluster_id = served
		AND w.name = resume_webhook.name;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION kube_reports.resume_webhook(text, uuid, text)
	IS 'sends to a target again at once; from the event with the id after on when one is given, to leave out events '
		'or to send them again. False when there is no such target. Raises 22023 for a wrong id, 42704 for an unknown '
		'cluster';

CREATE VIEW kube_reports.webhook_state AS
	SELECT c.uid AS cluster, w.name, w.url,
		CASE WHEN w.paused THEN 'paused' WHEN p.held_until > clock_timestamp() THEN 'sending'
			WHEN p.failures > 0 THEN 'failing' ELSE 'waiting' END AS state,
		kube_reports_internal.event_id(p.version, p.key) AS acknowledged, p.acknowledged_at,
			p.sent, n.at AS oldest_event,
		p.failures, p.failed_at, p.error, nullif(p.next_attempt_at, '-infinity') AS next_attempt_at, w.filter
	FROM kube_reports_internal.webhook w
		JOIN kube_reports_internal.webhook_progress p ON p.cluster_id = w.cluster_id AND p.name = w.name
		JOIN kube_reports.cluster c ON c.id = w.cluster_id
		LEFT JOIN LATERAL (SELECT h.at FROM kube_reports_internal.result_change h
			WHERE h.cluster_id = w.cluster_id AND h.version >= p.version AND (h.version, h.key) > (p.version, p.key)
			ORDER BY h.version, h.key LIMIT 1) n ON true;
COMMENT ON VIEW kube_reports.webhook_state
	IS 'targets of new failures. state: waiting (for new failures), sending, failing or paused. acknowledged: id of '
		'the last event that the target has received or does not need; oldest_event: the time of the first event '
		'after that one, whether the target needs it or not; failures: attempts that have failed since; error: why '
		'the last attempt failed';

---- for senders ----

CREATE FUNCTION kube_reports_internal.webhook_events(wanted kube_reports_internal.event_filter, batch_size integer,
	INOUT version bigint, INOUT key bigint, horizon bigint,
		OUT lines json[], OUT first_id text, OUT last_id text, OUT more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- A limit of the stored bytes of messages and properties: a batch ends after the first event that exceeds the
	-- limit.
	max_bytes CONSTANT integer := 1048576;
	step		record := kube_reports_internal.next_events(wanted, version, key, horizon, greatest(500, batch_size));
BEGIN
	-- Current results add message and properties, which history does not keep.
	SELECT coalesce(array_agg((SELECT to_json(l) FROM (SELECT e.*, d.message, d.properties
				FROM unnest(step.events[b.n:b.n]) e LEFT JOIN kube_reports_internal.detail d ON d.id = b.detail) l)
					ORDER BY b.n), '{}'),
			(step.events[1]).id, (step.events[max(b.n)]).id
		INTO lines, first_id, last_id
		FROM (SELECT i.n, d.id AS detail, sum(coalesce(pg_column_size(d.message) + pg_column_size(d.properties), 0))
				OVER (ORDER BY i.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
			FROM generate_series(1, least(batch_size, cardinality(step.events))) i(n)
				LEFT JOIN kube_reports_internal.result r ON r.origin = step.origins[i.n]
					AND r.key = (kube_reports_internal.event_place((step.events[i.n]).id)).key
				LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail) b
		WHERE b.bytes_before IS NULL OR b.bytes_before < max_bytes;
	more := step.more OR cardinality(lines) < cardinality(step.events);
	IF cardinality(lines) < cardinality(step.events) THEN
		SELECT e.version, e.key INTO version, key FROM kube_reports_internal.event_place(last_id) e;
	ELSIF step.last_version IS NOT NULL THEN
		version := step.last_version;
		key := step.last_key;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.webhook_events(kube_reports_internal.event_filter, integer,
	bigint, bigint, bigint)
	IS 'at most batch_size of the next events behind a place, in the form in which they are sent, and the place up to '
		'which no other event matches. more: whether there may be further events';

CREATE FUNCTION kube_reports_internal.api_webhook_next(cluster uuid, left_out text[] DEFAULT '{}',
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT name text, OUT url text, OUT token_file text, OUT hmac_file text, OUT ca_file text, OUT timeout_ms integer,
			OUT batch text, OUT body bytea,
		OUT version bigint, OUT key bigint, OUT events integer, OUT holder text) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	-- Time to store the outcome, added to the timeout of the target.
	margin CONSTANT interval := '5 seconds';
	-- The time limit of one call if few events match.  The next call continues.
	look_until CONSTANT timestamptz := clock_timestamp() + interval '0.5 seconds';
	served		record;
	candidate	text;
	target		record;
	held		record;
	horizon		bigint;
	wanted		kube_reports_internal.event_filter;
	step		record;
BEGIN
	IF pg_is_in_recovery() THEN
		RETURN;
	END IF;
	SELECT c.id, c.uid, c.name INTO served FROM kube_reports.cluster c WHERE c.uid = api_webhook_next.cluster
		AND kube_reports_internal.may_serve(c.id, caller);
	FOR candidate IN SELECT w.name FROM kube_reports_internal.webhook w
		JOIN kube_reports_internal.webhook_progress p ON p.cluster_id = w.cluster_id AND p.name = w.name
		WHERE w.cluster_id = served.id AND NOT w.paused AND p.next_attempt_at <= clock_timestamp()
			AND p.held_until <= clock_timestamp()
			AND w.name <> ALL (left_out)
		ORDER BY p.next_attempt_at, p.acknowledged_at NULLS FIRST, w.name
	LOOP
		horizon := coalesce(horizon, kube_reports_internal.event_horizon(ARRAY[served.id]));
		-- Usually there are no new events.  Then the row is not changed.
		CONTINUE WHEN NOT EXISTS (SELECT FROM kube_reports_internal.webhook_progress p
			JOIN kube_reports_internal.result_change h
			ON h.cluster_id = p.cluster_id AND h.version >= p.version AND (h.version, h.key) > (p.version, p.key)
				AND h.version <= horizon
			WHERE p.cluster_id = served.id AND p.name = candidate);
		-- Read webhook and progress together, under the lock: the webhook may have been paused or replaced meanwhile.
		SELECT w.*, p.version, p.key INTO target FROM kube_reports_internal.webhook w
			JOIN kube_reports_internal.webhook_progress p ON p.cluster_id = w.cluster_id AND p.name = w.name
			WHERE w.cluster_id = served.id AND w.name = candidate AND NOT w.paused
				AND p.next_attempt_at <= clock_timestamp() AND p.held_until <= clock_timestamp()
			FOR UPDATE OF p SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		SELECT target.version, target.key INTO held;
		wanted := kube_reports_internal.read_event_filter(target.filter);
		wanted.clusters := ARRAY[served.id];
		wanted.statuses := coalesce(wanted.statuses, ARRAY['warn', 'fail', 'error']);
		wanted.new_only := true;
		LOOP
			step := kube_reports_internal.webhook_events(wanted, target.batch_size, held.version, held.key, horizon);
			EXIT WHEN step.first_id IS NOT NULL OR NOT step.more OR clock_timestamp() > look_until;
			SELECT step.version, step.key INTO held;
		END LOOP;
		IF step.first_id IS NULL THEN
			UPDATE kube_reports_internal.webhook_progress p SET version = step.version, key = step.key
				WHERE p.cluster_id = served.id AND p.name = target.name;
			CONTINUE;
		END IF;
		holder := gen_random_uuid();
		UPDATE kube_reports_internal.webhook_progress p SET holder = api_webhook_next.holder,
			held_until = clock_timestamp() + target.timeout + margin
			WHERE p.cluster_id = served.id AND p.name = target.name;
		name := target.name;
		url := target.url;
		token_file := target.token_file;
		hmac_file := target.hmac_file;
		ca_file := target.ca_file;
		timeout_ms := (extract(epoch FROM target.timeout) * 1000)::integer;
		batch := step.first_id || '_' || step.last_id;
		body := convert_to(json_build_object('target', target.name, 'cluster', served.uid, 'cluster_name', served.name,
			'events', to_json(step.lines))::text, 'UTF8');
		version := step.version;
		key := step.key;
		events := cardinality(step.lines);
		RETURN NEXT;
		RETURN;
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_webhook_next(uuid, text[], kube_reports_internal.caller)
	IS 'a batch of new failures to send now, if there is any, for a target that is not in left_out (targets that the '
		'sender leaves to other senders). holder: a new value for each batch; the target belongs to this holder until '
		'api_webhook_done(), or until its timeout and five seconds are over. version and key: the place behind the '
		'batch';

CREATE FUNCTION kube_reports_internal.api_webhook_done(cluster uuid, name text, holder text, version bigint, key bigint,
	events integer, error text,
		not_sent boolean DEFAULT false,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	served		integer := (SELECT c.id FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller));
BEGIN
	IF error IS NULL THEN
		UPDATE kube_reports_internal.webhook_progress p
			SET version = api_webhook_done.version, key = api_webhook_done.key, sent = p.sent + events,
				acknowledged_at = clock_timestamp(),
				failures = 0, failed_at = NULL, error = NULL, next_attempt_at = '-infinity', holder = NULL,
					held_until = '-infinity'
			WHERE p.cluster_id = served AND p.name = api_webhook_done.name AND p.holder = api_webhook_done.holder;
	ELSIF not_sent THEN
		-- The failure is this sender's, so other senders need not wait.
		UPDATE kube_reports_internal.webhook_progress p
			SET failures = p.failures + 1, failed_at = clock_timestamp(), error =
				left(api_webhook_done.error, 500), holder = NULL, held_until = '-infinity'
			WHERE p.cluster_id = served AND p.name = api_webhook_done.name AND p.holder = api_webhook_done.holder;
	ELSE
		-- Wait half a second, doubled each time, up to five minutes, plus or minus a fifth.
		UPDATE kube_reports_internal.webhook_progress p
			SET failures = p.failures + 1, failed_at = clock_timestamp(), error = left(api_webhook_done.error, 500),
				next_attempt_at = clock_timestamp() + least(interval '0.5 seconds' * 2 ^ least(p.failures, 20),
					interval '5 minutes') * (0.8 + 0.4 * random()),
				holder = NULL, held_until = '-infinity'
			WHERE p.cluster_id = served AND p.name = api_webhook_done.name AND p.holder = api_webhook_done.holder;
	END IF;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_webhook_done(uuid, text, text, bigint, bigint, integer, text, boolean,
	kube_reports_internal.caller)
	IS 'stores the outcome of a batch. error null: the target acknowledged it; not_sent: the sender could not send '
		'it, and other senders may try at once. Returns false, and stores nothing, if the target no longer belongs to '
		'the holder';

CREATE FUNCTION kube_reports_internal.api_webhooks(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT name text, OUT lag_ms bigint, OUT failures integer, OUT paused boolean) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.name, coalesce(greatest(0, extract(epoch FROM clock_timestamp() - s.oldest_event) * 1000), 0)::bigint,
		s.failures, s.state = 'paused'
	FROM kube_reports.webhook_state s JOIN kube_reports.cluster c ON c.uid = s.cluster
	WHERE s.cluster = $1 AND kube_reports_internal.may_serve(c.id, caller)
	ORDER BY s.name
	LIMIT 64
$$;
COMMENT ON FUNCTION kube_reports_internal.api_webhooks(uuid, kube_reports_internal.caller)
	IS 'the targets of a cluster, for metrics: the age of the oldest event that the target has not acknowledged, and '
		'the number of failed attempts since';
