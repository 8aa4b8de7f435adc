package clients

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/consistencydetector"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// A follower keeps a copy of what a client can see, in its own way.
type follower struct {
	name  string
	ready func() bool
	// state tells the version of every object that the client believes to exist.
	state func() map[string]string
	// failure is what has stopped it for good.
	failure func() error
	// missed gives the versions, of some, that it should have been told of and was not; nil: nothing is known of single
	// events.
	missed func(versions []uint64) []uint64
	begin  uint64 // it is told of later versions
}

// A scope is what an informer looks at.
type scope struct {
	resource  schema.GroupVersionResource
	namespace string
	selector  string
}

func (s scope) tweak(options *metav1.ListOptions) { options.LabelSelector = s.selector }

func (s scope) String() string {
	return fmt.Sprintf("%s in %q with %q", s.resource.Resource, s.namespace, s.selector)
}

// list is what every follower has to arrive at.
func (s scope) list(ctx context.Context, on *stack) (map[string]string, error) {
	list, err := on.dynamic().Resource(s.resource).Namespace(s.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		return nil, err
	}
	state := map[string]string{}
	for i := range list.Items {
		key, version := keyOf(&list.Items[i])
		state[key] = version
	}
	return state, nil
}

func stateOf[T any](items []T) map[string]string {
	state := map[string]string{}
	for _, item := range items {
		object, err := meta.Accessor(item)
		if err != nil {
			panic(err)
		}
		key, version := keyOf(object)
		state[key] = version
	}
	return state
}

func noFailure() error { return nil }

func followInformer(ctx context.Context, name string, informer cache.SharedIndexInformer,
	transform cache.TransformFunc) follower {
	if err := informer.SetTransform(transform); err != nil {
		panic(err)
	}
	go informer.RunWithContext(ctx)
	return follower{
		name:    name,
		ready:   informer.HasSynced,
		state:   func() map[string]string { return stateOf(informer.GetStore().List()) },
		failure: noFailure,
	}
}

// forgetKind is a transform for informers of Go types.  The items of a list in JSON tell their kind, here as in a list
// of custom resources from kube-apiserver, and the decoder leaves it there; the decoder of events takes it away.  The
// detector would stumble over that.
func forgetKind(object any) (any, error) {
	if typed, ok := object.(runtime.Object); ok {
		typed.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return object, nil
}

func followDynamic(ctx context.Context, on *stack, s scope) follower {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(on.dynamic(), 2*time.Second, s.namespace,
		s.tweak)
	return followInformer(ctx, "dynamic informer of "+s.String(), factory.ForResource(s.resource).Informer(), nil)
}

func followMetadata(ctx context.Context, on *stack, s scope) follower {
	factory := metadatainformer.NewFilteredSharedInformerFactory(on.metadata(), 2*time.Second, s.namespace, s.tweak)
	return followInformer(ctx, "metadata informer of "+s.String(), factory.ForResource(s.resource).Informer(),
		forgetKind)
}

// followTyped is the informer that informer-gen makes for a generated client.
func followTyped(ctx context.Context, on *stack, s scope) follower {
	client := typedPolicyReports(on.config(), s.namespace)
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			s.tweak(&options)
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			s.tweak(&options)
			return client.Watch(ctx, options)
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lists, client), &PolicyReport{},
		2*time.Second,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return followInformer(ctx, "typed informer of "+s.String(), informer, forgetKind)
}

// followRuntime is controller-runtime's cache, of whole objects or of their metadata.
func followRuntime(ctx context.Context, t *testing.T, on *stack, s scope, kind string, partial bool) follower {
	t.Helper()
	gvk := s.resource.GroupVersion().WithKind(kind)
	var object crclient.Object = &unstructured.Unstructured{}
	var list crclient.ObjectList = &unstructured.UnstructuredList{}
	name := "controller-runtime's cache of " + s.String()
	if partial {
		object, list = &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{}
		name = "controller-runtime's metadata cache of " + s.String()
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	list.GetObjectKind().SetGroupVersionKind(gvk.GroupVersion().WithKind(kind + "List"))
	options := crcache.Options{Scheme: newScheme()}
	if partial {
		options.DefaultTransform = forgetKind
	}
	all, err := crcache.New(on.config(), options)
	if err != nil {
		t.Fatal(err)
	}
	informer, err := all.GetInformer(ctx, object, crcache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = all.Start(ctx) }()
	return follower{
		name:  name,
		ready: informer.HasSynced,
		state: func() map[string]string {
			found := list.DeepCopyObject().(crclient.ObjectList)
			if err := all.List(ctx, found); err != nil {
				return map[string]string{"error": err.Error()}
			}
			items, _ := meta.ExtractList(found)
			return stateOf(items)
		},
		failure: noFailure,
	}
}

// followRetryWatcher lists once and believes the events of a RetryWatcher from then on, as Kyverno's breaker does.
func followRetryWatcher(ctx context.Context, t *testing.T, on *stack, s scope) follower {
	t.Helper()
	client := on.metadata().Resource(s.resource).Namespace(s.namespace)
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: s.selector})
	if err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	var failed error
	state := map[string]string{}
	told := map[uint64]bool{}
	for i := range list.Items {
		key, version := keyOf(&list.Items[i])
		state[key] = version
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			s.tweak(&options)
			return client.Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			mutex.Lock()
			if event.Type == watch.Error {
				failed = apierrors.FromObject(event.Object)
			} else {
				object := event.Object.(*metav1.PartialObjectMetadata)
				key, current := keyOf(object)
				told[version(object)] = true
				switch _, known := state[key]; {
				case event.Type == watch.Added && known || event.Type != watch.Added && !known:
					failed = fmt.Errorf("%s of %s, known: %v", event.Type, key, known)
				case event.Type == watch.Deleted:
					delete(state, key)
				default:
					state[key] = current
				}
			}
			mutex.Unlock()
		}
		if ctx.Err() == nil {
			mutex.Lock()
			if failed == nil {
				failed = fmt.Errorf("the RetryWatcher has ended")
			}
			mutex.Unlock()
		}
	}()
	return follower{
		name:  "RetryWatcher of " + s.String(),
		ready: func() bool { return true },
		state: func() map[string]string {
			mutex.Lock()
			defer mutex.Unlock()
			return maps.Clone(state)
		},
		failure: func() error {
			mutex.Lock()
			defer mutex.Unlock()
			return failed
		},
		missed: func(versions []uint64) []uint64 {
			mutex.Lock()
			defer mutex.Unlock()
			return slices.DeleteFunc(versions, func(version uint64) bool { return told[version] })
		},
		begin: version(list),
	}
}

// followAll starts followers of every kind and scope.
func followAll(ctx context.Context, t *testing.T, on *stack) map[scope][]follower {
	t.Helper()
	all := scope{policyReports, "", ""}
	cluster := scope{clusterPolicyReports, "", ""}
	one := scope{policyReports, churnNamespace + "1", ""}
	red := scope{policyReports, "", "colour=red"}
	odd := scope{policyReports, churnNamespace + "2", "colour in (red,green),writer notin (0,2,4,6)"}
	followers := map[scope][]follower{}
	for _, s := range []scope{all, cluster, one, red, odd} {
		followers[s] = append(followers[s], followDynamic(ctx, on, s), followMetadata(ctx, on, s),
			followRetryWatcher(ctx, t, on, s))
	}
	for _, s := range []scope{all, one, red} {
		followers[s] = append(followers[s], followTyped(ctx, on, s))
	}
	followers[all] = append(followers[all],
		followRuntime(ctx, t, on, all, "PolicyReport", false), followRuntime(ctx, t, on, all, "PolicyReport", true))
	followers[cluster] = append(followers[cluster], followRuntime(ctx, t, on, cluster, "ClusterPolicyReport", true))
	return followers
}

// agree waits until every follower's state is the list.  Nothing may be written meanwhile.
func agree(ctx context.Context, t *testing.T, on *stack, followers map[scope][]follower) {
	t.Helper()
	for s, group := range followers {
		list, err := s.list(ctx, on)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range group {
			until(t, f.name+" equals the list", func() error {
				if err := f.failure(); err != nil {
					t.Fatalf("%s: %v", f.name, err)
				}
				if !f.ready() {
					return fmt.Errorf("not synced")
				}
				if state := f.state(); !maps.Equal(state, list) {
					return difference(state, list)
				}
				return nil
			})
		}
	}
}

func difference(state, list map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if list[key] != state[key] {
			return fmt.Errorf("%d objects, listed %d; %s is %q, listed %q", len(state), len(list), key, state[key],
				list[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if _, found := state[key]; !found {
			return fmt.Errorf("%d objects, listed %d; %s is missing", len(state), len(list), key)
		}
	}
	return nil
}

// progress waits until the writers have made more changes.
func progress(t *testing.T, changes int64) {
	t.Helper()
	goal := churn.changes.Load() + changes
	until(t, fmt.Sprintf("%d more changes", changes), func() error {
		if err := churn.failure(); err != nil {
			t.Fatal(err)
		}
		if now := churn.changes.Load(); now < goal {
			return fmt.Errorf("%d are missing", goal-now)
		}
		return nil
	})
}

// INF-01, INF-02, INF-03, INF-04, W-02, W-11, W-20, W-21, W-30, W-41, WL-04: informers of every kind follow 8 writers
// through two proxies; new ones begin in the midst of it, so that the consistency detector compares their first state
// with an exact list; in the end each holds what a list holds, and those that keep account of single events have been
// told of every version that was written.
func TestChurn(t *testing.T) {
	if !consistencydetector.IsDataConsistencyDetectionForWatchListEnabled() {
		t.Fatal("KUBE_WATCHLIST_INCONSISTENCY_DETECTOR is not set")
	}
	ctx := t.Context()
	followers := followAll(ctx, t, shared)
	for range 5 {
		progress(t, 200)
		for _, s := range []scope{{policyReports, "", ""}, {policyReports, churnNamespace + "3", "colour!=blue"},
			{clusterPolicyReports, "", ""}} {
			followers[s] = append(followers[s], followDynamic(ctx, shared, s), followMetadata(ctx, shared, s))
		}
	}
	progress(t, 500)
	churn.pause()
	defer churn.resume()
	agree(ctx, t, shared, followers)
	checked := 0
	for s, group := range followers {
		for _, f := range group {
			if s.namespace != "" || s.selector != "" || f.missed == nil {
				continue
			}
			written := churn.since(s.resource, f.begin)
			checked += len(written)
			if missed := f.missed(written); len(missed) > 0 {
				t.Errorf("%s was not told of %v", f.name, missed)
			}
		}
	}
	if checked < 1000 {
		t.Errorf("%d versions prove little", checked)
	}
}

// INF-04: what KUBE_LIST_FROM_CACHE_INCONSISTENCY_DETECTOR switched on in client-go up to 1.33, for which client-go has
// the check but no switch any more: a list that may come from a cache equals the list at exactly its version.  It
// panics on a difference.
func TestListFromCacheIsConsistent(t *testing.T) {
	ctx := t.Context()
	objects := shared.dynamic()
	metadatas := shared.metadata()
	for _, s := range []scope{{policyReports, "", ""}, {policyReports, churnNamespace + "0", ""},
		{policyReports, "", "colour=green"}, {clusterPolicyReports, "", ""}} {
		for _, options := range []metav1.ListOptions{{ResourceVersion: "0"}, {ResourceVersion: "0", Limit: 500}, {}} {
			options.LabelSelector = s.selector
			for range 5 {
				progress(t, 10)
				whole := func(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
					return objects.Resource(s.resource).Namespace(s.namespace).List(ctx, options)
				}
				partial := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList,
					error) {
					return metadatas.Resource(s.resource).Namespace(s.namespace).List(ctx, options)
				}
				checkList(ctx, t, options, whole)
				checkList(ctx, t, options, partial)
			}
		}
	}
}

func checkList[T interface {
	runtime.Object
	metav1.ListInterface
}](ctx context.Context, t *testing.T, options metav1.ListOptions, list consistencydetector.ListFunc[T]) {
	t.Helper()
	first, err := list(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(first)
	if err != nil {
		t.Fatal(err)
	}
	consistencydetector.CheckDataConsistency(ctx, t.Name(), first.GetResourceVersion(), list, nil, options,
		func() []runtime.Object { return items })
}

// Handlers of an informer, counted.
type handled struct{ added, updated, resynced, deleted atomic.Int64 }

func (h *handled) handler() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { h.added.Add(1) },
		UpdateFunc: func(before, after any) {
			if before.(metav1.Object).GetResourceVersion() == after.(metav1.Object).GetResourceVersion() {
				h.resynced.Add(1)
			} else {
				h.updated.Add(1)
			}
		},
		DeleteFunc: func(any) { h.deleted.Add(1) },
	}
}

func (h *handled) expect(t *testing.T, added, updated, deleted int64) {
	t.Helper()
	until(t, "what the handlers are told", func() error {
		if h.added.Load() != added || h.updated.Load() != updated || h.deleted.Load() != deleted {
			return fmt.Errorf("added %d of %d, updated %d of %d, deleted %d of %d",
				h.added.Load(), added, h.updated.Load(), updated, h.deleted.Load(), deleted)
		}
		return nil
	})
}

// INF-02, INF-03: a shared informer factory with resync: each change reaches the handlers once, a resync tells every
// object again under its old version (Policy Reporter's pattern: then it gets the object), the lister and the index
// know all.
func TestSharedInformerFactory(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	whole := dynamicinformer.NewFilteredDynamicSharedInformerFactory(shared.dynamic(), time.Second, namespace, nil)
	partial := metadatainformer.NewFilteredSharedInformerFactory(shared.metadata(), time.Second, namespace, nil)
	var told [2]handled
	for i, informer := range []informers.GenericInformer{whole.ForResource(policyReports),
		partial.ForResource(policyReports)} {
		if _, err := informer.Informer().AddEventHandler(told[i].handler()); err != nil {
			t.Fatal(err)
		}
	}
	whole.Start(ctx.Done())
	partial.Start(ctx.Done())
	for resource, synced := range whole.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("%s did not sync", resource)
		}
	}
	partial.WaitForCacheSync(ctx.Done())
	for i := range 10 {
		if _, err := reports.Create(ctx, newReport(namespace, fmt.Sprint("r", i), nil),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		report, err := reports.Get(ctx, fmt.Sprint("r", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		setPass(report, 5)
		if _, err := reports.Update(ctx, report, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if err := reports.Delete(ctx, fmt.Sprint("r", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range told {
		told[i].expect(t, 10, 5, 3)
		before := told[i].resynced.Load()
		until(t, "two resyncs", func() error {
			if now := told[i].resynced.Load(); now < before+14 {
				return fmt.Errorf("%d objects told again", now-before)
			}
			return nil
		})
		told[i].expect(t, 10, 5, 3)
	}
	lister := whole.ForResource(policyReports).Lister().ByNamespace(namespace)
	object, err := lister.Get("r4")
	if err != nil {
		t.Fatal(err)
	}
	if pass, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "summary",
		"pass"); pass != 5 {
		t.Errorf("the lister's r4 has pass %d", pass)
	}
	if _, err := lister.Get("r0"); !apierrors.IsNotFound(err) {
		t.Errorf("the lister still knows r0: %v", err)
	}
}
