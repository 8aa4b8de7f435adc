// Package clients runs a sender of kube-reports as google.golang.org/grpc makes it: the code that protoc-gen-go and
// protoc-gen-go-grpc generate from docs/proto, against a real kube-reports-grpc.
//
// .ci/check-clients generates forwardv1 and compliance in a copy of this directory; they are not in the tree.
package clients

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// patience is how long a test waits for what must come soon: the machine may be busy.
const patience = 60 * time.Second

// A stack is a database and a kube-reports-grpc, run by the stack.py that STACK names.
type stack struct {
	Address   string `json:"address"`
	Pki       string `json:"pki"`
	Token     string `json:"token"`
	Cluster   string `json:"cluster"`
	Certified string `json:"certified"`

	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
	mutex   sync.Mutex
}

var shared *stack

func startStack() (*stack, error) {
	s := &stack{command: exec.Command(os.Getenv("STACK"))}
	s.command.Stderr = os.Stderr
	var err error
	if s.input, err = s.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
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
		return nil, fmt.Errorf("the stack did not start: %w", err)
	}
	return s, nil
}

func (s *stack) end() {
	s.input.Close()
	s.command.Wait()
}

// tell sends a command to the stack and returns the rows of its answer.
func (s *stack) tell(t *testing.T, command string) string {
	t.Helper()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var answer struct {
		Rows  string `json:"rows"`
		Error string `json:"error"`
	}
	_, err := fmt.Fprintln(s.input, command)
	if err == nil {
		var line []byte
		if line, err = s.output.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &answer)
		}
	}
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return answer.Rows
}

// becomes waits until a query has this answer.
func (s *stack) becomes(t *testing.T, query, want string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got = s.tell(t, "query "+query); got == want {
			return
		}
	}
	t.Fatalf("%s: got %q, want %q", query, got, want)
}

// dial connects with the CA in a file of pki, and shows the certificate of that name unless it is empty.
func (s *stack) dial(t *testing.T, ca, certificate string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(filepath.Join(s.Pki, ca))
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatalf("%s: %v", ca, err)
	}
	config := &tls.Config{RootCAs: pool}
	if certificate != "" {
		path := filepath.Join(s.Pki, certificate)
		pair, err := tls.LoadX509KeyPair(path+".crt", path+".key")
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	connection, err := grpc.NewClient(s.Address,
		append(options, grpc.WithTransportCredentials(credentials.NewTLS(config)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if shared, err = startStack(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer shared.end()
		return m.Run()
	}())
}
