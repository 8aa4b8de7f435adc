#!/bin/bash
# The pieces of a stack: a PostgreSQL server, certificates, a proxy process.
#
# Sourced by the scripts behind make up, make check and make bench; tests call single functions:
#   .ci/stack.sh server_start DIR ''
#
# PostgreSQL refuses to run as root.  As root, servers and proxies run as user postgres, otherwise as the caller.
# A server directory DIR belongs to that user and holds data/, dest/ (the extension and the proxy, installed there),
# log/ and the server's socket; its mode keeps everybody else out.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PG_CONFIG=${PG_CONFIG:-pg_config}

if [ "$(id -u)" = 0 ]; then
	server_user=postgres
else
	server_user=$(id -un)
fi

# The process whose command line names PID_FILE: process_of PID_FILE prints its id, and fails when there is none.
process_of()
{
	local pid
	pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] &&
		{ tr '\0' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -qxF -e "--pid-file=$1" && echo "$pid"
}

# Runs a command as the user of the servers.
as_server()
{
	(become_server "$@")
}

# The same, in place of this shell: no process stays in between.
become_server()
{
	if [ "$server_user" = "$(id -un)" ]; then
		exec "$@"
	else
		# That user may not be able to enter this directory; every path is absolute.
		cd /
		exec setpriv --reuid "$server_user" --regid "$server_user" --init-groups -- "$@"
	fi
}

fail()
{
	echo "$*" >&2
	exit 1
}

# A throw-away server directory.
server_directory()
{
	local dir
	dir=$(mktemp -d "${TMPDIR:-/tmp}/kube-reports-XXXXXX")
	chown "$server_user" "$dir"
	echo "$dir"
}

# How this PostgreSQL finds extensions outside its own directories: the name of the setting, or nothing.
# Debian patches its servers to have one; PostgreSQL 18 has one by itself.
server_extension_setting()
{
	"$($PG_CONFIG --bindir)/postgres" --describe-config | cut -f1 | grep -xE 'extension_destdir|extension_control_path'
}

# The programs of the server in DIR: a server that finds no extensions elsewhere is copied to where they are installed.
server_bindir()
{
	local bindir
	bindir=$($PG_CONFIG --bindir)
	if [ -x "$1/dest$bindir/postgres" ]; then
		echo "$1/dest$bindir"
	else
		echo "$bindir"
	fi
}

# Installs what make built: server_install DIR [make variable ...]
server_install()
{
	local dir=$1 tree
	shift
	tree=$(dirname "$($PG_CONFIG --bindir)")
	if [ ! -e "$dir/dest$tree" ] && ! server_extension_setting >/dev/null; then
		mkdir -p "$dir/dest$tree"
		cp -a "$tree/." "$dir/dest$tree/"
	fi
	make -C "$top" --no-print-directory -s install DESTDIR="$dir/dest" prefix=/usr "$@"
	# The tree may be made under a strict umask.
	chmod -R go+rX "$dir/dest"
}

# Whether the server in DIR runs.
# A process that was killed may be there until its parent has waited for it; its number may be another process's by now.
server_runs()
{
	local dir=$1 pid
	pid=$(head -n 1 "$dir/data/postmaster.pid" 2>/dev/null) && [ -n "$pid" ] &&
		[ "$(as_server readlink "/proc/$pid/cwd" 2>/dev/null)" = "$(cd "$dir/data" && pwd -P)" ]
}

# After a kill of the first process of the server in DIR: waits until the others are gone.
# No server starts there before.
server_await_end()
{
	local dir=$1 segment deadline=$((SECONDS + 60))
	[ -e "$dir/data/postmaster.pid" ] || return 0
	# The seventh line has key and id of a segment of shared memory that all of them are attached to.
	segment=$(sed -n '7s/.* //p' "$dir/data/postmaster.pid")
	while [ -n "$segment" ] &&
		awk -v id="$segment" '$2 == id && $7 > 0 { found = 1 } END { exit !found }' /proc/sysvipc/shm; do
		[ $SECONDS -lt $deadline ] || fail "processes of the server in $dir that was killed do not end"
		read -r -t 0.05 <> <(:) || true
	done
	rm -f "$dir/data/postmaster.pid"
}

# Starts the server in DIR, made when there is none: server_start DIR PORT [setting ...].
# PORT '' listens on the socket alone.  SERVER_PROGRAM is run as the server in the place of PostgreSQL's program.
server_start()
(
	local dir=$1 port=$2 bindir
	shift 2
	bindir=$(server_bindir "$dir")
	chmod 700 "$dir"
	cd "$dir"
	if server_runs "$dir"; then
		return 0
	fi
	server_await_end "$dir"
	if [ ! -e "$dir/data/PG_VERSION" ]; then
		as_server "$bindir/initdb" -D "$dir/data" -U postgres -E UTF8 --locale=C.UTF-8 -A trust --no-sync \
			>"$dir/initdb.out" || { cat "$dir/initdb.out" >&2; return 1; }
		# A process that may enter this directory may be any database user; over TCP PostgreSQL asks for a password.
		as_server tee "$dir/data/pg_hba.conf" >/dev/null <<-HBA
			local all all trust
			local replication all trust
			host all all 127.0.0.1/32 scram-sha-256
		HBA
		echo "include 'stack.conf'" | as_server tee -a "$dir/data/postgresql.conf" >/dev/null
	fi
	{
		echo "unix_socket_directories = '$dir'"
		if [ -n "$port" ]; then
			echo "listen_addresses = '127.0.0.1'"
			echo "port = $port"
		else
			echo "listen_addresses = ''"
		fi
		case $(server_extension_setting) in
			extension_destdir)
				echo "extension_destdir = '$dir/dest'" ;;
			extension_control_path)
				echo "extension_control_path = '$dir/dest$($PG_CONFIG --sharedir):\$system'"
				echo "dynamic_library_path = '$dir/dest$($PG_CONFIG --pkglibdir):\$libdir'" ;;
		esac
		echo "log_line_prefix = '%m [%p] %q%u@%d '"
		echo "max_connections = 200"
		for setting in "$@"; do
			echo "$setting"
		done
	} | as_server tee "$dir/data/stack.conf" >/dev/null
	as_server mkdir -p "$dir/log"
	as_server "$bindir/pg_ctl" start -s -w -t 60 -D "$dir/data" -l "$dir/log/postgresql.log" \
		${SERVER_PROGRAM:+-p "$SERVER_PROGRAM"} ||
		{ tail -n 20 "$dir/log/postgresql.log" >&2; return 1; }
)

# Stops it; quiet when it does not run: server_stop DIR [smart|fast|immediate]
server_stop()
(
	local dir=$1 bindir
	bindir=$(server_bindir "$dir")
	[ -e "$dir/data/postmaster.pid" ] || return 0
	cd "$dir"
	server_runs "$dir" || return 0
	as_server "$bindir/pg_ctl" stop -s -w -t 60 -m "${2:-fast}" -D "$dir/data"
)

server_version()
{
	$PG_CONFIG --version
}

# Roles, database, extension, grants, all once: server_database DIR PORT CLUSTER_ID.  With INSTALL_WAY=plain and
# VARIANT=sql, the plain script in the place of the extension.  CLUSTER_ID '' makes no grants.
server_database()
{
	local dir=$1 port=$2 cluster=$3
	psql_as()
	{
		psql -X -q -v ON_ERROR_STOP=1 -h "$dir" -p "$port" -U "$1" -d "$2"
	}
	psql_as postgres postgres <<-'SQL'
		SELECT format('CREATE ROLE %I LOGIN', role)
		FROM unnest(ARRAY['kube_reports_owner', 'kube_reports_proxy', 'kube_reports_reader', 'kube_reports_admin']) role
		WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec
		SELECT 'CREATE DATABASE kube_reports OWNER kube_reports_owner'
		WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'kube_reports') \gexec
		ALTER ROLE kube_reports_reader SET statement_timeout = '60s';
		ALTER ROLE kube_reports_reader SET jit = off;
	SQL
	# A reader that holds the store's advisory locks would stop writes to the store.
	psql_as postgres kube_reports <<-'SQL'
		SELECT format('REVOKE EXECUTE ON FUNCTION %1$s FROM PUBLIC; '
			'GRANT EXECUTE ON FUNCTION %1$s TO kube_reports_owner, kube_reports_admin', f)
		FROM (SELECT p.oid::regprocedure FROM pg_proc p WHERE p.proname ~ '^pg_(try_)?advisory_') l(f) \gexec
	SQL
	if [ "${INSTALL_WAY:-}" = plain ]; then
		make -C "$top" --no-print-directory -s plain
		psql_as kube_reports_owner kube_reports >/dev/null <<-SQL
			SELECT to_regnamespace('kube_reports_internal') IS NULL AS missing \\gset
			\\if :missing
			\\i $top/sql/build/plain/kube_reports--install.sql
			\\endif
		SQL
	else
		psql_as kube_reports_owner kube_reports \
			<<<'SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS kube_reports'
	fi
	[ -n "$cluster" ] || return 0
	psql_as kube_reports_owner kube_reports >/dev/null <<-SQL
		SET client_min_messages = warning;
		SELECT kube_reports.grant_proxy('kube_reports_proxy', '$cluster'::uuid);
		SELECT kube_reports.grant_reader('kube_reports_reader');
		SELECT kube_reports.grant_admin('kube_reports_admin');
	SQL
}

# A local CA, a serving certificate and an administrator's: certificates DIR
certificates()
{
	local dir=$1
	mkdir -p "$dir"
	if ! openssl x509 -checkend 86400 -noout -in "$dir/ca.crt" >/dev/null 2>&1; then
		rm -f "$dir"/*.crt "$dir"/*.key
		(
			umask 077
			openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
				-subj '/CN=kube-reports local CA' -addext 'keyUsage=critical,keyCertSign,cRLSign' \
				-keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
		)
	fi
	# kube-apiserver asks for the last name, for a Service kube-reports in a namespace of that name.
	certificate "$dir" serving /CN=kube-reports-proxy serverAuth \
		'DNS:localhost,IP:127.0.0.1,IP:::1,DNS:kube-reports.kube-reports.svc'
	certificate "$dir" admin /O=system:masters/CN=kube-reports-admin clientAuth
}

# One certificate of that CA, unless it is there: certificate DIR NAME SUBJECT serverAuth|clientAuth [NAMES]
certificate()
{
	local dir=$1 name=$2 subject=$3 usage=$4 names=${5:-}
	openssl x509 -checkend 86400 -noout -in "$dir/$name.crt" >/dev/null 2>&1 && return 0
	(
		umask 077
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$subject" \
			-keyout "$dir/$name.key" 2>/dev/null |
			openssl x509 -req -days 825 -CA "$dir/ca.crt" -CAkey "$dir/ca.key" \
				-set_serial "0x$(openssl rand -hex 16)" -out "$dir/$name.crt" \
				-extfile <(
					echo 'basicConstraints=critical,CA:FALSE'
					echo 'keyUsage=critical,digitalSignature'
					echo "extendedKeyUsage=$usage"
					[ -z "$names" ] || echo "subjectAltName=$names"
				) 2>/dev/null
	)
}

# kubeconfig of the administrator on standard output: kubeconfig PKI_DIR PORT
kubeconfig()
{
	cat <<-YAML
		apiVersion: v1
		kind: Config
		clusters:
		- name: kube-reports
		  cluster:
		    server: https://127.0.0.1:$2
		    certificate-authority-data: $(base64 -w0 <"$1/ca.crt")
		users:
		- name: kube-reports-admin
		  user:
		    client-certificate-data: $(base64 -w0 <"$1/admin.crt")
		    client-key-data: $(base64 -w0 <"$1/admin.key")
		contexts:
		- name: kube-reports
		  context:
		    cluster: kube-reports
		    user: kube-reports-admin
		current-context: kube-reports
	YAML
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	set -euo pipefail
	"$@"
fi
