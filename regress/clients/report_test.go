package clients

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

var (
	policyGV    = schema.GroupVersion{Group: "wgpolicyk8s.io", Version: "v1alpha2"}
	openGV      = schema.GroupVersion{Group: "openreports.io", Version: "v1alpha1"}
	ephemeralGV = schema.GroupVersion{Group: "reports.kyverno.io", Version: "v1"}

	policyReports           = policyGV.WithResource("policyreports")
	clusterPolicyReports    = policyGV.WithResource("clusterpolicyreports")
	openReports             = openGV.WithResource("reports")
	clusterOpenReports      = openGV.WithResource("clusterreports")
	ephemeralReports        = ephemeralGV.WithResource("ephemeralreports")
	clusterEphemeralReports = ephemeralGV.WithResource("clusterephemeralreports")
)

// ---------- documents without types ----------

// newReport is a valid PolicyReport, or a ClusterPolicyReport when it has no namespace.
func newReport(namespace, name string, labels map[string]string) *unstructured.Unstructured {
	report := &unstructured.Unstructured{Object: map[string]any{
		"summary": map[string]any{"pass": int64(1)},
		"results": []any{map[string]any{"policy": "require-labels", "result": "pass", "source": "kyverno"}},
	}}
	report.SetGroupVersionKind(policyGV.WithKind("ClusterPolicyReport"))
	if namespace != "" {
		report.SetKind("PolicyReport")
		report.SetNamespace(namespace)
	}
	report.SetName(name)
	report.SetLabels(labels)
	return report
}

// setPass gives a report other content.
func setPass(report *unstructured.Unstructured, pass int64) {
	utilruntime.Must(unstructured.SetNestedField(report.Object, pass, "summary", "pass"))
}

// ---------- typed ones, as generated clients have them ----------

type summary struct {
	Pass int `json:"pass,omitempty"`
	Fail int `json:"fail,omitempty"`
}

type result struct {
	Policy    string            `json:"policy"`
	Rule      string            `json:"rule,omitempty"`
	Result    string            `json:"result,omitempty"`
	Source    string            `json:"source,omitempty"`
	Message   string            `json:"message,omitempty"`
	Timestamp *metav1.Timestamp `json:"timestamp,omitempty"`
}

type PolicyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Summary           summary  `json:"summary,omitempty"`
	Results           []result `json:"results,omitempty"`
}

type PolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyReport `json:"items"`
}

type ephemeralSpec struct {
	Owner   metav1.OwnerReference `json:"owner"`
	Summary summary               `json:"summary,omitempty"`
	Results []result              `json:"results,omitempty"`
}

type EphemeralReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ephemeralSpec `json:"spec"`
}

type EphemeralReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EphemeralReport `json:"items"`
}

func (r *PolicyReport) deepCopy() *PolicyReport {
	to := *r
	r.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	to.Results = slices.Clone(r.Results)
	return &to
}

func (r *PolicyReport) DeepCopyObject() runtime.Object { return r.deepCopy() }

func (l *PolicyReportList) DeepCopyObject() runtime.Object {
	to := *l
	to.Items = nil
	for i := range l.Items {
		to.Items = append(to.Items, *l.Items[i].deepCopy())
	}
	return &to
}

func (r *EphemeralReport) deepCopy() *EphemeralReport {
	to := *r
	r.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	to.Spec.Results = slices.Clone(r.Spec.Results)
	return &to
}

func (r *EphemeralReport) DeepCopyObject() runtime.Object { return r.deepCopy() }

func (l *EphemeralReportList) DeepCopyObject() runtime.Object {
	to := *l
	to.Items = nil
	for i := range l.Items {
		to.Items = append(to.Items, *l.Items[i].deepCopy())
	}
	return &to
}

// newScheme knows the typed reports.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(policyGV, &PolicyReport{}, &PolicyReportList{})
	scheme.AddKnownTypes(ephemeralGV, &EphemeralReport{}, &EphemeralReportList{})
	metav1.AddToGroupVersion(scheme, policyGV)
	metav1.AddToGroupVersion(scheme, ephemeralGV)
	return scheme
}

type (
	policyReportClient    = gentype.ClientWithList[*PolicyReport, *PolicyReportList]
	ephemeralReportClient = gentype.ClientWithList[*EphemeralReport, *EphemeralReportList]
)

// restClientFor is what NewForConfig of a generated clientset makes.
func restClientFor(config *rest.Config, gv schema.GroupVersion, scheme *runtime.Scheme) rest.Interface {
	config = rest.CopyConfig(config)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	utilruntime.Must(err)
	return client
}

func typedPolicyReports(config *rest.Config, namespace string) *policyReportClient {
	scheme := newScheme()
	return gentype.NewClientWithList("policyreports", restClientFor(config, policyGV, scheme),
		runtime.NewParameterCodec(scheme), namespace,
		func() *PolicyReport { return &PolicyReport{} }, func() *PolicyReportList { return &PolicyReportList{} })
}

func typedEphemeralReports(config *rest.Config, namespace string) *ephemeralReportClient {
	scheme := newScheme()
	return gentype.NewClientWithList("ephemeralreports", restClientFor(config, ephemeralGV, scheme),
		runtime.NewParameterCodec(scheme), namespace,
		func() *EphemeralReport { return &EphemeralReport{} },
		func() *EphemeralReportList { return &EphemeralReportList{} })
}

// newEphemeralReport is what an admission controller makes of a request about a resource.
func newEphemeralReport(namespace, resourceUID, source string) *EphemeralReport {
	labels := map[string]string{
		"app.kubernetes.io/managed-by":   "kyverno",
		"audit.kyverno.io/resource.uid":  resourceUID,
		"audit.kyverno.io/resource.gvr":  "pods.v1",
		"audit.kyverno.io/source":        source,
		"audit.kyverno.io/resource.kind": "Pod",
	}
	return &EphemeralReport{
		TypeMeta: metav1.TypeMeta{APIVersion: ephemeralGV.String(), Kind: "EphemeralReport"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:    namespace,
			GenerateName: resourceUID + "-",
			Labels:       maps.Clone(labels),
			Annotations: map[string]string{"audit.kyverno.io/resource.namespace": namespace,
				"audit.kyverno.io/resource.name": "web"},
		},
		Spec: ephemeralSpec{
			Owner: metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "web",
				UID: "0a0a0a0a-0000-4000-8000-000000000000"},
			Summary: summary{Pass: 1},
			Results: []result{{Policy: "require-labels", Rule: "check", Result: "pass", Source: "kyverno",
				Timestamp: &metav1.Timestamp{Seconds: time.Now().Unix()}}},
		},
	}
}

// keyOf names an object and its version; states of informers are compared by these.
func keyOf(object metav1.Object) (string, string) {
	return fmt.Sprintf("%s/%s", object.GetNamespace(), object.GetName()),
		fmt.Sprintf("%s at %s", object.GetUID(), object.GetResourceVersion())
}
