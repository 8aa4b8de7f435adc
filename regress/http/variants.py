"""Servers with one variant of the extension each, without proxies."""

import json

import psycopg2

from conftest import Database, stack_command

CLUSTER = "3b241101-e2bb-4255-8caf-4136c566a962"


class Server(Database):
    """A server with one variant, and the roles of a stack."""

    def __init__(self, variant):
        self.variant = variant
        self.directory = stack_command("server_directory")
        self.started = False
        try:
            stack_command("server_install", self.directory, f"VARIANT={variant}")
            self.start()
            self.prepare(CLUSTER)
        except BaseException:
            self.remove()
            raise

    def rows(self, query, *arguments, user="kube_reports_owner", database="kube_reports"):
        """Returns the rows of a query."""
        connection = psycopg2.connect(self.connection(user, database))
        with connection, connection.cursor() as cursor:
            cursor.execute(query, arguments)
            found = cursor.fetchall()
        connection.close()
        return found

    def attempt(self, calls, user="kube_reports_owner"):
        """Returns the result of public.attempt() for each call (expression, arguments)."""
        return [row[1] for row in self.rows(
            "SELECT c->>0, public.attempt(c->>0, ARRAY(SELECT jsonb_array_elements_text(c->1))) "
            "FROM jsonb_array_elements(%s) WITH ORDINALITY e(c, n) ORDER BY n", json.dumps(calls), user=user)]


def both_variants():
    """Makes a server with each variant; yields the servers, and removes them afterwards."""
    made = []
    try:
        for variant in ("c", "sql"):
            made.append(Server(variant))
        yield made
    finally:
        for server in made:
            server.remove()
