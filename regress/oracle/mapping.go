package main

import (
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Which values of the one server stand for which of the other: uids, generated names, versions.  Pairs are learned
// where an object is seen on both sides at once, and hold from then on: a value that meets another partner later is a
// difference.
type mapping struct {
	uids  bijection
	names bijection
	// Versions by lane, in ascending order on both sides: a lane is a resource, whatever the version it is asked by.
	lanes map[string]*versions
}

func newMapping() *mapping {
	return &mapping{uids: newBijection(), names: newBijection(), lanes: map[string]*versions{}}
}

// One that can learn on its own.
func (m *mapping) copy() *mapping {
	made := &mapping{uids: m.uids.copy(), names: m.names.copy(), lanes: map[string]*versions{}}
	for name, lane := range m.lanes {
		made.lanes[name] = &versions{slices.Clone(lane.pairs)}
	}
	return made
}

type bijection struct {
	theirs map[string]string // by ours
	ours   map[string]string // by theirs
}

func newBijection() bijection {
	return bijection{theirs: map[string]string{}, ours: map[string]string{}}
}

func (b bijection) copy() bijection {
	return bijection{maps.Clone(b.theirs), maps.Clone(b.ours)}
}

func (b bijection) pair(ours, theirs string) bool {
	a, knownOurs := b.theirs[ours]
	c, knownTheirs := b.ours[theirs]
	if !knownOurs && !knownTheirs {
		b.theirs[ours], b.ours[theirs] = theirs, ours
		return true
	}
	return knownOurs && knownTheirs && a == theirs && c == ours
}

type versionPair struct{ ours, theirs uint64 }

type versions struct{ pairs []versionPair }

// The last pair at or below a version, on each side; 0 is before all.
func (v *versions) floorOurs(version uint64) int {
	return sort.Search(len(v.pairs), func(i int) bool { return v.pairs[i].ours > version })
}

func (v *versions) floorTheirs(version uint64) int {
	return sort.Search(len(v.pairs), func(i int) bool { return v.pairs[i].theirs > version })
}

// Versions of the same state of the same object.
func (v *versions) pair(ours, theirs uint64) bool {
	o, t := v.floorOurs(ours), v.floorTheirs(theirs)
	if o != t {
		return false
	}
	if o > 0 {
		last := v.pairs[o-1]
		if last.ours == ours || last.theirs == theirs {
			return last.ours == ours && last.theirs == theirs
		}
	}
	v.pairs = append(v.pairs, versionPair{})
	copy(v.pairs[o+1:], v.pairs[o:])
	v.pairs[o] = versionPair{ours, theirs}
	return true
}

// Versions of a collection: the same objects had changed by then.  The other server counts other resources' changes
// too.
func (v *versions) sameState(ours, theirs uint64) bool {
	return v.floorOurs(ours) == v.floorTheirs(theirs)
}

func (m *mapping) lane(name string) *versions {
	if m.lanes[name] == nil {
		m.lanes[name] = &versions{}
	}
	return m.lanes[name]
}

var resourcePath = regexp.MustCompile(`^/apis/([^/?]+)/[^/?]+/(?:namespaces/[^/?]+/)?([^/?]+)`)

// The lane of a path; "" for paths that are not of a resource.
func laneOf(path string) string {
	if match := resourcePath.FindStringSubmatch(path); match != nil {
		return match[2] + "." + match[1]
	}
	return ""
}

// How old a time may be that both servers took from their clocks while they answered the same requests.
const clockSlack = time.Minute

// Whether two strings are moments that each server took from its own clock.
func sameMoment(ours, theirs string) bool {
	o, err := time.Parse(time.RFC3339Nano, ours)
	if err != nil {
		return false
	}
	t, err := time.Parse(time.RFC3339Nano, theirs)
	return err == nil && len(ours) == len(theirs) && o.Sub(t).Abs() <= clockSlack && time.Since(t).Abs() < time.Hour
}

var (
	uidPattern  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	uidInText   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	timeInText  = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z`)
	number      = regexp.MustCompile(`[0-9]+`)
	suffix      = regexp.MustCompile(`^[bcdfghjklmnpqrstvwxz2456789]{5}$`)
	ageOfObject = regexp.MustCompile(`^([0-9]+)s$`)
)

// Whether two names are of one object whose name each server made up.
func (m *mapping) sameName(ours, theirs string) bool {
	if _, known := m.names.theirs[ours]; known {
		return m.names.pair(ours, theirs)
	}
	cut := len(ours) - 5
	if cut < 0 || len(ours) != len(theirs) || ours[:cut] != theirs[:cut] || !suffix.MatchString(ours[cut:]) ||
		!suffix.MatchString(theirs[cut:]) {
		return false
	}
	return m.names.pair(ours, theirs)
}

// The word at which two texts differ for the first time, when it is quoted: a name that was generated and then refused
// is known from the error alone.
func generatedNames(ours, theirs string) (o, t string, found bool) {
	at := 0
	for at < len(ours) && at < len(theirs) && ours[at] == theirs[at] {
		at++
	}
	start := strings.LastIndexByte(ours[:at], '"') + 1
	o, _, foundOurs := strings.Cut(ours[start:], `"`)
	t, _, foundTheirs := strings.Cut(theirs[start:], `"`)
	return o, t, start > 0 && foundOurs && foundTheirs
}

// A document that a message quotes, as ours does it: members sorted, characters escaped only where they must be.
// Upstream keeps the order and the escapes of what a patch brought.
func sortQuoted(message string) string {
	const start = `"{\"`
	at := strings.Index(message, start)
	if at < 0 {
		return message
	}
	quoted, err := strconv.QuotedPrefix(message[at:])
	if err != nil {
		return message
	}
	plain, err := strconv.Unquote(quoted)
	if err != nil {
		return message
	}
	document, err := parse([]byte(plain))
	if err != nil {
		return message
	}
	sortOwners(document)
	return message[:at] + strconv.Quote(text(document)) + sortQuoted(message[at+len(quoted):])
}

// The first text with the times of the second, where each server took them from its own clock.
func alignTimes(ours, theirs string) string {
	times := timeInText.FindAllString(theirs, -1)
	if len(times) != len(timeInText.FindAllStringIndex(ours, -1)) {
		return ours
	}
	at := -1
	return timeInText.ReplaceAllStringFunc(ours, func(moment string) string {
		at++
		if sameMoment(moment, times[at]) {
			return times[at]
		}
		return moment
	})
}

// Whether two texts say the same of what the two servers know under different uids, names, times and versions.
func (m *mapping) sameText(lane, ours, theirs string) bool {
	ours, theirs = sortErrors(sortQuoted(ours)), sortErrors(sortQuoted(theirs))
	ours = uidInText.ReplaceAllStringFunc(ours, func(uid string) string { return or(m.uids.theirs[uid], uid) })
	for name, other := range m.names.theirs {
		if strings.Contains(ours, name) {
			ours = strings.ReplaceAll(ours, name, other)
		}
	}
	ours = alignTimes(ours, theirs)
	if ours == theirs {
		return true
	}
	if o, t, found := generatedNames(ours, theirs); found && m.sameName(o, t) {
		ours = strings.ReplaceAll(ours, o, t)
	}
	if number.ReplaceAllString(ours, "0") != number.ReplaceAllString(theirs, "0") {
		return false
	}
	o, t := number.FindAllString(ours, -1), number.FindAllString(theirs, -1)
	for i := range o {
		if o[i] != t[i] && !m.sameVersionText(lane, o[i], t[i]) {
			return false
		}
	}
	return true
}

// The errors that a typed document has are listed upstream in the order of a map.
func sortErrors(text string) string {
	head, list, found := strings.Cut(text, ": errors:\n")
	if !found {
		return text
	}
	lines := strings.Split(list, "\n")
	sort.Strings(lines)
	return head + ": errors:\n" + strings.Join(lines, "\n")
}

// Our versions are microseconds since 1970 or later numbers: nothing else in a text is that large.
const leastVersion = 1_000_000_000_000_000

func (m *mapping) sameVersionText(lane, ours, theirs string) bool {
	o, err := strconv.ParseUint(ours, 10, 64)
	if err != nil || o < leastVersion {
		return false
	}
	t, err := strconv.ParseUint(theirs, 10, 64)
	return err == nil && m.lane(lane).sameState(o, t)
}

// Whether two cells of a table tell an age of some seconds.
func sameAge(ours, theirs string) bool {
	o, t := ageOfObject.FindStringSubmatch(ours), ageOfObject.FindStringSubmatch(theirs)
	if o == nil || t == nil {
		return false
	}
	a, _ := strconv.Atoi(o[1])
	b, _ := strconv.Atoi(t[1])
	return a-b < 60 && b-a < 60
}
