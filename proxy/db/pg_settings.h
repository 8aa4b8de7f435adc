/*-------------------------------------------------------------------------
 *
 * pg_settings.h
 *	  Settings that sessions at a store need, whatever its DBA has set.
 *
 * A DBA may change settings with ALTER ROLE, ALTER DATABASE and
 * postgresql.conf.  Settings that decide what a statement means, or how long
 * it may take, are set in each new session.  The DBA's value stays for
 * default_transaction_read_only, and for settings that only make statements
 * faster or slower.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_SETTINGS_H
#define PG_SETTINGS_H

/*
 * Rows of name and value.  The store refuses writes in transactions that are not READ COMMITTED.  row_security may be
 * off in a session that loads a dump.  The proxy itself cancels statements that take too long, and keeps idle sessions.
 * The settings in the last lines change how the texts of functions and arguments are read.
 */
#define PG_EXPECTED_SETTINGS \
	"('default_transaction_isolation', 'read committed'), ('default_transaction_deferrable', 'off')," \
	" ('row_security', 'on')," \
	" ('statement_timeout', '0'), ('transaction_timeout', '0'), ('idle_session_timeout', '0')," \
	" ('exit_on_error', 'off')," \
	" ('standard_conforming_strings', 'on'), ('transform_null_equals', 'off'), ('array_nulls', 'on')," \
	" ('quote_all_identifiers', 'off'), ('gin_fuzzy_search_limit', '0')," \
	" ('datestyle', 'ISO, mdy'), ('intervalstyle', 'postgres'), ('timezone', 'UTC'), ('bytea_output', 'hex')"

/* Further settings of the proxy's pools.  $1: lock_timeout */
#define PG_PROXY_SETTINGS \
	"('application_name', 'kube-reports-proxy'), ('client_connection_check_interval', '1s')," \
	" ('idle_in_transaction_session_timeout', '5s'), ('lock_timeout', $1::text)," \
	" ('jit', 'off'), ('search_path', 'pg_catalog, pg_temp')"

/* A query that sets these rows until the session ends.  A server of an earlier version does not know all names. */
#define PG_SET_ROWS(rows) \
	"SELECT pg_catalog.set_config(s.name, s.value, false) FROM (VALUES " rows ") s(name, value)" \
	" WHERE pg_catalog.current_setting(s.name, true) IS NOT NULL"

#endif							/* PG_SETTINGS_H */
