"""Writers: through the API at any proxy, and by SQL as the owner."""

import http.client
import json

import psycopg2

from client import JSON_PATCH, MERGE, path_of
from world import LANES, NAMES, NAMESPACES, NONCE, Nonces, document, now, some_labels

# The outcome of a write by its answer: done, not done, or not known.
OK, FAIL, UNKNOWN = "ok", "fail", "unknown"


def outcome_of(code):
    if code < 300:
        return OK
    return FAIL if code < 500 else UNKNOWN


class ApiWriter:
    """One client that writes at random, to one proxy after another."""

    def __init__(self, index, apis, records, rng):
        self.apis = apis
        self.records = records
        self.rng = rng
        self.nonces = Nonces(index + 1)
        self.known = {}         # (lane, namespace, name) -> a version that it had once

    def run(self, stop):
        while not stop.is_set():
            self.write()

    def write(self):
        rng = self.rng
        lane, namespace, name = rng.choice(LANES), rng.choice(NAMESPACES), rng.choice(NAMES)
        known = self.known.get((lane, namespace, name))
        kind = rng.choices(("create", "replace", "patch", "swap", "jsonpatch", "delete", "guarded"),
                           (30, 20, 14, 8, 4, 18, 6))[0]
        if known is None and kind in ("replace", "swap", "guarded"):
            kind = "create"
        nonce = self.nonces.take()
        labels = some_labels(rng)
        begun = now()
        version, code, compared = None, 0, None
        try:
            api = rng.choice(self.apis)
            path = path_of(lane, namespace, None if kind == "create" else name)
            if kind == "create":
                answer = api.post(path, document(lane, namespace, name, nonce, labels))
            elif kind == "replace":
                compared = known
                body = document(lane, namespace, name, nonce, labels)
                body["metadata"]["resourceVersion"] = str(known)
                answer = api.put(path, body)
            elif kind in ("patch", "swap"):
                body = document(lane, namespace, name, nonce, labels)
                body = {key: body[key] for key in body if key not in ("apiVersion", "kind")}
                del body["metadata"]["name"], body["metadata"]["namespace"]
                body["metadata"]["labels"].setdefault("size", None)
                if kind == "swap":
                    compared = known
                    body["metadata"]["resourceVersion"] = str(known)
                answer = api.patch(path, body)
            elif kind == "jsonpatch":
                field = "/summary/pass" if "policyreports" in lane else "/spec/summary/pass"
                answer = api.patch(path, [
                    {"op": "replace", "path": f"/metadata/annotations/{NONCE.replace('/', '~1')}", "value": str(nonce)},
                    {"op": "replace", "path": field, "value": nonce}], kind=JSON_PATCH)
            else:
                compared = known if kind == "guarded" else None
                body = {"preconditions": {"resourceVersion": str(known)}} if kind == "guarded" else None
                answer = api.delete(path, body)
            code = answer.code
            if code < 300 and kind not in ("delete", "guarded"):
                version = int(answer.json["metadata"]["resourceVersion"])
                self.known[lane, namespace, name] = version
        except (OSError, http.client.HTTPException):
            pass
        self.records.write("write", kind=kind, lane=lane, key=f"{namespace}/{name}", nonce=nonce,
                           begun=begun, ended=now(), code=code, outcome=outcome_of(code) if code else UNKNOWN,
                           version=version, compared=compared)


class SqlWriter:
    """
    SQL of the owner: several writes in one transaction, by DML or by functions, with pauses; sometimes rolled back.
    """

    def __init__(self, index, connection, records, rng):
        self.connection = connection
        self.records = records
        self.rng = rng
        self.nonces = Nonces(index + 1)
        self.known = {}         # (lane, namespace, name) -> a version that it had once

    def run(self, stop):
        while not stop.is_set():
            try:
                with psycopg2.connect(self.connection) as session:
                    while not stop.is_set():
                        self.write(session)
                        # The transaction blocks API writers: keep it short, so that they have their turn.
                        stop.wait(self.rng.uniform(0.1, 0.4))
            except psycopg2.Error:
                stop.wait(0.1)

    def write(self, session):
        rng = self.rng
        lane = rng.choice(LANES)
        one, most = rng.choice(((self.dml, 40), (self.function, 4)))
        writes = []
        rolled_back = rng.random() < 0.3
        begun = now()
        outcome = UNKNOWN
        try:
            with session.cursor() as cursor:
                for _ in range(rng.choice((1, 2, 3, 4, most))):
                    namespace, name = rng.choice(NAMESPACES), rng.choice(NAMES)
                    nonce = self.nonces.take()
                    made = document(lane, namespace, name, nonce, some_labels(rng))
                    done = one(cursor, lane, namespace, name, made)
                    if done is not None:
                        kind, version, compared = done
                        writes.append((kind, f"{namespace}/{name}", nonce, version, compared))
                    if rng.random() < 0.3:
                        cursor.execute("SELECT pg_sleep(%s)", (rng.uniform(0, 0.03),))
            session.rollback() if rolled_back else session.commit()
            outcome = FAIL if rolled_back else OK
        except psycopg2.Error as error:
            # A refused statement rolls back; a lost connection may have committed.
            outcome = FAIL if error.pgcode and not session.closed else UNKNOWN
            session.close()
            raise
        finally:
            for kind, key, nonce, version, compared in writes:
                self.records.write("write", kind=kind, lane=lane, key=key, nonce=nonce, begun=begun, ended=now(),
                                   code=0, outcome=outcome, version=version, compared=compared)

    def dml(self, cursor, lane, namespace, name, made):
        """Executes one statement; returns (kind, version, compared), or None when it changed nothing."""
        group, _, plural = lane.split("/")
        metadata = json.dumps(made["metadata"])
        body = json.dumps({key: made[key] for key in made if key not in ("apiVersion", "kind", "metadata")})
        kind = self.rng.choice(("sql insert", "sql update", "sql delete"))
        where = "WHERE (o.cluster_id, o.resource_type) = (SELECT l.cluster_id, l.resource_type " \
            "FROM kube_reports_internal.lane l " \
            "JOIN kube_reports.resource_type t ON t.id = l.resource_type WHERE t.\"group\" = %s AND t.plural = %s) " \
            "AND o.namespace = %s AND o.name = %s"
        if kind == "sql insert":
            cursor.execute(
                "INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body) "
                "SELECT l.cluster_id, l.resource_type, %s, %s, %s::text::kube_reports.report, "
                           "%s::text::kube_reports.report "
                "FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type "
                "WHERE t.\"group\" = %s AND t.plural = %s ON CONFLICT DO NOTHING RETURNING version",
                (namespace, name, metadata, body, group, plural))
        elif kind == "sql update":
            cursor.execute(
                "UPDATE kube_reports.object o SET metadata = %s::text::kube_reports.report, "
                "body = %s::text::kube_reports.report " + where + " RETURNING version",
                (metadata, body, group, plural, namespace, name))
        else:
            cursor.execute("DELETE FROM kube_reports.object o " + where + " RETURNING version",
                           (group, plural, namespace, name))
        row = cursor.fetchone()
        return row and (kind, row[0] if kind != "sql delete" else None, None)

    def function(self, cursor, lane, namespace, name, made):
        """Makes one call, which holds the lane's lock to the end of the transaction; returns the same as dml()."""
        group, _, plural = lane.split("/")
        known = self.known.get((lane, namespace, name))
        kind = self.rng.choice(("sql create", "sql swap", "sql patch", "sql delete"))
        if known is None and kind == "sql swap":
            kind = "sql create"
        cluster = "(SELECT c.uid FROM kube_reports.cluster c)"
        cursor.execute("SAVEPOINT call")
        try:
            if kind == "sql delete":
                cursor.execute(f"SELECT kube_reports.delete_report({cluster}, %s, %s, %s)",
                               (f"{plural}.{group}", namespace, name))
                return kind, None, None
            if kind == "sql patch":
                patch = {key: made[key] for key in made if key not in ("apiVersion", "kind")}
                patch["metadata"] = {key: made["metadata"][key] for key in ("labels", "annotations")}
                patch["metadata"]["labels"].setdefault("size", None)
                cursor.execute(f"SELECT kube_reports.patch_report({cluster}, %s, %s, %s, %s::jsonb)::text::jsonb",
                               (f"{plural}.{group}", namespace, name, json.dumps(patch)))
            else:
                call = "create_report" if kind == "sql create" else "replace_report"
                if kind == "sql swap":
                    made["metadata"]["resourceVersion"] = str(known)
                cursor.execute(f"SELECT kube_reports.{call}({cluster}, %s::text::kube_reports.report)::text::jsonb",
                               (json.dumps(made),))
            version = int(cursor.fetchone()[0]["metadata"]["resourceVersion"])
        except psycopg2.Error as error:
            if not (error.pgcode or "").startswith("KR"):
                raise
            cursor.execute("ROLLBACK TO call")
            return None
        self.known[lane, namespace, name] = version
        return kind, version, known if kind == "sql swap" else None
