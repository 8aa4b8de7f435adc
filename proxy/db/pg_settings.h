/*-------------------------------------------------------------------------
 *
 * pg_settings.h
 *	  Settings that sessions at a store need, whatever its DBA has set.
 *
 * ALTER ROLE, ALTER DATABASE and postgresql.conf give each session other
 * values.  Those that decide what a statement means, or how long it may take,
 * are set in each new session.  default_transaction_read_only is left to the
 * DBA, and so is what only makes statements faster or slower.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_SETTINGS_H
#define PG_SETTINGS_H

/*
 * Rows of name and value.  Writes are refused in transactions that are not READ COMMITTED.  row_security is off in
 * sessions that load a dump.  The proxy itself ends statements that take too long, and keeps idle sessions.  The last
 * lines change how functions and their arguments are read.
 */
#define PG_EXPECTED_SETTINGS \
	"('default_transaction_isolation', 'read committed'), ('default_transaction_deferrable', 'off')," \
	" ('row_security', 'on')," \
	" ('statement_timeout', '0'), ('transaction_timeout', '0'), ('idle_session_timeout', '0')," \
	" ('exit_on_error', 'off')," \
	" ('standard_conforming_strings', 'on'), ('transform_null_equals', 'off'), ('array_nulls', 'on')," \
	" ('quote_all_identifiers', 'off'), ('gin_fuzzy_search_limit', '0')," \
	" ('datestyle', 'ISO, mdy'), ('intervalstyle', 'postgres'), ('timezone', 'UTC'), ('bytea_output', 'hex')"

/* Further ones of the proxy's pools.  $1: lock_timeout */
#define PG_PROXY_SETTINGS \
	"('application_name', 'kube-reports-proxy'), ('client_connection_check_interval', '1s')," \
	" ('idle_in_transaction_session_timeout', '5s'), ('lock_timeout', $1::text)," \
	" ('jit', 'off'), ('search_path', 'pg_catalog, pg_temp')"

/* A query that sets such rows for the rest of the session.  A server of an earlier version lacks some names. */
#define PG_SET_ROWS(rows) \
	"SELECT pg_catalog.set_config(s.name, s.value, false) FROM (VALUES " rows ") s(name, value)" \
	" WHERE pg_catalog.current_setting(s.name, true) IS NOT NULL"

#endif							/* PG_SETTINGS_H */
