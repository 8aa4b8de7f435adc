/*-------------------------------------------------------------------------
 *
 * termination.c
 *	  Whether this process was asked to end.
 *
 *-------------------------------------------------------------------------
 */
#include "base/termination.h"

#include <signal.h>

static volatile sig_atomic_t begun;

void
termination_begin(void)
{
	begun = 1;
}

bool
termination_begun(void)
{
	return begun != 0;
}
