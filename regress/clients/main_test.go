// Package clients runs the clients that Kubernetes programs are made of against two proxies of one database:
// client-go's dynamic, metadata and typed clients, its informers in all forms, RetryWatcher and pager, and
// controller-runtime's cache and client.
//
// While the tests run, writers change reports at full speed through both proxies (writers_test.go).  The suite is run
// with the feature gate WatchListClient off and on, and with client-go's consistency detector, which panics when an
// informer's first state differs from a list at the same version.
//
// Comments name the items of the conformance list that a test proves.
package clients

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/features"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// shared is the stack that most tests use; what breaks a stack starts its own.
var shared *stack

// complaints are errors that client-go reports to nobody but its log: events that it could not use.
var complaints struct {
	sync.Mutex
	lines []string
}

func complain(_ context.Context, err error, message string, _ ...interface{}) {
	for _, known := range []string{"Unexpected watch event", "Unable to", "Unknown watch event",
		"Unsupported watch event"} {
		if strings.HasPrefix(message, known) {
			complaints.Lock()
			complaints.lines = append(complaints.lines, fmt.Sprintf("%s: %v", message, err))
			complaints.Unlock()
		}
	}
}

func watchListOn() bool {
	return features.FeatureGates().Enabled(features.WatchListClient)
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctrllog.SetLogger(klog.Background())
	utilruntime.ErrorHandlers = append(utilruntime.ErrorHandlers, complain)

	var err error
	if shared, err = startStack(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer shared.end()
	if err := churn.start(shared); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := churn.stop(); err != nil {
		fmt.Fprintf(os.Stderr, "a writer failed: %v\n", err)
		code = 1
	}
	complaints.Lock()
	defer complaints.Unlock()
	for _, line := range complaints.lines {
		fmt.Fprintf(os.Stderr, "an informer met what it could not use: %s\n", line)
		code = 1
	}
	fmt.Fprintf(os.Stderr, "WatchListClient %v, %d changes by %d writers\n", watchListOn(), churn.changes.Load(),
		writerCount)
	return code
}
