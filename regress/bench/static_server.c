/*-------------------------------------------------------------------------
 *
 * static_server.c
 *	  Baseline of the list benchmark: libh2o's own static file handler over TLS.
 *
 * One process, one thread, HTTP/1.1.  Serves the files of a directory until it
 * is killed; prints "ready" once it listens.
 *
 *	static_server PORT CERTIFICATE KEY DIRECTORY
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/ssl.h>

#include <h2o.h>
#include <h2o/http1.h>

static h2o_globalconf_t config;
static h2o_context_t context;
static h2o_accept_ctx_t accept_context;

static void
fail(const char *what)
{
	perror(what);
	exit(1);
}

static void
on_accept(h2o_socket_t *listener, const char *error)
{
	h2o_socket_t *socket;

	if (error != NULL)
		return;
	while ((socket = h2o_evloop_socket_accept(listener)) != NULL)
		h2o_accept(&accept_context, socket);
}

static SSL_CTX *
make_tls(const char *certificate, const char *key)
{
	SSL_CTX    *tls = SSL_CTX_new(TLS_server_method());

	SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
	if (SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
		SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
	{
		fprintf(stderr, "certificate or key cannot be read\n");
		exit(1);
	}
	return tls;
}

static int
make_listener(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
	.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int			on = 1;
	int			fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
		bind(fd, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		listen(fd, 128) != 0)
		fail("listen");
	return fd;
}

int
main(int argc, char **argv)
{
	h2o_hostconf_t *host;
	h2o_pathconf_t *path;
	h2o_socket_t *listener;

	if (argc != 5)
	{
		fprintf(stderr, "usage: static_server PORT CERTIFICATE KEY DIRECTORY\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	h2o_config_init(&config);
	host = h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
	path = h2o_config_register_path(host, "/", 0);
	h2o_file_register(path, argv[4], NULL, NULL, 0);
	h2o_context_init(&context, h2o_evloop_create(), &config);
	accept_context.ctx = &context;
	accept_context.hosts = config.hosts;
	accept_context.ssl_ctx = make_tls(argv[2], argv[3]);
	listener = h2o_evloop_socket_create(context.loop, make_listener(atoi(argv[1])), H2O_SOCKET_FLAG_DONT_READ);
	h2o_socket_read_start(listener, on_accept);
	printf("ready\n");
	fflush(stdout);
	while (h2o_evloop_run(context.loop, INT32_MAX) == 0)
		;
	return 0;
}
