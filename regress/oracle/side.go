package main

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// One of the two servers, as a client sees it.
type side struct {
	name   string
	base   *url.URL
	client *http.Client
	// What the client remembers of earlier answers; see memory.go.
	memory memory
}

// A request with everything filled in.
type call struct {
	method string
	path   string // with the query, as it goes over the wire
	header http.Header
	body   string
}

type answer struct {
	code   int
	header http.Header
	body   []byte
}

var jsonBody = http.Header{"Content-Type": {"application/json"}}

// No answer takes longer, however busy the machine.
const answerTimeout = 2 * time.Minute

// trust: certificates in PEM; certificate and key: files of the client's own certificate, or empty.
func newSide(name, address string, trust []byte, certificate, key string) (*side, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trust) {
		return nil, fmt.Errorf("no certificates to trust for the %s", name)
	}
	config := &tls.Config{RootCAs: roots}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &side{
		name: name,
		base: &url.URL{Scheme: "https", Host: address},
		client: &http.Client{
			// HTTP/1.1, and bodies as they are: what travels around them is not compared here.
			Transport:     &http.Transport{TLSClientConfig: config, DisableCompression: true, MaxIdleConnsPerHost: 64},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		memory: newMemory(),
	}, nil
}

func (s *side) open(ctx context.Context, c *call) (*http.Response, error) {
	path, query, hasQuery := strings.Cut(c.path, "?")
	target := *s.base
	target.Opaque = path
	target.RawQuery, target.ForceQuery = query, hasQuery && query == ""
	request, err := http.NewRequestWithContext(ctx, c.method, s.base.String(), strings.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	request.URL = &target
	for name, values := range c.header {
		request.Header[name] = values
	}
	if c.header.Get("User-Agent") == "" {
		request.Header.Set("User-Agent", "oracle/v1")
	}
	return s.client.Do(request)
}

func (s *side) do(c *call) (*answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	response, err := s.open(ctx, c)
	if errors.Is(err, io.EOF) {
		// A handler that panics closes its connection: an answer to compare, too.
		return &answer{body: []byte("no answer")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var reader io.Reader = response.Body
	if response.Header.Get("Content-Encoding") == "gzip" {
		if reader, err = gzip.NewReader(response.Body); err != nil {
			return nil, fmt.Errorf("the answer of the %s to %s %s is no gzip: %w", s.name, c.method, c.path, err)
		}
	}
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("the answer of the %s to %s %s breaks off: %w", s.name, c.method, c.path, err)
	}
	return &answer{code: response.StatusCode, header: response.Header, body: body}, nil
}

func (a *answer) isYAML() bool { return a.header.Get("Content-Type") == "application/yaml" }

// The body as JSON, if it is that or YAML.
func (a *answer) json() []byte {
	if a.isYAML() {
		if text, err := yaml.YAMLToJSON(a.body); err == nil {
			return text
		}
	}
	return a.body
}

// Waits until the server says that it is ready.
func (s *side) waitReady() error {
	var said error
	err := until(time.Minute, "readiness of the "+s.name, func() bool {
		answer, err := s.get("/readyz")
		if err == nil && answer.code != http.StatusOK {
			err = fmt.Errorf("%d %s", answer.code, answer.body)
		}
		said = err
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, said)
	}
	return nil
}

func (s *side) get(path string) (*answer, error) {
	return s.do(&call{method: http.MethodGet, path: path})
}

// Waits until something is so, looking every few milliseconds.
func until(limit time.Duration, what string, done func() bool) error {
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}
