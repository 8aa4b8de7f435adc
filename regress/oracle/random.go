package main

import (
	"fmt"
	"regexp"
	"time"
)

// Failures that are shown; more of them tell nothing new.
const mostShown = 25

// Plays random sequences until count requests have been sent; each that fails is made shorter and printed once for each
// kind of difference.
func playRandom(p *pair, book *caseBook, entries []*meant, seed uint64, count int) (passed, failed int, err error) {
	shown := map[string]int{}
	for number, sent := 1, 0; sent < count; number++ {
		s := generate(book, seed, number)
		sent += len(s.steps)
		findings, err := p.play(s)
		if err != nil {
			return passed, failed, fmt.Errorf("%s: %w\n%s", s.name, err, s)
		}
		if findings = unmeant(findings, entries); len(findings) == 0 {
			passed++
			continue
		}
		failed++
		signature := findings[0].signature()
		shown[signature]++
		if shown[signature] > 1 || len(shown) > mostShown {
			continue
		}
		short, findings, err := p.shrink(s, findings, entries)
		if err != nil {
			return passed, failed, err
		}
		report(findings)
		fmt.Printf("to play it again, put this into a file and run make check-oracle REPLAY=file\n%s\n", short)
	}
	for signature, times := range shown {
		if times > 1 {
			fmt.Printf("%d times: %s\n", times, signature)
		}
	}
	return passed, failed, nil
}

var digits = regexp.MustCompile(`[0-9]+`)

// What kind of difference it is, whatever the names and numbers.
func (f *finding) signature() string {
	return fmt.Sprintf("%s %d %s", f.call.method, f.code, digits.ReplaceAllString(f.found[0].where, "N"))
}

// How long a sequence may take to become short.
const shrinkTime = 30 * time.Second

// Leaves out what is not needed for the same kind of difference: first half of the steps, then a quarter, and so on.
func (p *pair) shrink(s sequence, findings []finding, entries []*meant) (sequence, []finding, error) {
	wanted := findings[0].signature()
	deadline := time.Now().Add(shrinkTime)
	for size := len(s.steps) / 2; size > 0; {
		shorter := false
		for start := 0; start+size <= len(s.steps) && time.Now().Before(deadline); {
			candidate := sequence{name: s.name, steps: append(append([]step(nil), s.steps[:start]...),
				s.steps[start+size:]...)}
			found, err := p.play(candidate)
			if err != nil {
				return s, findings, err
			}
			if found = unmeant(found, entries); len(found) > 0 && found[0].signature() == wanted {
				s, findings, shorter = candidate, found, true
			} else {
				start += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return s, findings, nil
}
