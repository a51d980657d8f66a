package clientgo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// The definition of a kind with two versions, defaults, bounds, subresources and columns.
const definition = `{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "boats.GROUP"},
  "spec": {
    "group": "GROUP", "scope": "Namespaced",
    "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "shortNames": ["bt"], "categories": ["ships"]},
    "versions": [{
      "name": "v1", "served": true, "storage": true,
      "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}},
      "additionalPrinterColumns": [{"name": "Crew", "type": "integer", "jsonPath": ".spec.crew"}],
      "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "required": ["name"], "properties": {
          "name": {"type": "string", "pattern": "^[a-z]+$"},
          "crew": {"type": "integer", "minimum": 0, "maximum": 9, "default": 2},
          "sail": {"type": "string", "enum": ["red", "white"]}}},
        "status": {"type": "object", "properties": {"crew": {"type": "integer"}, "at": {"type": "string"}}}}}}
    }, {
      "name": "v1beta1", "served": true, "storage": false,
      "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}
    }]
  }
}`

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(text), &object.Object))
	return object
}

// define creates the kind, in a group of the test's own, and waits until it is served.
func define(t *testing.T, client dynamic.Interface, group string) {
	t.Helper()
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	_, err := definitions.Create(t.Context(), read(t, strings.ReplaceAll(definition, "GROUP", group)), metav1.CreateOptions{})
	must(t, err)
	name := "boats." + group
	t.Cleanup(func() {
		if err := definitions.Delete(background, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, func() error {
		now, err := definitions.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
		for _, it := range conditions {
			condition := it.(map[string]any)
			if condition["type"] == "Established" && condition["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", conditions)
	})
}

func TestCustomResources(t *testing.T) {
	t.Parallel()
	clients, config := clients(t), config(t)
	namespace := namespace(t, clients)
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	group := namespace + ".example.com"
	define(t, client, group)

	// Discovery names the kind, by its short name too.
	var mapping *schema.GroupVersionResource
	eventually(t, func() error {
		discovery, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return err
		}
		cached := memory.NewMemCacheClient(discovery)
		mapper := restmapper.NewShortcutExpander(
			restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, func(string) {})
		found, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "bt", Group: group})
		mapping = &found
		return err
	})
	equal(t, "the preferred version", mapping.Version, "v1")
	boats := client.Resource(*mapping).Namespace(namespace)

	boat := func(name, spec string) *unstructured.Unstructured {
		return read(t, fmt.Sprintf(`{"apiVersion": "%s/v1", "kind": "Boat", "metadata": {"name": "%s"}, "spec": %s}`,
			group, name, spec))
	}
	made, err := boats.Create(t.Context(), boat("a", `{"name": "anna", "unknown": 1}`), metav1.CreateOptions{})
	must(t, err)
	crew, _, _ := unstructured.NestedInt64(made.Object, "spec", "crew")
	equal(t, "the default", crew, 2)
	if _, is, _ := unstructured.NestedFieldNoCopy(made.Object, "spec", "unknown"); is {
		t.Fatal("a field that the schema lacks was kept")
	}
	equal(t, "the generation", made.GetGeneration(), 1)

	for spec, field := range map[string]string{
		`{}`:                              "spec.name",
		`{"name": "Anna"}`:                "spec.name",
		`{"name": "anna", "crew": 10}`:    "spec.crew",
		`{"name": "anna", "crew": "two"}`: "spec.crew",
		`{"name": "anna", "sail": "x"}`:   "spec.sail",
	} {
		_, err := boats.Create(t.Context(), boat("bad", spec), metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			t.Fatalf("%s: %v", spec, err)
		}
		equal(t, spec, err.(apierrors.APIStatus).Status().Details.Causes[0].Field, field)
	}

	// A status is written by itself, and counts as no new generation.
	must(t, unstructured.SetNestedField(made.Object, "sea", "status", "at"))
	must(t, unstructured.SetNestedField(made.Object, int64(9), "spec", "crew"))
	made, err = boats.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	must(t, err)
	crew, _, _ = unstructured.NestedInt64(made.Object, "spec", "crew")
	equal(t, "the spec after a status", crew, 2)
	equal(t, "the generation after a status", made.GetGeneration(), 1)
	must(t, unstructured.SetNestedField(made.Object, int64(3), "spec", "crew"))
	made, err = boats.Update(t.Context(), made, metav1.UpdateOptions{})
	must(t, err)
	equal(t, "the generation after a change", made.GetGeneration(), 2)
	at, _, _ := unstructured.NestedString(made.Object, "status", "at")
	equal(t, "the status after a change", at, "sea")

	scale, err := boats.Get(t.Context(), "a", metav1.GetOptions{}, "scale")
	must(t, err)
	replicas, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	equal(t, "the scale", replicas, 3)

	// Server-side apply, and the other version.
	applied := boat("b", `{"name": "berta", "crew": 1}`)
	_, err = boats.Apply(t.Context(), "b", applied, metav1.ApplyOptions{FieldManager: "conformance"})
	must(t, err)
	beta := client.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: "boats"})
	list, err := beta.Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	equal(t, "objects in the other version", len(list.Items), 2)
	equal(t, "their version", list.Items[0].GetAPIVersion(), group+"/v1beta1")
}
