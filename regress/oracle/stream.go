package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
)

// A watch on one side: what it has said so far.
type stream struct {
	code   int
	header http.Header
	cancel context.CancelFunc

	lock   sync.Mutex
	events []json.RawMessage
	body   []byte // when the answer is no stream
	ended  bool
	done   chan struct{}
}

// Starts a watch; returns when its headers are there.
func (s *side) watch(c *call) (*stream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	response, err := s.open(ctx, c)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &stream{code: response.StatusCode, header: response.Header, cancel: cancel, done: make(chan struct{})}
	if w.code != http.StatusOK {
		w.body, err = io.ReadAll(response.Body)
		response.Body.Close()
		cancel()
		w.ended = true
		close(w.done)
		return w, err
	}
	go func() {
		defer close(w.done)
		defer response.Body.Close()
		decoder := json.NewDecoder(plain(response))
		for {
			var event json.RawMessage
			err := decoder.Decode(&event)
			w.lock.Lock()
			if err != nil {
				// An end by our own hand is no end of the stream.
				w.ended = ctx.Err() == nil
				w.lock.Unlock()
				return
			}
			if !isPeriodicBookmark(event) {
				w.events = append(w.events, event)
			}
			w.lock.Unlock()
		}
	}()
	return w, nil
}

// The bytes of a stream, whatever it is packed in.
func plain(response *http.Response) io.Reader {
	if response.Header.Get("Content-Encoding") != "gzip" {
		return response.Body
	}
	unpacked, err := gzip.NewReader(response.Body)
	if err != nil {
		return strings.NewReader("no gzip: " + err.Error())
	}
	return unpacked
}

// Bookmarks come when a server likes to send them; only the one that ends the initial events has a place.
func isPeriodicBookmark(event []byte) bool {
	var head struct {
		Type   string
		Object struct {
			Metadata struct{ Annotations map[string]string }
		}
	}
	return json.Unmarshal(event, &head) == nil && head.Type == "BOOKMARK" &&
		head.Object.Metadata.Annotations["k8s.io/initial-events-end"] == ""
}

func (w *stream) seen() ([]json.RawMessage, bool) {
	w.lock.Lock()
	defer w.lock.Unlock()
	return w.events[:len(w.events):len(w.events)], w.ended
}

// Whether it has delivered an object of this name.
func (w *stream) has(name string) bool {
	events, _ := w.seen()
	for i := len(events) - 1; i >= 0; i-- {
		var event struct {
			Object struct{ Metadata struct{ Name string } }
		}
		if json.Unmarshal(events[i], &event) == nil && event.Object.Metadata.Name == name {
			return true
		}
	}
	return false
}

func (w *stream) end() {
	w.cancel()
	<-w.done
}
