"""Mutants: each changes functions of the test's database so that they break a promise, and the checker must find that.

A mutant replaces a piece of text in a function of the database.  If the function no longer has that text, the mutant
fails.
"""

import re

from conftest import VARIANT


def replace(database, function, *pairs, name="kube_reports"):
    """Redefines the one function of a name with pieces of its text replaced; line breaks in the text do not matter."""
    text = database.psql(f"SELECT pg_get_functiondef('{function}'::regproc)", database=name)
    for old, new in pairs:
        place = r"\s+".join(re.escape(word) for word in old.split())
        text, count = re.subn(place, lambda _, new=new: new, text)
        assert count >= 1, f"{function} has no {old!r} any more"
    database.psql(text, database=name)


BATCH = "kube_reports_internal.commit_decided"
GUARD = ("IF first_version <= newest THEN", "IF false THEN")
API_LIST = "kube_reports_internal.api_list"
API_CHANGES = "kube_reports_internal.api_read_changes" if VARIANT == "sql" else "kube_reports_internal.api_changes"
LIST_WINDOW = "kube_reports_internal.list_window"


def no_lane_lock(database):
    replace(database, BATCH, ("PERFORM kube_reports_internal.lock_lane(commit_decided.lane);", ""), GUARD)


def released_before_visible(database):
    replace(database, BATCH,
            # A batch that failed before has kept the lock of the session.
            ("PERFORM kube_reports_internal.lock_lane(commit_decided.lane);",
             "PERFORM pg_advisory_unlock_all(); PERFORM pg_advisory_lock(kube_reports_internal.lock_class(), "
             "commit_decided.lane);"),
            ("PERFORM set_config('kube_reports_internal.api_write', '', true);",
             "PERFORM set_config('kube_reports_internal.api_write', '', true);"
             "PERFORM pg_advisory_unlock(kube_reports_internal.lock_class(), commit_decided.lane); "
             "PERFORM pg_sleep(0.005);"),
            GUARD)


def lock_after_nextval(database):
    replace(database, BATCH,
            ("PERFORM kube_reports_internal.lock_lane(commit_decided.lane);", ""),
            ("PERFORM set_config('kube_reports_internal.api_write', '', true);",
             "PERFORM set_config('kube_reports_internal.api_write', '', true); PERFORM "
             "kube_reports_internal.lock_lane(commit_decided.lane);"), GUARD)


def snapshot_before_lock(database):
    """The statement that decides takes the lock, so its snapshot is older than the lock."""
    replace(database, BATCH,
            ("PERFORM kube_reports_internal.lock_lane(commit_decided.lane);", ""),
            ("WITH item AS MATERIALIZED (",
             "WITH locked AS MATERIALIZED (SELECT kube_reports_internal.lock_lane(commit_decided.lane)), "
             "item AS MATERIALIZED ("),
            ("FROM ROWS FROM (unnest(", "FROM locked, ROWS FROM (unnest("),
            # Hold the lock longer, so that other writers wait for it.
            ("PERFORM set_config('kube_reports_internal.api_write', '', true);",
             "PERFORM set_config('kube_reports_internal.api_write', '', true); PERFORM pg_sleep(0.01);"))


def cached_sequence(database):
    replace(database, BATCH, GUARD)
    database.psql("ALTER SEQUENCE kube_reports_internal.version_seq CACHE 20")


def volatile_list(database):
    """The list's version and its rows come from two snapshots."""
    for function in (API_LIST, LIST_WINDOW):
        database.psql(f"ALTER FUNCTION {function} VOLATILE")
    replace(database, API_LIST,
            ("IF place IS NOT NULL THEN\n\t\tat_version",
             "PERFORM pg_sleep(0.01);\n\tIF place IS NOT NULL THEN\n\t\tat_version"))


def glued_cursor(database):
    """Keys are compared as one text instead of as a pair."""
    for function in (API_LIST, LIST_WINDOW):
        replace(database, function,
                ("(o.namespace, o.name) > (after_namespace, after_name)",
                 "o.namespace || o.name > after_namespace || after_name"))


def silent_compaction(database):
    """Compaction deletes rows and does not raise the floor, so no client is told."""
    replace(database, "kube_reports_internal.compact",
            ("UPDATE kube_reports_internal.lane l SET floor = greatest(l.floor, this.new_floor) "
             "WHERE l.id = this.lane;", ""))


def hasty_compaction(database):
    """Compaction deletes changes that are younger than the retention."""
    replace(database, "kube_reports_internal.compact",
            ("clock_timestamp() - kube_reports.setting('log_retention')::interval",
                                                        "clock_timestamp() - interval '1 second'"))


def truncating_compaction(database):
    """
    Compaction truncates the log and inserts the remaining rows again.  A reader with an older snapshot finds no rows,
    and sees the old floor.
    """
    replace(database, "kube_reports_internal.compact",
            ("DELETE FROM kube_reports_internal.change c WHERE c.lane = this.lane AND c.version > this.floor AND "
             "c.version <= this.new_floor;", ""),
            ("RETURN more;", """
             LOCK TABLE kube_reports_internal.change;
             CREATE TEMP TABLE kept ON COMMIT DROP AS
                 SELECT c.* FROM kube_reports_internal.change c JOIN kube_reports_internal.lane l ON l.id = c.lane
                     WHERE c.version > l.floor;
             ALTER TABLE kube_reports_internal.change DISABLE TRIGGER USER;
             TRUNCATE kube_reports_internal.change;
             INSERT INTO kube_reports_internal.change SELECT * FROM kept;
             ALTER TABLE kube_reports_internal.change ENABLE TRIGGER USER;
             RETURN more;"""))


def unfounded_end(database):
    """Streams are sometimes told that the log no longer has their position, although it has."""
    replace(database, API_CHANGES,
            ("IF NOT FOUND OR", "IF NOT FOUND OR random() < 0.1 OR"))


def eager_position(database):
    """Readers take the value of the sequence for the newest version, although that change may not be visible yet."""
    replace(database, "kube_reports_internal.api_poll",
            ("coalesce(c.version, a.floor, 0)",
             "coalesce((SELECT last_value FROM kube_reports_internal.version_seq), c.version)"))
    replace(database, "kube_reports_internal.lane_version",
            ("RETURN coalesce(", "RETURN coalesce((SELECT last_value FROM kube_reports_internal.version_seq), "))
    replace(database, BATCH, GUARD)


def forgotten_old_state(database):
    """A modification is logged with an old state that is not the state that it replaced."""
    replace(database, BATCH, ("n.namespace, n.name, written_at, coalesce(n.actor, session_user), n.old_version, "
                              "n.old_metadata",
                              "n.namespace, n.name, written_at, coalesce(n.actor, session_user), n.old_version, "
                              "CASE WHEN n.action = 'u' THEN n.metadata ELSE n.old_metadata END"))


def quiet_restore(database, name):
    """After a restore, versions continue from the dump, and no floor is raised."""
    replace(database, "kube_reports.after_restore",
            ("RETURN kube_reports.new_incarnation(true);", "RETURN 0;"), name=name)


def slow_compaction(database):
    """A floor is set long before it is visible: readers in between are served correctly."""
    replace(database, "kube_reports_internal.compact",
            ("RETURN more;", "PERFORM pg_sleep(5);\n\tRETURN more;"))


# Mutants that only change times: the checker must find nothing.
HARMLESS = {"slow-compaction": slow_compaction}

# Mutants of databases that are restored during the run.
RESTORE_MUTANTS = {"quiet-restore": quiet_restore}

MUTANTS = {mutant.__name__.replace("_", "-"): mutant for mutant in (
    no_lane_lock, lock_after_nextval, snapshot_before_lock, cached_sequence, released_before_visible,
    volatile_list, glued_cursor,
    silent_compaction, hasty_compaction, truncating_compaction, unfounded_end, eager_position, forgotten_old_state)}
