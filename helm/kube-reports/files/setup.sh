#!/bin/sh
# Waits for the database, then runs database.sql in it.
set -eu

# A Secret that was made from a file ends with a line end.  The proxies remove it in the same way (pg_environment.c).
cr=$(printf '\r')
for variable in PGHOST PGHOSTADDR PGPORT PGDATABASE PGUSER PGPASSWORD PGSSLMODE PGOPTIONS PGTARGETSESSIONATTRS \
	PGCHANNELBINDING PROXY_PASSWORD; do
	eval "value=\${$variable-}"
	# The substitution takes the line ends away.
	value=$(printf %s "$value")
	value=${value%"$cr"}
	[ -z "$value" ] || export "$variable=$value"
done

CLUSTER_ID=${CLUSTER_ID:-$(cat /tmp/cluster-id)}
until message=$(psql -X -A -t -q -d "$SETUP_DATABASE" -c 'SELECT 1' 2>&1); do
	echo "waiting for the database: $message" >&2
	sleep 2
done
exec psql -X -q -d "$SETUP_DATABASE" -v cluster="$CLUSTER_ID" -v owner="$OWNER_ROLE" -v proxy="$PROXY_ROLE" \
	-v reader="$READER_ROLE" -v admin="$ADMIN_ROLE" -v update="$UPDATE_EXTENSION" -v ingest="$INGEST" \
	-f "$(dirname "$0")/database.sql"
