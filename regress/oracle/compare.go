package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// One thing that the two servers do not agree on.
type difference struct {
	where  string // "code", "header Warning", "body /metadata/name", "event 2 /type"
	ours   string
	theirs string
}

// Headers that clients act on.  Audit-Id is random: only whether it is there counts.
var headersThatMatter = []string{
	"Content-Type", "Warning", "Retry-After", "Cache-Control", "Etag", "Vary", "Allow", "Location", "Expires",
	"X-Content-Type-Options", "Accept-Patch", "Www-Authenticate", "Audit-Id", "Content-Encoding",
}

// Headers of which only the presence is compared.
var opaqueHeaders = map[string]bool{"Etag": true, "Audit-Id": true, "Expires": true}

// Compares the answers to one request.
type comparison struct {
	mapping *mapping
	lane    string
	found   []difference
}

func (c *comparison) differ(where, ours, theirs string) {
	c.found = append(c.found, difference{where, ours, theirs})
}

func (c *comparison) answers(ours, theirs *answer) {
	c.heads(ours.code, theirs.code, ours.header, theirs.header)
	if ours.code != theirs.code {
		// Nothing in them need be the same then.
		c.differ("body", string(ours.json()), string(theirs.json()))
		return
	}
	c.bodies(ours.json(), theirs.json())
}

func (c *comparison) heads(ourCode, theirCode int, ours, theirs http.Header) {
	if ourCode != theirCode {
		c.differ("code", strconv.Itoa(ourCode), strconv.Itoa(theirCode))
	}
	for _, name := range headersThatMatter {
		o, t := append([]string(nil), ours[name]...), append([]string(nil), theirs[name]...)
		if opaqueHeaders[name] {
			if (len(o) > 0) != (len(t) > 0) {
				c.differ("header "+name, fmt.Sprint(o), fmt.Sprint(t))
			}
			continue
		}
		// The order of warnings is that of a map.
		sort.Strings(o)
		sort.Strings(t)
		same := len(o) == len(t)
		for i := 0; same && i < len(o); i++ {
			same = c.mapping.sameText(c.lane, o[i], t[i])
		}
		if !same {
			c.differ("header "+name, quoteAll(o), quoteAll(t))
		}
	}
}

func quoteAll(values []string) string {
	return fmt.Sprintf("%q", values)
}

func (c *comparison) bodies(ours, theirs []byte) {
	o, oerr := parse(ours)
	t, terr := parse(theirs)
	switch {
	case oerr == nil && terr == nil:
		c.documents("body", o, t)
	case len(bytes.TrimSpace(ours)) == 0 && len(bytes.TrimSpace(theirs)) == 0:
	case bytes.HasPrefix(bytes.TrimSpace(theirs), []byte(`{"type":`)):
		c.sameStream(ours, theirs)
	case !c.mapping.sameText(c.lane, string(ours), string(theirs)):
		c.differ("body", string(ours), string(theirs))
	}
}

// Watches that ended by themselves.
func (c *comparison) sameStream(ours, theirs []byte) {
	o, t := bytes.Split(bytes.TrimSpace(ours), []byte("\n")), bytes.Split(bytes.TrimSpace(theirs), []byte("\n"))
	if len(o) != len(t) {
		c.differ("events", fmt.Sprint(len(o)), fmt.Sprint(len(t)))
		return
	}
	for i := range o {
		c.event(i, o[i], t[i])
	}
}

// The events of a place in two streams.
func (c *comparison) event(at int, ours, theirs []byte) {
	where := fmt.Sprintf("event %d", at)
	o, oerr := parse(ours)
	t, terr := parse(theirs)
	if oerr != nil || terr != nil {
		c.differ(where, string(ours), string(theirs))
		return
	}
	c.documents(where, o, t)
}

// One JSON document, numbers as they are written.
func parse(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("more than one document")
	}
	return document, nil
}

// Two documents and the places where they differ; where names them.
func (c *comparison) documents(where string, ours, theirs any) {
	o, t := sortCauses(ours), sortCauses(theirs)
	if o != t {
		c.differ(where+" /details/causes repeated", strconv.FormatBool(o), strconv.FormatBool(t))
	}
	sortResources(ours)
	sortResources(theirs)
	sortOwners(ours)
	sortOwners(theirs)
	c.values(where+" ", "", ours, theirs, nil)
}

// The order of the resources of a version is that of a map, too.
func sortResources(document any) {
	list, _ := document.(map[string]any)
	if list["kind"] != "APIResourceList" {
		return
	}
	resources, _ := list["resources"].([]any)
	sort.SliceStable(resources, func(i, j int) bool {
		a, _ := resources[i].(map[string]any)
		b, _ := resources[j].(map[string]any)
		return text(a["name"]) < text(b["name"])
	})
}

// Brings the causes of a Status and the words of its message into an order of their own: validation walks over maps, so
// that theirs is chance.  A cause stays once; true when it was there more often.
func sortCauses(document any) (repeated bool) {
	status, _ := document.(map[string]any)
	if status["kind"] != "Status" {
		return false
	}
	details, _ := status["details"].(map[string]any)
	causes, _ := details["causes"].([]any)
	if len(causes) == 0 {
		return false
	}
	sort.SliceStable(causes, func(i, j int) bool { return text(causes[i]) < text(causes[j]) })
	once := slices.CompactFunc(causes, func(a, b any) bool { return text(a) == text(b) })
	repeated = len(once) < len(causes)
	details["causes"] = once
	if message, ok := status["message"].(string); ok {
		head, rest, found := strings.Cut(sortQuoted(message), " is invalid: ")
		if !found {
			return repeated
		}
		if inner, many := strings.CutPrefix(rest, "["); many && strings.HasSuffix(inner, "]") {
			rest = strings.TrimSuffix(inner, "]")
		}
		words := strings.Split(rest, ", ")
		sort.Strings(words)
		status["message"] = head + " is invalid: " + strings.Join(words, ", ")
	}
	return repeated
}

// Brings the managed fields in a document into an order that does not depend on whether two writes met in one second of
// the server's clock: the same without the time.  Managed fields that are not in the server's order stay, and so are
// compared as they are.
func sortOwners(document any) {
	switch d := document.(type) {
	case []any:
		for _, element := range d {
			sortOwners(element)
		}
	case map[string]any:
		for key, member := range d {
			list, isList := member.([]any)
			if key != "managedFields" || !isList {
				sortOwners(member)
				continue
			}
			less := func(withTime bool) func(i, j int) bool {
				return func(i, j int) bool { return ownerKey(list[i], withTime) < ownerKey(list[j], withTime) }
			}
			if sort.SliceIsSorted(list, less(true)) {
				sort.SliceStable(list, less(false))
			}
		}
	}
}

// What an entry of managed fields is sorted by (MF-06).
func ownerKey(entry any, withTime bool) string {
	owner, _ := entry.(map[string]any)
	key := []string{text(owner["operation"])}
	if withTime {
		key = append(key, text(owner["time"]))
	}
	for _, member := range []string{"manager", "apiVersion", "subresource"} {
		value, _ := owner[member].(string)
		key = append(key, value)
	}
	return strings.Join(key, "\x00")
}

func text(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return v
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(value)
	return strings.TrimSpace(b.String())
}

func (c *comparison) values(where, key string, ours, theirs any, parent map[string]any) {
	switch o := ours.(type) {
	case map[string]any:
		if t, ok := theirs.(map[string]any); ok {
			c.objects(where, o, t)
			return
		}
	case []any:
		if t, ok := theirs.([]any); ok {
			for i := 0; i < len(o) && i < len(t); i++ {
				c.values(where+"/"+strconv.Itoa(i), key, o[i], t[i], nil)
			}
			if len(o) != len(t) {
				c.differ(where+" length", text(ours), text(theirs))
			}
			return
		}
	case string:
		if t, ok := theirs.(string); ok && (o == t && !uidPattern.MatchString(o) || c.strings(key, o, t, parent)) {
			return
		}
	case json.Number:
		if t, ok := theirs.(json.Number); ok && sameNumber(o, t) {
			return
		}
	default:
		if ours == theirs {
			return
		}
	}
	c.differ(where, text(ours), text(theirs))
}

// The objects of a document.  Its versions come last: until then all uids in it have been paired.
func (c *comparison) objects(where string, ours, theirs map[string]any) {
	keys := map[string]bool{}
	for key := range ours {
		keys[key] = true
	}
	for key := range theirs {
		keys[key] = true
	}
	sorted := make([]string, 0, len(keys))
	for key := range keys {
		sorted = append(sorted, key)
	}
	sort.Strings(sorted)
	for _, key := range sorted {
		at := where + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		o, inOurs := ours[key]
		t, inTheirs := theirs[key]
		switch {
		case !inOurs:
			c.differ(at, "missing", text(t))
		case !inTheirs:
			c.differ(at, text(o), "missing")
		default:
			c.values(at, key, o, t, ours)
		}
	}
}

func (c *comparison) strings(key, ours, theirs string, parent map[string]any) bool {
	switch key {
	case "uid":
		if uidPattern.MatchString(ours) && uidPattern.MatchString(theirs) {
			return ours == theirs || c.mapping.uids.pair(ours, theirs)
		}
	case "resourceVersion":
		o, err := strconv.ParseUint(ours, 10, 64)
		if err != nil {
			return false
		}
		t, err := strconv.ParseUint(theirs, 10, 64)
		if err != nil {
			return false
		}
		if _, isObject := parent["uid"]; isObject {
			return c.mapping.lane(c.lane).pair(o, t)
		}
		return c.mapping.lane(c.lane).sameState(o, t)
	case "continue":
		return ours != "" && theirs != ""
	case "creationTimestamp", "deletionTimestamp", "time":
		return sameMoment(ours, theirs)
	case "cells":
		return sameAge(ours, theirs) || c.mapping.sameName(ours, theirs) || c.mapping.sameText(c.lane, ours, theirs)
	case "name":
		return c.mapping.sameName(ours, theirs)
	case "hash", "serverRelativeURL":
		return ours != "" && theirs != ""
	}
	return c.mapping.sameText(c.lane, ours, theirs)
}

func sameNumber(ours, theirs json.Number) bool {
	if ours == theirs {
		return true
	}
	_, oerr := ours.Int64()
	_, terr := theirs.Int64()
	if oerr == nil && terr == nil {
		return false
	}
	o, oerr := ours.Float64()
	t, terr := theirs.Float64()
	return oerr == nil && terr == nil && o == t
}
