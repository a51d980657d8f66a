package clientgo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

func names(list *corev1.ConfigMapList) string {
	var names []string
	for _, it := range list.Items {
		names = append(names, it.Name)
	}
	return strings.Join(names, " ")
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	maps := clients.CoreV1().ConfigMaps(namespace(t, clients))
	for name, labels := range map[string]map[string]string{
		"a": {"app": "web", "tier": "front"},
		"b": {"app": "web", "tier": "back"},
		"c": {"app": "db"},
	} {
		_, err := maps.Create(t.Context(), settings(name, "1", labels), metav1.CreateOptions{})
		must(t, err)
	}
	for _, it := range []struct{ labels, fields, want string }{
		{"app=web", "", "a b"},
		{"app=web,tier!=front", "", "b"},
		{"app in (web, db),!tier", "", "c"},
		{"tier notin (front),app", "", "b c"},
		{"app", "metadata.name!=b", "a c"},
		{"", "metadata.name=c", "c"},
	} {
		list, err := maps.List(t.Context(), metav1.ListOptions{LabelSelector: it.labels, FieldSelector: it.fields})
		must(t, err)
		equal(t, fmt.Sprintf("%q %q", it.labels, it.fields), names(list), it.want)
	}
	for _, it := range []metav1.ListOptions{{LabelSelector: "app in web"}, {FieldSelector: "data.value=1"}} {
		_, err := maps.List(t.Context(), it)
		if !apierrors.IsBadRequest(err) {
			t.Fatalf("%v: %v", it, err)
		}
	}

	// A watch with a selector: what leaves the selection is deleted for the watcher.
	watch, err := maps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=web", ResourceVersion: "0"})
	must(t, err)
	defer watch.Stop()
	equal(t, "the first", next(t, watch.ResultChan()).Object.(*corev1.ConfigMap).Name, "a")
	equal(t, "the second", next(t, watch.ResultChan()).Object.(*corev1.ConfigMap).Name, "b")
	_, err = maps.Update(t.Context(), settings("b", "1", map[string]string{"app": "other"}), metav1.UpdateOptions{})
	must(t, err)
	event := next(t, watch.ResultChan())
	equal(t, "the event", event.Type, "DELETED")
	equal(t, "its object", event.Object.(*corev1.ConfigMap).Name, "b")
}

// A list in pages is one state: what changes meanwhile is not in it.
func TestPaging(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	maps := clients.CoreV1().ConfigMaps(namespace)
	for number := range 25 {
		_, err := maps.Create(t.Context(), settings(fmt.Sprintf("page-%02d", number), "1", map[string]string{"paged": ""}),
			metav1.CreateOptions{})
		must(t, err)
	}
	options := metav1.ListOptions{Limit: 10, LabelSelector: "paged"}
	first, err := maps.List(t.Context(), options)
	must(t, err)
	equal(t, "the first page", len(first.Items), 10)
	must(t, maps.Delete(t.Context(), "page-20", metav1.DeleteOptions{}))
	options.Continue = first.Continue
	second, err := maps.List(t.Context(), options)
	must(t, err)
	equal(t, "its version", second.ResourceVersion, first.ResourceVersion)
	options.Continue = second.Continue
	third, err := maps.List(t.Context(), options)
	must(t, err)
	equal(t, "the last page", names(third), "page-20 page-21 page-22 page-23 page-24")
	equal(t, "its end", third.Continue, "")

	options.Continue = "nonsense"
	if _, err := maps.List(t.Context(), options); !apierrors.IsBadRequest(err) {
		t.Fatalf("a token that nobody gave: %v", err)
	}

	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	})
	pages.PageSize = 7
	count := 0
	err = pages.EachListItem(t.Context(), metav1.ListOptions{LabelSelector: "paged"}, func(runtime.Object) error {
		count++
		return nil
	})
	must(t, err)
	equal(t, "objects", count, 24)
}
