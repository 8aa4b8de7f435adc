/*-------------------------------------------------------------------------
 *
 * pg_environment.c
 *	  The variables of the environment that libpq reads.
 *
 * A Secret that was made from a file (kubectl create secret --from-file) ends
 * with the file's line end, and Kubernetes passes it on.  libpq takes it for a
 * part of the password, and the server only says that the password is wrong.
 * No such value can end with a line end on purpose.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_environment.h"

#include <stdlib.h>
#include <string.h>

/* Those that helm/kube-reports/templates/_database.tpl sets from Secrets; files/setup.sh does the same. */
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
