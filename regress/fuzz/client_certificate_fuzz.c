/*-------------------------------------------------------------------------
 *
 * client_certificate_fuzz.c
 *	  Fuzz target: the user in a client certificate.
 *
 * The input is a certificate in DER.  For any subject: no text contains a
 * NUL, there is at most one uid and it is not empty, and a certificate that
 * no CA signed gives no user.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

/* As in route_fuzz.c, but this file needs libcrypto. */
#include "trust/client_certificate.c"

static AuthenticationConfig in_force = {.generation = 1};

const AuthenticationConfig *
authentication_config(void)
{
	return &in_force;
}

uint64_t
loop_now(void)
{
	return 1000000;
}

bool
name_list_has(const NameList *list, const char *name)
{
	return list->count > 0 && name[0] != '\0';
}

static void
check_subject(Arena *arena, X509 *certificate)
{
	const char *why = NULL;
	User		user;

	if (!read_subject(certificate, arena, &user, &why))
	{
		check(why != NULL);
		return;
	}
	check(user.name != NULL && (user.uid == NULL || user.uid[0] != '\0'));
	check((int) user.group_count <= X509_NAME_entry_count(X509_get_subject_name(certificate)));
	for (size_t i = 0; i < user.group_count; i++)
		check(user.groups[i] != NULL);
	check(read_credential_id(certificate, arena, &user) && user.extra_count == 1);
	check(strlen(user.extra->values[0]) == strlen("X509SHA256=") + 64);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const unsigned char *next = bytes;
	X509	   *certificate = d2i_X509(NULL, &next, (long) size);
	Arena		arena;

	if (certificate == NULL)
		return 0;
	if (in_force.clients == NULL)
	{
		in_force.clients = X509_STORE_new();
		in_force.front_proxy = in_force.clients;
	}
	arena_init(&arena);
	check_subject(&arena, certificate);
	{
		ClientCertificate proved = {.certificate = certificate};
		const char *why = NULL;
		User		user;

		check(client_certificate_user(&proved, &arena, &user, &why) == CERTIFICATE_REFUSED && why != NULL);
		check(client_certificate_front_proxy(&proved, &arena, &why) == CERTIFICATE_REFUSED);
	}
	X509_free(certificate);
	arena_free(&arena);
	return 0;
}
