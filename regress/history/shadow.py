"""The shadow log: triggers copy every change of the log into a table that is never compacted."""

import bisect
from collections import defaultdict

import psycopg2

from world import LANES, NONCE

INSTALL = """
CREATE SCHEMA shadow;
CREATE TABLE shadow.change (lane text, version bigint, operation "char", key text, at timestamptz, old_version bigint,
	old_metadata text);
CREATE TABLE shadow.floor (lane text, old_floor bigint, new_floor bigint, at timestamptz);

CREATE FUNCTION shadow.lane_name(lane integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
	SELECT format('%s/%s/%s', t."group", v.version, t.plural)
	FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type
		JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id AND v.priority = 1
	WHERE l.id = $1
$$;
CREATE FUNCTION shadow.keep() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO shadow.change SELECT shadow.lane_name(c.lane), c.version, c.operation, c.namespace || '/' || c.name,
		c.at, c.old_version, c.old_metadata::text FROM logged c;
	RETURN NULL;
END $$;
CREATE TRIGGER shadow AFTER INSERT ON kube_reports_internal.change REFERENCING NEW TABLE AS logged
	FOR EACH STATEMENT EXECUTE FUNCTION shadow.keep();
CREATE FUNCTION shadow.keep_floor() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO shadow.floor VALUES (shadow.lane_name(NEW.id), OLD.floor, NEW.floor, clock_timestamp());
	RETURN NULL;
END $$;
CREATE TRIGGER shadow AFTER UPDATE OF floor ON kube_reports_internal.lane
	FOR EACH ROW EXECUTE FUNCTION shadow.keep_floor();
"""

NANOSECONDS = "(extract(epoch FROM at) * 1000000)::bigint * 1000"


class Change:
    """
    version: the place of the change in the order.  shown: the version of the object after the change; it differs from
    version when a restore has changed the object.
    """

    __slots__ = ("version", "operation", "key", "at", "old_version", "old_nonce", "old_labels", "nonce", "labels",
                 "shown", "restored")

    def __init__(self, version, operation, key, at, old_version, old_metadata):
        self.version = self.shown = version
        self.operation = operation
        self.key = key
        self.at = at
        self.old_version = old_version
        self.old_nonce, self.old_labels = nonce_and_labels(old_metadata)
        self.nonce = self.labels = None
        self.restored = False


def nonce_and_labels(metadata):
    if metadata is None:
        return None, None
    return int(metadata["annotations"][NONCE]), metadata.get("labels", {})


class Restore:
    """A dump has replaced a database: a new life begins at the version base, with the state of the dump's versions."""

    def __init__(self, base, at, dumped):
        self.base = base        # None: no floor was raised
        self.at = at
        self.dumped = dumped


class LaneHistory:
    """All changes of a lane, in the order of versions; over several lives, when dumps were restored."""

    def __init__(self):
        self.changes = []
        self.versions = []
        self.of_key = defaultdict(list)         # with the changes by restores
        self.key_versions = defaultdict(list)
        self.by_version = {}
        self.floors = []        # (at, old floor, new floor), in the order of time
        self.restores = []
        self.stored = {}        # the state at the end of the last life

    def _append(self, change):
        self.of_key[change.key].append(change)
        self.key_versions[change.key].append(change.version)

    def add_life(self, changes, floors, stored, dumped=None):
        """dumped: the version of the dump with which this life began; None: the life began empty."""
        if dumped is not None:
            self._restore(dumped, floors)
        of_key = defaultdict(list)
        for change in changes:
            of_key[change.key].append(change)
        for key, of_this in of_key.items():
            for change, following in zip(of_this, of_this[1:]):
                change.nonce, change.labels = following.old_nonce, following.old_labels
            if key in stored:
                _, of_this[-1].nonce, of_this[-1].labels = stored[key]
        for change in changes:
            self.changes.append(change)
            self.versions.append(change.version)
            self.by_version[change.version] = change
            self._append(change)
        self.floors += floors
        self.stored = stored

    def _restore(self, dumped, floors):
        base, at = (floors[0][2], floors[0][0]) if floors else (None, None)
        self.restores.append(Restore(base, at, dumped))
        if base is None:
            return
        for key, of_key in self.of_key.items():
            was, dump = of_key[-1], self.at(key, dumped)
            if (dump is None and was.operation == "D" or dump is not None and dump.shown == was.shown
                and was.operation != "D"):
                continue
            change = Change(base, "M" if dump is not None else "D", key, at, None, None)
            change.restored = True
            if dump is not None:
                change.shown, change.nonce, change.labels = dump.shown, dump.nonce, dump.labels
            self._append(change)

    def between(self, after, upto):
        return self.changes[bisect.bisect_right(self.versions, after):bisect.bisect_right(self.versions, upto)]

    def at(self, key, version):
        """Returns the change that made the state of a key at a version, or None."""
        place = bisect.bisect_right(self.key_versions.get(key, []), version)
        if place == 0:
            return None
        change = self.of_key[key][place - 1]
        return None if change.operation == "D" else change

    def state(self, version):
        """Returns the state at a version: key -> change."""
        found = {}
        for key in self.of_key:
            change = self.at(key, version)
            if change is not None:
                found[key] = change
        return found


class Life:
    """
    A database that was in use: its connection, and the versions of the dump with which it began (lane -> version), or
    None.
    """

    def __init__(self, database, dumped=None):
        self.database = database
        self.dumped = dumped


def install(database, name="kube_reports"):
    database.psql(INSTALL, database=name)


def read(database, lives):
    """Returns lane -> LaneHistory.  The state that a change made is the old state of the next one, or is stored now."""
    histories = {lane: LaneHistory() for lane in LANES}
    for life in lives:
        with psycopg2.connect(database.connection(database=life.database)) as session, session.cursor() as cursor:
            session.set_session(isolation_level="REPEATABLE READ")
            for lane, history in histories.items():
                cursor.execute(f"SELECT version, operation, key, {NANOSECONDS}, old_version, old_metadata::jsonb FROM "
                               "shadow.change "
                               "WHERE lane = %s ORDER BY version", (lane,))
                changes = [Change(*row) for row in cursor]
                cursor.execute(f"SELECT {NANOSECONDS}, old_floor, new_floor FROM shadow.floor WHERE lane = %s ORDER BY "
                               "at", (lane,))
                floors = cursor.fetchall()
                group, _, plural = lane.split("/")
                cursor.execute("SELECT o.namespace || '/' || o.name, o.version, o.metadata::text::jsonb FROM "
                               "kube_reports.object o "
                               "JOIN kube_reports.resource_type t ON t.id = o.resource_type WHERE t.\"group\" = %s AND "
                               "t.plural = %s",
                               (group, plural))
                stored = {key: (version, *nonce_and_labels(metadata)) for key, version, metadata in cursor}
                history.add_life(changes, floors, stored, life.dumped and life.dumped[lane])
    return histories
