package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// An entry of differences.json: a difference that is meant, and where it may be seen.  All that is given must match,
// from beginning to end; what is not given matches anything.
type meant struct {
	Reason string
	Method string // of the request
	Path   string // of the request, with its query
	Type   string // the Content-Type of the request
	Accept string // of the request
	Code   string // of the CRD server's answer
	Where  string // of the difference, see difference.where
	Ours   string
	Theirs string
	Chance bool   // it depends on timing: cases need not show it
	Since  string // the first version of upstream that shows it

	used     int
	patterns [8]*regexp.Regexp
}

func readDifferences(path string) ([]*meant, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var entries []*meant
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for number, entry := range entries {
		if entry.Reason == "" || entry.Where == "" {
			return nil, fmt.Errorf("%s: entry %d has no reason or no place", path, number+1)
		}
		for i, pattern := range []string{entry.Method, entry.Path, entry.Type, entry.Accept, entry.Code, entry.Where,
			entry.Ours, entry.Theirs} {
			if pattern == "" {
				continue
			}
			if entry.patterns[i], err = regexp.Compile(`^(?s:` + pattern + `)$`); err != nil {
				return nil, fmt.Errorf("%s: entry %d: %w", path, number+1, err)
			}
		}
	}
	return entries, nil
}

func (m *meant) matches(f *finding, d difference) bool {
	header := f.call.header
	for i, value := range []string{f.call.method, f.call.path, header.Get("Content-Type"),
		strings.Join(header["Accept"], ","), fmt.Sprint(f.code),
		d.where, d.ours, d.theirs} {
		if m.patterns[i] != nil && !m.patterns[i].MatchString(value) {
			return false
		}
	}
	m.used++
	return true
}

// What is left of the findings without the differences that are meant.
func unmeant(findings []finding, entries []*meant) []finding {
	var left []finding
	for _, f := range findings {
		var found []difference
	next:
		for _, d := range f.found {
			for _, entry := range entries {
				if entry.matches(&f, d) {
					continue next
				}
			}
			found = append(found, d)
		}
		if len(found) > 0 {
			f.found = found
			left = append(left, f)
		}
	}
	return left
}
