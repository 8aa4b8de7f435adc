package clients

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/workqueue"
)

const (
	kyvernoNamespaces = 4
	kyvernoResources  = 10  // in each namespace
	kyvernoProducers  = 4   // admission controllers; two more scan in the background
	kyvernoWorkers    = 4   // of the aggregation
	kyvernoRate       = 25  // requests a second of each producer
	kyvernoMost       = 150 // reports that wait to be merged: beyond that Kyverno makes no new ones
	uidLabel          = "audit.kyverno.io/resource.uid"
	sourceLabel       = "audit.kyverno.io/source"
)

// kyvernoTime is how long Kyverno is played.
func kyvernoTime(t *testing.T) time.Duration {
	given := os.Getenv("KYVERNO_SECONDS")
	if given == "" {
		given = "60"
	}
	seconds, err := strconv.Atoi(given)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds) * time.Second
}

// A uidSet is what somebody knows to exist or to have existed.
type uidSet struct {
	sync.Mutex
	uids map[types.UID]string
}

func (s *uidSet) add(uid types.UID, name string) {
	s.Lock()
	defer s.Unlock()
	if s.uids == nil {
		s.uids = map[types.UID]string{}
	}
	s.uids[uid] = name
}

func (s *uidSet) has(uid types.UID) bool {
	s.Lock()
	defer s.Unlock()
	_, found := s.uids[uid]
	return found
}

func (s *uidSet) count() int {
	s.Lock()
	defer s.Unlock()
	return len(s.uids)
}

func (s *uidSet) remove(uid types.UID) {
	s.Lock()
	defer s.Unlock()
	delete(s.uids, uid)
}

func (s *uidSet) copy() map[types.UID]string {
	s.Lock()
	defer s.Unlock()
	return maps.Clone(s.uids)
}

// work is a key of the aggregation's queue: a report to adopt or a resource whose reports are to be merged.
type work struct{ namespace, name, uid string }

// kyverno is what its controllers have in common.
type kyverno struct {
	t         *testing.T
	stack     *stack
	admitted  uidSet       // reports that the admission controllers were told to be stored
	scanned   uidSet       // and the background scanners
	lost      atomic.Int64 // requests whose answer a restart took away: perhaps done, perhaps not
	seen      uidSet       // by the aggregation's informer
	breaker   uidSet       // what exists, as the breaker believes
	broken    uidSet       // what the breaker saw, ever
	deletions atomic.Int64
	queue     workqueue.TypedRateLimitingInterface[work]
	busy      atomic.Int64
	failures  struct {
		sync.Mutex
		errors []error
	}
}

func (k *kyverno) fail(err error) {
	k.failures.Lock()
	defer k.failures.Unlock()
	k.failures.errors = append(k.failures.errors, err)
}

func (k *kyverno) check() {
	k.t.Helper()
	k.failures.Lock()
	defer k.failures.Unlock()
	for _, err := range k.failures.errors {
		k.t.Error(err)
	}
	if len(k.failures.errors) > 0 {
		k.t.FailNow()
	}
}

// tolerate says whether an error is only a connection that a restart has closed.
func (k *kyverno) tolerate(err error) bool {
	if _, isStatus := err.(apierrors.APIStatus); err == nil || isStatus {
		return false
	}
	k.lost.Add(1)
	return true
}

// produce is an admission controller or a background scanner: typed creates with generateName.
func (k *kyverno) produce(ctx context.Context, number int) {
	config := k.stack.config()
	config.QPS, config.Burst = kyvernoRate, kyvernoRate
	source, stored := "admission", &k.admitted
	if number >= kyvernoProducers {
		source, stored = "background-scan", &k.scanned
	}
	for i := number; ctx.Err() == nil; i++ {
		if k.seen.count()-int(k.deletions.Load()) > kyvernoMost {
			wait(ctx, 10*time.Millisecond)
			continue
		}
		namespace := fmt.Sprint("kyverno-", i%kyvernoNamespaces)
		report := newEphemeralReport(namespace, resourceUID(i), source)
		created, err := typedClient(config, namespace).Create(context.WithoutCancel(ctx), report,
			metav1.CreateOptions{})
		switch {
		case err == nil:
			stored.add(created.UID, namespace+"/"+created.Name)
		case !k.tolerate(err):
			k.fail(fmt.Errorf("create: %w", err))
			return
		}
	}
}

// resourceUID is the uid of one of the pods that are reported about.
func resourceUID(i int) string {
	return fmt.Sprintf("%08d-0000-4000-8000-%012d", i%kyvernoNamespaces, i/kyvernoNamespaces%kyvernoResources)
}

var typedClients sync.Map

// typedClient keeps one client for each config and namespace: connections are shared within a config.
func typedClient(config *rest.Config, namespace string) *ephemeralReportClient {
	type key struct {
		config    *rest.Config
		namespace string
	}
	client, found := typedClients.Load(key{config, namespace})
	if !found {
		client, _ = typedClients.LoadOrStore(key{config, namespace}, typedEphemeralReports(config, namespace))
	}
	return client.(*ephemeralReportClient)
}

// breakers counts the reports there are: a metadata list without selector, then a RetryWatcher that looks for one
// source.
func (k *kyverno) startBreaker(ctx context.Context, config *rest.Config) {
	client := metadata.NewForConfigOrDie(config).Resource(ephemeralReports)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = sourceLabel + "==admission"
			return client.Watch(ctx, options)
		},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	go func() {
		for event := range watcher.ResultChan() {
			switch event.Type {
			case watch.Added, watch.Modified:
				object := event.Object.(metav1.Object)
				if known := k.broken.has(object.GetUID()); known == (event.Type == watch.Added) {
					k.fail(fmt.Errorf("the breaker's watch: %s of %s, known: %v", event.Type, object.GetName(), known))
				}
				k.breaker.add(object.GetUID(), object.GetName())
				k.broken.add(object.GetUID(), object.GetName())
			case watch.Deleted:
				k.breaker.remove(event.Object.(metav1.Object).GetUID())
			default:
				k.fail(fmt.Errorf("the breaker's watch: %s: %w", event.Type, apierrors.FromObject(event.Object)))
			}
		}
		if ctx.Err() == nil {
			k.fail(fmt.Errorf("the breaker's watch has ended"))
		}
	}()
}

// startAggregation starts the metadata informers and the workers behind them.
func (k *kyverno) startAggregation(ctx context.Context, config *rest.Config) {
	factory := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(config), 0)
	for _, resource := range []schema.GroupVersionResource{ephemeralReports, clusterEphemeralReports, policyReports,
		clusterPolicyReports} {
		informer := factory.ForResource(resource).Informer()
		if err := informer.SetTransform(forgetKind); err != nil {
			k.t.Fatal(err)
		}
		if resource != ephemeralReports {
			continue
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(added any) {
				object := added.(*metav1.PartialObjectMetadata)
				k.seen.add(object.UID, object.Name)
				k.enqueue(object)
			},
			UpdateFunc: func(before, after any) {
				object := after.(*metav1.PartialObjectMetadata)
				if before.(*metav1.PartialObjectMetadata).ResourceVersion != object.ResourceVersion {
					k.enqueue(object)
				}
			},
			DeleteFunc: func(any) { k.deletions.Add(1) },
		})
		if err != nil {
			k.t.Fatal(err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range kyvernoWorkers {
		go k.work(ctx, config)
	}
}

// enqueue is for the front queue, whose keys are reports, unless the report has an owner: the back queue has a key for
// each resource, so that one worker at a time merges its reports.
func (k *kyverno) enqueue(object *metav1.PartialObjectMetadata) {
	key := work{namespace: object.Namespace, name: object.Name}
	if len(object.OwnerReferences) > 0 {
		key = work{namespace: object.Namespace, uid: object.Labels[uidLabel]}
	}
	k.queue.AddAfter(key, 100*time.Millisecond)
}

func (k *kyverno) work(ctx context.Context, config *rest.Config) {
	for {
		key, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		k.busy.Add(1)
		reconcile := k.adopt
		if key.uid != "" {
			reconcile = k.merge
		}
		switch err := reconcile(ctx, config, key); {
		case err == nil:
			k.queue.Forget(key)
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || k.tolerate(err):
			k.queue.AddRateLimited(key)
		default:
			k.fail(fmt.Errorf("%v: %w", key, err))
		}
		k.queue.Done(key)
		k.busy.Add(-1)
	}
}

// adopt gives a report its owner.
func (k *kyverno) adopt(ctx context.Context, config *rest.Config, key work) error {
	ephemerals := typedClient(config, key.namespace)
	report, err := ephemerals.Get(ctx, key.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || len(report.OwnerReferences) > 0 {
		return err
	}
	report.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web",
		UID: types.UID(report.Labels[uidLabel])}}
	_, err = ephemerals.Update(ctx, report, metav1.UpdateOptions{})
	return err
}

// merge moves the results of all reports about a resource into the one that stays.
func (k *kyverno) merge(ctx context.Context, config *rest.Config, key work) error {
	ephemerals := typedClient(config, key.namespace)
	permanents := typedPolicyReports(config, key.namespace)
	permanent, err := permanents.Get(ctx, key.uid, metav1.GetOptions{})
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	list, err := ephemerals.List(ctx, metav1.ListOptions{LabelSelector: uidLabel + "=" + key.uid})
	if err != nil {
		return err
	}
	list.Items = slices.DeleteFunc(list.Items,
		func(item EphemeralReport) bool { return len(item.OwnerReferences) == 0 })
	if len(list.Items) == 0 {
		return nil
	}
	if !exists {
		permanent = &PolicyReport{ObjectMeta: metav1.ObjectMeta{Name: key.uid, Namespace: key.namespace,
			Labels:          map[string]string{"app.kubernetes.io/managed-by": "kyverno"},
			OwnerReferences: list.Items[0].OwnerReferences}}
	}
	known := map[string]bool{}
	for _, result := range permanent.Results {
		known[result.Policy] = true
	}
	// A result for each report that was merged: it must be there in the end, once.
	for i := range list.Items {
		if !known[list.Items[i].Name] {
			permanent.Results = append(permanent.Results, result{Policy: list.Items[i].Name, Result: "pass"})
			permanent.Summary.Pass++
		}
	}
	if exists {
		_, err = permanents.Update(ctx, permanent, metav1.UpdateOptions{})
	} else {
		_, err = permanents.Create(ctx, permanent, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := ephemerals.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// policyReporter is Policy Reporter: metadata informers with resync, and a get for every item that it is told of.
type policyReporter struct {
	sync.Mutex
	versions map[string]string
	resyncs  atomic.Int64
}

func (p *policyReporter) start(ctx context.Context, k *kyverno, config *rest.Config, resync time.Duration) {
	p.versions = map[string]string{}
	reports := metadata.NewForConfigOrDie(config)
	factory := metadatainformer.NewSharedInformerFactory(reports, resync)
	get := func(told any) {
		object := told.(*metav1.PartialObjectMetadata)
		report, err := typedPolicyReports(config, object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
		switch {
		case err == nil && version(report) < version(object):
			k.fail(fmt.Errorf("told of version %s of %s, got %s", object.ResourceVersion, object.Name,
				report.ResourceVersion))
		case err == nil:
			p.Lock()
			p.versions[object.Namespace+"/"+object.Name] = report.ResourceVersion
			p.Unlock()
		case ctx.Err() == nil && !k.tolerate(err):
			k.fail(fmt.Errorf("told of %s, but: %w", object.Name, err))
		}
	}
	for _, resource := range []schema.GroupVersionResource{policyReports, clusterPolicyReports, openReports,
		clusterOpenReports} {
		informer := factory.ForResource(resource).Informer()
		if err := informer.SetTransform(forgetKind); err != nil {
			k.t.Fatal(err)
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: get,
			UpdateFunc: func(before, after any) {
				if version(before.(metav1.Object)) == version(after.(metav1.Object)) {
					p.resyncs.Add(1)
				}
				get(after)
			},
		})
		if err != nil {
			k.t.Fatal(err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

func version(object interface{ GetResourceVersion() string }) uint64 {
	number, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err)
	}
	return number
}

// INF-01, INF-02, W-11, W-41, W-50, GET-01, CRE-04, RV-02: Kyverno's controllers and Policy Reporter against two
// proxies, one of which is restarted twice: no event is lost, nothing is told twice, nobody meets a 410, no
// RetryWatcher ends, no informer lists again.
func TestKyverno(t *testing.T) {
	duration := kyvernoTime(t)
	churn.pause()
	defer churn.resume()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	k := &kyverno{t: t, stack: ownStack(t),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[work]())}
	defer k.queue.ShutDown()
	config, requests := recorded(k.stack.config())
	var reporter policyReporter
	k.startBreaker(ctx, config)
	k.startAggregation(ctx, config)
	reporter.start(ctx, k, config, max(duration/10, time.Second))

	producing, stop := context.WithTimeout(ctx, duration)
	defer stop()
	var producers sync.WaitGroup
	for number := range kyvernoProducers + 2 {
		producers.Go(func() { k.produce(producing, number) })
	}
	for range 2 {
		wait(producing, duration/3)
		if err := k.stack.do("restart 0"); err != nil {
			t.Fatal(err)
		}
		k.check()
	}
	producers.Wait()
	k.check()

	// Every report that was stored has been seen by the informer and, when it is an admission's, by the breaker.
	admitted, scanned := k.admitted.copy(), k.scanned.copy()
	until(t, "the end of the aggregation", func() error {
		k.check()
		if list, err := metadata.NewForConfigOrDie(config).Resource(ephemeralReports).List(ctx,
			metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("error %v, %d reports are left, queue %d, busy %d", err, len(list.Items), k.queue.Len(),
				k.busy.Load())
		}
		if left := k.breaker.count(); left > 0 {
			return fmt.Errorf("the breaker counts %d", left)
		}
		if seen, deleted := k.seen.count(), int(k.deletions.Load()); seen != deleted {
			return fmt.Errorf("the informer saw %d and %d deletions", seen, deleted)
		}
		return nil
	})
	expectAll(t, "the breaker", k.broken.copy(), admitted, k.lost.Load())
	both := maps.Clone(admitted)
	maps.Copy(both, scanned)
	expectAll(t, "the informer", k.seen.copy(), both, k.lost.Load())

	// What was merged is there, once, and Policy Reporter knows the newest of it.
	list, err := typedPolicyReports(config, "").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	merged := map[string]bool{}
	for i := range list.Items {
		for _, result := range list.Items[i].Results {
			if merged[result.Policy] {
				t.Errorf("%s was merged twice", result.Policy)
			}
			merged[result.Policy] = true
		}
	}
	for _, name := range both {
		if _, name, _ := cache.SplitMetaNamespaceKey(name); !merged[name] {
			t.Errorf("%s is in no report", name)
		}
	}
	until(t, "what Policy Reporter knows", func() error {
		reporter.Lock()
		defer reporter.Unlock()
		for i := range list.Items {
			item := &list.Items[i]
			if known := reporter.versions[item.Namespace+"/"+item.Name]; known != item.ResourceVersion {
				return fmt.Errorf("%s is at %s, known at %s", item.Name, item.ResourceVersion, known)
			}
		}
		return nil
	})
	if reporter.resyncs.Load() == 0 {
		t.Error("Policy Reporter saw no resync")
	}
	k.check()
	checkRequests(t, requests.take())
	t.Logf("%d reports in %s, %d requests without an answer", len(both), duration, k.lost.Load())
}

// wait ends early with its context.
func wait(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}

// expectAll checks that every report was seen, and nothing else but what a lost answer may have told of.
func expectAll(t *testing.T, who string, seen, stored map[types.UID]string, lost int64) {
	t.Helper()
	for uid, name := range stored {
		if _, found := seen[uid]; !found {
			t.Errorf("%s was never told of %s", who, name)
		}
	}
	if more := int64(len(seen) - len(stored)); more > lost {
		t.Errorf("%s was told of %d reports that nobody made", who, more)
	}
}

// checkRequests looks at the answers: no 410, and one list for each of the nine informers and the breaker, or a watch
// that began with the state.  Of the lists with a selector of aggregation and the final ones of the test nothing is
// said.
func checkRequests(t *testing.T, requests []sentRequest) {
	t.Helper()
	codes := map[int]int{}
	states := map[string]int{}
	for _, request := range requests {
		codes[request.code]++
		if request.code >= 429 && request.retryAfter == "" {
			t.Errorf("%s %s: %d without Retry-After", request.Method, request.URL, request.code)
		}
		query := request.URL.Query()
		if query.Get("sendInitialEvents") == "true" || query.Get("resourceVersion") == "0" && query.Get("watch") == "" {
			states[request.URL.Path]++
		}
	}
	t.Logf("answers: %v", codes)
	for code, count := range codes {
		switch code {
		case 0, http.StatusOK, http.StatusCreated, http.StatusNotFound, http.StatusConflict:
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			// What a proxy answers that is going or coming; with Retry-After the client asks again by itself.
		default:
			t.Errorf("%d answers were %d", count, code)
		}
	}
	// Aggregation has informers of four resources, Policy Reporter of four; two of them are the same.
	for resource, count := range map[schema.GroupVersionResource]int{ephemeralReports: 1, clusterEphemeralReports: 1,
		policyReports:        2,
		clusterPolicyReports: 2, openReports: 1, clusterOpenReports: 1} {
		path := fmt.Sprintf("/apis/%s/%s/%s", resource.Group, resource.Version, resource.Resource)
		if states[path] != count {
			t.Errorf("informers asked %d times for the state of %s, not %d times", states[path], resource.Resource,
				count)
		}
	}
}
