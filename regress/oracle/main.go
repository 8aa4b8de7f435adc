// The oracle: sends the same requests to a CRD server of upstream and to a proxy of kube-reports, and compares what
// they say.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

type settings struct {
	top      string
	upstream string
	only     string
	seed     uint64
	count    int
	replay   string
}

func main() {
	var o settings
	flag.StringVar(&o.top, "top", "../..", "the source tree, built")
	flag.StringVar(&o.upstream, "upstream", "",
		"the version of upstream that this was built with, when it is not the newest: 1.36")
	flag.StringVar(&o.only, "only", "", "of the cases, those whose name matches this pattern")
	flag.Uint64Var(&o.seed, "seed", 1, "of the random sequences")
	flag.IntVar(&o.count, "count", 1000, "requests in random sequences")
	flag.StringVar(&o.replay, "replay", "", "a file with sequences to play instead")
	flag.Parse()
	passed, failed, err := run(o)
	if err != nil {
		fmt.Println(err)
		failed++
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// The server in this process talks to its log about everything, its panics included: those are answers here.
func quiet() error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	os.Stderr = null
	klog.SetLogger(logr.Discard())
	log.SetOutput(io.Discard)
	return nil
}

func run(o settings) (passed, failed int, err error) {
	top, err := filepath.Abs(o.top)
	if err != nil {
		return 0, 0, err
	}
	here := filepath.Join(top, "regress", "oracle")
	entries, err := readDifferences(filepath.Join(here, "differences.json"))
	if err != nil {
		return 0, 0, err
	}
	if o.upstream != "" {
		older, err := readDifferences(filepath.Join(here, "differences-"+o.upstream+".json"))
		if err != nil {
			return 0, 0, err
		}
		entries = append(entries, older...)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return 0, 0, err
	}
	if err := quiet(); err != nil {
		return 0, 0, err
	}
	ours, err := startStack(top)
	defer ours.end()
	if err != nil {
		return 0, 0, err
	}
	theirs, err := startCRDServer()
	defer theirs.end()
	if err != nil {
		return 0, 0, err
	}
	if err := register(top, ours, theirs); err != nil {
		return 0, 0, err
	}
	p := &pair{ours: ours.side, theirs: theirs.side, mapping: newMapping()}

	files, err := filepath.Glob(filepath.Join(here, "cases", "*.case"))
	if err != nil {
		return 0, 0, err
	}
	book := &caseBook{values: map[string][]string{}}
	if o.replay != "" {
		files = []string{o.replay}
	}
	for _, file := range files {
		input, err := os.Open(file)
		if err != nil {
			return 0, 0, err
		}
		err = book.read(input, file)
		input.Close()
		if err != nil {
			return 0, 0, err
		}
	}
	passed, failed, err = playCases(p, book, entries, only)
	if err != nil || o.replay != "" || o.only != "" {
		return passed, failed, err
	}
	for _, entry := range entries {
		// An older version need not show what came later.
		if entry.used == 0 && !entry.Chance && (o.upstream == "" || entry.Since == "") {
			failed++
			fmt.Printf("--- differences.json: no case shows this difference any more: %s\n", entry.Reason)
		}
	}
	fmt.Printf("%-28s %4d passed, %d failed\n", "oracle cases", passed, failed)
	more, broken, err := playRandom(p, book, entries, o.seed, o.count)
	fmt.Printf("%-28s %4d passed, %d failed\n", fmt.Sprintf("oracle random, seed %d", o.seed), more, broken)
	return passed + more, failed + broken, err
}

func playCases(p *pair, book *caseBook, entries []*meant, only *regexp.Regexp) (passed, failed int, err error) {
	for _, s := range book.sequences {
		if !only.MatchString(s.name) {
			continue
		}
		findings, err := p.play(s)
		if err != nil {
			return passed, failed, fmt.Errorf("%s: %w", s.name, err)
		}
		if findings = unmeant(findings, entries); len(findings) == 0 {
			passed++
			continue
		}
		failed++
		report(findings)
	}
	return passed, failed, nil
}

// Prints where the servers differ.
func report(findings []finding) {
	for _, f := range findings {
		fmt.Printf("--- %s: step %d: %s %s\n", f.sequence.name, f.at+1, f.call.method, f.call.path)
		for name, values := range f.call.header {
			fmt.Printf("    %s: %s\n", name, strings.Join(values, ", "))
		}
		if f.call.body != "" {
			fmt.Printf("    %s\n", shorten(f.call.body))
		}
		for _, d := range f.found {
			fmt.Printf("  %s\n    ours   %s\n    theirs %s\n", d.where, shorten(d.ours), shorten(d.theirs))
		}
	}
}

func shorten(text string) string {
	const most = 1000
	if len(text) > most {
		return fmt.Sprintf("%s ... (%d bytes)", text[:most], len(text))
	}
	return text
}

// Gives both servers the same types: the built-in ones are the proxy's already.
func register(top string, ours *stack, theirs *crdServer) error {
	for _, source := range []struct {
		pattern string
		builtin bool
	}{{"sql/crds/*.json", true}, {"regress/crds/*.json", false}} {
		files, err := filepath.Glob(filepath.Join(top, source.pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			var crd struct {
				Metadata struct{ Name string }
				Spec     struct {
					Group    string
					Names    struct{ Plural string }
					Versions []struct {
						Name   string
						Served bool
					}
				}
			}
			if err := json.Unmarshal(text, &crd); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			probe := "/apis/" + crd.Spec.Group + "/" + crd.Spec.Versions[0].Name + "/" + crd.Spec.Names.Plural
			if err := theirs.register(text, crd.Metadata.Name, probe); err != nil {
				return err
			}
			if source.builtin {
				continue
			}
			if err := ours.register(text, crd.Metadata.Name, probe); err != nil {
				return err
			}
		}
	}
	return nil
}
