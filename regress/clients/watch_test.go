package clients

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// next gives the next event that is no bookmark.
func next(t *testing.T, events watch.Interface) watch.Event {
	t.Helper()
	for {
		select {
		case event, open := <-events.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			if event.Type != watch.Bookmark {
				return event
			}
		case <-time.After(patience):
			t.Fatal("no event came")
		}
	}
}

// expectEvent checks the next event; the object of a deletion is that before it, under the version of the deletion.
func expectEvent(t *testing.T, events watch.Interface, kind watch.EventType, want *unstructured.Unstructured) {
	t.Helper()
	event := next(t, events)
	if event.Type == watch.Error {
		t.Fatal(apierrors.FromObject(event.Object))
	}
	got := event.Object.(*unstructured.Unstructured)
	if event.Type != kind || got.GetName() != want.GetName() {
		t.Fatalf("got %s of %s, not %s of %s", event.Type, got.GetName(), kind, want.GetName())
	}
	want = want.DeepCopy()
	if kind == watch.Deleted {
		if version(got) <= version(want) {
			t.Fatalf("the deletion of %s has version %s, the object had %s", want.GetName(), got.GetResourceVersion(),
				want.GetResourceVersion())
		}
		want.SetResourceVersion(got.GetResourceVersion())
	}
	if fmt.Sprint(got.Object) != fmt.Sprint(want.Object) {
		t.Fatalf("%s of %v, not of %v", kind, got.Object, want.Object)
	}
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// startWatch watches until the test ends.
func startWatch(t *testing.T, reports dynamic.ResourceInterface, options metav1.ListOptions) watch.Interface {
	t.Helper()
	events := must(reports.Watch(t.Context(), options))(t)
	t.Cleanup(events.Stop)
	return events
}

func create(t *testing.T, reports dynamic.ResourceInterface,
	report *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	return must(reports.Create(t.Context(), report, metav1.CreateOptions{}))(t)
}

func mergePatch(t *testing.T, reports dynamic.ResourceInterface, name, patch string) *unstructured.Unstructured {
	t.Helper()
	return must(reports.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

func remove(t *testing.T, reports dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := reports.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// W-02, W-10, W-20, DEL-05: watchers of one label, of another and of both see adding, changing and deleting of what
// concerns them (e2e watch.go, should observe add, update, and delete watch notifications).
func TestWatchersOfLabels(t *testing.T) {
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	begin := must(reports.List(t.Context(), metav1.ListOptions{}))(t).GetResourceVersion()
	ofA := startWatch(t, reports, metav1.ListOptions{LabelSelector: "group=a", ResourceVersion: begin})
	ofB := startWatch(t, reports, metav1.ListOptions{LabelSelector: "group=b", ResourceVersion: begin})
	ofBoth := startWatch(t, reports, metav1.ListOptions{LabelSelector: "group in (a,b)", ResourceVersion: begin})
	for _, group := range []struct {
		name string
		one  watch.Interface
	}{{"a", ofA}, {"b", ofB}, {"a", ofA}, {"b", ofB}} {
		created := create(t, reports, newReport(namespace, group.name, map[string]string{"group": group.name}))
		changed := mergePatch(t, reports, group.name, `{"summary":{"fail":1}}`)
		remove(t, reports, group.name)
		for _, events := range []watch.Interface{group.one, ofBoth} {
			expectEvent(t, events, watch.Added, created)
			expectEvent(t, events, watch.Modified, changed)
			expectEvent(t, events, watch.Deleted, changed)
		}
	}
}

// W-10, W-11: a watch from a version tells what came after it, and a new one from the last version seen tells the rest,
// through either proxy (e2e watch.go, should be able to start watching from a specific resource version, should be able
// to restart watching from the last resource version observed by the previous watch).
func TestWatchFromAVersion(t *testing.T) {
	namespace := newNamespace()
	first := dynamic.NewForConfigOrDie(shared.configOf(0)).Resource(policyReports).Namespace(namespace)
	second := dynamic.NewForConfigOrDie(shared.configOf(1)).Resource(policyReports).Namespace(namespace)
	created := create(t, first, newReport(namespace, "r", nil))
	one := mergePatch(t, second, "r", `{"summary":{"fail":1}}`)
	two := mergePatch(t, first, "r", `{"summary":{"fail":2}}`)
	remove(t, second, "r")
	events := startWatch(t, first, metav1.ListOptions{ResourceVersion: one.GetResourceVersion()})
	expectEvent(t, events, watch.Modified, two)
	expectEvent(t, events, watch.Deleted, two)
	events = startWatch(t, second, metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
	expectEvent(t, events, watch.Modified, one)
	events.Stop()
	again := startWatch(t, first, metav1.ListOptions{ResourceVersion: one.GetResourceVersion()})
	expectEvent(t, again, watch.Modified, two)
	expectEvent(t, again, watch.Deleted, two)
}

// W-20: an object that meets a selector no more is deleted for its watchers, with its old content and the new version;
// when it meets it again it is added (e2e watch.go, should observe an object deletion if it stops meeting the
// requirements of the selector).
func TestWatchWhenASelectorIsLeft(t *testing.T) {
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	created := create(t, reports, newReport(namespace, "r", map[string]string{"state": "on"}))
	events := startWatch(t, reports, metav1.ListOptions{LabelSelector: "state=on",
		ResourceVersion: created.GetResourceVersion()})
	left := mergePatch(t, reports, "r", `{"metadata":{"labels":{"state":"off"}},"summary":{"fail":1}}`)
	mergePatch(t, reports, "r", `{"summary":{"fail":2}}`)
	back := mergePatch(t, reports, "r", `{"metadata":{"labels":{"state":"on"}}}`)
	event := next(t, events)
	got := event.Object.(*unstructured.Unstructured)
	if event.Type != watch.Deleted || got.GetLabels()["state"] != "on" ||
		got.GetResourceVersion() != left.GetResourceVersion() {
		t.Fatalf("%s of %v", event.Type, got.Object)
	}
	expectEvent(t, events, watch.Added, back)
	remove(t, reports, "r")
	expectEvent(t, events, watch.Deleted, back)
}

// W-02, W-30, RV-02: watches that begin at every version of a busy resource tell the same events in the same order (e2e
// watch.go, should receive events on concurrent watches in same order).
func TestConcurrentWatchesAgree(t *testing.T) {
	ctx := t.Context()
	reports := shared.dynamic().Resource(policyReports)
	const length = 60
	leader := startWatch(t, reports, metav1.ListOptions{ResourceVersion: must(reports.List(ctx,
		metav1.ListOptions{Limit: 1}))(t).GetResourceVersion()})
	var told []string
	for range length {
		told = append(told, describe(next(t, leader)))
	}
	for begin := 0; begin < length-1; begin += 3 {
		var rv string
		if _, err := fmt.Sscan(told[begin], &rv); err != nil {
			t.Fatal(err)
		}
		events := startWatch(t, reports, metav1.ListOptions{ResourceVersion: rv})
		for i := begin + 1; i < length; i++ {
			if got := describe(next(t, events)); got != told[i] {
				t.Fatalf("watching from %s: event %d is %s, not %s", rv, i, got, told[i])
			}
		}
		events.Stop()
	}
}

func describe(event watch.Event) string {
	object := event.Object.(metav1.Object)
	return fmt.Sprintf("%s %s %s/%s %s", object.GetResourceVersion(), event.Type, object.GetNamespace(),
		object.GetName(), object.GetUID())
}

// W-03, W-11, W-41, INF-02: a RetryWatcher whose watches last a second goes on from where each ended: every event once,
// in order, while others write (retrywatcher_test.go).
func TestRetryWatcherGoesOn(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	var watches int
	client := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context,
		options metav1.ListOptions) (watch.Interface, error) {
		watches++
		one := int64(1)
		options.TimeoutSeconds = &one
		return reports.Watch(ctx, options)
	}}
	list := must(reports.List(ctx, metav1.ListOptions{}))(t)
	watcher := must(toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), client))(t)
	defer watcher.Stop()
	written := make(chan []string, 1)
	go func() {
		var versions []string
		defer func() { written <- versions }()
		created, err := reports.Create(ctx, newReport(namespace, "r", nil), metav1.CreateOptions{})
		if err != nil {
			return
		}
		versions = append(versions, created.GetResourceVersion())
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end); {
			changed, err := reports.Patch(ctx, "r", types.MergePatchType,
				fmt.Appendf(nil, `{"summary":{"fail":%d}}`, len(versions)), metav1.PatchOptions{})
			if err != nil {
				return
			}
			versions = append(versions, changed.GetResourceVersion())
		}
	}()
	var told, versions []string
	for versions == nil || len(told) < len(versions) {
		select {
		case versions = <-written:
		case event := <-watcher.ResultChan():
			if event.Type == watch.Error {
				t.Fatal(apierrors.FromObject(event.Object))
			}
			told = append(told, event.Object.(metav1.Object).GetResourceVersion())
		case <-time.After(patience):
			t.Fatalf("told %d versions of %d", len(told), len(versions))
		}
	}
	if !slices.Equal(told, versions) {
		t.Errorf("told %v, written %v", told, versions)
	}
	if len(versions) < 10 || watches < 3 {
		t.Errorf("%d versions in %d watches prove little", len(versions), watches)
	}
}

// W-40, W-41: bookmarks carry kind and version alone, move on while only others change, and a watch from one misses
// nothing.
func TestBookmarks(t *testing.T) {
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	list := must(reports.List(t.Context(), metav1.ListOptions{}))(t)
	progress(t, 10)
	soon := int64(4)
	events := startWatch(t, reports, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(),
		AllowWatchBookmarks: true, TimeoutSeconds: &soon})
	var bookmark *unstructured.Unstructured
	for event := range events.ResultChan() {
		if event.Type != watch.Bookmark {
			t.Fatalf("%s", event.Type)
		}
		bookmark = event.Object.(*unstructured.Unstructured)
	}
	if bookmark == nil {
		t.Fatal("no bookmark before the end")
	}
	if version(bookmark) <= version(list) || bookmark.GetKind() != "PolicyReport" || bookmark.GetName() != "" {
		t.Errorf("bookmark %v after a list at %s", bookmark.Object, list.GetResourceVersion())
	}
	created := create(t, reports, newReport(namespace, "r", nil))
	expectEvent(t, startWatch(t, reports, metav1.ListOptions{ResourceVersion: bookmark.GetResourceVersion()}),
		watch.Added, created)
}

// INF-02, EXP-01, W-50, LIST-13: when the log no longer holds an informer's version it lists again and loses nothing
// (TestReflectorExpiredExactResourceVersion); a watch from there is told by one ERROR event,
// which ends a RetryWatcher too, and an exact list is refused with 410.
func TestExpiredVersions(t *testing.T) {
	ctx := t.Context()
	own := ownStack(t)
	reports := dynamic.NewForConfigOrDie(own.config()).Resource(policyReports).Namespace("n")
	before := must(reports.List(ctx, metav1.ListOptions{}))(t).GetResourceVersion()
	// The informer waits at the gate, which opens when what it has missed has been thrown away.
	waiting, gate := make(chan struct{}), make(chan struct{})
	var watches int
	var begun atomic.Int32 // lists, and watches that begin with the state
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			begun.Add(1)
			return reports.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if watches++; watches == 2 {
				close(waiting)
				<-gate
			}
			if options.SendInitialEvents != nil && *options.SendInitialEvents {
				begun.Add(1)
			}
			one := int64(1)
			options.TimeoutSeconds = &one
			return reports.Watch(ctx, options)
		},
	}
	informer := cache.NewSharedIndexInformer(lists, &unstructured.Unstructured{}, 0, nil)
	go informer.RunWithContext(ctx)
	<-waiting
	for i := range 20 {
		create(t, reports, newReport("n", fmt.Sprint("r", i), nil))
	}
	remove(t, reports, "r7")
	if err := own.do("compact"); err != nil {
		t.Fatal(err)
	}
	close(gate)
	until(t, "the informer's state", func() error {
		if count := len(informer.GetStore().List()); count != 19 {
			return fmt.Errorf("%d reports", count)
		}
		return nil
	})
	expectExpired(t, startWatch(t, reports, metav1.ListOptions{ResourceVersion: before}))
	retrying := must(toolswatch.NewRetryWatcherWithContext(ctx, before, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return reports.Watch(ctx, options)
		},
	}))(t)
	expectExpired(t, retrying)
	<-retrying.Done()
	exact := metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if _, err := reports.List(ctx, exact); !apierrors.IsResourceExpired(err) {
		t.Errorf("a list at exactly %s: %v", before, err)
	}
	if begun.Load() < 2 {
		t.Error("the informer did not begin again")
	}
}

// expectExpired checks that a watch says at once that its version is gone, and ends.
func expectExpired(t *testing.T, events watch.Interface) {
	t.Helper()
	event := next(t, events)
	if event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Errorf("%s of %v instead of an error", event.Type, event.Object)
	}
	if _, open := <-events.ResultChan(); open {
		t.Error("the watch goes on")
	}
}

// unstreamed is a source of lists and watches for informers that shall list.
type unstreamed struct{ *cache.ListWatch }

func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

// LIST-12, INF-02: an informer whose version is above all versions of the server is told so and lists anew
// (TestReflectorFullListIfTooLarge).
func TestInformerFromTheFuture(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	config, requests := recorded(shared.config())
	reports := dynamic.NewForConfigOrDie(config).Resource(policyReports).Namespace(namespace)
	create(t, reports, newReport(namespace, "r", nil))
	var lists, watches int
	const future = "9000000000000000000"
	informer := cache.NewSharedIndexInformer(unstreamed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := reports.List(ctx, options)
			if lists++; lists == 1 && err == nil {
				list.SetResourceVersion(future)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			if watches++; watches == 1 {
				return nil, apierrors.NewInternalError(fmt.Errorf("as if the server had failed"))
			}
			return reports.Watch(ctx, options)
		},
	}}, &unstructured.Unstructured{}, 0, nil)
	go informer.RunWithContext(ctx)
	until(t, "a version of the server's own", func() error {
		if version := informer.LastSyncResourceVersion(); version == "" || version == future {
			return fmt.Errorf("version %q", version)
		}
		return nil
	})
	if !slices.ContainsFunc(requests.take(), func(request sentRequest) bool {
		return request.code == 504 && request.URL.Query().Get("resourceVersion") == future
	}) {
		t.Error("no list was refused as too new")
	}
	create(t, reports, newReport(namespace, "later", nil))
	until(t, "the next event", func() error {
		if count := len(informer.GetStore().List()); count != 2 {
			return fmt.Errorf("%d reports", count)
		}
		return nil
	})
}
