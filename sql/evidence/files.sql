-- files.sql
--	  Files of evidence: received, announced, found, rotated, removed.
--
-- kube-reports-evidence calls the functions api_evidence_*.  When a whole file is stored, one transaction announces it:
-- the view shows the file from then on.  Until then only evidence_body has a row for it.  Each file has a key of its
-- own, so that two uploads of one name never write to the same file.
--
-- Locks: the store, then the rows of the cluster's senders, as in forward/ingest.sql: one file of a cluster is
-- announced at a time.

CREATE VIEW kube_reports.evidence WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, f.scan, f.index, f.name, encode(f.sha256, 'hex') AS sha256,
		f.bytes, f.encoding, f.provider, CASE f.place WHEN '' THEN f.key ELSE f.place || '/' || f.key END AS uri,
		f.created_at
	FROM kube_reports_internal.evidence_file f JOIN kube_reports.cluster c ON c.id = f.cluster_id
	WHERE f.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
		OR f.cluster_id IN (SELECT n.cluster_id FROM kube_reports_internal.caller_namespace n WHERE n.namespace = '');
COMMENT ON VIEW kube_reports.evidence
	IS 'the stored files of scans: index counts the runs of a scan; sha256 and bytes of the file as it was sent, in '
		'encoding (empty or bzip2); provider: directory, s3, http, or sender, which keeps the file itself; uri: the '
		'place of the file. Readers see it like reports of cluster scope';

CREATE FUNCTION kube_reports_internal.require_evidence(caller kube_reports_internal.caller) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	proven		text := kube_reports_internal.proven_role(caller);
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.ingest_role i WHERE i.role = proven)
		AND NOT has_table_privilege(proven, 'kube_reports.object', 'UPDATE') THEN
		RAISE EXCEPTION 'role "%" may not take what senders forward', proven
			USING ERRCODE = 'insufficient_privilege',
				HINT = format('The owner grants it: SELECT kube_reports.grant_ingest(%L)', proven);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_evidence(kube_reports_internal.caller)
	IS 'raises 42501 unless the caller may store and announce evidence';

CREATE FUNCTION kube_reports_internal.evidence_held(cluster_id integer) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT EXISTS (SELECT FROM kube_reports_internal.lane l WHERE l.cluster_id = evidence_held.cluster_id AND l.held)
$$;
COMMENT ON FUNCTION kube_reports_internal.evidence_held(integer)
	IS 'whether writes of a cluster are held. Then another database may announce the files of the cluster, and no '
		'file is removed';

CREATE FUNCTION kube_reports_internal.evidence_room(cluster_id integer) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT kube_reports.setting('evidence_bytes')::bigint
		- coalesce((SELECT sum(f.bytes) FROM kube_reports_internal.evidence_file f
			WHERE f.cluster_id = evidence_room.cluster_id AND f.place <> ''), 0)::bigint
		- coalesce((SELECT sum(b.bytes) FROM kube_reports_internal.evidence_body b
			WHERE b.cluster_id = evidence_room.cluster_id), 0)::bigint
$$;
COMMENT ON FUNCTION kube_reports_internal.evidence_room(integer)
	IS 'the number of bytes that a cluster may still store, by the setting evidence_bytes; negative if it has more. '
		'Files that senders keep do not count';

CREATE FUNCTION kube_reports_internal.api_evidence_begin(kind text, credential text, scan text, index integer,
	name text, encoding text, place text, bytes bigint, lifetime integer,
	caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
	OUT code integer, OUT message text, OUT id uuid, OUT sender text, OUT chosen_scan text, OUT key text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10s'
AS $$
DECLARE
	max_files CONSTANT integer := 100000;
	known		record;
BEGIN
	PERFORM kube_reports_internal.require_read_committed(), kube_reports_internal.require_evidence(caller);
	SELECT * INTO known FROM kube_reports_internal.known_sender(kind, credential);
	IF known.cluster_id IS NULL THEN
		code := 401;
		message := 'Unauthorized';
		RETURN;
	END IF;
	sender := known.name;
	chosen_scan := coalesce(scan, known.name);
	code := 400;
	IF chosen_scan !~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$' THEN
		message := 'the name of a scan has 1 to 63 letters, digits, dots, hyphens and underscores, and begins and ends '
			'with a letter or digit';
	ELSIF name IS NULL OR name !~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,198}[A-Za-z0-9])?$' THEN
		message := 'the name of a report has 1 to 200 letters, digits, dots, hyphens and underscores, and begins and '
			'ends with a letter or digit';
	ELSIF index < 0 THEN
		message := 'the index of a scan is not negative';
	ELSIF encoding IS NULL OR encoding NOT IN ('', 'bzip2') THEN
		message := 'the encoding is bzip2 or none';
	ELSIF kube_reports_internal.is_restoring() THEN
		code := 503;
		message := 'a restore of the database is not finished';
	ELSIF kube_reports_internal.evidence_held(known.cluster_id) THEN
		code := 503;
		message := 'writes of the cluster are held';
	ELSIF kube_reports_internal.evidence_room(known.cluster_id) < greatest(bytes, 1) THEN
		code := 507;
		message := 'the files of the cluster would have more bytes than the setting evidence_bytes allows';
	ELSIF (SELECT count(*) FROM kube_reports_internal.evidence_file f
			WHERE f.cluster_id = known.cluster_id) >= max_files THEN
		code := 507;
		message := format('the cluster has %s files, and may have no more', max_files);
	ELSE
		code := 200;
		id := gen_random_uuid();
		key := known.cluster || '/' || chosen_scan || '/' || name || '.' || id || '.xml'
			|| CASE encoding WHEN '' THEN '' ELSE '.' || encoding END;
		INSERT INTO kube_reports_internal.evidence_body (id, cluster_id, place, key, bytes, remove_after)
			VALUES (api_evidence_begin.id, known.cluster_id, api_evidence_begin.place, api_evidence_begin.key,
				greatest(api_evidence_begin.bytes, 0), now() + make_interval(secs => lifetime));
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_evidence_begin(text, text, text, integer, text, text, text, bigint,
	integer, kube_reports_internal.caller)
	IS 'begins an upload for the sender that proved a credential, and returns the key of the file. scan null: the '
		'name of the sender; index null: api_evidence_commit() chooses it; bytes: the announced size, or 0; lifetime: '
		'seconds after which a file that was not announced is removed. code: 200, or the code of a refusal, with a '
		'message. Raises 42501';

CREATE FUNCTION kube_reports_internal.evidence_index(cluster_id integer, scan text, name text, sha256 bytea)
	RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce((SELECT CASE WHEN bool_or(f.name = evidence_index.name AND f.sha256 <> evidence_index.sha256)
				THEN f.index + 1 ELSE f.index END
			FROM kube_reports_internal.evidence_file f
			WHERE f.cluster_id = evidence_index.cluster_id AND f.scan = evidence_index.scan
			GROUP BY f.index ORDER BY f.index DESC LIMIT 1), 0)
$$;
COMMENT ON FUNCTION kube_reports_internal.evidence_index(integer, text, text, bytea)
	IS 'the index of a file that was sent without one: the highest index of the scan; the next index if the highest '
		'one has another file of that name, because a run of a scan sends each name once';

CREATE FUNCTION kube_reports_internal.rotate_evidence(cluster_id integer, scan text) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH old AS (
		SELECT o.index FROM (SELECT f.index, row_number() OVER (ORDER BY max(f.created_at) DESC, f.index DESC) AS place
				FROM kube_reports_internal.evidence_file f
				WHERE f.cluster_id = rotate_evidence.cluster_id AND f.scan = rotate_evidence.scan
				GROUP BY f.index) o
			WHERE o.place > kube_reports.setting('evidence_rotation')::integer
				AND kube_reports.setting('evidence_rotation')::integer > 0
	), gone AS (
		DELETE FROM kube_reports_internal.evidence_file f
			WHERE f.cluster_id = rotate_evidence.cluster_id AND f.scan = rotate_evidence.scan
				AND f.index IN (SELECT o.index FROM old o)
			RETURNING f.body, f.cluster_id, f.place, f.key
	), left_over AS (
		INSERT INTO kube_reports_internal.evidence_body (id, cluster_id, place, key, bytes, remove_after)
			SELECT g.body, g.cluster_id, g.place, g.key, 0, now() FROM gone g WHERE g.place <> ''
	)
	SELECT count(*) FROM gone
$$;
COMMENT ON FUNCTION kube_reports_internal.rotate_evidence(integer, text)
	IS 'keeps as many indexes of a scan as the setting evidence_rotation says (0: all): those with the newest files. '
		'Marks the stored files of all other indexes for removal. Returns the number of files that are no longer '
		'announced';

CREATE FUNCTION kube_reports_internal.api_evidence_commit(kind text, credential text, id uuid, scan text,
	index integer, name text, encoding text, provider text, sha256 text, bytes bigint,
	caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
	OUT code integer, OUT message text, OUT cluster uuid, OUT chosen_index integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10s'
AS $$
DECLARE
	known		record;
	received	kube_reports_internal.evidence_body;
	digest		bytea := decode(sha256, 'hex');
	former		kube_reports_internal.evidence_file;
BEGIN
	PERFORM kube_reports_internal.require_read_committed(), kube_reports_internal.commit_durably(),
		kube_reports_internal.require_evidence(caller), kube_reports_internal.lock_store_shared();
	SELECT * INTO known FROM kube_reports_internal.known_sender(kind, credential);
	PERFORM FROM kube_reports_internal.sender_credential s WHERE s.cluster_id = known.cluster_id
		ORDER BY s.kind, s.credential FOR NO KEY UPDATE;
	DELETE FROM kube_reports_internal.evidence_body b
		WHERE b.id = api_evidence_commit.id AND b.cluster_id = known.cluster_id
		RETURNING * INTO received;
	code := 200;
	cluster := known.cluster;
	IF known.cluster_id IS NULL THEN
		code := 401;
		message := 'Unauthorized';
		RETURN;
	ELSIF received.id IS NULL THEN
		code := 409;
		message := 'the upload took too long, or the cluster is another one: the file was given up';
		RETURN;
	ELSIF kube_reports_internal.evidence_held(known.cluster_id) THEN
		code := 503;
		message := 'writes of the cluster are held';
	ELSIF kube_reports_internal.evidence_room(known.cluster_id) < bytes THEN
		code := 507;
		message := 'the files of the cluster would have more bytes than the setting evidence_bytes allows';
	ELSE
		chosen_index := coalesce(index,
			kube_reports_internal.evidence_index(known.cluster_id, scan, api_evidence_commit.name, digest));
		SELECT f.* INTO former FROM kube_reports_internal.evidence_file f
			WHERE f.cluster_id = known.cluster_id AND f.scan = api_evidence_commit.scan AND f.index = chosen_index
				AND f.name = api_evidence_commit.name;
	END IF;
	IF code = 200 AND (former.body IS NULL OR former.sha256 <> digest OR former.encoding <> encoding
			OR former.place <> received.place) THEN
		code := 201;
		DELETE FROM kube_reports_internal.evidence_file f WHERE f.body = former.body AND f.cluster_id = known.cluster_id
			AND f.scan = api_evidence_commit.scan;
		INSERT INTO kube_reports_internal.evidence_file (cluster_id, scan, index, name, body, sha256, bytes, encoding,
				provider, place, key, created_at)
			VALUES (known.cluster_id, api_evidence_commit.scan, chosen_index, api_evidence_commit.name, received.id,
				digest, api_evidence_commit.bytes, api_evidence_commit.encoding, api_evidence_commit.provider,
				received.place, received.key, clock_timestamp());
		received.id := CASE WHEN former.place <> '' THEN former.body END;
		received.place := former.place;
		received.key := former.key;
		PERFORM kube_reports_internal.rotate_evidence(known.cluster_id, api_evidence_commit.scan);
	END IF;
	-- The file to remove: the former file of this name, or this file if it is not announced.
	INSERT INTO kube_reports_internal.evidence_body (id, cluster_id, place, key, bytes, remove_after)
		SELECT received.id, known.cluster_id, received.place, received.key, 0, now() WHERE received.id IS NOT NULL;
	IF code < 300 THEN
		PERFORM kube_reports_internal.note_served(known.cluster);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_evidence_commit(text, text, uuid, text, integer, text, text, text, text,
	bigint, kube_reports_internal.caller)
	IS 'announces a stored file, by the id and the scan of api_evidence_begin(); the file replaces an earlier file of '
		'its name. Then rotates the scan. code: 201; 200 if the same file was announced before; or the code of a '
		'refusal, with a message. Raises 42501';

CREATE FUNCTION kube_reports_internal.api_evidence_find(kind text, credential text, cluster uuid, scan text,
	index integer, name text, caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
	OUT code integer, OUT sha256 text, OUT bytes bigint, OUT encoding text, OUT uri text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known		record;
BEGIN
	PERFORM kube_reports_internal.require_evidence(caller);
	SELECT * INTO known FROM kube_reports_internal.known_sender(kind, credential);
	SELECT 200, encode(f.sha256, 'hex'), f.bytes, f.encoding, f.place || '/' || f.key
		INTO code, sha256, bytes, encoding, uri
		FROM kube_reports_internal.evidence_file f
		WHERE f.cluster_id = known.cluster_id AND known.cluster = coalesce(api_evidence_find.cluster, known.cluster)
			AND f.scan = api_evidence_find.scan AND f.index = api_evidence_find.index
			AND f.name = api_evidence_find.name AND f.place <> '';
	code := coalesce(code, CASE WHEN known.cluster_id IS NULL THEN 401 ELSE 404 END);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_evidence_find(text, text, uuid, text, integer, text,
	kube_reports_internal.caller)
	IS 'a file of the cluster of a credential. code 404: there is no such file, or the argument cluster is another '
		'cluster; 401: the credential is unknown. Raises 42501';

CREATE FUNCTION kube_reports_internal.api_evidence_removals(place text,
	caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller())
	RETURNS TABLE (id uuid, key text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10s'
AS $$
#variable_conflict use_column
BEGIN
	PERFORM kube_reports_internal.require_read_committed(), kube_reports_internal.require_evidence(caller),
		kube_reports_internal.lock_store_shared();
	IF kube_reports_internal.is_restoring() THEN
		RETURN;
	END IF;
	WITH old AS (
		SELECT f.cluster_id, f.scan, f.index, f.name FROM kube_reports_internal.evidence_file f
			WHERE f.place IN (api_evidence_removals.place, '')
				AND f.created_at < now() - kube_reports.setting('evidence_retention')::interval
				AND NOT kube_reports_internal.evidence_held(f.cluster_id)
			ORDER BY f.created_at LIMIT 1000 FOR UPDATE SKIP LOCKED
	), gone AS (
		DELETE FROM kube_reports_internal.evidence_file f USING old o
			WHERE (f.cluster_id, f.scan, f.index, f.name) = (o.cluster_id, o.scan, o.index, o.name)
			RETURNING f.body, f.cluster_id, f.place, f.key
	)
	INSERT INTO kube_reports_internal.evidence_body (id, cluster_id, place, key, bytes, remove_after)
		SELECT g.body, g.cluster_id, g.place, g.key, 0, now() FROM gone g WHERE g.place <> '';
	-- From now on these files cannot be announced.
	RETURN QUERY UPDATE kube_reports_internal.evidence_body b SET cluster_id = 0, bytes = 0
		WHERE b.id IN (SELECT d.id FROM kube_reports_internal.evidence_body d
			WHERE d.place = api_evidence_removals.place AND d.remove_after <= now()
			ORDER BY d.remove_after LIMIT 1000 FOR UPDATE SKIP LOCKED)
		RETURNING b.id, b.key;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_evidence_removals(text, kube_reports_internal.caller)
	IS 'the keys of files to remove at a place, at most 1000. Files older than evidence_retention are among them and '
		'are no longer announced. Raises 42501';

CREATE FUNCTION kube_reports_internal.api_evidence_removed(place text, ids uuid[],
	caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_evidence(caller);
	DELETE FROM kube_reports_internal.evidence_body b WHERE b.id = ANY (ids) AND b.place = api_evidence_removed.place;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_evidence_removed(text, uuid[], kube_reports_internal.caller)
	IS 'deletes the rows of files that were removed from a place. Raises 42501';

CREATE FUNCTION kube_reports_internal.leave_evidence(cluster_id integer, max_rows integer) RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH gone AS (
		DELETE FROM kube_reports_internal.evidence_file f
			WHERE f.cluster_id = leave_evidence.cluster_id AND f.ctid = ANY (ARRAY(
				SELECT o.ctid FROM kube_reports_internal.evidence_file o
				WHERE o.cluster_id = leave_evidence.cluster_id LIMIT max_rows))
			RETURNING f.body, f.cluster_id, f.place, f.key
	), left_over AS (
		INSERT INTO kube_reports_internal.evidence_body (id, cluster_id, place, key, bytes, remove_after)
			SELECT g.body, g.cluster_id, g.place, g.key, 0, now() FROM gone g
			WHERE g.place <> '' AND NOT kube_reports_internal.evidence_held(leave_evidence.cluster_id)
	)
	SELECT count(*) FROM gone
$$;
COMMENT ON FUNCTION kube_reports_internal.leave_evidence(integer, integer)
	IS 'gives up files of a cluster that is being removed, at most max_rows, and returns their number. While writes '
		'of the cluster are held, its files are not removed: another database announces them';
