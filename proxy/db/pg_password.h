/*-------------------------------------------------------------------------
 *
 * pg_password.h
 *	  Passwords of database connections that are in files.
 *
 * A service's access token is a password that is valid for minutes: another
 * process writes it into the file, and each new connection reads the file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_PASSWORD_H
#define PG_PASSWORD_H

#include "engine/base/arena.h"

/*
 * Reads the password for a connection string of the configuration; NULL where no file is configured.  False, with the
 * reason, when the file cannot be read.
 */
extern bool pg_password_read(Arena *arena, const char *database, const char **password, const char **why);

#endif							/* PG_PASSWORD_H */
