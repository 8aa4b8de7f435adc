package clients

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// The requests of the garbage collector and of the namespace controller, as they send them: through the metadata
// client.

func ownerReference(owner *unstructured.Unstructured, block bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(),
		UID:                owner.GetUID(),
		BlockOwnerDeletion: &block}
}

// family creates an owner and dependents of it.
func family(t *testing.T, reports dynamic.ResourceInterface, namespace string, dependents int,
	finalizers ...string) *unstructured.Unstructured {
	t.Helper()
	owner := newReport(namespace, "owner", nil)
	owner.SetFinalizers(finalizers)
	owner = create(t, reports, owner)
	for i := range dependents {
		dependent := newReport(namespace, fmt.Sprint("dependent", i), nil)
		dependent.SetOwnerReferences([]metav1.OwnerReference{ownerReference(owner, true)})
		create(t, reports, dependent)
	}
	return owner
}

// GC-01, DISC-10: the collector finds every type of ours, with the verbs that it needs and metadata informers that
// sync.
func TestCollectorFindsResources(t *testing.T) {
	client := discovery.NewDiscoveryClientForConfigOrDie(shared.config())
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	found := must(discovery.GroupVersionResources(discovery.FilteredBy(
		discovery.SupportsAllVerbs{Verbs: []string{"delete", "list", "watch"}}, lists)))(t)
	for _, resource := range []schema.GroupVersionResource{policyReports, clusterPolicyReports, openReports,
		clusterOpenReports, ephemeralReports, clusterEphemeralReports} {
		if _, is := found[resource]; !is {
			t.Errorf("%s is not found", resource)
		}
	}
	for resource := range found {
		f := followMetadata(t.Context(), shared, scope{resource: resource})
		until(t, f.name, func() error {
			if !f.ready() {
				return fmt.Errorf("not synced")
			}
			return nil
		})
	}
}

// GC-02, GC-03, GC-04, DEL-03: an owner that is absent is 404 and nothing else; a dependent is deleted under the
// precondition of its uid (and version), and another's uid is a conflict.
func TestCollectorDeletesDependents(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	partial := shared.metadata().Resource(policyReports).Namespace(namespace)
	owner := family(t, reports, namespace, 2)
	background := metav1.DeletePropagationBackground
	remove(t, reports, "owner")
	if _, err := partial.Get(ctx, "owner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the owner: %v", err)
	}
	// Made again it is another: the uid differs.
	if again := create(t, reports, newReport(namespace, "owner", nil)); again.GetUID() == owner.GetUID() {
		t.Fatal("a uid was used twice")
	}
	for i := range 2 {
		dependent := must(partial.Get(ctx, fmt.Sprint("dependent", i), metav1.GetOptions{}))(t)
		if dependent.OwnerReferences[0].UID != owner.GetUID() || !*dependent.OwnerReferences[0].BlockOwnerDeletion {
			t.Errorf("%+v", dependent.OwnerReferences)
		}
		wrong := owner.GetUID()
		if err := partial.Delete(ctx, dependent.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong},
				PropagationPolicy: &background}); !apierrors.IsConflict(err) {
			t.Errorf("deleting another's uid: %v", err)
		}
		old := "1"
		if err := partial.Delete(ctx, dependent.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &dependent.UID,
				ResourceVersion: &old}}); !apierrors.IsConflict(err) {
			t.Errorf("deleting an old version: %v", err)
		}
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &dependent.UID,
			ResourceVersion: &dependent.ResourceVersion}, PropagationPolicy: &background}
		if err := partial.Delete(ctx, dependent.Name, options); err != nil {
			t.Error(err)
		}
		if err := partial.Delete(ctx, dependent.Name, options); !apierrors.IsNotFound(err) {
			t.Errorf("deleting it again: %v", err)
		}
	}
}

// GC-05, DEL-06, DEL-07: foreground: the owner stays, marked, until its dependents are gone and the collector takes the
// finalizer away by a merge patch with the version; then it vanishes at once.
func TestCollectorForeground(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	partial := shared.metadata().Resource(policyReports).Namespace(namespace)
	owner := family(t, reports, namespace, 1)
	events := startWatch(t, reports, metav1.ListOptions{FieldSelector: "metadata.name=owner",
		ResourceVersion: owner.GetResourceVersion()})
	foreground := metav1.DeletePropagationForeground
	if err := reports.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	waiting := must(partial.Get(ctx, "owner", metav1.GetOptions{}))(t)
	if waiting.DeletionTimestamp == nil || waiting.DeletionGracePeriodSeconds == nil ||
		*waiting.DeletionGracePeriodSeconds != 0 ||
		!slices.Equal(waiting.Finalizers, []string{metav1.FinalizerDeleteDependents}) ||
		waiting.Generation != owner.GetGeneration()+1 {
		t.Fatalf("%+v", waiting)
	}
	event := next(t, events)
	if event.Type != watch.Modified || event.Object.(metav1.Object).GetDeletionTimestamp() == nil {
		t.Fatalf("%s of %v", event.Type, event.Object)
	}
	if err := partial.Delete(ctx, "dependent0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	removeFinalizer(t, partial, waiting, metav1.FinalizerDeleteDependents)
	if _, err := partial.Get(ctx, "owner", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if event := next(t, events); event.Type != watch.Deleted {
		t.Errorf("%s of %v", event.Type, event.Object)
	}
}

// removeFinalizer is the collector's merge patch.
func removeFinalizer(t *testing.T, partial metadata.ResourceInterface, object *metav1.PartialObjectMetadata,
	finalizer string) {
	t.Helper()
	rest := slices.DeleteFunc(slices.Clone(object.Finalizers), func(other string) bool { return other == finalizer })
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": object.ResourceVersion,
		"finalizers": rest}})
	if _, err := partial.Patch(t.Context(), object.Name, types.MergePatchType,
		[]byte("{\"metadata\":{\"resourceVersion\":\"1\",\"finalizers\":[]}}"),
		metav1.PatchOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: %v", err)
	}
	must(partial.Patch(t.Context(), object.Name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// GC-06, PAT-01: orphan: each dependent gets a strategic merge patch first, which is 415, then a merge patch with its
// version and the remaining owners; then the finalizer goes, and the owner with it.
func TestCollectorOrphans(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	partial := shared.metadata().Resource(policyReports).Namespace(namespace)
	owner := family(t, reports, namespace, 2)
	other := must(partial.Get(ctx, "dependent1", metav1.GetOptions{}))(t)
	second := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web",
		UID: "0a0a0a0a-0000-4000-8000-000000000000"}
	references, _ := json.Marshal([]metav1.OwnerReference{other.OwnerReferences[0], second})
	mergePatch(t, reports, "dependent1", fmt.Sprintf(`{"metadata":{"ownerReferences":%s}}`, references))
	orphan := metav1.DeletePropagationOrphan
	if err := reports.Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	waiting := must(partial.Get(ctx, "owner", metav1.GetOptions{}))(t)
	if waiting.DeletionTimestamp == nil || !slices.Equal(waiting.Finalizers,
		[]string{metav1.FinalizerOrphanDependents}) {
		t.Fatalf("%+v", waiting)
	}
	for i := range 2 {
		dependent := must(partial.Get(ctx, fmt.Sprint("dependent", i), metav1.GetOptions{}))(t)
		strategic := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":%q}],"uid":%q}}`,
			owner.GetUID(), dependent.UID)
		if _, err := partial.Patch(ctx, dependent.Name, types.StrategicMergePatchType, []byte(strategic),
			metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
			t.Errorf("a strategic merge patch: %v", err)
		}
		rest := slices.DeleteFunc(slices.Clone(dependent.OwnerReferences),
			func(reference metav1.OwnerReference) bool { return reference.UID == owner.GetUID() })
		patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": dependent.ResourceVersion,
			"ownerReferences": rest}})
		patched := must(partial.Patch(ctx, dependent.Name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
		if len(patched.OwnerReferences) != i || patched.UID != dependent.UID {
			t.Errorf("%+v", patched)
		}
	}
	removeFinalizer(t, partial, waiting, metav1.FinalizerOrphanDependents)
	list := must(partial.List(ctx, metav1.ListOptions{}))(t)
	if len(list.Items) != 2 {
		t.Errorf("%+v", list.Items)
	}
}

// GC-07, GC-08: a cluster-scoped owner of a namespaced report; references and finalizers come back as they were
// written; a uid stays.
func TestCollectorReferencesSurvive(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	cluster := shared.dynamic().Resource(clusterPolicyReports)
	owner := create(t, cluster, newReport("", namespace, nil))
	yes, no := true, false
	report := newReport(namespace, "r", nil)
	references := []metav1.OwnerReference{
		{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(),
			Controller: &yes, BlockOwnerDeletion: &no},
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "0a0a0a0a-0000-4000-8000-000000000001"},
	}
	report.SetOwnerReferences(references)
	report.SetFinalizers([]string{"example.com/b", "example.com/a"})
	created := create(t, reports, report)
	changed := mergePatch(t, reports, "r", `{"summary":{"fail":1}}`)
	partial := must(shared.metadata().Resource(policyReports).Namespace(namespace).Get(ctx, "r",
		metav1.GetOptions{}))(t)
	if partial.UID != created.GetUID() || changed.GetUID() != created.GetUID() ||
		!slices.Equal(partial.Finalizers, report.GetFinalizers()) ||
		asJSON(t, partial.OwnerReferences) != asJSON(t, references) {
		t.Errorf("%+v", partial)
	}
	remove(t, reports, "r")
	mergePatch(t, reports, "r", `{"metadata":{"finalizers":null}}`)
	if _, err := reports.Get(ctx, "r", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	remove(t, cluster, namespace)
}

// NS-01, NS-02, DC-01, DC-04, LIST-01: the namespace controller: what can be deleted is found by discovery;
// deletecollection of each type, then a list that is empty at once, through whichever proxy; watchers see each deletion
// under its own version; objects with finalizers are left and marked.
func TestNamespaceController(t *testing.T) {
	ctx := t.Context()
	const count = 120
	namespace, reports := fill(t, shared, 0)
	held := newReport(namespace, "held", nil)
	held.SetFinalizers([]string{"example.com/hold"})
	create(t, reports, held)
	for i := range count {
		create(t, reports, newReport(namespace, fmt.Sprintf("r%03d", i), nil))
	}
	ephemerals := typedEphemeralReports(shared.config(), namespace)
	must(ephemerals.Create(ctx, newEphemeralReport(namespace, resourceUID(1), "admission"), metav1.CreateOptions{}))(t)
	list := must(reports.List(ctx, metav1.ListOptions{}))(t)
	events := startWatch(t, reports, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})

	lists, err := discovery.NewDiscoveryClientForConfigOrDie(shared.config()).ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	resources := must(discovery.GroupVersionResources(discovery.FilteredBy(
		discovery.SupportsAllVerbs{Verbs: []string{"deletecollection", "list"}}, lists)))(t)
	background := metav1.DeletePropagationBackground
	for resource := range resources {
		partial := shared.metadata().Resource(resource).Namespace(namespace)
		if err := partial.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background},
			metav1.ListOptions{}); err != nil {
			t.Fatalf("%s: %v", resource, err)
		}
		left := must(partial.List(ctx, metav1.ListOptions{}))(t)
		switch {
		case resource == policyReports && (len(left.Items) != 1 || left.Items[0].DeletionTimestamp == nil ||
			len(left.Items[0].Finalizers) != 1):
			t.Errorf("left: %+v", left.Items)
		case resource != policyReports && len(left.Items) != 0:
			t.Errorf("left of %s: %+v", resource, left.Items)
		}
	}
	if len(resources) < 3 {
		t.Errorf("resources: %v", resources)
	}
	deleted := map[string]bool{}
	for last := version(list); len(deleted) < count; {
		event := next(t, events)
		object := event.Object.(metav1.Object)
		if version(object) <= last {
			t.Fatalf("%s of %s at %d after %d", event.Type, object.GetName(), version(object), last)
		}
		last = version(object)
		if event.Type == watch.Deleted {
			deleted[object.GetName()] = true
		}
	}
	mergePatch(t, reports, "held", `{"metadata":{"finalizers":[]}}`)
	if list := must(reports.List(ctx, metav1.ListOptions{}))(t); len(list.Items) != 0 {
		t.Errorf("%v", namesOf(list.Items))
	}
}
