package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// fill creates r00, r01 ... in a namespace of their own.
func fill(t *testing.T, on *stack, count int) (string, dynamic.ResourceInterface) {
	t.Helper()
	namespace := newNamespace()
	reports := on.dynamic().Resource(policyReports).Namespace(namespace)
	for i := range count {
		create(t, reports, newReport(namespace, fmt.Sprintf("r%02d", i),
			map[string]string{"parity": fmt.Sprint(i % 2)}))
	}
	return namespace, reports
}

func namesOf(items []unstructured.Unstructured) []string {
	var names []string
	for i := range items {
		names = append(names, items[i].GetName())
	}
	return names
}

// PAGE-02, PAGE-03, PAGE-04, PAGE-05, PAGE-07: pages of any size add up to the list, all at one version, though others
// write meanwhile and both proxies answer (e2e chunking.go, should return chunks of results for list calls).
func TestChunks(t *testing.T) {
	ctx := t.Context()
	_, reports := fill(t, shared, 40)
	whole := must(reports.List(ctx, metav1.ListOptions{}))(t)
	for _, limit := range []int64{1, 7, 17, 39, 40, 41} {
		var names []string
		options := metav1.ListOptions{Limit: limit}
		var version string
		for {
			page := must(reports.List(ctx, options))(t)
			names = append(names, namesOf(page.Items)...)
			left := int64(40 - len(names))
			remaining := page.GetRemainingItemCount()
			switch {
			case version != "" && page.GetResourceVersion() != version:
				t.Errorf("limit %d: a page at %s after one at %s", limit, page.GetResourceVersion(), version)
			case left > 0 && (page.GetContinue() == "" || int64(len(page.Items)) != limit || remaining == nil ||
				*remaining != left):
				t.Errorf("limit %d: a page of %d, %d left, said %v", limit, len(page.Items), left, remaining)
			case left == 0 && (page.GetContinue() != "" || remaining != nil):
				t.Errorf("limit %d: the last page says %q, %v", limit, page.GetContinue(), remaining)
			}
			version = page.GetResourceVersion()
			if options.Continue = page.GetContinue(); options.Continue == "" {
				break
			}
		}
		if !slices.Equal(names, namesOf(whole.Items)) {
			t.Errorf("limit %d: %v", limit, names)
		}
	}
}

// EXP-01, PAGE-02: a page of a list whose version has been compacted away is refused with 410 and a token that goes on
// behind the same key with what is there now, at one new version (e2e chunking.go, should support continue listing from
// the last key if the original version has been compacted away, though the list is inconsistent).
func TestChunksAfterCompaction(t *testing.T) {
	ctx := t.Context()
	own := ownStack(t)
	namespace, reports := fill(t, own, 40)
	first := must(reports.List(ctx, metav1.ListOptions{Limit: 10}))(t)
	remove(t, reports, "r20")
	create(t, reports, newReport(namespace, "r10a", nil))
	if err := own.do("compact"); err != nil {
		t.Fatal(err)
	}
	_, err := reports.List(ctx, metav1.ListOptions{Limit: 10, Continue: first.GetContinue()})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("the next page: %v", err)
	}
	token := err.(apierrors.APIStatus).Status().Continue
	if token == "" {
		t.Fatal("no token to go on with")
	}
	var names []string
	var version string
	for token != "" {
		page := must(reports.List(ctx, metav1.ListOptions{Limit: 12, Continue: token}))(t)
		names = append(names, namesOf(page.Items)...)
		if version != "" && page.GetResourceVersion() != version {
			t.Errorf("a page at %s after one at %s", page.GetResourceVersion(), version)
		}
		remaining := page.GetRemainingItemCount()
		if left := int64(30 - len(names)); left == 0 && remaining != nil || left > 0 &&
			(remaining == nil || *remaining != left) {
			t.Errorf("%d left, said %v", left, remaining)
		}
		version, token = page.GetResourceVersion(), page.GetContinue()
		if version == first.GetResourceVersion() {
			t.Error("the rest is of the old version")
		}
	}
	var want []string
	for i := 10; i < 40; i++ {
		if i != 20 {
			want = append(want, fmt.Sprintf("r%02d", i))
		}
		if i == 10 {
			want = append(want, "r10a")
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("the rest is %v", names)
	}

	// The pager falls back to a list without a limit (TestListPager_List, TestReflectorFullListIfExpired).
	calls := 0
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		if calls++; calls == 2 {
			remove(t, reports, "r00")
			if err := own.do("compact"); err != nil {
				t.Fatal(err)
			}
		}
		return reports.List(ctx, options)
	})
	pages.PageSize = 10
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if items := list.(*unstructured.UnstructuredList).Items; len(items) != 39 || items[0].GetName() != "r01" ||
		calls != 3 {
		t.Errorf("after %d calls the pager gives %v", calls, namesOf(items))
	}
}

// PAGE-07, INF-01: the pager's list, its walk over items, and an informer with a page size, which begins at version 0
// (TestListPager_List, TestListPager_EachListItem, TestReflectorWatchListPageSize).
func TestPager(t *testing.T) {
	ctx := t.Context()
	_, reports := fill(t, shared, 23)
	calls := 0
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		calls++
		return reports.List(ctx, options)
	})
	pages.PageSize = 5
	list, paginated, err := pages.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if count := meta.LenList(list); count != 23 || !paginated || calls != 5 {
		t.Errorf("%d items in %d calls", count, calls)
	}
	var names []string
	err = pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: "parity=1"}, func(item runtime.Object) error {
		names = append(names, item.(*unstructured.Unstructured).GetName())
		return nil
	})
	if err != nil || len(names) != 11 || !slices.IsSorted(names) {
		t.Errorf("%v, %v", names, err)
	}

	config, requests := recorded(shared.config())
	listed := dynamic.NewForConfigOrDie(config).Resource(policyReports)
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	reflector := cache.NewReflectorWithOptions(unstreamed{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = "parity"
			return listed.List(ctx, options)
		},
		WatchFuncWithContext: listed.Watch,
	}}, &unstructured.Unstructured{}, store, cache.ReflectorOptions{})
	reflector.WatchListPageSize = 4
	go reflector.RunWithContext(ctx)
	until(t, "a page with a token", func() error {
		for _, request := range requests.take() {
			if query := request.URL.Query(); query.Get("limit") == "4" && query.Get("continue") != "" &&
				request.code == 200 {
				return nil
			}
		}
		return fmt.Errorf("no such request")
	})
	until(t, "the reflector's store", func() error {
		if count := len(store.List()); count < 23 {
			return fmt.Errorf("%d reports", count)
		}
		return nil
	})
}

// TAB-01, TAB-05, TAB-08, NEG-03, PAGE-03: tables: columns, pages of rows with the objects' metadata, across all
// namespaces; a version of Table that does not exist is 406 (e2e table_conversion.go, should return pod details, should
// return chunks of table results for list calls, should return generic metadata details across all namespaces).
func TestTables(t *testing.T) {
	ctx := t.Context()
	namespace, _ := fill(t, shared, 20)
	client := restClientFor(shared.config(), policyGV, newScheme())
	table := func(path, accept string, query map[string]string) (*metav1.Table, error) {
		request := client.Get().AbsPath(path).SetHeader("Accept", accept)
		for name, value := range query {
			request.Param(name, value)
		}
		raw, err := request.DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		var table metav1.Table
		return &table, json.Unmarshal(raw, &table)
	}
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
	path := "/apis/" + policyGV.String() + "/namespaces/" + namespace + "/policyreports"
	one := must(table(path+"/r07", accept, nil))(t)
	if len(one.Rows) != 1 || len(one.Rows[0].Cells) != len(one.ColumnDefinitions) ||
		one.ColumnDefinitions[0].Name != "Name" ||
		one.ColumnDefinitions[0].Format != "name" || one.Rows[0].Cells[0] != "r07" {
		t.Errorf("%+v", one)
	}
	var names []string
	for query := map[string]string{"limit": "7"}; ; {
		page := must(table(path, accept, query))(t)
		if (len(page.ColumnDefinitions) == 0) != (query["continue"] != "") && len(page.ColumnDefinitions) == 0 {
			t.Errorf("columns %v", page.ColumnDefinitions)
		}
		for _, row := range page.Rows {
			var object metav1.PartialObjectMetadata
			if err := json.Unmarshal(row.Object.Raw, &object); err != nil || object.Kind != "PartialObjectMetadata" ||
				object.Namespace != namespace {
				t.Errorf("%s: %v", row.Object.Raw, err)
			}
			names = append(names, object.Name)
		}
		if page.Continue == "" {
			break
		}
		query["continue"] = page.Continue
	}
	if len(names) != 20 || !slices.IsSorted(names) {
		t.Errorf("%v", names)
	}
	all := must(table("/apis/"+policyGV.String()+"/policyreports", accept, map[string]string{"limit": "3"}))(t)
	if len(all.Rows) != 3 || all.ResourceVersion == "" {
		t.Errorf("%+v", all)
	}
	if _, err := table(path, "application/json;as=Table;v=v1alpha99;g=meta.k8s.io",
		nil); !apierrors.IsNotAcceptable(err) {
		t.Errorf("%v", err)
	}
}
