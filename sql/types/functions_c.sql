-- functions_c.sql
--	  Type report and all functions that are written in C.
--
-- This is the only file that names the module.  types/functions_sql.sql
-- declares the same names and signatures without C.  None of these functions
-- reads or writes a table: each works only on its arguments.
--
-- A function that takes (definition_id, definition) compiles the definition once per session and finds it again by its
-- id: two definitions never have the same id.

---- type report: a JSON object as text ----

CREATE TYPE kube_reports.report;

CREATE FUNCTION kube_reports_internal.report_in(cstring) RETURNS kube_reports.report
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION kube_reports_internal.report_out(kube_reports.report) RETURNS cstring
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION kube_reports_internal.report_recv(internal) RETURNS kube_reports.report
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION kube_reports_internal.report_send(kube_reports.report) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.report_in(cstring) IS 'I/O';
COMMENT ON FUNCTION kube_reports_internal.report_out(kube_reports.report) IS 'I/O';
COMMENT ON FUNCTION kube_reports_internal.report_recv(internal) IS 'I/O';
COMMENT ON FUNCTION kube_reports_internal.report_send(kube_reports.report) IS 'I/O';

CREATE TYPE kube_reports.report (
	INPUT = kube_reports_internal.report_in,
	OUTPUT = kube_reports_internal.report_out,
	RECEIVE = kube_reports_internal.report_recv,
	SEND = kube_reports_internal.report_send,
	LIKE = text,
	CATEGORY = 'U'
);

COMMENT ON TYPE kube_reports.report IS 'a report document: one JSON object, stored as the text that was given';

CREATE FUNCTION kube_reports_internal.report_from_text(text) RETURNS kube_reports.report
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.report_from_text(text) IS 'cast: checks that the text is one JSON object';
CREATE FUNCTION kube_reports_internal.report_to_jsonb(kube_reports.report) RETURNS jsonb
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.report_to_jsonb(kube_reports.report) IS 'cast: the document as a value';
CREATE FUNCTION kube_reports_internal.report_from_jsonb(jsonb) RETURNS kube_reports.report
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.report_from_jsonb(jsonb) IS 'cast: checks that the value is an object';

CREATE CAST (kube_reports.report AS text) WITHOUT FUNCTION;
CREATE CAST (kube_reports.report AS json) WITHOUT FUNCTION;
CREATE CAST (kube_reports.report AS jsonb) WITH FUNCTION kube_reports_internal.report_to_jsonb(kube_reports.report);
CREATE CAST (text AS kube_reports.report) WITH FUNCTION kube_reports_internal.report_from_text(text);
CREATE CAST (json AS kube_reports.report) WITH INOUT;
CREATE CAST (jsonb AS kube_reports.report) WITH FUNCTION kube_reports_internal.report_from_jsonb(jsonb);
COMMENT ON CAST (kube_reports.report AS text) IS 'the text of a document, as it was given';
COMMENT ON CAST (kube_reports.report AS json) IS 'the text of a document, as it was given';
COMMENT ON CAST (kube_reports.report AS jsonb) IS 'a document as a value';
COMMENT ON CAST (text AS kube_reports.report) IS 'a text that is one JSON object; raises 22P02 for any other';
COMMENT ON CAST (json AS kube_reports.report) IS 'an object with its text; raises 22P02 for any other value';
COMMENT ON CAST (jsonb AS kube_reports.report) IS 'an object, printed as jsonb is; raises 22P02 for any other value';

---- functions for indexes and selectors ----

CREATE FUNCTION kube_reports.label_terms(metadata kube_reports.report) RETURNS text[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports.label_terms(kube_reports.report)
	IS 'the search terms of an object''s labels: key=value for each label, sorted by key; an empty array without '
		'labels';

CREATE FUNCTION kube_reports.matches_labels(terms text[], label_selector text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports.matches_labels(text[], text)
	IS 'whether labels, as label_terms() gives them, match a Kubernetes label selector';

CREATE FUNCTION kube_reports.matches_fields(namespace text, name text, field_selector text) RETURNS boolean
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports.matches_fields(text, text, text)
	IS 'whether an object matches a Kubernetes field selector over metadata.name and metadata.namespace';

CREATE FUNCTION kube_reports.selector_terms(label_selector text) RETURNS text[]
	AS 'MODULE_PATHNAME', 'selector_terms_of' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports.selector_terms(text)
	IS 'the label terms that every object matching a label selector has; a GIN index can search for these';

CREATE FUNCTION kube_reports_internal.string_at(document kube_reports.report, VARIADIC path text[]) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.string_at(kube_reports.report, text[])
	IS 'the string at a path of members; null if there is none. NUL, which jsonb cannot read and no text can contain, '
		'becomes U+FFFD';

CREATE FUNCTION kube_reports_internal.value_at(document kube_reports.report, VARIADIC path text[]) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.value_at(kube_reports.report, text[])
	IS 'the value at a path of members, as JSON; null if there is none';

CREATE FUNCTION kube_reports.document_size(document kube_reports.report) RETURNS integer
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports.document_size(kube_reports.report)
	IS 'the size of a document in bytes, without reading or decompressing it';

CREATE DOMAIN kube_reports_internal.stored_document AS bytea;
COMMENT ON DOMAIN kube_reports_internal.stored_document
	IS 'a document in the form of stored_bytes(), for proxies: bytes here, text in the SQL variant; both have the same '
		'form in the binary answers that a proxy reads';

CREATE FUNCTION kube_reports_internal.stored_bytes(document kube_reports.report)
	RETURNS kube_reports_internal.stored_document
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.stored_bytes(kube_reports.report)
	IS 'a document as it is stored: the byte 1, four bytes of its length and a block of lz4; or its text, when it is '
		'not stored with lz4';

---- the variant ----

CREATE FUNCTION kube_reports_internal.variant() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'c';
COMMENT ON FUNCTION kube_reports_internal.variant()
	IS 'which variant of the extension this is: c, where the server runs the engine, or sql, where the proxy does';

CREATE FUNCTION kube_reports_internal.has_engine() RETURNS boolean
LANGUAGE sql STABLE
RETURN true;
COMMENT ON FUNCTION kube_reports_internal.has_engine()
	IS 'whether this transaction may use the engine: in the SQL variant, whether it is a step of upkeep by a proxy';

CREATE FUNCTION kube_reports_internal.engine_serves(lane_id integer) RETURNS boolean
LANGUAGE sql STABLE
RETURN true;
COMMENT ON FUNCTION kube_reports_internal.engine_serves(integer)
	IS 'whether this transaction may ask the engine about documents of a lane: in the SQL variant, whether it is a '
		'step of upkeep by a proxy that writes for the lane''s cluster';

CREATE FUNCTION kube_reports_internal.is_trial() RETURNS boolean
LANGUAGE sql STABLE
RETURN false;
COMMENT ON FUNCTION kube_reports_internal.is_trial()
	IS 'whether this step only collects questions to the engine, locks no lane, and is rolled back';

CREATE FUNCTION kube_reports_internal.awaits_engine() RETURNS boolean
LANGUAGE sql STABLE
RETURN false;
COMMENT ON FUNCTION kube_reports_internal.awaits_engine()
	IS 'whether this step has a question without an answer, so that it will be rolled back';

CREATE FUNCTION kube_reports_internal.pending_batch() RETURNS boolean
LANGUAGE sql STABLE
RETURN false;
COMMENT ON FUNCTION kube_reports_internal.pending_batch()
	IS 'derives the results of small reports that wait, several at once; false if there are none. Only the SQL '
		'variant has such reports';

---- the registry ----

CREATE FUNCTION kube_reports_internal.crd_definitions(crd kube_reports.report) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'sql_crd_definitions' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.crd_definitions(kube_reports.report)
	IS 'the types that a CustomResourceDefinition defines; raises KR422 with the JSON path of an error or of an '
		'unsupported member';

CREATE FUNCTION kube_reports_internal.served_documents(definitions kube_reports.report[],
		OUT path text, OUT content_type text, OUT etag text, OUT body bytea) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sql_served_documents' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.served_documents(kube_reports.report[])
	IS 'discovery, OpenAPI and version documents for these definitions; the first row of a path is its default media '
		'type';

CREATE FUNCTION kube_reports_internal.check_document(definition_id bigint, definition kube_reports.report,
	document kube_reports.report)
		RETURNS boolean
	AS 'MODULE_PATHNAME', 'sql_check_document' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.check_document(bigint, kube_reports.report, kube_reports.report)
	IS 'true if the document conforms to its schema; otherwise raises KR422 with the message of the API';

---- writes ----

CREATE FUNCTION kube_reports_internal.write_admit(definition_id bigint, definition kube_reports.report,
	request jsonb, document bytea,
		fill_summary boolean, mapping_id bigint, mapping kube_reports.report, cluster_id integer, costly integer,
		OUT action "char", OUT code integer, OUT namespace text, OUT name text, OUT uid uuid,
		OUT metadata kube_reports.report, OUT body kube_reports.report, OUT versioned boolean,
		OUT status bytea, OUT transform text, OUT retry_after integer, OUT warnings text[], OUT actor text,
		OUT evaluated_at timestamptz)
	AS 'MODULE_PATHNAME', 'sql_write_admit' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION kube_reports_internal.write_admit(bigint, kube_reports.report, jsonb, bytea, boolean, bigint,
	kube_reports.report, integer, integer)
	IS 'decides on a write without the stored object. action: n answered (code, status), i insert unless it exists, p '
		'decide with write_decide(). fill_summary: count results if the producer left the summary out. With a mapping, '
		'evaluated_at is that of the new document, and until the transaction ends, the server process remembers how '
		'the results change: result_difference() of these documents parses nothing while a lane is locked. costly: '
		'results of larger documents follow later, see record_results(); null: all are derived at once';

CREATE FUNCTION kube_reports_internal.write_decide(definition_id bigint, definition kube_reports.report,
	request jsonb, document bytea,
		stored_metadata kube_reports.report, stored_body kube_reports.report,
			stored_version bigint, fill_summary boolean, mapping_id bigint, mapping kube_reports.report,
			cluster_id integer, costly integer,
		OUT action "char", OUT code integer, OUT namespace text, OUT name text, OUT uid uuid,
		OUT metadata kube_reports.report, OUT body kube_reports.report, OUT versioned boolean,
		OUT status bytea, OUT transform text, OUT retry_after integer, OUT warnings text[], OUT actor text,
		OUT evaluated_at timestamptz)
	AS 'MODULE_PATHNAME', 'sql_write_decide' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION kube_reports_internal.write_decide(bigint, kube_reports.report, jsonb, bytea, kube_reports.report,
	kube_reports.report, bigint, boolean, bigint, kube_reports.report, integer, integer)
	IS 'write_admit(), and decides on the write with the stored object (nulls: there is none). action: n answered, i '
		'insert, u update, d delete';

CREATE FUNCTION kube_reports_internal.write_document(definition_id bigint, definition kube_reports.report,
	namespace text, name text,
		INOUT metadata kube_reports.report, INOUT body kube_reports.report,
		stored_metadata kube_reports.report, stored_body kube_reports.report, fill_summary boolean, OUT uid uuid)
	AS 'MODULE_PATHNAME', 'sql_write_document' LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.write_document(bigint, kube_reports.report, text, text, kube_reports.report,
	kube_reports.report, kube_reports.report, kube_reports.report, boolean)
	IS 'a document written by DML: checked, pruned and completed like a write through the API; raises KR422';

CREATE FUNCTION kube_reports_internal.refuse_prepare() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION kube_reports_internal.refuse_prepare()
	IS 'makes PREPARE TRANSACTION fail in the current transaction: a prepared writer would hold its lane over a '
		'restart';

CREATE FUNCTION kube_reports_internal.keep_memory() RETURNS void
	AS 'MODULE_PATHNAME' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION kube_reports_internal.keep_memory()
	IS 'lets this session keep up to 32 MB of freed memory: lists come in pieces of some megabytes. api_hello() calls '
		'it';

---- results ----

CREATE FUNCTION kube_reports_internal.check_results_mapping(mapping kube_reports.report, type text)
	RETURNS kube_reports.report
	AS 'MODULE_PATHNAME', 'sql_check_results_mapping' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.check_results_mapping(kube_reports.report, text)
	IS 'the mapping of a type in canonical form; raises KR422 with the path of an error';

CREATE FUNCTION kube_reports_internal.evaluated_at(mapping_id bigint, mapping kube_reports.report,
	metadata kube_reports.report, body kube_reports.report)
		RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'sql_evaluated_at' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.evaluated_at(bigint, kube_reports.report,
	kube_reports.report, kube_reports.report)
	IS 'the newest time at which a result of the document was evaluated; null if there is none, or no mapping';

CREATE FUNCTION kube_reports_internal.document_time(mapping_id bigint, mapping kube_reports.report,
	metadata kube_reports.report, body kube_reports.report) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN kube_reports_internal.evaluated_at(mapping_id, mapping, metadata, body);
COMMENT ON FUNCTION kube_reports_internal.document_time(bigint, kube_reports.report, kube_reports.report,
	kube_reports.report)
	IS 'evaluated_at() of a document, for every caller';

CREATE FUNCTION kube_reports_internal.remember_removal(mapping_id bigint, mapping kube_reports.report,
	cluster_id integer, metadata kube_reports.report, body kube_reports.report) RETURNS void
	AS 'MODULE_PATHNAME', 'sql_remember_removal' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION kube_reports_internal.remember_removal(bigint, kube_reports.report, integer, kube_reports.report,
	kube_reports.report)
	IS 'before an object is deleted without write_decide(): the server process remembers how its results change, '
		'as write_decide() does';

CREATE FUNCTION kube_reports_internal.result_difference(mapping_id bigint,
	mapping kube_reports.report, cluster_id integer,
		old_metadata kube_reports.report, old_body kube_reports.report, metadata kube_reports.report,
			body kube_reports.report, prepared kube_reports_internal.result_row[] DEFAULT NULL,
		OUT key bigint, OUT wanted boolean, OUT old_status "char", OUT "position" integer,
		OUT criterion bigint, OUT source text, OUT policy text, OUT rule text, OUT category text, OUT severity text,
		OUT subject bigint, OUT api_version text, OUT kind text, OUT subject_namespace text,
			OUT subject_name text, OUT subject_uid text,
		OUT status "char", OUT native_status text, OUT score double precision,
		OUT detail bigint, OUT message text, OUT properties text, OUT exceptions text[], OUT evaluated_at timestamptz)
			RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sql_result_difference' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.result_difference(bigint, kube_reports.report, integer, kube_reports.report,
	kube_reports.report, kube_reports.report, kube_reports.report, kube_reports_internal.result_row[])
	IS 'the results that changed from one state of a document to another (body null: there is no document). wanted '
		'false: the result disappeared. A new time of evaluation is no change. A body may be the whole document; then '
		'its metadata is null. The texts of an element of the document''s list (source to severity, message to '
		'exceptions) are in one of its wanted rows, and null in the others. prepared: the rows that the proxy has '
		'computed, if the engine is not in the server';

CREATE FUNCTION kube_reports_internal.field_hash(VARIADIC fields text[]) RETURNS bigint
	AS 'MODULE_PATHNAME', 'sql_field_hash' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.field_hash(text[])
	IS 'the first eight bytes of the SHA-256 hash of the fields, each preceded by its length in bytes as four bytes; '
		'a null is empty';

CREATE FUNCTION kube_reports_internal.actor_id(name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN kube_reports_internal.field_hash('actor', name);
COMMENT ON FUNCTION kube_reports_internal.actor_id(text) IS 'the id of an actor: field_hash() of its name';

CREATE FUNCTION kube_reports_internal.common(elements bigint[]) RETURNS bigint
	AS 'MODULE_PATHNAME', 'sql_common' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.common(bigint[])
	IS 'the number to which all elements are equal; null if there is none';

CREATE FUNCTION kube_reports_internal.joined_ids(keys bigint[], criteria bigint[], subjects bigint[]) RETURNS bigint[]
	AS 'MODULE_PATHNAME', 'sql_joined_ids' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.joined_ids(bigint[], bigint[], bigint[])
	IS 'the ids of a row of report_change: keys, then the criteria if they differ, then the subjects if they differ';

CREATE FUNCTION kube_reports_internal.letters(elements "char"[]) RETURNS text
	AS 'MODULE_PATHNAME', 'sql_letters' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.letters("char"[])
	IS 'a letter for each element, - for a null; one letter if all are equal, null if all are null';

CREATE FUNCTION kube_reports_internal.packed(elements timestamptz[]) RETURNS timestamptz[]
	AS 'MODULE_PATHNAME', 'sql_packed' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.packed(timestamptz[])
	IS 'times in the form of report_change: one element if all elements are equal, null if all are null';

CREATE FUNCTION kube_reports_internal.unpacked_changes(ids bigint[], only_criterion bigint, only_subject bigint,
		old_statuses text, new_statuses text, gone_withs text, first_seens timestamptz[], old_sinces timestamptz[],
		OUT key bigint, OUT criterion bigint, OUT subject bigint, OUT old_status "char", OUT new_status "char",
			OUT gone_with "char", OUT first_seen timestamptz, OUT old_since timestamptz)
			RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sql_unpacked_changes' LANGUAGE C IMMUTABLE PARALLEL SAFE ROWS 10;
COMMENT ON FUNCTION kube_reports_internal.unpacked_changes(bigint[], bigint, bigint, text, text, text, timestamptz[],
	timestamptz[])
	IS 'the events in a row of report_change, in the order of its ids: a row for each key. An array of one element or '
		'a text of one letter stands for all events';

---- aggregation ----

CREATE FUNCTION kube_reports_internal.count_summary(body kube_reports.report, OUT counted kube_reports.report,
	OUT found kube_reports.report)
	AS 'MODULE_PATHNAME', 'sql_count_summary' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.count_summary(kube_reports.report)
	IS 'the summary counted from the results of a report in the policy working group''s format, and the summary in '
		'the report (null: it has none): both are at the top of the report, or in spec';

CREATE FUNCTION kube_reports_internal.first_owner(metadata kube_reports.report, OUT owners integer, OUT uid text,
	OUT owner kube_reports.report)
	AS 'MODULE_PATHNAME', 'sql_first_owner' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.first_owner(kube_reports.report)
	IS 'owners: the number of owners in the metadata of an object; uid: the uid of the first owner; owner: its '
		'apiVersion, kind, name and uid. Nulls: the object has no owner';

CREATE FUNCTION kube_reports.policy_rules(policy kube_reports.report) RETURNS text[]
	AS 'MODULE_PATHNAME', 'sql_policy_rules' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports.policy_rules(kube_reports.report)
	IS 'the names of the rules of a ClusterPolicy or Policy of Kyverno: its own rules, and those that Kyverno '
		'generates from them for pod controllers';

CREATE FUNCTION kube_reports_internal.list_results(body kube_reports.report, resource kube_reports.report,
		OUT "position" integer, OUT source text, OUT policy text, OUT rule text, OUT status text,
			OUT seconds bigint, OUT content text)
		RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sql_list_results' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.list_results(kube_reports.report, kube_reports.report)
	IS 'the results of a report in the policy working group''s format, each as JSON with the members that aggregation '
		'needs. resource: replaces the resource of each result (null: it stays)';

---- answers ----

CREATE FUNCTION kube_reports_internal.get_plan(definition_id bigint, definition kube_reports.report, request jsonb,
		OUT code integer, OUT status bytea, OUT transform text, OUT version bigint)
	AS 'MODULE_PATHNAME', 'sql_get_plan' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.get_plan(bigint, kube_reports.report, jsonb)
	IS 'the plan of a get; code 200, or another code and the Status to answer';

CREATE FUNCTION kube_reports_internal.list_plan(definition_id bigint, definition kube_reports.report, request jsonb,
		OUT code integer, OUT status bytea, OUT transform text, OUT needs_body boolean,
		OUT label_selector text, OUT terms text[], OUT field_selector text, OUT field_name text,
		OUT max_items bigint, OUT has_continue boolean, OUT continue_version bigint,
		OUT continue_namespace text, OUT continue_name text, OUT match "char", OUT version bigint,
		OUT initial_events boolean, OUT initial_bookmark boolean, OUT from_now boolean, OUT bookmarks boolean,
		OUT timeout_seconds bigint, OUT envelope text)
	AS 'MODULE_PATHNAME', 'sql_list_plan' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.list_plan(bigint, kube_reports.report, jsonb)
	IS 'the plan of a list or watch; code 200, or another code and the Status to answer. match: r most recent, a any, '
		'n not older, e exact; envelope: transform, apiVersion and kind if items are rendered from the stored texts, '
		'otherwise null';

CREATE FUNCTION kube_reports_internal.render_object(definition_id bigint,
	definition kube_reports.report, transform text,
		metadata kube_reports.report, body kube_reports.report, version bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'sql_render_object' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.render_object(bigint, kube_reports.report, text, kube_reports.report,
	kube_reports.report, bigint)
	IS 'an object as the answer to a request, with a newline; version null: without resourceVersion';

CREATE FUNCTION kube_reports_internal.render_item(definition_id bigint, definition kube_reports.report, transform text,
	events boolean, separated boolean,
		metadata kube_reports.report, body kube_reports.report, version bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'sql_render_item' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.render_item(bigint, kube_reports.report, text, boolean, boolean,
	kube_reports.report, kube_reports.report, bigint)
	IS 'an object as an item of a list, or (events) as the frame of an ADDED event; separated: with the separator '
		'between it and the item before';

CREATE FUNCTION kube_reports_internal.render_change(definition_id bigint,
	definition kube_reports.report, transform text,
		metadata kube_reports.report, body kube_reports.report, version bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'sql_render_change' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.render_change(bigint, kube_reports.report, text, kube_reports.report,
	kube_reports.report, bigint)
	IS 'an object as the object of a watch event, without a newline';

CREATE FUNCTION kube_reports_internal.render_list(definition_id bigint, definition kube_reports.report, transform text,
		part "char", version bigint, continue_token text, remaining bigint) RETURNS bytea
	AS 'MODULE_PATHNAME', 'sql_render_list' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.render_list(bigint, kube_reports.report, text, "char", bigint, text, bigint)
	IS 'the parts of a list around its items: h head, s separator, t tail; remaining null: the number is omitted';

CREATE FUNCTION kube_reports_internal.render_bookmark(definition_id bigint,
	definition kube_reports.report, transform text,
		version bigint, initial_end boolean) RETURNS bytea
	AS 'MODULE_PATHNAME', 'sql_render_bookmark' LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.render_bookmark(bigint, kube_reports.report, text, bigint, boolean)
	IS 'the frame of a bookmark; initial_end: the bookmark that ends the initial events';

CREATE FUNCTION kube_reports_internal.continue_token(version bigint, namespaced boolean, root_namespace text,
		last_namespace text, last_name text) RETURNS text
	AS 'MODULE_PATHNAME', 'sql_continue_token' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.continue_token(bigint, boolean, text, text, text)
	IS 'the continue token of a page that ended with this key';

CREATE FUNCTION kube_reports_internal.not_found_document(resource text, "group" text, name text) RETURNS bytea
	AS 'MODULE_PATHNAME', 'sql_not_found_document' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.not_found_document(text, text, text)
	IS 'the Kubernetes Status of an object that does not exist';

CREATE FUNCTION kube_reports_internal.status_document(code integer, reason text, message text, details jsonb)
	RETURNS bytea
	AS 'MODULE_PATHNAME', 'sql_status_document' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION kube_reports_internal.status_document(integer, text, text, jsonb)
	IS 'a Kubernetes Status of a failure; details null: none';

