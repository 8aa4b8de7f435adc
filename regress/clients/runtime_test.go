package clients

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// newClient is controller-runtime's client: it maps kinds to resources by discovery.
func newClient(t *testing.T) crclient.WithWatch {
	t.Helper()
	return must(crclient.NewWithWatch(shared.config(), crclient.Options{Scheme: newScheme()}))(t)
}

func typedReport(namespace, name string, labels map[string]string) *PolicyReport {
	return &PolicyReport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Results: []result{{Policy: "p", Result: "pass"}}}
}

// CRE-01, UPD-03, MP-01, PART-02, DC-01: controller-runtime's client: create, get as three Go types, update, merge
// patches with and without optimistic lock, DeleteAllOf, deletion under preconditions.
func TestRuntimeClient(t *testing.T) {
	ctx := t.Context()
	client := newClient(t)
	namespace := newNamespace()
	report := typedReport(namespace, "r", map[string]string{"app": "a"})
	if err := client.Create(ctx, report); err != nil {
		t.Fatal(err)
	}
	key := crclient.ObjectKeyFromObject(report)
	var partial metav1.PartialObjectMetadata
	partial.SetGroupVersionKind(policyGV.WithKind("PolicyReport"))
	var free unstructured.Unstructured
	free.SetGroupVersionKind(partial.GroupVersionKind())
	for _, object := range []crclient.Object{&partial, &free} {
		if err := client.Get(ctx, key, object); err != nil || object.GetUID() != report.UID ||
			object.GetResourceVersion() != report.ResourceVersion {
			t.Errorf("%v, %v", object, err)
		}
	}

	// Two read the same; the second patch with the lock is refused, without it is merged.
	one, two := report.deepCopy(), report.deepCopy()
	one.Summary.Pass = 1
	locked := crclient.MergeFromWithOptions(report.deepCopy(), crclient.MergeFromWithOptimisticLock{})
	if err := client.Patch(ctx, one, locked); err != nil {
		t.Fatal(err)
	}
	two.Summary.Fail = 2
	if err := client.Patch(ctx, two.deepCopy(), locked); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: %v", err)
	}
	if err := client.Patch(ctx, two, crclient.MergeFrom(report)); err != nil || two.Summary.Pass != 1 ||
		two.Summary.Fail != 2 {
		t.Errorf("%+v, %v", two, err)
	}
	if err := client.Update(ctx, one); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	partial.Annotations = map[string]string{"a": "b"}
	base := partial.DeepCopy()
	base.Annotations = nil
	if err := client.Patch(ctx, &partial, crclient.MergeFrom(base)); err != nil || partial.Annotations["a"] != "b" {
		t.Errorf("%+v, %v", partial, err)
	}

	if err := client.Delete(ctx, two,
		crclient.Preconditions{ResourceVersion: &report.ResourceVersion}); !apierrors.IsConflict(err) {
		t.Errorf("deleting an old version: %v", err)
	}
	for i := range 4 {
		if err := client.Create(ctx, typedReport(namespace, fmt.Sprint("more", i),
			map[string]string{"app": []string{"a", "b"}[i%2]})); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.DeleteAllOf(ctx, &PolicyReport{}, crclient.InNamespace(namespace),
		crclient.MatchingLabels{"app": "a"}); err != nil {
		t.Fatal(err)
	}
	var left PolicyReportList
	if err := client.List(ctx, &left, crclient.InNamespace(namespace)); err != nil || len(left.Items) != 2 {
		t.Errorf("%+v, %v", left.Items, err)
	}
	if err := client.Create(ctx, typedReport(namespace, "dry", nil), crclient.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := client.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: "dry"},
		&PolicyReport{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run stored: %v", err)
	}
}

// INF-01, INF-02, INF-03: controller-runtime's cache of typed objects in some namespaces with a selector, an index and
// a metadata cache beside it: reads come from there and catch up with writes through the client.
func TestRuntimeCache(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	client := newClient(t)
	resync := time.Second
	cache := must(crcache.New(shared.config(), crcache.Options{
		Scheme: newScheme(), SyncPeriod: &resync, DefaultTransform: forgetKind,
		DefaultNamespaces: map[string]crcache.Config{namespace: {}, namespace + "-2": {}},
	}))(t)
	byPolicy := func(object crclient.Object) []string {
		var policies []string
		for _, result := range object.(*PolicyReport).Results {
			policies = append(policies, result.Policy)
		}
		return policies
	}
	if err := cache.IndexField(ctx, &PolicyReport{}, "policy", byPolicy); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cache.Start(ctx) }()
	if !cache.WaitForCacheSync(ctx) {
		t.Fatal("no sync")
	}
	for i := range 6 {
		report := typedReport(fmt.Sprint(namespace, []string{"", "-2", "-3"}[i%3]), fmt.Sprint("r", i), nil)
		report.Results[0].Policy = fmt.Sprint("policy-", i/3)
		if err := client.Create(ctx, report); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, count int, list crclient.ObjectList, options ...crclient.ListOption) {
		t.Helper()
		until(t, what, func() error {
			err := cache.List(ctx, list, options...)
			if items := stateOfList(list); err != nil || len(items) != count {
				return fmt.Errorf("%v, %v", items, err)
			}
			return nil
		})
	}
	metadatas := &metav1.PartialObjectMetadataList{}
	metadatas.SetGroupVersionKind(policyGV.WithKind("PolicyReportList"))
	expect("both namespaces", 4, &PolicyReportList{})
	expect("metadata of both", 4, metadatas)
	expect("one namespace", 2, &PolicyReportList{}, crclient.InNamespace(namespace))
	expect("the index", 2, &PolicyReportList{}, crclient.MatchingFields{"policy": "policy-1"})
	if err := client.DeleteAllOf(ctx, &PolicyReport{}, crclient.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	expect("what is left", 2, &PolicyReportList{})
	expect("metadata of what is left", 2, metadatas)
}

func stateOfList(list crclient.ObjectList) map[string]string {
	switch list := list.(type) {
	case *PolicyReportList:
		return stateOf(pointers(list.Items))
	case *metav1.PartialObjectMetadataList:
		return stateOf(pointers(list.Items))
	}
	panic(fmt.Sprintf("%T", list))
}

func pointers[T any](items []T) []*T {
	var to []*T
	for i := range items {
		to = append(to, &items[i])
	}
	return to
}
