package clients

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/retry"
)

// CRE-04, GET-01, UPD-03, DEL-01, DC-01, ERR-10: the dynamic client's verbs, of both scopes, with typed reports behind
// it (client_test.go of client-go's dynamic package).
func TestDynamicClient(t *testing.T) {
	ctx := t.Context()
	for _, namespace := range []string{newNamespace(), ""} {
		var reports dynamic.ResourceInterface = shared.dynamic().Resource(clusterPolicyReports)
		if namespace != "" {
			reports = shared.dynamic().Resource(policyReports).Namespace(namespace)
		}
		report := newReport(namespace, "", map[string]string{"own": newNamespace()})
		report.SetGenerateName("generated-")
		created := create(t, reports, report)
		if !strings.HasPrefix(created.GetName(), "generated-") || len(created.GetName()) != len("generated-")+5 {
			t.Errorf("a generated name: %s", created.GetName())
		}
		got := must(reports.Get(ctx, created.GetName(), metav1.GetOptions{}))(t)
		var typed PolicyReport
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &typed); err != nil ||
			typed.Summary.Pass != 1 {
			t.Fatalf("%+v, %v", typed, err)
		}
		typed.Summary.Pass = 2
		changed := must(runtime.DefaultUnstructuredConverter.ToUnstructured(&typed))(t)
		updated := must(reports.Update(ctx, &unstructured.Unstructured{Object: changed}, metav1.UpdateOptions{}))(t)
		if version(updated) <= version(created) || updated.GetGeneration() != 2 {
			t.Errorf("%v after %v", updated.Object, created.Object)
		}
		if _, err := reports.Update(ctx, got, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("an update of an old version: %v", err)
		}
		patched := must(reports.Patch(ctx, created.GetName(), types.JSONPatchType,
			[]byte(`[{"op":"test","path":"/summary/pass","value":2},`+
				`{"op":"replace","path":"/summary/pass","value":3}]`),
			metav1.PatchOptions{}))(t)
		if pass, _, _ := unstructured.NestedInt64(patched.Object, "summary", "pass"); pass != 3 {
			t.Errorf("%v", patched.Object)
		}
		selector := metav1.ListOptions{LabelSelector: "own=" + report.GetLabels()["own"]}
		create(t, reports, report)
		if list := must(reports.List(ctx, selector))(t); len(list.Items) != 2 ||
			list.GetKind() != created.GetKind()+"List" ||
			list.Items[0].GetKind() != created.GetKind() || list.Items[0].GetAPIVersion() != policyGV.String() {
			t.Errorf("%v", list)
		}
		remove(t, reports, created.GetName())
		if _, err := reports.Get(ctx, created.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%v", err)
		}
		if err := reports.DeleteCollection(ctx, metav1.DeleteOptions{}, selector); err != nil {
			t.Fatal(err)
		}
		if list := must(reports.List(ctx, selector))(t); len(list.Items) != 0 {
			t.Errorf("%v", namesOf(list.Items))
		}
	}
}

// CRE-04, UPD-03, MP-01, SEL-01, DC-01: a generated, typed client, and client-go's retry on conflict from many
// goroutines through two proxies: no update is lost.
func TestTypedClient(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	reports := typedPolicyReports(shared.config(), namespace)
	report := &PolicyReport{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{"a": "b"}},
		Results: []result{{Policy: "p", Result: "fail"}}}
	created := must(reports.Create(ctx, report, metav1.CreateOptions{}))(t)
	if created.UID == "" || created.Namespace != namespace || created.CreationTimestamp.IsZero() {
		t.Errorf("%+v", created)
	}
	backoff := retry.DefaultBackoff
	backoff.Steps = 1000
	backoff.Cap = 0
	backoff.Factor = 1
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 5 {
				err := retry.RetryOnConflict(backoff, func() error {
					current, err := reports.Get(ctx, "r", metav1.GetOptions{})
					if err != nil {
						return err
					}
					current.Summary.Fail++
					_, err = reports.Update(ctx, current, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	patched := must(reports.Patch(ctx, "r", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":null,"c":"d"}}}`),
		metav1.PatchOptions{}))(t)
	if patched.Summary.Fail != 40 || patched.Labels["c"] != "d" || patched.Labels["a"] != "" {
		t.Errorf("%+v", patched)
	}
	if list := must(reports.List(ctx, metav1.ListOptions{LabelSelector: "c=d,!a"}))(t); len(list.Items) != 1 ||
		list.Items[0].UID != created.UID {
		t.Errorf("%+v", list)
	}
	if err := reports.DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "c"}); err != nil {
		t.Fatal(err)
	}
	if err := reports.Delete(ctx, "r", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}

// PART-01, PART-02, PART-03, NEG-02: the metadata client asks for protobuf first; get, list, patch, delete
// (metadata_test.go).
func TestMetadataClient(t *testing.T) {
	ctx := t.Context()
	namespace, reports := fill(t, shared, 3)
	partial := shared.metadata().Resource(policyReports).Namespace(namespace)
	whole := must(reports.Get(ctx, "r01", metav1.GetOptions{}))(t)
	got := must(partial.Get(ctx, "r01", metav1.GetOptions{}))(t)
	want := &unstructured.Unstructured{Object: map[string]any{"metadata": whole.Object["metadata"]}}
	if wanted, found := asJSON(t, want.Object["metadata"]), asJSON(t, got.ObjectMeta); wanted != found {
		t.Errorf("metadata is %s, not %s", found, wanted)
	}
	list := must(partial.List(ctx, metav1.ListOptions{Limit: 2}))(t)
	if len(list.Items) != 2 || list.Continue == "" || list.RemainingItemCount == nil || *list.RemainingItemCount != 1 ||
		list.Items[1].UID != got.UID {
		t.Errorf("%+v", list)
	}
	patched := must(partial.Patch(ctx, "r01", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`),
		metav1.PatchOptions{}))(t)
	if patched.Annotations["a"] != "b" || version(patched) <= version(got) {
		t.Errorf("%+v", patched)
	}
	if err := partial.Delete(ctx, "r01",
		*metav1.NewPreconditionDeleteOptions("00000000-0000-4000-8000-000000000000")); !apierrors.IsConflict(err) {
		t.Errorf("deleting another's uid: %v", err)
	}
	if err := partial.Delete(ctx, "r01", *metav1.NewPreconditionDeleteOptions(string(got.UID))); err != nil {
		t.Fatal(err)
	}
	if err := partial.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if list := must(partial.List(ctx, metav1.ListOptions{}))(t); len(list.Items) != 0 {
		t.Errorf("%+v", list)
	}
}

// asJSON prints with sorted members.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	bytes, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(bytes, &tree); err != nil {
		t.Fatal(err)
	}
	bytes, _ = json.Marshal(tree)
	return string(bytes)
}

// warnings of a client, kept.
type warnings struct {
	sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(code int, _ string, text string) {
	w.Lock()
	defer w.Unlock()
	if code == 299 {
		w.texts = append(w.texts, text)
	}
}

// FV-01, FV-02, CRE-12, WARN-01: unknown and duplicate fields under Strict, Warn and Ignore; unknown metadata; values
// that the schema refuses (e2e field_validation.go).
func TestFieldValidation(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	var heard warnings
	config := shared.config()
	config.WarningHandler = &heard
	client := restClientFor(config, policyGV, newScheme())
	odd := func(name string) []byte {
		return []byte(`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"` + name +
			`","unknownMeta":"x"},
			"summary":{"pass":1,"pass":2,"unknownSummary":1},"results":[{"policy":"p","unknownResult":true}],
			"unknownRoot":{}}`)
	}
	post := func(body []byte, validation string) error {
		return client.Post().Namespace(namespace).Resource("policyreports").SetHeader("Content-Type",
			"application/json").
			Param("fieldValidation", validation).Body(body).Do(ctx).Error()
	}
	unknown := []string{`"metadata.unknownMeta"`, `"summary.pass"`, `"summary.unknownSummary"`,
		`"results[0].unknownResult"`, `"unknownRoot"`}
	err := post(odd("strict"), "Strict")
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "strict decoding error") {
		t.Fatalf("Strict: %v", err)
	}
	for _, field := range unknown {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("Strict says nothing of %s: %v", field, err)
		}
	}
	if err := post(odd("warn"), "Warn"); err != nil {
		t.Fatal(err)
	}
	for _, field := range unknown {
		if !strings.Contains(strings.Join(heard.texts, "\n"), field) {
			t.Errorf("Warn says nothing of %s: %q", field, heard.texts)
		}
	}
	heard.texts = nil
	if err := post(odd("ignore"), "Ignore"); err != nil || len(heard.texts) > 0 {
		t.Errorf("Ignore: %v, %q", err, heard.texts)
	}
	for _, name := range []string{"warn", "ignore"} {
		report := must(shared.dynamic().Resource(policyReports).Namespace(namespace).Get(ctx, name,
			metav1.GetOptions{}))(t)
		if text := asJSON(t, report.Object); strings.Contains(text, "unknown") || !strings.Contains(text, `"pass":2`) {
			t.Errorf("%s: %s", name, text)
		}
	}
	wrong := []byte(`{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"wrong"},
		"results":[{"result":"odd"}]}`)
	if err := post(wrong, "Strict"); !apierrors.IsInvalid(err) ||
		!apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueNotSupported) ||
		!apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueRequired) {
		t.Errorf("%v", err)
	}
}

// REQ-03, ERR-20: a stand-in for what clients cannot ask: names that are no path segments are refused by the client, a
// resource that is not served is 404.
func TestRequestsThatLeadNowhere(t *testing.T) {
	ctx := t.Context()
	if _, err := shared.dynamic().Resource(policyGV.WithResource("nothings")).List(ctx,
		metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if _, err := metadata.NewForConfigOrDie(shared.config()).Resource(policyReports).Namespace("n").Get(ctx, "none",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
}
