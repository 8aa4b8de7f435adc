package clients

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// WL-01, WL-04, WL-06, INF-01, INF-02: with the gate on, informers begin with a watch that sends the state and never
// list by themselves; with the gate off they list, then watch.  The consistency detector's exact list is its own.  What
// changes then is in their stores (e2e watchlist.go, should be requested by informers when WatchListClient is enabled).
func TestHowInformersBegin(t *testing.T) {
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	for i := range 7 {
		create(t, reports, newReport(namespace, fmt.Sprint("r", i), nil))
	}
	config, requests := recorded(shared.config())
	typed := typedPolicyReports(config, namespace)
	for name, informer := range map[string]cache.SharedIndexInformer{
		"typed": cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return typed.List(ctx, options)
			},
			WatchFuncWithContext: typed.Watch,
		}, typed), &PolicyReport{}, 0, nil),
		"dynamic": dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0,
			namespace, nil).
			ForResource(policyReports).Informer(),
		"metadata": metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(config), 0, namespace,
			nil).
			ForResource(policyReports).Informer(),
	} {
		t.Run(name, func(t *testing.T) {
			if name != "dynamic" {
				if err := informer.SetTransform(forgetKind); err != nil {
					t.Fatal(err)
				}
			}
			requests.take()
			go informer.RunWithContext(t.Context())
			if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
				t.Fatal("no sync")
			}
			if count := len(informer.GetStore().List()); count != 7 {
				t.Errorf("%d reports", count)
			}
			for i, request := range requests.take() {
				query := request.URL.Query()
				streams := query.Get("watch") != "" && query.Get("sendInitialEvents") == "true" &&
					query.Get("resourceVersionMatch") == "NotOlderThan" && query.Get("allowWatchBookmarks") == "true"
				switch {
				case request.code != 200:
					t.Errorf("%s: %d", request.URL, request.code)
				case query.Get("resourceVersionMatch") == "Exact":
				case i == 0 && streams != watchListOn():
					t.Errorf("it began with %s", request.URL)
				case i == 0 && !streams && query.Get("resourceVersion") != "0":
					t.Errorf("it listed %s", request.URL)
				}
			}
			changed := mergePatch(t, reports, "r0", fmt.Sprintf(`{"metadata":{"labels":{"informer":%q}}}`, name))
			until(t, "the change in the store", func() error {
				object, there, err := informer.GetStore().GetByKey(namespace + "/r0")
				if err != nil || !there {
					return fmt.Errorf("there %v, %v", there, err)
				}
				if got := object.(metav1.Object).GetResourceVersion(); got != changed.GetResourceVersion() {
					return fmt.Errorf("version %s, not %s", got, changed.GetResourceVersion())
				}
				return nil
			})
		})
	}
}

// WL-01: a list of a client stays a list whatever the gate says (e2e watchlist.go, should NOT be requested by
// client-go's List method, by dynamic client's List method, by metadata client's List method when WatchListClient is
// enabled).
func TestListsAreNotStreamed(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	var want []string
	for i := range 5 {
		created := create(t, shared.dynamic().Resource(policyReports).Namespace(namespace),
			newReport(namespace, fmt.Sprint("r", i), map[string]string{"listed": "yes"}))
		want = append(want, created.GetName()+" "+created.GetResourceVersion())
	}
	config, requests := recorded(shared.config())
	options := metav1.ListOptions{LabelSelector: "listed=yes"}
	for name, list := range map[string]func() (runtime.Object, error){
		"typed": func() (runtime.Object, error) {
			return typedPolicyReports(config, namespace).List(ctx, options)
		},
		"dynamic": func() (runtime.Object, error) {
			return dynamic.NewForConfigOrDie(config).Resource(policyReports).Namespace(namespace).List(ctx, options)
		},
		"metadata": func() (runtime.Object, error) {
			return metadata.NewForConfigOrDie(config).Resource(policyReports).Namespace(namespace).List(ctx, options)
		},
	} {
		requests.take()
		var got []string
		err := meta.EachListItem(must(list())(t), func(item runtime.Object) error {
			object := item.(metav1.Object)
			got = append(got, object.GetName()+" "+object.GetResourceVersion())
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		for i, request := range requests.take() {
			if query := request.URL.Query(); query.Has("watch") || query.Has("sendInitialEvents") || i == 0 &&
				len(query) != 1 {
				t.Errorf("%s: %s", name, request.URL)
			}
		}
	}
}

// WL-04, WL-06, W-12: the stream itself: the present objects in the order of their keys with their own versions, the
// bookmark that ends them, whose version is none of the past, then changes; selectors apply.
func TestStreamedState(t *testing.T) {
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	var created []*unstructured.Unstructured
	for i := range 5 {
		colour := []string{"red", "blue"}[i%2]
		created = append(created, create(t, reports, newReport(namespace, fmt.Sprint("r", i),
			map[string]string{"colour": colour})))
	}
	yes := true
	events := startWatch(t, reports, metav1.ListOptions{LabelSelector: "colour=red", SendInitialEvents: &yes,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
	for _, i := range []int{0, 2, 4} {
		expectEvent(t, events, watch.Added, created[i])
	}
	event := <-events.ResultChan()
	bookmark, isObject := event.Object.(*unstructured.Unstructured)
	if event.Type != watch.Bookmark || !isObject ||
		bookmark.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" ||
		version(bookmark) < version(created[4]) {
		t.Fatalf("%s of %v", event.Type, event.Object)
	}
	changed := mergePatch(t, reports, "r1", `{"metadata":{"labels":{"colour":"red"}}}`)
	expectEvent(t, events, watch.Added, changed)
}

// WL-06: a watch that takes nothing but Tables is refused with 406 when it asks for the state; one that takes JSON as
// well gets objects (e2e watchlist.go, doesn't support receiving resources as Tables, falls backs to supported content
// type).
func TestStreamedStateAsTable(t *testing.T) {
	namespace := newNamespace()
	create(t, shared.dynamic().Resource(policyReports).Namespace(namespace), newReport(namespace, "r", nil))
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for accept, refused := range map[string]bool{table: true, table + ",application/json": false} {
		stream, err := restClientFor(shared.config(), policyGV,
			newScheme()).Get().Namespace(namespace).Resource("policyreports").
			SetHeader("Accept", accept).Param("watch", "true").Param("sendInitialEvents", "true").
			Param("resourceVersionMatch", "NotOlderThan").Param("allowWatchBookmarks", "true").Watch(t.Context())
		if refused {
			if !apierrors.IsNotAcceptable(err) {
				t.Errorf("%s: %v", accept, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		event := <-stream.ResultChan()
		if report, isReport := event.Object.(*PolicyReport); event.Type != watch.Added || !isReport ||
			report.Name != "r" {
			t.Errorf("%s of %v", event.Type, event.Object)
		}
		stream.Stop()
	}
}

// WL-05: a state that is not older than a version of the future: the client is told that the version is too large.
func TestStreamedStateOfTheFuture(t *testing.T) {
	yes := true
	events, err := shared.dynamic().Resource(policyReports).Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: "9000000000000000000",
			SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			AllowWatchBookmarks: true})
	if err == nil {
		defer events.Stop()
		err = apierrors.FromObject(next(t, events).Object)
	}
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("%v", err)
	}
	if status, isStatus := err.(apierrors.APIStatus); !isStatus ||
		!slices.Contains([]int32{504}, status.Status().Code) {
		t.Errorf("%v", err)
	}
}
