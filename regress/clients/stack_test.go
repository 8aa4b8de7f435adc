package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// patience is how long a test waits for what must come soon: the machine may be busy.
const patience = 60 * time.Second

// A stack is a database and two proxies, run by stack.py or by the program that STACK names.
type stack struct {
	Ports []int  `json:"ports"`
	Pki   string `json:"pki"`

	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
	mutex   sync.Mutex
	dials   atomic.Uint64
}

func startStack() (*stack, error) {
	program := os.Getenv("STACK")
	if program == "" {
		program = "stack.py"
	}
	s := &stack{command: exec.Command("/usr/bin/python3", program)}
	var errorOutput limitedBuffer
	s.command.Stderr = &errorOutput
	s.input, _ = s.command.StdinPipe()
	output, _ := s.command.StdoutPipe()
	s.output = bufio.NewReader(output)
	if err := s.command.Start(); err != nil {
		return nil, err
	}
	line, err := s.output.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, s)
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("%s: %w\n%s", program, err, errorOutput.bytes)
	}
	return s, nil
}

func (s *stack) end() {
	_ = s.input.Close()
	_ = s.command.Wait()
}

// limitedBuffer keeps the first bytes written to it.
type limitedBuffer struct{ bytes []byte }

func (b *limitedBuffer) Write(bytes []byte) (int, error) {
	if len(b.bytes) < 8192 {
		b.bytes = append(b.bytes, bytes...)
	}
	return len(bytes), nil
}

// ownStack is for a test that restarts proxies or throws the log away.
func ownStack(t *testing.T) *stack {
	t.Helper()
	s, err := startStack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

// do gives stack.py a command.
func (s *stack) do(format string, arguments ...any) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var answer struct{ Error string }
	if _, err := fmt.Fprintf(s.input, format+"\n", arguments...); err != nil {
		return err
	}
	line, err := s.output.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// dial opens connections to both proxies in turn, as a Service does; one that does not listen is passed over.
func (s *stack) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var dialer net.Dialer
	var err error
	first := s.dials.Add(1)
	for i := range uint64(len(s.Ports)) {
		var connection net.Conn
		port := s.Ports[(first+i)%uint64(len(s.Ports))]
		if connection, err = dialer.DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return connection, nil
		}
	}
	return nil, err
}

// config leads to both proxies.
func (s *stack) config() *rest.Config {
	config := s.configOf(0)
	config.Dial = s.dial
	return config
}

// configOf leads to one proxy.
func (s *stack) configOf(proxy int) *rest.Config {
	return &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", s.Ports[proxy]),
		TLSClientConfig: rest.TLSClientConfig{
			CAFile:   s.Pki + "/ca.crt",
			CertFile: s.Pki + "/admin.crt",
			KeyFile:  s.Pki + "/admin.key",
		},
		QPS: -1,
	}
}

func (s *stack) dynamic() *dynamic.DynamicClient { return dynamic.NewForConfigOrDie(s.config()) }

func (s *stack) metadata() metadata.Interface { return metadata.NewForConfigOrDie(s.config()) }

// newNamespace is a name that nobody else uses: a stand-alone store has no namespace objects.
func newNamespace() string { return "t-" + rand.String(10) }

// until waits for a condition; it fails the test with the condition's last complaint.
func until(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come true: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A sentRequest is what a recorder keeps of a request and its answer.
type sentRequest struct {
	*http.Request
	code       int // 0: none came
	retryAfter string
}

// A recorder keeps the requests that a client sends.
type recorder struct {
	sync.Mutex
	next     http.RoundTripper
	requests []sentRequest
}

// recorded makes a copy of a config whose requests are kept.
func recorded(config *rest.Config) (*rest.Config, *recorder) {
	r := &recorder{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		r.next = next
		return r
	})
	return config, r
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(request)
	sent := sentRequest{Request: request}
	if err == nil {
		sent.code, sent.retryAfter = answer.StatusCode, answer.Header.Get("Retry-After")
	}
	r.Lock()
	defer r.Unlock()
	r.requests = append(r.requests, sent)
	return answer, err
}

// take gives the requests since the last call.
func (r *recorder) take() []sentRequest {
	r.Lock()
	defer r.Unlock()
	requests := r.requests
	r.requests = nil
	return requests
}
