package clientgo

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// What controllers of every kind do, such as the garbage collector: they read nothing but metadata.
func TestMetadataAlone(t *testing.T) {
	config := config(t)
	clients := clientsOf(t, config)
	namespace := namespace(t, clients)
	create(t, clients, namespace, "a", "1")
	create(t, clients, namespace, "b", "2")
	known, err := metadata.NewForConfig(config)
	must(t, err)
	maps := known.Resource(configMaps).Namespace(namespace)

	one, err := maps.Get(t.Context(), "a", metav1.GetOptions{})
	must(t, err)
	equal(t, "its name", one.Name, "a")

	list, err := maps.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	must(t, err)
	equal(t, "the number of objects", len(list.Items), 2)
	events, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(t, err)
	defer events.Stop()

	patch := []byte(`{"metadata":{"labels":{"seen":"yes"}}}`)
	patched, err := maps.Patch(t.Context(), "a", types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	equal(t, "the label in the answer to a patch", patched.Labels["seen"], "yes")
	for {
		event := next(t, events.ResultChan())
		object := event.Object.(*metav1.PartialObjectMetadata)
		if object.Name == "a" {
			equal(t, "the event", event.Type, watch.Modified)
			equal(t, "its label", object.Labels["seen"], "yes")
			break
		}
	}

	factory := metadatainformer.NewFilteredSharedInformerFactory(known, 0, namespace, nil)
	informer := factory.ForResource(configMaps).Informer()
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer has no first list")
	}
	must(t, maps.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	eventually(t, func() error {
		_, exists, err := informer.GetStore().GetByKey(namespace + "/b")
		if exists {
			return fmt.Errorf("the informer still has what was deleted")
		}
		return err
	})
}

// The paths of watches before `?watch=1`, which old clients have.
func TestWatchByItsOwnPath(t *testing.T) {
	clients := clients(t)
	namespace := namespace(t, clients)
	create(t, clients, namespace, "a", "1")
	path := fmt.Sprintf("/api/v1/watch/namespaces/%s/configmaps/a", namespace)
	events, err := clients.CoreV1().RESTClient().Get().AbsPath(path).Watch(t.Context())
	must(t, err)
	defer events.Stop()
	equal(t, "the first event", next(t, events.ResultChan()).Type, watch.Added)
	must(t, clients.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
	equal(t, "the last event", next(t, events.ResultChan()).Type, watch.Deleted)
}
