/*-------------------------------------------------------------------------
 *
 * ca_bundle.c
 *	  CA certificates from files and texts, PEM.
 *
 *-------------------------------------------------------------------------
 */
#include "trust/ca_bundle.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>

#include "base/file.h"

#define BUNDLE_LIMIT (4 * 1024 * 1024)

bool
ca_bundle_read(Arena *arena, const char *path, JsonText *pem, char *why, size_t why_size)
{
	const char *reason;

	if (file_read(arena, path, BUNDLE_LIMIT, pem, &reason))
		return true;
	snprintf(why, why_size, "%s: %s", path, reason);
	return false;
}

static bool
add_subject(STACK_OF(X509_NAME) * names, const X509 *certificate)
{
	X509_NAME  *subject = X509_NAME_dup(X509_get_subject_name(certificate));

	if (subject != NULL && sk_X509_NAME_push(names, subject) > 0)
		return true;
	X509_NAME_free(subject);
	return false;
}

bool
ca_bundle_load(X509_STORE * *store, STACK_OF(X509_NAME) * names, JsonText pem, const char *name, char *why,
			   size_t why_size)
{
	BIO		   *bio = BIO_new_mem_buf(pem.bytes, (int) pem.len);
	int			count = 0;
	bool		good = bio != NULL;
	unsigned long code;

	*store = X509_STORE_new();
	ERR_clear_error();
	while (good && *store != NULL)
	{
		X509	   *certificate = PEM_read_bio_X509(bio, NULL, NULL, "");

		if (certificate == NULL)
			break;
		count++;
		good = X509_STORE_add_cert(*store, certificate) == 1 && (names == NULL || add_subject(names, certificate));
		X509_free(certificate);
	}
	BIO_free(bio);
	code = ERR_peek_last_error();
	ERR_clear_error();
	/* PEM_R_NO_START_LINE means the end: no further certificate follows. */
	if (good && *store != NULL && count > 0 && (code == 0 || ERR_GET_REASON(code) == PEM_R_NO_START_LINE))
		return true;
	snprintf(why, why_size, "%s: %s", name,
			 count == 0 && ERR_GET_REASON(code) == PEM_R_NO_START_LINE ? "no certificate in it" :
			 ERR_reason_error_string(code) != NULL ? ERR_reason_error_string(code) : "cannot be used");
	return false;
}

/*
 * Orders certificates by the start of their validity, in seconds, and then by X509_cmp(): so every proxy has the same
 * order.
 */
static int
compare_ages(const X509 *a, const X509 *b)
{
	int			order = ASN1_TIME_compare(X509_get0_notBefore(a), X509_get0_notBefore(b));

	return order != 0 ? order : X509_cmp(a, b);
}

static const X509 *
newest(X509_STORE * store)
{
	STACK_OF(X509_OBJECT) * objects = X509_STORE_get0_objects(store);
	const X509 *found = NULL;

	for (int i = 0; i < sk_X509_OBJECT_num(objects); i++)
	{
		const X509 *certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(objects, i));

		if (certificate != NULL && (found == NULL || compare_ages(certificate, found) > 0))
			found = certificate;
	}
	return found;
}

bool
ca_bundle_is_newer(X509_STORE * store, X509_STORE * other)
{
	return compare_ages(newest(store), newest(other)) > 0;
}
