/*-------------------------------------------------------------------------
 *
 * notify.h
 *	  Tells the service manager that the proxy is ready or stopping.
 *
 *-------------------------------------------------------------------------
 */
#ifndef NOTIFY_H
#define NOTIFY_H

/* Only the parent process calls these: systemd ignores other processes. */
extern void notify_ready(void);
extern void notify_stopping(void);

#endif							/* NOTIFY_H */
