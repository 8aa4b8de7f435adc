#!/bin/sh
# The bundled database: makes it when there is none, then becomes the server.
set -eu

if ! command -v initdb >/dev/null; then
	for directory in /usr/lib/postgresql/*/bin; do
		PATH=$directory:$PATH
	done
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	# Start again from nothing after an interrupted start.
	rm -rf "$PGDATA.new"
	initdb -D "$PGDATA.new" --username=postgres --pwfile=/etc/kube-reports/superuser/password \
		--encoding=UTF8 --locale=C.UTF-8 --data-checksums --auth-local=peer --auth-host=scram-sha-256
	echo "CREATE DATABASE \"$DATABASE_NAME\"" | postgres --single -D "$PGDATA.new" postgres >/dev/null
	mv "$PGDATA.new" "$PGDATA"
fi
# The volume of an earlier installation has the password of that installation.
password=$(sed "s/'/''/g" /etc/kube-reports/superuser/password)
echo "ALTER ROLE postgres PASSWORD '$password'" | postgres --single -D "$PGDATA" postgres >/dev/null
# The server reads a renewed certificate when it reloads its settings.
(while sleep 3600 && pg_ctl reload -s -D "$PGDATA"; do :; done) &
exec postgres -D "$PGDATA" -c hba_file=/etc/kube-reports/scripts/pg_hba.conf "$@"
