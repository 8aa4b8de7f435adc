package clients

import (
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// applied is what a manager wants of a report: labels and counts of a summary.
func applied(namespace, name string, labels map[string]string, summary map[string]any) *unstructured.Unstructured {
	report := &unstructured.Unstructured{Object: map[string]any{}}
	report.SetGroupVersionKind(policyGV.WithKind("PolicyReport"))
	report.SetNamespace(namespace)
	report.SetName(name)
	report.SetLabels(labels)
	if summary != nil {
		report.Object["summary"] = summary
	}
	return report
}

func apply(t *testing.T, reports dynamic.ResourceInterface, report *unstructured.Unstructured, manager string,
	force bool) *unstructured.Unstructured {
	t.Helper()
	return must(reports.Apply(t.Context(), report.GetName(), report,
		metav1.ApplyOptions{FieldManager: manager, Force: force}))(t)
}

// owners lists "manager operation" of everybody who owns a field of an object.
func owners(object metav1.Object, field string) []string {
	var found []string
	for _, entry := range object.GetManagedFields() {
		if strings.Contains(string(entry.FieldsV1.GetRawBytes()), `"f:`+field+`"`) {
			found = append(found, entry.Manager+" "+string(entry.Operation))
		}
	}
	slices.Sort(found)
	return found
}

func expectOwners(t *testing.T, object metav1.Object, field string, want ...string) {
	t.Helper()
	if got := owners(object, field); !slices.Equal(got, want) {
		t.Errorf("%s belongs to %v, not to %v", field, got, want)
	}
}

func summaryOf(report *unstructured.Unstructured) string {
	summary, _, _ := unstructured.NestedMap(report.Object, "summary")
	var counts []string
	for _, name := range []string{"pass", "fail", "warn"} {
		if count, found := summary[name]; found {
			counts = append(counts, name+"="+string(rune('0'+count.(int64))))
		}
	}
	return strings.Join(counts, ",")
}

// SSA-01, SSA-03, SSA-04, MF-01: apply creates; what a manager owned alone and applies no more goes; what another owns
// as well, or alone, stays (e2e apply.go).
func TestApply(t *testing.T) {
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	one := apply(t, reports, applied(namespace, "r", map[string]string{"a": "1", "b": "1"},
		map[string]any{"pass": int64(1), "fail": int64(1)}), "one", false)
	if one.GetUID() == "" || one.GetGeneration() != 1 || summaryOf(one) != "pass=1,fail=1" {
		t.Fatalf("%v", one.Object)
	}
	expectOwners(t, one, "pass", "one Apply")
	apply(t, reports, applied(namespace, "r", map[string]string{"b": "1"}, map[string]any{"warn": int64(3)}), "two",
		false)
	again := apply(t, reports, applied(namespace, "r", map[string]string{"a": "1"}, map[string]any{"pass": int64(2)}),
		"one", false)
	if summaryOf(again) != "pass=2,warn=3" || again.GetLabels()["a"] != "1" || again.GetLabels()["b"] != "1" {
		t.Errorf("%v", again.Object)
	}
	expectOwners(t, again, "b", "two Apply")
	expectOwners(t, again, "fail")
	// Nothing changes when the same is applied again.
	same := apply(t, reports, applied(namespace, "r", map[string]string{"a": "1"}, map[string]any{"pass": int64(2)}),
		"one", false)
	if same.GetResourceVersion() != again.GetResourceVersion() {
		t.Errorf("version %s after %s", same.GetResourceVersion(), again.GetResourceVersion())
	}
}

// SSA-05, SSA-06, MF-02: a field of another manager is a conflict that names it; force takes it over; fields move from
// an updating controller to an applying one and back.
func TestApplyConflicts(t *testing.T) {
	namespace := newNamespace()
	ctx := t.Context()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	apply(t, reports, applied(namespace, "r", nil, map[string]any{"pass": int64(1)}), "one", false)
	wanted := applied(namespace, "r", nil, map[string]any{"pass": int64(2)})
	_, err := reports.Apply(ctx, "r", wanted, metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) ||
		!strings.Contains(err.Error(), `conflict with "one"`) || !strings.Contains(err.Error(), ".summary.pass") {
		t.Fatalf("%v", err)
	}
	taken := apply(t, reports, wanted, "two", true)
	expectOwners(t, taken, "pass", "two Apply")

	setPass(taken, 3)
	updated := must(reports.Update(ctx, taken, metav1.UpdateOptions{FieldManager: "controller"}))(t)
	expectOwners(t, updated, "pass", "controller Update")
	if _, err := reports.Apply(ctx, "r", wanted, metav1.ApplyOptions{FieldManager: "two"}); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	back := apply(t, reports, applied(namespace, "r", nil, map[string]any{"pass": int64(3)}), "two", false)
	expectOwners(t, back, "pass", "controller Update", "two Apply")

	dry, err := reports.Apply(ctx, "r", wanted, metav1.ApplyOptions{FieldManager: "two", Force: true,
		DryRun: []string{metav1.DryRunAll}})
	if err != nil || summaryOf(dry) != "pass=2" {
		t.Errorf("%v, %v", dry, err)
	}
	if stored := must(reports.Get(ctx, "r", metav1.GetOptions{}))(t); summaryOf(stored) != "pass=3" {
		t.Errorf("a dry run stored %v", stored.Object)
	}
}

// SSA-01, SSA-02, SSA-06: controller-runtime's apply of a typed object and of an apply configuration, with force;
// client.Apply beside its merge patch.
func TestRuntimeApply(t *testing.T) {
	ctx := t.Context()
	namespace := newNamespace()
	client := newClient(t)
	report := typedReport(namespace, "r", map[string]string{"app": "a"})
	report.TypeMeta = metav1.TypeMeta{APIVersion: policyGV.String(), Kind: "PolicyReport"}
	report.Summary.Pass = 1
	//lint:ignore SA1019 many controllers still apply this way
	if err := client.Patch(ctx, report, crclient.Apply, crclient.FieldOwner("typed"),
		crclient.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	expectOwners(t, report, "pass", "typed Apply")
	configuration := crclient.ApplyConfigurationFromUnstructured(applied(namespace, "r", nil,
		map[string]any{"pass": int64(2)}))
	if err := client.Apply(ctx, configuration, crclient.FieldOwner("free")); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	if err := client.Apply(ctx, configuration, crclient.FieldOwner("free"), crclient.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if err := client.Get(ctx, crclient.ObjectKeyFromObject(report), report); err != nil || report.Summary.Pass != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	expectOwners(t, report, "pass", "free Apply")
}

// SSA-01, SSA-08, RV-02: many managers apply fields of their own to one report through two proxies: each keeps its own,
// none conflicts.
func TestManyAppliers(t *testing.T) {
	namespace := newNamespace()
	reports := shared.dynamic().Resource(policyReports).Namespace(namespace)
	names := []string{"a", "b", "c", "d", "e", "f"}
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			for i := range 5 {
				label := map[string]string{name: string(rune('0' + i))}
				if _, err := reports.Apply(t.Context(), "r", applied(namespace, "r", label, nil),
					metav1.ApplyOptions{FieldManager: name}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	group.Wait()
	stored := must(reports.Get(t.Context(), "r", metav1.GetOptions{}))(t)
	for _, name := range names {
		if stored.GetLabels()[name] != "4" {
			t.Errorf("labels are %v", stored.GetLabels())
		}
		expectOwners(t, stored, name, name+" Apply")
	}
	var typed PolicyReport
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &typed); err != nil {
		t.Error(err)
	}
}
