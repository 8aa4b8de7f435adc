package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// One request of a sequence, as a template: the placeholders of memory.go stand for what earlier answers said.
type step struct {
	method string // or WATCH: a GET whose stream is read until the sequence ends
	path   string
	header http.Header
	body   string
	yaml   bool   // the body is JSON, and sent as YAML
	keep   string // the name by which later steps refer to the answer
}

// Requests that follow one another, in a namespace of their own.
type sequence struct {
	name  string
	steps []step
}

// What the files of cases say.
type caseBook struct {
	sequences []sequence
	// The values of each: lines, by the name of the sequence: what random sequences choose from, too.
	values map[string][]string
}

// The text form of sequences, for files of cases and for what a failure prints:
//
//	### name of the sequence
//	each: a | b | c              the sequence once for each of these, as ${each}
//	POST @reports -> a           method, path, and the name by which the answer is remembered
//	Content-Type: text/plain     headers; application/json is the default for bodies
//	= {"kind": "Report"}         body, line by line
//	=q "a\x00b"                  a line of a body, quoted as in Go
//	=y {"kind": "Report"}        a body that is written as YAML when everything is filled in
//
// Lines that begin with # are comments.  In a path @reports stands for where the resource is served; in a body
// ${report} for its apiVersion and kind; see shorthands.
type shorthand struct {
	name, path, identity string
}

var shorthands = []shorthand{
	{"report", "/apis/openreports.io/v1alpha1/namespaces/${ns}/reports",
		`"apiVersion":"openreports.io/v1alpha1","kind":"Report"`},
	{"clusterreport", "/apis/openreports.io/v1alpha1/clusterreports",
		`"apiVersion":"openreports.io/v1alpha1","kind":"ClusterReport"`},
	{"policyreport", "/apis/wgpolicyk8s.io/v1alpha2/namespaces/${ns}/policyreports",
		`"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport"`},
	{"keyword", "/apis/keywords.example.com/v1/namespaces/${ns}/keywords",
		`"apiVersion":"keywords.example.com/v1","kind":"Keyword"`},
	{"alphakeyword", "/apis/keywords.example.com/v1alpha1/namespaces/${ns}/keywords",
		`"apiVersion":"keywords.example.com/v1alpha1","kind":"Keyword"`},
}

var (
	requestLine = regexp.MustCompile(`^([A-Z]+|\$\{each\}) (\S+)(?: -> (\S+))?$`)
	headerLine  = regexp.MustCompile(`^([A-Za-z0-9-]+): ?(.*)$`)
	pathWord    = regexp.MustCompile(`^@([a-z]+)s\b`)
)

func expandShorthands(text string, path bool) string {
	for _, s := range shorthands {
		if path {
			if match := pathWord.FindStringSubmatch(text); match != nil && match[1] == s.name {
				return s.path + text[len(match[0]):]
			}
		} else {
			text = strings.ReplaceAll(text, "${"+s.name+"}", s.identity)
		}
	}
	return text
}

// Adds the sequences of an input in their text form; file is named in errors.
func (book *caseBook) read(input io.Reader, file string) error {
	var each []string
	var current *sequence
	finish := func() {
		if current == nil {
			return
		}
		if each == nil {
			book.sequences = append(book.sequences, *current)
		} else {
			book.values[current.name] = each
		}
		for _, value := range each {
			book.sequences = append(book.sequences, current.with(value))
		}
		current, each = nil, nil
	}
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 16<<20)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		wrong := func(what string) error { return fmt.Errorf("%s:%d: %s: %s", file, number, what, line) }
		if strings.HasPrefix(line, "### ") {
			finish()
			current = &sequence{name: strings.TrimPrefix(line, "### ")}
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if current == nil {
			return wrong("outside any sequence")
		}
		if values, ok := strings.CutPrefix(line, "each: "); ok && len(current.steps) == 0 {
			each = strings.Split(values, " | ")
			continue
		}
		if match := requestLine.FindStringSubmatch(line); match != nil {
			current.steps = append(current.steps, step{method: match[1], path: expandShorthands(match[2], true),
				header: http.Header{}, keep: match[3]})
			continue
		}
		if len(current.steps) == 0 {
			return wrong("no request line")
		}
		last := &current.steps[len(current.steps)-1]
		switch {
		case strings.HasPrefix(line, "= "), strings.HasPrefix(line, "=q "), strings.HasPrefix(line, "=y "):
			text := strings.TrimPrefix(line, "= ")
			if json, ok := strings.CutPrefix(line, "=y "); ok {
				text, last.yaml = json, true
			}
			if quoted, ok := strings.CutPrefix(line, "=q "); ok {
				var err error
				if text, err = strconv.Unquote(quoted); err != nil {
					return wrong("not quoted as in Go")
				}
			}
			if last.body != "" {
				text = last.body + "\n" + text
			}
			last.body = expandShorthands(text, false)
		case headerLine.MatchString(line):
			match := headerLine.FindStringSubmatch(line)
			last.header.Add(match[1], match[2])
		default:
			return wrong("neither request, header nor body")
		}
	}
	finish()
	return lines.Err()
}

// The sequence for one value of its each line.
func (s sequence) with(value string) sequence {
	replace := func(text string) string { return strings.ReplaceAll(text, "${each}", value) }
	result := sequence{name: s.name + ": " + value}
	for _, one := range s.steps {
		header := http.Header{}
		for name, values := range one.header {
			for _, v := range values {
				header.Add(name, replace(v))
			}
		}
		one.method, one.header, one.path, one.body = replace(one.method), header,
			expandShorthands(replace(one.path), true), expandShorthands(replace(one.body), false)
		result.steps = append(result.steps, one)
	}
	return result
}

// The text form again.
func (s sequence) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "### %s\n", s.name)
	for _, one := range s.steps {
		text.WriteString(one.String())
	}
	return text.String()
}

func (s step) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s", s.method, s.path)
	if s.keep != "" {
		fmt.Fprintf(&text, " -> %s", s.keep)
	}
	text.WriteByte('\n')
	for name, values := range s.header {
		for _, value := range values {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	if s.yaml {
		fmt.Fprintf(&text, "=y %s\n", s.body)
	} else if s.body != "" {
		if strconv.CanBackquote(s.body) && !strings.Contains(s.body, "\n") {
			fmt.Fprintf(&text, "= %s\n", s.body)
		} else {
			fmt.Fprintf(&text, "=q %q\n", s.body)
		}
	}
	return text.String()
}
