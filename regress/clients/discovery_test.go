package clients

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"
)

var groups = []schema.GroupVersion{policyGV, openGV, ephemeralGV, {Group: "kyverno.io", Version: "v1alpha2"}}

// DISC-01, DISC-04, DISC-10, AGG-30: present and missing resources; the preferred version of each group; aggregated
// discovery in one request for each of /api and /apis, and the same groups from the legacy documents (e2e discovery.go,
// aggregated_discovery.go).
func TestDiscovery(t *testing.T) {
	config, requests := recorded(shared.config())
	client := discovery.NewDiscoveryClientForConfigOrDie(config)
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range requests.take() {
		if !slices.Contains([]string{"/api", "/apis"}, request.URL.Path) || request.code != http.StatusOK {
			t.Errorf("%s: %d", request.URL, request.code)
		}
	}
	legacy := discovery.NewDiscoveryClientForConfigOrDie(config)
	legacy.UseLegacyDiscovery = true
	_, legacyLists, err := legacy.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if requested := requests.take(); len(requested) <= 2 {
		t.Errorf("legacy discovery took %d requests", len(requested))
	}
	if asJSON(t, sorted(lists)) != asJSON(t, sorted(legacyLists)) {
		t.Errorf("aggregated: %s\nlegacy: %s", asJSON(t, sorted(lists)), asJSON(t, sorted(legacyLists)))
	}

	groupList := must(client.ServerGroups())(t)
	for _, gv := range groups {
		i := slices.IndexFunc(groupList.Groups, func(group metav1.APIGroup) bool { return group.Name == gv.Group })
		if i < 0 {
			t.Fatalf("%s is missing", gv)
		}
		preferred := groupList.Groups[i].PreferredVersion
		if preferred.GroupVersion != gv.String() || !slices.Contains(groupList.Groups[i].Versions, preferred) {
			t.Errorf("%s prefers %v", gv, preferred)
		}
		resources := must(client.ServerResourcesForGroupVersion(gv.String()))(t)
		for _, resource := range resources.APIResources {
			for _, verb := range []string{"create", "delete", "deletecollection", "get", "list", "patch", "update",
				"watch"} {
				if !strings.Contains(resource.Name, "/") && !slices.Contains(resource.Verbs, verb) {
					t.Errorf("%s has verbs %v", resource.Name, resource.Verbs)
				}
			}
		}
	}
	present := schema.GroupVersionResource{Group: policyGV.Group, Version: policyGV.Version, Resource: "policyreports"}
	for resource, enabled := range map[schema.GroupVersionResource]bool{
		present: true, policyGV.WithResource("nothings"): false,
		{Group: policyGV.Group, Version: "v9", Resource: "policyreports"}: false} {
		if got, err := discovery.IsResourceEnabled(client, resource); err != nil || got != enabled {
			t.Errorf("%s: %v, %v", resource, got, err)
		}
	}
	if version := must(client.ServerVersion())(t); version.Major == "" {
		t.Errorf("%+v", version)
	}
}

// sorted gives the lists in the order of their versions; what the aggregated form does not carry is left out.
func sorted(lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	lists = slices.Clone(lists)
	slices.SortFunc(lists, func(a, b *metav1.APIResourceList) int {
		return strings.Compare(a.GroupVersion,
			b.GroupVersion)
	})
	for _, list := range lists {
		list.TypeMeta = metav1.TypeMeta{}
		if list.APIResources == nil {
			list.APIResources = []metav1.APIResource{}
		}
		for i := range list.APIResources {
			list.APIResources[i].StorageVersionHash = ""
			list.APIResources[i].Group, list.APIResources[i].Version = "", ""
		}
	}
	return lists
}

// DISC-10, DISC-12: the mapper that kubectl and controllers build from discovery: short names, singular names, scopes.
func TestRESTMapper(t *testing.T) {
	client := discovery.NewDiscoveryClientForConfigOrDie(shared.config())
	resources := must(restmapper.GetAPIGroupResources(client))(t)
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	mapping := must(mapper.RESTMapping(policyGV.WithKind("ClusterPolicyReport").GroupKind()))(t)
	if mapping.Resource != clusterPolicyReports || mapping.Scope.Name() != "root" {
		t.Errorf("%+v", mapping)
	}
	expander := restmapper.NewShortcutExpander(mapper, noCache{client}, nil)
	for short, want := range map[string]schema.GroupVersionResource{"polr": policyReports,
		"cephr": clusterEphemeralReports, "policyreport": policyReports} {
		if got := must(expander.ResourceFor(schema.GroupVersionResource{Resource: short}))(t); got != want {
			t.Errorf("%s is %v", short, got)
		}
	}
}

type noCache struct{ discovery.DiscoveryInterface }

func (noCache) Fresh() bool { return true }

func (noCache) Invalidate() {}

// OAPI-01, OAPI-02, OAPI-10, OAPI-20: OpenAPI v3 of every group through client-go's parser, with the reports' schemas
// and the kinds that they belong to; v2 as protobuf (e2e openapiv3.go, crd_publish_openapi.go).
func TestOpenAPI(t *testing.T) {
	client := discovery.NewDiscoveryClientForConfigOrDie(shared.config())
	root := openapi3.NewRoot(client.OpenAPIV3())
	versions := must(root.GroupVersions())(t)
	for _, gv := range groups {
		if !slices.Contains(versions, gv) {
			t.Errorf("%s has no document", gv)
			continue
		}
		document := must(root.GVSpec(gv))(t)
		if document.Version[:2] != "3." || len(document.Paths.Paths) == 0 || len(document.Components.Schemas) == 0 {
			t.Errorf("%s: %s, %d paths", gv, document.Version, len(document.Paths.Paths))
		}
	}
	document := must(root.GVSpec(policyGV))(t)
	var kinds []string
	for name, one := range document.Components.Schemas {
		if !strings.Contains(name, "wgpolicyk8s") || one.Extensions["x-kubernetes-group-version-kind"] == nil {
			continue
		}
		for _, gvk := range one.Extensions["x-kubernetes-group-version-kind"].([]any) {
			kinds = append(kinds, gvk.(map[string]any)["kind"].(string))
		}
	}
	slices.Sort(kinds)
	for _, kind := range []string{"ClusterPolicyReport", "ClusterPolicyReportList", "PolicyReport",
		"PolicyReportList"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("%s has no schema: %v", kind, kinds)
		}
	}
	two, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	if two.GetSwagger() != "2.0" || len(two.GetPaths().GetPath()) == 0 ||
		len(two.GetDefinitions().GetAdditionalProperties()) == 0 {
		t.Errorf("v2: %s", two.GetSwagger())
	}
}
