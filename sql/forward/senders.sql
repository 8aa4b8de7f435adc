-- senders.sql
--	  Senders, and the clusters whose results they may forward.
--
-- A bearer token or a client certificate identifies a sender.  The credential
-- alone decides for which cluster the sender writes.  Only the SHA-256 of a
-- token is stored, so the token cannot be read here.
--
-- The last two parts are for proxies: the answer to a sender whose request is wrong, and the check of a credential.

CREATE FUNCTION kube_reports_internal.check_credential(token_sha256 text, certificate text, valid_until timestamptz)
	RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF token_sha256 !~ '^[0-9a-f]{64}$' THEN
		RAISE EXCEPTION 'token_sha256 is the SHA-256 of a token: 64 hexadecimal digits in lower case'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'In a shell: printf %s "$TOKEN" | sha256sum. Without token_sha256 and certificate, one is made.';
	ELSIF length(certificate) NOT BETWEEN 1 AND 255 THEN
		RAISE EXCEPTION 'certificate is the common name of a client certificate: 1 to 255 characters'
			USING ERRCODE = 'invalid_parameter_value';
	ELSIF token_sha256 IS NOT NULL AND certificate IS NOT NULL THEN
		RAISE EXCEPTION 'a credential is a token or a certificate, not both'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'A sender may have several credentials: rotate_sender() adds one.';
	ELSIF valid_until <= now() THEN
		RAISE EXCEPTION 'the credential would expire at once' USING ERRCODE = 'invalid_parameter_value';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.check_credential(text, text, timestamptz)
	IS 'raises 22023 unless the arguments can be a credential of a sender';

CREATE FUNCTION kube_reports_internal.store_credential(cluster_id integer, name text, token_sha256 text,
	certificate text, valid_until timestamptz) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	token		text;
BEGIN
	PERFORM kube_reports_internal.check_credential(token_sha256, certificate, valid_until);
	IF token_sha256 IS NULL AND certificate IS NULL THEN
		-- 244 random bits.  The extension pgcrypto, which also makes random bytes, may be missing.
		token := replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
		token_sha256 := encode(sha256(convert_to(token, 'UTF8')), 'hex');
	END IF;
	INSERT INTO kube_reports_internal.sender_credential AS s (kind, credential, cluster_id, name, expires_at)
		VALUES (CASE WHEN certificate IS NULL THEN 'token' ELSE 'certificate' END,
			coalesce(certificate, token_sha256), store_credential.cluster_id, store_credential.name,
			coalesce(valid_until, 'infinity'))
		ON CONFLICT ON CONSTRAINT sender_credential_pkey DO NOTHING;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'this credential is a sender''s already' USING ERRCODE = 'unique_violation',
			HINT = 'Each credential belongs to one sender: the view kube_reports.sender shows them.';
	END IF;
	RETURN token;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.store_credential(integer, text, text, text, timestamptz)
	IS 'adds a credential; returns the token if it made one';

CREATE FUNCTION kube_reports.add_sender(cluster uuid, name text, token_sha256 text DEFAULT NULL,
	certificate text DEFAULT NULL, valid_until timestamptz DEFAULT NULL, cluster_name text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer;
BEGIN
	IF name IS NULL OR name !~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$' THEN
		RAISE EXCEPTION 'a sender''s name has 1 to 63 letters, digits, dots, hyphens and underscores, not "%"',
			coalesce(left(name, 100), '')
			USING ERRCODE = 'invalid_parameter_value';
	END IF;
	PERFORM kube_reports_internal.check_credential(token_sha256, certificate, valid_until);
	-- This locks the store: of two calls at once, the second one sees the sender of the first.
	served := kube_reports.register_cluster(cluster, coalesce(cluster_name, ''));
	IF EXISTS (SELECT FROM kube_reports_internal.sender_credential s WHERE s.name = add_sender.name) THEN
		RAISE EXCEPTION 'there is a sender "%" already', name USING ERRCODE = 'unique_violation',
			HINT = 'rotate_sender() gives it another credential, remove_sender() removes it.';
	END IF;
	RETURN kube_reports_internal.store_credential(served, name, token_sha256, certificate, valid_until);
END
$$;
COMMENT ON FUNCTION kube_reports.add_sender(uuid, text, text, text, timestamptz, text)
	IS 'lets a sender forward results and objects of one cluster, with the bearer token of a SHA-256 or a client '
		'certificate with a common name; without either, makes a token and returns it, once. Registers the cluster if '
		'it is new. Raises 22023 for wrong values, 23505 when the name or the credential is in use';

CREATE FUNCTION kube_reports.rotate_sender(name text, token_sha256 text DEFAULT NULL, certificate text DEFAULT NULL,
	valid_until timestamptz DEFAULT NULL, overlap interval DEFAULT '1 hour') RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer := (SELECT min(s.cluster_id) FROM kube_reports_internal.sender_credential s
		WHERE s.name = rotate_sender.name);
BEGIN
	IF served IS NULL THEN
		RAISE EXCEPTION 'there is no sender "%"', name USING ERRCODE = 'undefined_object',
			HINT = 'add_sender() adds one.';
	ELSIF overlap IS NULL OR overlap < '0' THEN
		RAISE EXCEPTION 'the overlap of two credentials is not negative' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	PERFORM kube_reports_internal.check_credential(token_sha256, certificate, valid_until);
	DELETE FROM kube_reports_internal.sender_credential s WHERE s.name = rotate_sender.name AND s.expires_at <= now();
	UPDATE kube_reports_internal.sender_credential s SET expires_at = least(s.expires_at, now() + overlap)
		WHERE s.name = rotate_sender.name;
	RETURN kube_reports_internal.store_credential(served, name, token_sha256, certificate, valid_until);
END
$$;
COMMENT ON FUNCTION kube_reports.rotate_sender(text, text, text, timestamptz, interval)
	IS 'gives a sender a new credential, as add_sender() does; its older credentials expire after the overlap. Raises '
		'42704 for an unknown sender';

CREATE FUNCTION kube_reports.remove_sender(name text) RETURNS boolean
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	WITH gone AS (
		DELETE FROM kube_reports_internal.sender_credential s WHERE s.name = $1 RETURNING s.name
	)
	SELECT EXISTS (SELECT FROM gone);
END;
COMMENT ON FUNCTION kube_reports.remove_sender(text)
	IS 'revokes every credential of a sender at once; the data that it sent stay. False when there is no such sender';

-- Without a security barrier: grant_reader() does not grant this view.
CREATE VIEW kube_reports.sender AS
	SELECT c.uid AS cluster, c.name AS cluster_name, s.name, s.kind,
		CASE s.kind WHEN 'certificate' THEN s.credential ELSE left(s.credential, 12) END AS credential,
		s.created_at, nullif(s.expires_at, 'infinity') AS expires_at,
		(SELECT max(f.received_at) FROM kube_reports_internal.forward_stream f
			WHERE f.cluster_id = s.cluster_id AND f.sender = s.name) AS last_objects,
		(SELECT max(a.received_at) FROM kube_reports_internal.forward_assessment a
			WHERE a.cluster_id = s.cluster_id) AS last_results
	FROM kube_reports_internal.sender_credential s JOIN kube_reports.cluster c ON c.id = s.cluster_id;
COMMENT ON VIEW kube_reports.sender
	IS 'credentials of senders; for a token, the first 12 digits of its SHA-256; when the sender last sent objects, '
		'and when results of scans last came for the cluster';

-- The role must be a role of proxies: a proxy first names the cluster that it serves.
CREATE FUNCTION kube_reports.grant_ingest(role name) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.proxy_role p WHERE p.role = grant_ingest.role) THEN
		RAISE EXCEPTION 'role "%" is no role of proxies', role USING ERRCODE = 'undefined_object',
			HINT = 'First: SELECT kube_reports.grant_proxy(role, cluster).';
	END IF;
	INSERT INTO kube_reports_internal.ingest_role (role) VALUES (grant_ingest.role)
		ON CONFLICT ON CONSTRAINT ingest_role_pkey DO NOTHING;
END
$$;
COMMENT ON FUNCTION kube_reports.grant_ingest(name)
	IS 'lets the proxies of a role store what senders forward, for the clusters of these senders. The role needs '
		'grant_proxy() before; raises 42704 without it';

CREATE FUNCTION kube_reports.revoke_ingest(role name) RETURNS boolean
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	WITH gone AS (
		DELETE FROM kube_reports_internal.ingest_role i WHERE i.role = $1::text RETURNING i.role
	)
	SELECT EXISTS (SELECT FROM gone);
END;
COMMENT ON FUNCTION kube_reports.revoke_ingest(name)
	IS 'stops the proxies of a role from storing what senders forward; they continue to serve their cluster. False '
		'when the role had no grant_ingest()';

---- refusals ----

CREATE TYPE kube_reports_internal.refusal AS (
	place		text,
	message		text
);
COMMENT ON TYPE kube_reports_internal.refusal
	IS 'an error in a forwarded document; place: a JSON pointer';

CREATE FUNCTION kube_reports_internal.forward_refusal(code integer, reason text, message text,
	refusals kube_reports_internal.refusal[] DEFAULT '{}') RETURNS bytea
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT kube_reports_internal.status_document(code, reason, message,
		CASE WHEN refusals <> '{}' THEN jsonb_build_object('causes', (SELECT jsonb_agg(jsonb_build_object(
			'reason', 'FieldValueInvalid', 'message', r.message, 'field', r.place) ORDER BY r.position)
			FROM unnest(refusals) WITH ORDINALITY r(place, message, position) WHERE r.position <= 1000)) END)
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_refusal(integer, text, text, kube_reports_internal.refusal[])
	IS 'a Status with a cause for each refusal, at most 1000';

---- credentials ----

CREATE FUNCTION kube_reports_internal.known_sender(kind text, credential text, OUT cluster_id integer,
	OUT cluster uuid, OUT cluster_name text, OUT name text)
	RETURNS SETOF record
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.id, c.uid, coalesce(nullif(c.name, ''), c.extra_metadata->>'clusterName', ''), s.name
	FROM kube_reports_internal.sender_credential s JOIN kube_reports.cluster c ON c.id = s.cluster_id
	WHERE s.kind = $1 AND s.credential = $2 AND s.expires_at > now() AND NOT c.removing;
END;
COMMENT ON FUNCTION kube_reports_internal.known_sender(text, text)
	IS 'the sender of a credential, and its cluster; no row if the credential is unknown or has expired, or the '
		'cluster is being removed';

CREATE FUNCTION kube_reports_internal.require_ingest(cluster uuid, caller kube_reports_internal.caller) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	proven		text := kube_reports_internal.proven_role(caller);
BEGIN
	PERFORM kube_reports_internal.require_service(cluster, caller);
	IF NOT EXISTS (SELECT FROM kube_reports_internal.ingest_role i WHERE i.role = proven)
		AND NOT has_table_privilege(proven, 'kube_reports.object', 'UPDATE') THEN
		RAISE EXCEPTION 'role "%" may not take what senders forward', proven
			USING ERRCODE = 'insufficient_privilege',
				HINT = format('The owner grants it: SELECT kube_reports.grant_ingest(%L)', proven);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_ingest(uuid, kube_reports_internal.caller)
	IS 'raises 42501 unless the caller may write for the clusters of senders';

-- The proxy calls it before it sends the body of a request to the database.
CREATE FUNCTION kube_reports_internal.api_forward_sender(cluster uuid, kind text, credential text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(), OUT name text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_ingest(cluster, caller);
	name := (SELECT s.name FROM kube_reports_internal.known_sender(kind, credential) s);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_forward_sender(uuid, text, text, kube_reports_internal.caller)
	IS 'the name of the sender that has a credential; null if there is none';
