"""The shadow log: a copy of everything that was ever logged, kept by triggers where no compaction reaches it."""

import bisect
from collections import defaultdict

import psycopg2

from world import LANES, NONCE

INSTALL = """
CREATE SCHEMA shadow;
CREATE TABLE shadow.change (lane text, version bigint, operation "char", key text, at timestamptz, old_version bigint,
	old_metadata text, incarnation int);
CREATE TABLE shadow.floor (lane text, old_floor bigint, new_floor bigint, lost int8multirange, at timestamptz, incarnation int);
CREATE TABLE shadow.incarnation (n int);
INSERT INTO shadow.incarnation VALUES (0);

CREATE FUNCTION shadow.lane_name(lane integer) RETURNS text LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
	SELECT format('%s/%s/%s', t."group", v.version, t.plural)
	FROM kube_reports.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type
		JOIN kube_reports.resource_version v ON v.resource_type = t.id AND v.priority = 1
	WHERE l.id = $1
$$;
CREATE FUNCTION shadow.keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO shadow.change SELECT shadow.lane_name(c.lane), c.version, c.operation, c.namespace || '/' || c.name, c.at,
		c.old_version, c.old_metadata::text, i.n FROM logged c, shadow.incarnation i;
	RETURN NULL;
END $$;
CREATE TRIGGER shadow AFTER INSERT ON kube_reports.change REFERENCING NEW TABLE AS logged
	FOR EACH STATEMENT EXECUTE FUNCTION shadow.keep();
CREATE FUNCTION shadow.keep_floor() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO shadow.floor SELECT shadow.lane_name(NEW.id), OLD.floor, NEW.floor, NEW.lost, clock_timestamp(), i.n
		FROM shadow.incarnation i;
	RETURN NULL;
END $$;
CREATE TRIGGER shadow AFTER UPDATE OF floor, lost ON kube_reports.lane
	FOR EACH ROW EXECUTE FUNCTION shadow.keep_floor();
"""

NANOSECONDS = "(extract(epoch FROM at) * 1000000)::bigint * 1000"


class Change:
    __slots__ = ("version", "operation", "key", "at", "old_version", "old_nonce", "old_labels", "nonce", "labels")

    def __init__(self, version, operation, key, at, old_version, old_metadata):
        self.version = version
        self.operation = operation
        self.key = key
        self.at = at
        self.old_version = old_version
        self.old_nonce, self.old_labels = nonce_and_labels(old_metadata)
        self.nonce = self.labels = None


def nonce_and_labels(metadata):
    if metadata is None:
        return None, None
    return int(metadata["annotations"][NONCE]), metadata.get("labels", {})


class LaneHistory:
    """All that happened in a lane, in the order of versions."""

    def __init__(self, changes, floors):
        self.changes = changes
        self.versions = [change.version for change in changes]
        self.of_key = defaultdict(list)
        for change in changes:
            self.of_key[change.key].append(change)
        self.key_versions = {key: [change.version for change in of_key] for key, of_key in self.of_key.items()}
        self.by_version = {change.version: change for change in changes}
        self.floors = floors    # (at, old floor, new floor), in the order of time

    def between(self, after, upto):
        return self.changes[bisect.bisect_right(self.versions, after):bisect.bisect_right(self.versions, upto)]

    def at(self, key, version):
        """The change that made what the key is at a version, or None."""
        place = bisect.bisect_right(self.key_versions.get(key, []), version)
        if place == 0:
            return None
        change = self.of_key[key][place - 1]
        return None if change.operation == "D" else change

    def state(self, version):
        """Everything at a version: key -> change."""
        found = {}
        for key in self.of_key:
            change = self.at(key, version)
            if change is not None:
                found[key] = change
        return found


def install(database):
    database.psql(INSTALL)


def read(connection):
    """lane -> LaneHistory.  What a change made is what the next change of the key found, or what is stored now."""
    with psycopg2.connect(connection) as session, session.cursor() as cursor:
        session.set_session(isolation_level="REPEATABLE READ")
        histories = {}
        for lane in LANES:
            cursor.execute(f"SELECT version, operation, key, {NANOSECONDS}, old_version, old_metadata::jsonb FROM shadow.change "
                           "WHERE lane = %s ORDER BY version", (lane,))
            changes = [Change(*row) for row in cursor]
            cursor.execute(f"SELECT {NANOSECONDS}, old_floor, new_floor FROM shadow.floor WHERE lane = %s ORDER BY at", (lane,))
            history = LaneHistory(changes, cursor.fetchall())
            group, _, plural = lane.split("/")
            cursor.execute("SELECT o.namespace || '/' || o.name, o.version, o.metadata::text::jsonb FROM kube_reports.object o "
                           "JOIN kube_reports.resource_type t ON t.id = o.resource_type WHERE t.\"group\" = %s AND t.plural = %s",
                           (group, plural))
            history.stored = {key: (version, *nonce_and_labels(metadata)) for key, version, metadata in cursor}
            for key, of_key in history.of_key.items():
                for change, following in zip(of_key, of_key[1:]):
                    change.nonce, change.labels = following.old_nonce, following.old_labels
                if key in history.stored:
                    _, of_key[-1].nonce, of_key[-1].labels = history.stored[key]
            histories[lane] = history
        return histories
