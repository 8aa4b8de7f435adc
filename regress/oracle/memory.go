package main

import (
	"encoding/json"
	"regexp"
)

// What a client remembers of an object, a list or an error: the parts that the next request may refer to.
type remembered struct {
	version    string
	oldVersion string // the version before that
	uid        string
	name       string
	token      string // continue
	body       string
}

// By the name that a step gives to its answer.  Each side has its own: versions, uids and generated names differ.
type memory map[string]remembered

// The name of the list with which a sequence begins.
const atStart = "at start"

func newMemory() memory { return memory{} }

// Remembers an answer; a Status, and what has no metadata worth it, changes nothing.
func (m memory) keep(name string, body []byte) {
	var document struct {
		Kind     string
		Metadata struct {
			ResourceVersion string
			UID             string
			Name            string
			Continue        string
		}
	}
	if json.Unmarshal(body, &document) != nil || document.Kind == "Status" {
		return
	}
	metadata := document.Metadata
	if metadata.ResourceVersion == "" && metadata.Continue == "" {
		return
	}
	before := m[name]
	if before.version == metadata.ResourceVersion {
		before.version = before.oldVersion
	}
	m[name] = remembered{version: metadata.ResourceVersion, oldVersion: before.version, uid: metadata.UID,
		name:  metadata.Name,
		token: metadata.Continue, body: string(body)}
}

// Forgets a token that one side alone has given (a difference that is meant): on the other one it would lead elsewhere.
func keepTokensOfBoth(ours, theirs memory, name string) {
	o, t := ours[name], theirs[name]
	if (o.token == "") != (t.token == "") {
		o.token, t.token = "", ""
		ours[name], theirs[name] = o, t
	}
}

var placeholder = regexp.MustCompile(`\$\{([a-z0-9]+)(?::([^}]*))?\}`)

// Fills in a template.  ${rv:x} ${old:x} ${uid:x} ${name:x} ${continue:x} ${object:x} are of the answer called x; other
// placeholders are looked up in fixed.  What nobody knows becomes a value that both servers can only take for a
// stranger's; for a version that is the one at which the sequence began.
func (m memory) expand(template string, fixed map[string]string) string {
	return placeholder.ReplaceAllStringFunc(template, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		known := m[parts[2]]
		switch parts[1] {
		case "rv":
			return or(known.version, or(m[atStart].version, "1"))
		case "old":
			return or(known.oldVersion, or(m[atStart].version, "1"))
		case "uid":
			return or(known.uid, "00000000-0000-4000-8000-000000000000")
		case "name":
			return or(known.name, "unknown")
		case "continue":
			return or(known.token, "unknown")
		case "object":
			return or(known.body, "{}")
		}
		if value, ok := fixed[parts[1]]; ok {
			return value
		}
		return found
	})
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// The names of the items of a list.
func namesOf(list []byte) []string {
	var document struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if json.Unmarshal(list, &document) != nil {
		return nil
	}
	var names []string
	for _, item := range document.Items {
		names = append(names, item.Metadata.Name)
	}
	return names
}
