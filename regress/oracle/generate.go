package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
)

// Makes random sequences: reads and writes of a few objects of one resource, most of them valid, some odd, some broken.
//
//	What is odd and broken comes from the tables of the cases.
type generator struct {
	*rand.Rand
	values map[string][]string
	kind   string // of the sequence: a shorthand's name
	named  bool   // a name has been left to the servers; a second one might come in another order
	large  bool   // some objects are large
	steps  []step
}

// Each sequence is made from its own numbers, so that it stays the same however many precede it.
func generate(book *caseBook, seed uint64, number int) sequence {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(number))), values: book.values}
	g.kind = g.pick("report", "report", "policyreport", "clusterreport", "keyword", "keyword", "alphakeyword")
	g.large = g.oneIn(20)
	g.create()
	for length := 6 + g.IntN(20); len(g.steps) < length; {
		g.weighted([]choice{
			{14, g.create}, {14, g.replace}, {10, g.mergePatch}, {8, g.jsonPatch}, {12, g.apply}, {10, g.delete},
			{2, g.deleteCollection},
			{8, g.get}, {10, g.list}, {8, g.pages}, {6, g.watch}, {4, g.status},
		})
	}
	return sequence{name: fmt.Sprintf("random %d of seed %d", number, seed), steps: g.steps}
}

type choice struct {
	weight int
	do     func()
}

func (g *generator) weighted(choices []choice) {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	at := g.IntN(total)
	for _, c := range choices {
		if at < c.weight {
			c.do()
			return
		}
		at -= c.weight
	}
}

func (g *generator) pick(values ...string) string { return values[g.IntN(len(values))] }

// True in one of n cases.
func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

// A value of a table of the cases.
func (g *generator) from(table string) string {
	values := g.values[table]
	if len(values) == 0 {
		panic("no case has the table " + table)
	}
	return g.pick(values...)
}

// The objects of a sequence.  In cluster scope all sequences share the names.
func (g *generator) object() string {
	name := g.pick("a", "a", "b", "b", "c")
	return name
}

func (g *generator) nameOf(object string) string {
	if g.kind == "clusterreport" {
		return "${p}-" + object
	}
	return object
}

func (g *generator) collection() string { return expandShorthands("@"+g.kind+"s", true) }

func (g *generator) path(object string) string { return g.collection() + "/" + g.nameOf(object) }

func (g *generator) add(method, path, contentType, body, keep string) {
	s := step{method: method, path: path, header: http.Header{}, body: expandShorthands(body, false), keep: keep}
	if contentType != "" {
		s.header.Set("Content-Type", contentType)
	}
	writesDocument := method == http.MethodPost || method == http.MethodPut
	s.yaml = body != "" && (writesDocument && g.oneIn(6) || contentType == applyPatch && g.oneIn(2))
	// Writes are done before upstream finds that it cannot answer in the way that is asked for.
	switch reads := method == http.MethodGet || method == "WATCH"; {
	case reads && g.oneIn(12):
		s.header.Set("Accept", g.from("representations"))
	case method != "WATCH" && g.oneIn(8):
		s.header.Set("Accept", "application/yaml")
	}
	if g.oneIn(3) {
		s.header.Set("Accept-Encoding", "gzip")
	}
	if (writesDocument || method == http.MethodPatch) && g.oneIn(8) {
		s.path = appendOption(path, "fieldValidation="+g.pick("Strict", "Warn", "Ignore"))
	}
	g.steps = append(g.steps, s)
}

// Sometimes an option of a table.
func (g *generator) options(path, table string, often int) string {
	if !g.oneIn(often) {
		return path
	}
	return appendOption(path, g.from(table))
}

func appendOption(path, option string) string {
	if strings.Contains(path, "?") {
		return path + "&" + option
	}
	return path + "?" + option
}

// Members of an object's metadata, beside its name.
func (g *generator) metadata(table string) []string {
	var members []string
	if g.oneIn(2) {
		members = append(members, `"labels":{`+g.pick(`"l":"x"`, `"l":"y"`, `"n":"7"`, `"l":"x","n":"3"`, ``)+`}`)
	}
	if g.large && g.oneIn(2) {
		members = append(members, `"annotations":{"large":"${large}"}`)
	} else if g.oneIn(5) {
		members = append(members, `"annotations":{`+g.pick(`"a":"1"`, `"a":"2"`, `"b/c":"<&>"`, ``)+`}`)
	}
	if g.oneIn(6) {
		members = append(members, `"finalizers":[`+g.pick(`"a.b/c"`, `"a.b/c","a.b/d"`, ``, `"orphan"`,
			`"foregroundDeletion"`)+`]`)
	}
	if g.oneIn(12) {
		members = append(members, `"ownerReferences":[`+g.from("owner references")+`]`)
	}
	if g.oneIn(8) {
		members = append(members, g.from(table))
	}
	return members
}

// What an object says, beside its metadata.
func (g *generator) content() []string {
	if g.kind == "keyword" || g.kind == "alphakeyword" {
		spec := []string{`"text":"` + g.pick("abc", "abd", "abe") + `"`}
		if g.oneIn(2) {
			spec = append(spec, g.pick(`"count":2`, `"count":6`, `"flag":true`, `"set":["a","b"]`,
				`"map":[{"name":"a","value":"x"},{"name":"b"}]`, `"free":{"x":{"y":[1,null]}}`,
				`"nullableText":null`, `"port":80`, `"defaults":{"items":[{}]}`))
		}
		if g.oneIn(5) {
			spec = append(spec, g.pick(g.from("lists and maps"), g.from("embedded resources, logic, defaults"),
				`"formats":{`+g.from("formats")+`}`))
		}
		if g.oneIn(12) {
			spec = []string{g.from("valid and invalid fields")}
		}
		content := []string{`"spec":{` + strings.Join(spec, ",") + `}`}
		if g.oneIn(4) {
			content = append(content, `"status":{"phase":"`+g.pick("x", "y")+`"}`)
		}
		return content
	}
	var content []string
	if g.oneIn(2) {
		content = append(content, fmt.Sprintf(`"summary":{"pass":%d}`, g.IntN(3)))
	}
	if g.oneIn(3) {
		content = append(content, `"results":[{"policy":"`+g.pick("p", "q")+`","result":"`+g.pick("pass", "fail")+`"}]`)
	}
	if g.oneIn(6) {
		content = append(content, g.from("reports"))
	}
	return content
}

func (g *generator) document(metadata []string) string {
	if g.oneIn(40) {
		return g.pick(g.from("bodies that are no such object"), g.from("broken JSON"))
	}
	members := append([]string{`${` + g.kind + `}`, `"metadata":{` + strings.Join(metadata, ",") + `}`}, g.content()...)
	if g.oneIn(15) {
		members = append(members, g.pick(`"unknown":{"x":1}`, `"summary":{"pass":1}`, `"kind":"Other"`, `"a":null`))
	}
	return `{` + strings.Join(members, ",") + `}`
}

func (g *generator) create() {
	object := g.object()
	name := `"name":"` + g.nameOf(object) + `"`
	if !g.named && g.oneIn(25) {
		g.named = true
		name, object = `"generateName":"gen-"`, "gen"
	}
	members := append([]string{name}, g.metadata(g.pick("metadata with wrong types",
		"metadata that the server owns or checks"))...)
	g.add(http.MethodPost, g.options(g.collection(), "options of a creation", 8), "", g.document(members), object)
}

func (g *generator) replace() {
	object := g.object()
	path := g.options(g.path(object), "options of updates", 10)
	if g.oneIn(6) {
		g.add(http.MethodPut, path, "", "${object:"+object+"}", object)
		return
	}
	members := []string{`"name":"` + g.nameOf(object) + `"`}
	if g.oneIn(3) {
		members = append(members, `"resourceVersion":"`+g.pick("${rv:"+object+"}", "${rv:"+object+"}",
			"${old:"+object+"}")+`"`)
	}
	if g.oneIn(8) {
		members = append(members, `"uid":"${uid:`+object+`}"`)
	}
	members = append(members, g.metadata("metadata that an update may not change")...)
	g.add(http.MethodPut, path, "", g.document(members), object)
}

func (g *generator) mergePatch() {
	object := g.object()
	patch := ""
	switch {
	case g.oneIn(5):
		patch = g.from("merge patches")
	case g.oneIn(2):
		patch = `{"metadata":{` + strings.Join(g.metadata("metadata that an update may not change"), ",") + `}}`
	case g.oneIn(4):
		patch = `{"metadata":{"` + g.pick("labels", "annotations", "finalizers", "ownerReferences") + `":null}}`
	default:
		patch = `{` + strings.Join(g.content(), ",") + `}`
	}
	g.add(http.MethodPatch, g.options(g.path(object), "options of updates", 10), "application/merge-patch+json", patch,
		object)
}

func (g *generator) jsonPatch() {
	object := g.object()
	patch := g.from("JSON patches")
	if g.oneIn(3) {
		patch = `[{"op":"` + g.pick("add", "replace", "remove", "test") + `","path":"` +
			g.pick("/metadata/labels/l", "/metadata/labels", "/metadata/finalizers", "/metadata/finalizers/0",
				"/spec/text", "/spec/map/0/value", "/spec/set/-", "/metadata/annotations/a", "/summary/pass") +
			`","value":` +
			g.pick(`"x"`, `"abf"`, `{"l":"y"}`, `["a.b/c"]`, `[]`, `1`, `null`) + `}]`
	}
	g.add(http.MethodPatch, g.options(g.path(object), "options of updates", 12), "application/json-patch+json", patch,
		object)
}

const applyPatch = "application/apply-patch+yaml"

// Metadata that is stored as it is worded.
var storedAsWorded = regexp.MustCompile(
	`^"(labels|annotations|finalizers|ownerReferences|uid|namespace|resourceVersion)":`)

// What a manager wants of an object, or of its status; some take from others what they own by force.
func (g *generator) apply() {
	object := g.object()
	path := g.path(object)
	members := []string{`"name":"` + g.nameOf(object) + `"`}
	for _, member := range g.metadata("metadata that an update may not change") {
		// What is not stored as it is worded is a change each time in upstream, but not twice in a second: the cases
		// have that.
		if value := member[strings.IndexByte(member, ':')+1:]; storedAsWorded.MatchString(member) && value != "{}" &&
			value != "[]" && value != `""` {
			members = append(members, member)
		}
	}
	content := g.content()
	if g.kind == "keyword" && g.oneIn(3) {
		path += "/status"
		content = []string{`"status":{"phase":"` + g.pick("x", "y", "z") + `"}`}
	}
	document := `{${` + g.kind + `},"metadata":{` + strings.Join(members, ",") + `}`
	if len(content) > 0 {
		document += `,` + strings.Join(content, ",")
	}
	document += `}`
	if g.oneIn(25) {
		document = g.from("apply refused")
	}
	path += "?fieldManager=" + g.pick("m", "m", "n", "o")
	if g.oneIn(3) {
		path += "&force=true"
	}
	g.add(http.MethodPatch, g.options(path, "options of updates", 15), applyPatch, document, object)
}

func (g *generator) status() {
	if g.kind != "keyword" {
		g.get()
		return
	}
	object := g.object()
	path := g.path(object) + "/status"
	switch g.IntN(3) {
	case 0:
		g.add(http.MethodGet, path, "", "", object)
	case 1:
		g.add(http.MethodPatch, path, "application/merge-patch+json",
			`{"status":{"phase":"`+g.pick("x", "y", "z")+`"},"metadata":{"labels":{"l":"x"}}}`, object)
	default:
		g.add(http.MethodPut, path, "", g.document([]string{`"name":"` + object + `"`}), object)
	}
}

func (g *generator) delete() {
	object := g.object()
	path := g.options(g.path(object), "options in the query", 4)
	body := ""
	if g.oneIn(5) {
		body = strings.ReplaceAll(g.from("preconditions and options in the body"), ":a}", ":"+object+"}")
	}
	g.add(http.MethodDelete, path, "", body, object)
}

func (g *generator) deleteCollection() {
	g.add(http.MethodDelete, g.collection()+g.from("a collection"), "", "", "")
}

func (g *generator) get() {
	object := g.object()
	g.add(http.MethodGet, g.options(g.path(object), "get with options", 3), "", "", object)
}

func (g *generator) list() {
	path := g.options(g.collection(), "list by selectors", 2)
	g.add(http.MethodGet, g.options(path, "list options", 3), "", "", "list")
}

// A page, and perhaps the next ones: what happens to the objects in between must not matter.
func (g *generator) pages() {
	path := g.collection() + "?limit=" + g.pick("1", "1", "2")
	if g.oneIn(2) {
		path += "&continue=${continue:list}"
	}
	if g.oneIn(4) {
		path += "&" + g.from("list by selectors")
	}
	g.add(http.MethodGet, path, "", "", "list")
}

func (g *generator) watch() {
	path := g.collection() + "?watch=1"
	switch g.IntN(6) {
	case 0:
		path += "&" + g.from("initial events")
	case 1:
		path += "&" + g.from("odd options")
	default:
		path += "&resourceVersion=" + g.pick("${rv:list}", "${rv:a}", "${rv:b}", "0", "")
		if g.oneIn(3) {
			path += "&" + g.from("list by selectors")
		}
	}
	g.add("WATCH", path, "", "", "")
}
