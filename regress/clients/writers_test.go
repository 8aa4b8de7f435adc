package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const (
	writerCount    = 8
	writerObjects  = 30
	writerNames    = 4 // namespaces
	churnNamespace = "churn-"
)

// churn changes policy reports of two scopes as fast as the proxies answer, all the time that the tests run.
var churn writers

// writers are clients with objects of their own: whatever one of them does must succeed.
type writers struct {
	changes atomic.Int64
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	pausing sync.RWMutex // held shared while something is written
	mutex   sync.Mutex
	err     error
	// journal holds the versions that creates, updates and patches were answered with.
	journal map[schema.GroupVersionResource][]uint64
}

func (w *writers) start(s *stack) error {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.journal = map[schema.GroupVersionResource][]uint64{}
	for number := range writerCount {
		client, err := dynamic.NewForConfig(s.config())
		if err != nil {
			return err
		}
		w.ended.Go(func() {
			one := writer{number: number, client: client, random: rand.New(rand.NewPCG(1, uint64(number))),
				versions: map[string]string{}}
			for ctx.Err() == nil {
				w.pausing.RLock()
				resource, stored, err := one.write(context.WithoutCancel(ctx))
				w.mutex.Lock()
				if err != nil {
					w.err = fmt.Errorf("writer %d: %w", number, err)
				} else if stored != nil {
					w.journal[resource] = append(w.journal[resource], version(stored))
				}
				w.mutex.Unlock()
				w.pausing.RUnlock()
				if err != nil {
					return
				}
				w.changes.Add(1)
			}
		})
	}
	return nil
}

// pause waits until nothing is being written and keeps it so until resume.
func (w *writers) pause() { w.pausing.Lock() }

func (w *writers) resume() { w.pausing.Unlock() }

// since gives the versions of a resource that were written after one.
func (w *writers) since(resource schema.GroupVersionResource, begin uint64) []uint64 {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var versions []uint64
	for _, version := range w.journal[resource] {
		if version > begin {
			versions = append(versions, version)
		}
	}
	return versions
}

// failure is the first error that a writer met.
func (w *writers) failure() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.err
}

func (w *writers) stop() error {
	w.cancel()
	w.ended.Wait()
	return w.failure()
}

type writer struct {
	number   int
	client   dynamic.Interface
	random   *rand.Rand
	versions map[string]string // of what it has stored
}

// write makes one change to one of the writer's objects; it tells what was stored unless something was deleted.
func (w *writer) write(ctx context.Context) (schema.GroupVersionResource, *unstructured.Unstructured, error) {
	kind := clusterPolicyReports
	var resource dynamic.ResourceInterface = w.client.Resource(kind)
	var namespace string
	which := w.random.IntN(writerObjects)
	if which >= writerObjects/5 {
		namespace = fmt.Sprint(churnNamespace, which%writerNames)
		kind = policyReports
		resource = w.client.Resource(kind).Namespace(namespace)
	}
	name := fmt.Sprintf("w%d-%d", w.number, which)
	labels := map[string]string{"writer": fmt.Sprint(w.number),
		"colour": []string{"red", "green", "blue"}[w.random.IntN(3)]}
	var stored *unstructured.Unstructured
	var err error
	switch action := w.random.IntN(100); {
	case w.versions[name] == "":
		stored, err = resource.Create(ctx, newReport(namespace, name, labels), metav1.CreateOptions{})
	case action < 20:
		delete(w.versions, name)
		return kind, nil, resource.Delete(ctx, name, metav1.DeleteOptions{})
	case action < 22:
		for other := range writerObjects {
			if (other < writerObjects/5) == (namespace == "") &&
				(namespace == "" || other%writerNames == which%writerNames) {
				delete(w.versions, fmt.Sprintf("w%d-%d", w.number, other))
			}
		}
		return kind, nil, resource.DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: fmt.Sprintf("writer=%d", w.number)})
	case action < 60:
		report := newReport(namespace, name, labels)
		report.SetResourceVersion(w.versions[name])
		setPass(report, w.random.Int64N(1000))
		stored, err = resource.Update(ctx, report, metav1.UpdateOptions{})
	default:
		patch := fmt.Sprintf(`{"metadata":{"labels":{"colour":%q}},"summary":{"fail":%d}}`, labels["colour"],
			w.random.IntN(1000))
		stored, err = resource.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	if err != nil {
		return kind, nil, err
	}
	w.versions[name] = stored.GetResourceVersion()
	return kind, stored, nil
}
