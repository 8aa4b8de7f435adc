/*-------------------------------------------------------------------------
 *
 * document.c
 *	  Converts messages of senders to the documents that api_forward() stores, and its replies to messages.
 *
 * libprotobuf-c parses the messages.  Its text fields end at a NUL, and it
 * does not check that they are UTF-8.  So the build turns them into fields of
 * bytes, and this file checks them.  A few bytes of a message can become a
 * large struct, so the memory of a parsed message is limited.
 *
 *-------------------------------------------------------------------------
 */
#include "grpc/document.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "compliance.pb-c.h"
#include "engine/base/utf8.h"
#include "forward.pb-c.h"

/* Limit of the memory of a parsed message: PARSED_FLOOR, and PARSED_PER_BYTE for each byte of the message. */
#define PARSED_PER_BYTE 12
#define PARSED_FLOOR ((size_t) 1024 * 1024)

#define DEFAULT_SCAN "compliance"

typedef KubeReports__Forward__V1__Batch ForwardBatch;
typedef KubeReports__Forward__V1__EvidenceBatch ForwardEvidence;
typedef KubeReports__Forward__V1__EvidenceFile ForwardFile;
typedef KubeReports__Forward__V1__EvidenceStored ForwardEvidenceStored;
typedef KubeReports__Forward__V1__Pair ForwardPair;
typedef KubeReports__Forward__V1__Remediation ForwardRemediation;
typedef KubeReports__Forward__V1__RemediationObject ForwardRemediationObject;
typedef KubeReports__Forward__V1__Result ForwardResult;
typedef KubeReports__Forward__V1__Scan ForwardScan;
typedef KubeReports__Forward__V1__Stored ForwardStored;

typedef struct Budget
{
	Arena	   *arena;
	size_t		left;
	bool		exceeded;
} Budget;

/* The document that is being written, and the first field whose text is invalid. */
typedef struct Writer
{
	StrBuf		buf;
	Arena	   *arena;
	bool		comma;			/* a comma precedes the next member */
	const char *wrong;			/* path of the invalid field; NULL: none */
} Writer;

/* ---------- parsing ---------- */

static void *
take_memory(void *state, size_t size)
{
	Budget	   *budget = state;

	if (size + 16 > budget->left)
	{
		budget->exceeded = true;
		return NULL;
	}
	budget->left -= size + 16;
	return arena_alloc(budget->arena, size);
}

/* Frees nothing: the arena frees everything at once. */
static void
leave_memory(void *state, void *pointer)
{
}

static void *
parse(Arena *arena, const ProtobufCMessageDescriptor *type, JsonText message, CallStatus *status)
{
	Budget		budget = {arena, PARSED_FLOOR + message.len * PARSED_PER_BYTE, false};
	ProtobufCAllocator allocator = {take_memory, leave_memory, &budget};
	void	   *parsed = protobuf_c_message_unpack(type, &allocator, message.len, (const uint8_t *) message.bytes);

	if (parsed == NULL && budget.exceeded)
		*status = (CallStatus) {.code = STATUS_RESOURCE_EXHAUSTED, .message = "the message has too many parts"};
	else if (parsed == NULL)
		*status = (CallStatus) {.code = STATUS_INVALID_ARGUMENT,
			.message = arena_printf(arena, "the bytes are not a message %s", type->name)};
	return parsed;
}

/* ---------- writing ---------- */

static bool
is_text(const char *bytes, size_t len)
{
	const char *end = bytes + len;

	while (bytes < end)
	{
		size_t		step = *bytes == '\0' ? 0 : utf8_length(bytes, end);

		if (step == 0)
			return false;
		bytes += step;
	}
	return true;
}

static void
write_string(Writer *writer, const char *bytes, size_t len, const char *field, size_t position)
{
	if (writer->wrong == NULL && !is_text(bytes, len))
		writer->wrong = position == SIZE_MAX ? field : arena_printf(writer->arena, field, position);
	json_write_string(&writer->buf, bytes, len);
}

static void
write_key(Writer *writer, const char *key)
{
	if (writer->comma)
		strbuf_putc(&writer->buf, ',');
	writer->comma = true;
	json_write_string(&writer->buf, key, strlen(key));
	strbuf_putc(&writer->buf, ':');
}

/* Writes a member with a text; omits an empty text, as proto3 does.  field: its path, with a %zu for the position. */
static void
write_text(Writer *writer, const char *key, ProtobufCBinaryData value, const char *field, size_t position)
{
	if (value.len == 0)
		return;
	write_key(writer, key);
	write_string(writer, (const char *) value.data, value.len, field, position);
}

static int
compare_pairs(const void *left, const void *right)
{
	const DocumentPair *a = left;
	const DocumentPair *b = right;
	int			order = memcmp(a->key.bytes, b->key.bytes, a->key.len < b->key.len ? a->key.len : b->key.len);

	if (order == 0 && a->key.len != b->key.len)
		order = a->key.len < b->key.len ? -1 : 1;
	return order != 0 ? order : a->place < b->place ? -1 : a->place > b->place;
}

static bool
same_key(const DocumentPair *a, const DocumentPair *b)
{
	return a->key.len == b->key.len && memcmp(a->key.bytes, b->key.bytes, a->key.len) == 0;
}

/* Writes a map as an object, in the order of its keys. */
static void
write_pairs(Writer *writer, const char *key, DocumentPair *pairs, size_t count, const char *field, size_t position)
{
	bool		comma = false;

	if (count == 0)
		return;
	write_key(writer, key);
	strbuf_putc(&writer->buf, '{');
	for (size_t i = 0; i < count; i++)
		pairs[i].place = i;
	qsort(pairs, count, sizeof(*pairs), compare_pairs);
	for (size_t i = 0; i < count; i++)
	{
		if (i + 1 < count && same_key(&pairs[i], &pairs[i + 1]))
			continue;
		if (comma)
			strbuf_putc(&writer->buf, ',');
		comma = true;
		write_string(writer, pairs[i].key.bytes, pairs[i].key.len, field, position);
		strbuf_putc(&writer->buf, ':');
		write_string(writer, pairs[i].value.bytes, pairs[i].value.len, field, position);
	}
	strbuf_putc(&writer->buf, '}');
}

static JsonText
bytes_of(ProtobufCBinaryData data)
{
	return (JsonText) {data.data != NULL ? (const char *) data.data : "", data.len};
}

static void
open_item(Writer *writer, size_t position)
{
	if (position > 0)
		strbuf_putc(&writer->buf, ',');
	strbuf_putc(&writer->buf, '{');
	writer->comma = false;
}

static bool
close_document(Writer *writer, JsonText *document, CallStatus *status)
{
	StatusField *field;

	strbuf_putc(&writer->buf, '}');
	*document = (JsonText) {writer->buf.bytes, writer->buf.len};
	if (writer->wrong == NULL)
		return true;
	field = arena_alloc(writer->arena, sizeof(*field));
	*field = (StatusField) {writer->wrong, "must be UTF-8 without NUL"};
	*status = (CallStatus) {.code = STATUS_INVALID_ARGUMENT, .fields = field, .field_count = 1,
		.message = arena_printf(writer->arena, "%s must be UTF-8 without NUL", writer->wrong)};
	return false;
}

/* ---------- batches ---------- */

static void
write_extra(Writer *writer, ForwardPair **given, size_t count, const char *key, const char *field,
			size_t position)
{
	DocumentPair *pairs = arena_alloc(writer->arena, sizeof(DocumentPair) * (count + 1));

	for (size_t i = 0; i < count; i++)
		pairs[i] = (DocumentPair) {bytes_of(given[i]->key), bytes_of(given[i]->value), i};
	write_pairs(writer, key, pairs, count, field, position);
}

static void
write_results(Writer *writer, const ForwardBatch *batch)
{
	write_key(writer, "results");
	strbuf_putc(&writer->buf, '[');
	for (size_t i = 0; i < batch->n_results; i++)
	{
		const ForwardResult *result = batch->results[i];

		open_item(writer, i);
		write_text(writer, "subject", result->subject, "results[%zu].subject", i);
		write_text(writer, "control", result->control, "results[%zu].control", i);
		write_text(writer, "rule", result->rule, "results[%zu].rule", i);
		write_text(writer, "outcome", result->outcome, "results[%zu].outcome", i);
		write_text(writer, "description", result->description, "results[%zu].description", i);
		write_text(writer, "severity", result->severity, "results[%zu].severity", i);
		write_text(writer, "instructions", result->instructions, "results[%zu].instructions", i);
		write_text(writer, "id", result->id, "results[%zu].id", i);
		write_text(writer, "rationale", result->rationale, "results[%zu].rationale", i);
		write_extra(writer, result->extra, result->n_extra, "extra", "results[%zu].extra", i);
		strbuf_putc(&writer->buf, '}');
	}
	strbuf_putc(&writer->buf, ']');
	writer->comma = true;
}

/* Writes the object of a remediation as its payload, {"object": {...}}; absent: nothing. */
static void
write_payload(Writer *writer, const char *key, const ForwardRemediationObject *object, const char *field,
			  size_t position)
{
	if (object == NULL)
		return;
	write_key(writer, key);
	strbuf_puts(&writer->buf, "{\"object\":");
	open_item(writer, 0);
	write_text(writer, "kind", object->kind, field, position);
	write_key(writer, "metadata");
	open_item(writer, 0);
	write_text(writer, "name", object->name, field, position);
	strbuf_puts(&writer->buf, "}}}");
	writer->comma = true;
}

/* Without the member, the batch does not tell about remediations; an empty array tells that there are none. */
static void
write_remediations(Writer *writer, const ForwardBatch *batch)
{
	if (batch->n_remediations == 0 && !batch->all_remediations)
		return;
	write_key(writer, "remediations");
	strbuf_putc(&writer->buf, '[');
	for (size_t i = 0; i < batch->n_remediations; i++)
	{
		const ForwardRemediation *remediation = batch->remediations[i];

		open_item(writer, i);
		write_text(writer, "name", remediation->name, "remediations[%zu].name", i);
		write_text(writer, "rule", remediation->rule, "remediations[%zu].rule", i);
		write_text(writer, "applicationState", remediation->application_state, "remediations[%zu].application_state",
				   i);
		write_text(writer, "type", remediation->type, "remediations[%zu].type", i);
		write_key(writer, "apply");
		strbuf_puts(&writer->buf, remediation->apply ? "true" : "false");
		write_payload(writer, "current", remediation->current, "remediations[%zu].current", i);
		write_payload(writer, "outdated", remediation->outdated, "remediations[%zu].outdated", i);
		write_text(writer, "errorMessage", remediation->error_message, "remediations[%zu].error_message", i);
		strbuf_putc(&writer->buf, '}');
	}
	strbuf_putc(&writer->buf, ']');
	writer->comma = true;
}

static void
write_scan(Writer *writer, const ForwardScan *scan)
{
	write_key(writer, "scan");
	open_item(writer, 0);
	write_text(writer, "name", scan->name, "scan.name", SIZE_MAX);
	write_text(writer, "suite", scan->suite, "scan.suite", SIZE_MAX);
	write_text(writer, "profile", scan->profile, "scan.profile", SIZE_MAX);
	write_text(writer, "startTimestamp", scan->start_timestamp, "scan.start_timestamp", SIZE_MAX);
	write_text(writer, "endTimestamp", scan->end_timestamp, "scan.end_timestamp", SIZE_MAX);
	strbuf_putc(&writer->buf, '}');
	writer->comma = true;
}

static void
open_document(Writer *writer, Arena *arena)
{
	*writer = (Writer) {.arena = arena};
	strbuf_init(&writer->buf, arena);
	open_item(writer, 0);
	write_key(writer, "apiVersion");
	strbuf_puts(&writer->buf, "\"forward/v1\"");
}

bool
document_of_batch(Arena *arena, JsonText message, JsonText *document, DocumentBatch *named, CallStatus *status)
{
	const ForwardBatch *batch;
	Writer		writer;

	batch = parse(arena, &kube_reports__forward__v1__batch__descriptor, message, status);
	if (batch == NULL)
		return false;
	*named = (DocumentBatch) {bytes_of(batch->assessment_id), batch->sequence};
	open_document(&writer, arena);
	write_text(&writer, "assessmentId", batch->assessment_id, "assessment_id", SIZE_MAX);
	if (batch->scan != NULL)
		write_scan(&writer, batch->scan);
	write_key(&writer, "seq");
	strbuf_printf(&writer.buf, "%u", batch->sequence);
	write_key(&writer, "last");
	strbuf_puts(&writer.buf, batch->last ? "true" : "false");
	if (batch->prune)
	{
		write_key(&writer, "prune");
		strbuf_puts(&writer.buf, "\"scan\"");
	}
	write_extra(&writer, batch->extra_metadata, batch->n_extra_metadata, "extraMetadata", "extra_metadata", SIZE_MAX);
	write_results(&writer, batch);
	write_remediations(&writer, batch);
	return close_document(&writer, document, status);
}

/* ---------- metadata of evidence ---------- */

bool
document_of_evidence(Arena *arena, JsonText message, JsonText *document, CallStatus *status)
{
	const ForwardEvidence *batch = parse(arena, &kube_reports__forward__v1__evidence_batch__descriptor, message,
										 status);
	Writer		writer;

	if (batch == NULL)
		return false;
	open_document(&writer, arena);
	write_extra(&writer, batch->extra_metadata, batch->n_extra_metadata, "extraMetadata", "extra_metadata", SIZE_MAX);
	write_key(&writer, "evidence");
	strbuf_putc(&writer.buf, '[');
	for (size_t i = 0; i < batch->n_files; i++)
	{
		const ForwardFile *file = batch->files[i];

		open_item(&writer, i);
		write_key(&writer, "index");
		strbuf_printf(&writer.buf, "%u", file->index);
		write_key(&writer, "bytes");
		strbuf_printf(&writer.buf, "%llu", (unsigned long long) file->bytes);
		write_text(&writer, "scan", file->scan, "files[%zu].scan", i);
		write_text(&writer, "name", file->name, "files[%zu].name", i);
		write_text(&writer, "sha256", file->sha256, "files[%zu].sha256", i);
		write_text(&writer, "encoding", file->encoding, "files[%zu].encoding", i);
		write_text(&writer, "uri", file->uri, "files[%zu].uri", i);
		strbuf_putc(&writer.buf, '}');
	}
	strbuf_putc(&writer.buf, ']');
	return close_document(&writer, document, status);
}

/* ---------- single results ---------- */

bool
document_of_result(Arena *arena, JsonText message, DocumentPair *metadata, size_t metadata_count, JsonText *document,
				   CallStatus *status)
{
	const ResultRequest *result = parse(arena, &result_request__descriptor, message, status);
	JsonText	scan = {DEFAULT_SCAN, strlen(DEFAULT_SCAN)};
	DocumentPair *pairs;
	size_t		count = 0;
	Writer		writer;

	if (result == NULL)
		return false;
	pairs = arena_alloc(arena, sizeof(DocumentPair) * (result->n_extra + 1));
	for (size_t i = 0; i < result->n_extra; i++)
	{
		DocumentPair pair = {bytes_of(result->extra[i]->key), bytes_of(result->extra[i]->value), i};

		if (pair.key.len == 4 && memcmp(pair.key.bytes, "scan", 4) == 0)
			scan = pair.value;
		else
			pairs[count++] = pair;
	}
	open_document(&writer, arena);
	write_text(&writer, "assessmentId", result->assessmentid, "assessmentId", SIZE_MAX);
	write_key(&writer, "scan");
	strbuf_puts(&writer.buf, "{\"name\":");
	write_string(&writer, scan.bytes, scan.len, "extra", SIZE_MAX);
	strbuf_putc(&writer.buf, '}');
	write_pairs(&writer, "extraMetadata", metadata, metadata_count, "metadata", SIZE_MAX);
	write_key(&writer, "results");
	strbuf_putc(&writer.buf, '[');
	open_item(&writer, 0);
	write_text(&writer, "subject", result->subject, "subject", SIZE_MAX);
	write_text(&writer, "control", result->control, "control", SIZE_MAX);
	write_text(&writer, "rule", result->rule, "rule", SIZE_MAX);
	write_text(&writer, "outcome", result->outcome, "outcome", SIZE_MAX);
	write_text(&writer, "description", result->description, "description", SIZE_MAX);
	write_text(&writer, "severity", result->severity, "severity", SIZE_MAX);
	write_text(&writer, "instructions", result->instructions, "instructions", SIZE_MAX);
	write_pairs(&writer, "extra", pairs, count, "extra", SIZE_MAX);
	strbuf_puts(&writer.buf, "}]");
	return close_document(&writer, document, status);
}

/* ---------- names of fields ---------- */

/* Names of the document for which the message has another name. */
static const char *const renamed[][2] = {
	{"seq", "sequence"},
	{"assessmentId", "assessment_id"},
	{"extraMetadata", "extra_metadata"},
	{"applicationState", "application_state"},
	{"errorMessage", "error_message"},
};

const char *
document_batch_field(Arena *arena, const char *pointer)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	while (*pointer == '/')
	{
		size_t		len = strcspn(++pointer, "/");
		const char *name = arena_strndup(arena, pointer, len);

		for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
			if (strcmp(name, renamed[i][0]) == 0)
				name = renamed[i][1];
		if (isdigit((unsigned char) name[0]))
			strbuf_printf(&buf, "[%s]", name);
		else
			strbuf_printf(&buf, "%s%s", buf.len > 0 ? "." : "", name);
		pointer += len;
	}
	return buf.len > 0 ? buf.bytes : "";
}

const char *
document_result_field(Arena *arena, const char *pointer)
{
	static const char result[] = "/results/0/";

	if (strncmp(pointer, result, sizeof(result) - 1) == 0)
		return arena_strdup(arena, pointer + sizeof(result) - 1);
	if (strcmp(pointer, "/scan/name") == 0)
		return "extra[\"scan\"]";
	return arena_strdup(arena, pointer + (*pointer == '/'));
}

const char *
document_evidence_field(Arena *arena, const char *pointer)
{
	static const char evidence[] = "/evidence";

	if (strncmp(pointer, evidence, sizeof(evidence) - 1) == 0)
		pointer = arena_printf(arena, "/files%s", pointer + sizeof(evidence) - 1);
	return document_batch_field(arena, pointer);
}

/* ---------- answers ---------- */

static uint64_t
number_of(const JsonNode *document, const char *key)
{
	const JsonNode *node = json_get(document, key);

	return node != NULL && node->kind == JSON_KIND_INTEGER ? (uint64_t) node->u.integer : 0;
}

JsonText
document_stored(Arena *arena, const DocumentBatch *batch, JsonText reply)
{
	ForwardStored stored = KUBE_REPORTS__FORWARD__V1__STORED__INIT;
	JsonError	error;
	const JsonNode *document = json_parse(arena, reply.bytes, reply.len, NULL, NULL, &error);
	JsonText	bytes;

	stored.assessment_id = (ProtobufCBinaryData) {batch->assessment.len, (uint8_t *) batch->assessment.bytes};
	stored.sequence = batch->sequence;
	stored.accepted = number_of(document, "accepted");
	stored.changed = number_of(document, "changed");
	stored.pruned = number_of(document, "pruned");
	bytes.len = kube_reports__forward__v1__stored__get_packed_size(&stored);
	bytes.bytes = arena_alloc(arena, bytes.len + 1);
	kube_reports__forward__v1__stored__pack(&stored, (uint8_t *) bytes.bytes);
	return bytes;
}

JsonText
document_evidence_stored(Arena *arena, JsonText reply)
{
	ForwardEvidenceStored stored = KUBE_REPORTS__FORWARD__V1__EVIDENCE_STORED__INIT;
	JsonError	error;
	const JsonNode *document = json_parse(arena, reply.bytes, reply.len, NULL, NULL, &error);
	JsonText	bytes;

	stored.accepted = number_of(document, "accepted");
	stored.changed = number_of(document, "changed");
	stored.removed = number_of(document, "removed");
	bytes.len = kube_reports__forward__v1__evidence_stored__get_packed_size(&stored);
	bytes.bytes = arena_alloc(arena, bytes.len + 1);
	kube_reports__forward__v1__evidence_stored__pack(&stored, (uint8_t *) bytes.bytes);
	return bytes;
}
