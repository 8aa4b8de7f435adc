/*-------------------------------------------------------------------------
 *
 * import_cluster.c
 *	  import --from-cluster: reports of CustomResourceDefinitions, through kube-apiserver.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/import_source.h"

#include "commands/crd_list.h"

/* Tells the user how to import a group that this server already serves. */
static void
explain_served(Progress *progress, const ReportKind *kind, const char *version, const char *service)
{
	progress_tell(progress, "APIService %s.%s points at service %s: it hides the objects in etcd, which cannot "
				  "be read", version, kind->group, service);
	progress_tell(progress, "run import before \"apiservice enable\", or hand the group back for some time: "
				  "kube-reports-proxy apiservice disable %s/%s --service=%s", kind->group, version, service);
}

static ImportEnd
reach(ImportBatch *batch, Asker *kube, const char *version)
{
	Arena		arena;
	const char *why = NULL;
	CrdReach	found;

	arena_init(&arena);
	found = crd_reach(kube, &arena, batch->kind->group, version, &why);
	if (found == CRD_SERVED)
		explain_served(&batch->progress, batch->kind, version, why);
	if (found == CRD_UNKNOWN)
		progress_tell(&batch->progress, "%s", why);
	arena_free(&arena);
	return found == CRD_STORED ? IMPORT_WHOLE : found == CRD_ABSENT ? IMPORT_ABSENT : IMPORT_FAILED;
}

/* A list begins anew: its objects are counted from zero. */
static void
begin_again(ImportBatch *batch)
{
	progress_tell(&batch->progress, "the list expired after %zu objects, which are stored, and begins again",
				  batch->counts.read);
	batch->counts = (ImportCounts) {0};
}

static bool
take_items(ImportBatch *batch, Arena *arena, const JsonNode *items)
{
	for (size_t i = 0; items != NULL && i < items->u.array.count; i++)
	{
		if (!import_batch_add(batch, arena, items->u.array.items[i]))
			return false;
	}
	return true;
}

ImportEnd
import_from_cluster(ImportBatch *batch, Asker *kube, const char *version, int page_size)
{
	CrdList		list = {
		.kube = kube,
		.group = batch->kind->group,
		.version = version[0] != '\0' ? version : batch->kind->version,
		.resource = batch->kind->resource,
		.page_size = page_size,
	};
	ImportEnd	end = reach(batch, kube, list.version);
	CrdStep		step = CRD_PAGE;

	while (end == IMPORT_WHOLE && step != CRD_LAST)
	{
		Arena		arena;
		const JsonNode *items;
		const char *why;
		int			status;

		arena_init(&arena);
		step = crd_list_next(&list, &arena, &items, &status, &why);
		batch->progress.total = list.total;
		/* After a page, 404 comes from a server that does not know the CustomResourceDefinition yet, or any more. */
		if (step == CRD_FAILED && status == 404 && !list.begun)
			end = IMPORT_ABSENT;
		else if (step == CRD_FAILED)
		{
			progress_tell(&batch->progress, "%s", why);
			end = IMPORT_FAILED;
		}
		else if (!take_items(batch, &arena, items) || (step != CRD_PAGE && !import_batch_flush(batch)))
			end = IMPORT_STOPPED;
		else if (step == CRD_RESTART)
			begin_again(batch);
		arena_free(&arena);
	}

	/*
	 * The group may have been switched to the proxies meanwhile.  Then later pages came from the proxies and show
	 * copies: objects in etcd that were not copied yet are not in them.
	 */
	if (end == IMPORT_WHOLE && reach(batch, kube, list.version) == IMPORT_FAILED)
	{
		progress_tell(&batch->progress, "the group was switched meanwhile: not all objects were read");
		end = IMPORT_FAILED;
	}
	if (end == IMPORT_WHOLE && list.moved)
		progress_tell(&batch->progress, "the cluster's objects changed while they were read: run import again");
	crd_list_end(&list);
	return end;
}
