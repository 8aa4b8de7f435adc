/*-------------------------------------------------------------------------
 *
 * notify.h
 *	  Tells the service manager how the start and the end go.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NOTIFY_H
#define NOTIFY_H

/* Called by the parent process alone: systemd believes no other. */
extern void notify_ready(void);
extern void notify_stopping(void);

#endif							/* NOTIFY_H */
