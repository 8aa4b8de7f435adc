package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// The two servers and what is known of which value stands for which.
type pair struct {
	ours    *side
	theirs  *side
	mapping *mapping
	played  int
	// Requests sent, for the report.
	requests int
}

// A step at which the servers differ.
type finding struct {
	sequence sequence
	at       int // the step
	call     call
	code     int // of the CRD server
	found    []difference
}

// A watch that is open on both sides.
type watchPair struct {
	at     int
	call   call
	lane   string
	ours   *stream
	theirs *stream
}

// Streams that have not said the same by then do not say the same.
const streamPatience = 5 * time.Second

// Does something on both sides at once.
func both[T any](ours, theirs func() (T, error)) (o, t T, err error) {
	var group sync.WaitGroup
	var other error
	group.Add(1)
	go func() {
		defer group.Done()
		t, other = theirs()
	}()
	o, err = ours()
	group.Wait()
	if err == nil {
		err = other
	}
	return o, t, err
}

// The same request to both.
func (p *pair) do(o, t *call) (*answer, *answer, error) {
	p.requests++
	return both(func() (*answer, error) { return p.ours.do(o) }, func() (*answer, error) { return p.theirs.do(t) })
}

func (p *pair) doSame(c *call) (*answer, *answer, error) { return p.do(c, c) }

func (s step) call(m memory, fixed map[string]string) *call {
	c := &call{method: s.method, path: m.expand(s.path, fixed), header: http.Header{}, body: m.expand(s.body, fixed)}
	for name, values := range s.header {
		for _, value := range values {
			c.header.Add(name, m.expand(value, fixed))
		}
	}
	if c.method == "WATCH" {
		c.method = http.MethodGet
	}
	contentType := "application/json"
	if s.yaml {
		contentType = "application/yaml"
		// What is no JSON is a fault to be found in either language.
		if text, err := yaml.JSONToYAML([]byte(c.body)); err == nil {
			c.body = string(text)
		}
	}
	if _, set := c.header["Content-Type"]; !set && c.body != "" {
		c.header.Set("Content-Type", contentType)
	}
	return c
}

// What the CRD server may answer from a cache that is behind, reads and deletions of collections alike (watch=1 has a
// deletion, too, take objects of any version); a list at the most recent version makes it catch up.
var fromCache = regexp.MustCompile(`[?&](watch|resourceVersion)=`)

// Sends a sequence to both servers; returns what differs, step by step.  An error is a failure of the machinery.
func (p *pair) play(s sequence) (findings []finding, err error) {
	p.played++
	p.ours.memory, p.theirs.memory = newMemory(), newMemory()
	fixed := map[string]string{
		"ns":    fmt.Sprintf("oracle-%d", p.played),
		"other": fmt.Sprintf("oracle-%d-other", p.played),
		"p":     fmt.Sprintf("c%d", p.played),
		// More than what is worth to be compressed.
		"large": strings.Repeat("large ", 25000),
	}
	if err := p.begin(s, fixed); err != nil {
		return nil, err
	}
	var watches []*watchPair
	clusterScoped := map[string]bool{}
	defer func() {
		for _, w := range watches {
			w.ours.cancel()
			w.theirs.cancel()
		}
	}()
	for at, one := range s.steps {
		ours, theirs := one.call(p.ours.memory, fixed), one.call(p.theirs.memory, fixed)
		lane := laneOf(theirs.path)
		if collection, found := strings.CutSuffix(collectionOf(one.path), "/clusterreports"); found {
			clusterScoped[collection+"/clusterreports"] = true
		}
		if (theirs.method == http.MethodGet || theirs.method == http.MethodDelete) &&
			fromCache.MatchString(theirs.path) {
			if _, err := p.theirs.get(collectionOf(theirs.path) + "?limit=1"); err != nil {
				return findings, err
			}
		}
		c := &comparison{mapping: p.mapping, lane: lane}
		if one.method == "WATCH" {
			p.requests++
			o, t, err := both(func() (*stream, error) { return p.ours.watch(ours) },
				func() (*stream, error) { return p.theirs.watch(theirs) })
			if err != nil {
				return findings, err
			}
			c.heads(o.code, t.code, o.header, t.header)
			if o.body != nil || t.body != nil {
				c.bodies(o.body, t.body)
				o.cancel()
				t.cancel()
			} else {
				watches = append(watches, &watchPair{at: at, call: *theirs, lane: lane, ours: o, theirs: t})
			}
			if len(c.found) > 0 {
				findings = append(findings, finding{s, at, *theirs, t.code, c.found})
			}
			continue
		}
		o, t, err := p.do(ours, theirs)
		if err != nil {
			return findings, err
		}
		c.answers(o, t)
		// What one side alone could answer (a difference that is meant) must not be where later steps go apart.
		if one.keep != "" && o.code == t.code {
			p.ours.memory.keep(one.keep, o.json())
			p.theirs.memory.keep(one.keep, t.json())
			keepTokensOfBoth(p.ours.memory, p.theirs.memory, one.keep)
		}
		if len(c.found) > 0 {
			findings = append(findings, finding{s, at, *theirs, t.code, c.found})
		}
	}
	more, err := p.endWatches(s, watches, fixed)
	findings = append(findings, more...)
	if err != nil {
		return findings, err
	}
	for collection := range clusterScoped {
		if err := p.clear(collection); err != nil {
			return findings, err
		}
	}
	return findings, nil
}

// Remembers the version of the first step's collection.
func (p *pair) begin(s sequence, fixed map[string]string) error {
	if len(s.steps) == 0 {
		return nil
	}
	collection := collectionOf(p.ours.memory.expand(s.steps[0].path, fixed))
	if collection == "" {
		return nil
	}
	for _, s := range []*side{p.ours, p.theirs} {
		list, err := s.get(collection + "?limit=1")
		if err != nil {
			return err
		}
		s.memory.keep(atStart, list.body)
	}
	return nil
}

var objectPath = regexp.MustCompile(`^(/apis/[^/?]+/[^/?]+/(?:namespaces/[^/?]+/)?[^/?]+)`)

// The collection that a path is of or in.
func collectionOf(path string) string {
	return objectPath.FindString(path)
}

// Waits until all watches have said what they have to say, and compares it.
func (p *pair) endWatches(s sequence, watches []*watchPair, fixed map[string]string) ([]finding, error) {
	flushed := map[string]bool{}
	for _, w := range watches {
		if !flushed[w.lane] {
			flushed[w.lane] = true
			if err := p.flush(w.lane, fixed); err != nil {
				return nil, err
			}
		}
	}
	var findings []finding
	for _, w := range watches {
		deadline := time.Now().Add(streamPatience)
		for !w.said(lastName(fixed)) && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
		w.ours.end()
		w.theirs.end()
		// Of streams that differ, be it as meant, the events beside each other are not the same ones: nothing is
		// learned from them.
		c := &comparison{mapping: p.mapping.copy(), lane: w.lane}
		c.streams(w.ours, w.theirs)
		if len(c.found) > 0 {
			findings = append(findings, finding{s, w.at, w.call, w.theirs.code, c.found})
		} else {
			p.mapping = c.mapping
		}
	}
	return findings, nil
}

// Whether both sides have said the same number of things, and the last one: a watch with a selector may not be told of
// it, another one that goes on is, but either side may be slower by that one event.
func (w *watchPair) said(last string) bool {
	o, oEnded := w.ours.seen()
	t, tEnded := w.theirs.seen()
	if len(o) != len(t) || oEnded != tEnded {
		return false
	}
	return oEnded || strings.Contains(w.call.path, "Selector=") || len(o) > 0 &&
		bytes.Contains(o[len(o)-1], []byte(last)) &&
		bytes.Contains(t[len(t)-1], []byte(last))
}

// The name of the object that ends a sequence.
func lastName(fixed map[string]string) string {
	return "zz-" + fixed["p"]
}

func (c *comparison) streams(ours, theirs *stream) {
	o, oEnded := ours.seen()
	t, tEnded := theirs.seen()
	for i := 0; i < len(o) && i < len(t); i++ {
		c.event(i, o[i], t[i])
	}
	for i := len(t); i < len(o); i++ {
		c.differ("event more", string(o[i]), "none")
	}
	for i := len(o); i < len(t); i++ {
		c.differ("event more", "none", string(t[i]))
	}
	if oEnded != tEnded {
		c.differ("end of stream", fmt.Sprint(oEnded), fmt.Sprint(tEnded))
	}
}

// Writes an object that every watch of everything must see, and waits until such a watch has seen it on both sides:
// what happened before has then been sent to the other watches too, or is being sent.
func (p *pair) flush(lane string, fixed map[string]string) error {
	collection, identity := "", ""
	for _, s := range shorthands {
		if path := p.ours.memory.expand(s.path, fixed); laneOf(path) == lane && collection == "" {
			collection, identity = path, s.identity
		}
	}
	if collection == "" {
		return nil
	}
	name := lastName(fixed)
	body := fmt.Sprintf(`{%s,"metadata":{"name":%q},"spec":{"text":"flush"}}`, identity, name)
	write := func(s *side) (*stream, error) {
		list, err := s.get(collection + "?limit=1")
		if err != nil {
			return nil, err
		}
		s.memory.keep("flush", list.body)
		w, err := s.watch(&call{method: http.MethodGet,
			path: collection + "?watch=1&resourceVersion=" + url.QueryEscape(s.memory["flush"].version)})
		if err != nil {
			return nil, err
		}
		_, err = s.do(&call{method: http.MethodPost, path: collection, header: jsonBody, body: body})
		return w, err
	}
	o, t, err := both(func() (*stream, error) { return write(p.ours) },
		func() (*stream, error) { return write(p.theirs) })
	if err != nil {
		return err
	}
	defer o.end()
	defer t.end()
	return until(answerTimeout, "the last event of "+collection, func() bool { return o.has(name) && t.has(name) })
}

// Removes what a sequence left in a collection that all sequences share.
func (p *pair) clear(collection string) error {
	for _, s := range []*side{p.ours, p.theirs} {
		list, err := s.get(collection)
		if err != nil {
			return err
		}
		for _, name := range namesOf(list.body) {
			object := collection + "/" + name
			patch := http.Header{"Content-Type": {"application/merge-patch+json"}}
			if _, err := s.do(&call{method: http.MethodPatch, path: object, header: patch,
				body: `{"metadata":{"finalizers":null}}`}); err != nil {
				return err
			}
			if _, err := s.do(&call{method: http.MethodDelete, path: object}); err != nil {
				return err
			}
		}
	}
	return nil
}
