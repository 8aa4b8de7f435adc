/*-------------------------------------------------------------------------
 *
 * pg_environment.c
 *	  The variables of the environment that libpq reads.
 *
 * A Secret that was made from a file (kubectl create secret --from-file) ends
 * with the line end of the file, which Kubernetes passes on.  libpq takes the
 * line end for a part of the password, and the server only says that the
 * password is wrong.  No correct value of these variables ends with a line
 * end.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_environment.h"

#include <stdlib.h>
#include <string.h>

/* The variables that helm/kube-reports/templates/_database.tpl sets from Secrets; files/setup.sh does the same. */
static const char *const variables[] =
{
	"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGSSLMODE", "PGOPTIONS",
	"PGTARGETSESSIONATTRS", "PGCHANNELBINDING",
};

void
pg_environment_start(void)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
	{
		char	   *value = getenv(variables[i]);
		size_t		len = value == NULL ? 0 : strlen(value);

		/* The value is the process's own memory: it may become shorter in place. */
		while (len > 0 && (value[len - 1] == '\n' || value[len - 1] == '\r'))
			value[--len] = '\0';
	}
}
