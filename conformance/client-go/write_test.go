package clientgo

import (
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// deployment is a Deployment that nothing schedules.
func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	replicas := int32(0)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "first", Image: "any"},
					{Name: "second", Image: "any"},
				}},
			},
		},
	}
}

func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
	}
}

// Writers of one object with the same version meet: one wins, the others get 409 and read again.
func TestStatusUpdatesConflict(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	services := clients.CoreV1().Services(namespace(t, clients))
	made, err := services.Create(t.Context(), service("web"), metav1.CreateOptions{})
	must(t, err)

	says := func(it *corev1.Service, what string) *corev1.Service {
		it = it.DeepCopy()
		it.Status.Conditions = append(it.Status.Conditions, metav1.Condition{
			Type: what, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
		})
		return it
	}
	_, err = services.UpdateStatus(t.Context(), says(made, "First"), metav1.UpdateOptions{})
	must(t, err)
	_, err = services.UpdateStatus(t.Context(), says(made, "Second"), metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) {
		t.Fatalf("a status with an old version: %v", err)
	}

	var writers sync.WaitGroup
	for _, what := range []string{"A", "B", "C", "D"} {
		writers.Go(func() {
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				now, err := services.Get(t.Context(), "web", metav1.GetOptions{})
				if err != nil {
					return err
				}
				_, err = services.UpdateStatus(t.Context(), says(now, what), metav1.UpdateOptions{})
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	now, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	equal(t, "conditions", len(now.Status.Conditions), 5)
	if !equality.Semantic.DeepEqual(now.Spec, made.Spec) {
		t.Fatalf("a status changed the spec: %v", now.Spec)
	}
}

// What is written back as it was read is no change: no new version and no new generation.
func TestWritingBackChangesNothing(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	deployments, services := clients.AppsV1().Deployments(namespace), clients.CoreV1().Services(namespace)
	_, err := services.Create(t.Context(), service("web"), metav1.CreateOptions{})
	must(t, err)
	svc, err := services.Get(t.Context(), "web", metav1.GetOptions{})
	must(t, err)
	again, err := services.Update(t.Context(), svc, metav1.UpdateOptions{})
	must(t, err)
	equal(t, "the Service's version", again.ResourceVersion, svc.ResourceVersion)

	_, err = deployments.Create(t.Context(), deployment("web"), metav1.CreateOptions{})
	must(t, err)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		deploy, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		written, err := deployments.Update(t.Context(), deploy, metav1.UpdateOptions{})
		if err == nil {
			equal(t, "the Deployment's version", written.ResourceVersion, deploy.ResourceVersion)
			equal(t, "its generation", written.Generation, 1)
		}
		return err
	})
	must(t, err)
}

// An update creates a Lease and no ConfigMap, and of a Lease it names the version that it replaces.
func TestUpdatesOfWhatIsAbsent(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	leases := clients.CoordinationV1().Leases(namespace)
	turn := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "turn"}}
	made, err := leases.Update(t.Context(), turn, metav1.UpdateOptions{})
	must(t, err)
	if made.UID == "" {
		t.Fatal("the Lease has no uid")
	}
	if _, err = leases.Update(t.Context(), turn, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Fatalf("an update without a version: %v", err)
	}
	_, err = leases.Update(t.Context(), made, metav1.UpdateOptions{})
	must(t, err)
	maps := clients.CoreV1().ConfigMaps(namespace)
	if _, err = maps.Update(t.Context(), settings("none", "a", nil), metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("an update of no ConfigMap: %v", err)
	}
}

// The four kinds of patch.
func TestPatches(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	deployments := clients.AppsV1().Deployments(namespace(t, clients))
	_, err := deployments.Create(t.Context(), deployment("web"), metav1.CreateOptions{})
	must(t, err)
	patch := func(kind types.PatchType, patch string, options metav1.PatchOptions) *appsv1.Deployment {
		t.Helper()
		patched, err := deployments.Patch(t.Context(), "web", kind, []byte(patch), options)
		must(t, err)
		return patched
	}
	image := func(it *appsv1.Deployment, name string) string {
		for _, container := range it.Spec.Template.Spec.Containers {
			if container.Name == name {
				return container.Image
			}
		}
		return ""
	}

	it := patch(types.JSONPatchType,
		`[{"op": "test", "path": "/spec/template/spec/containers/1/name", "value": "second"},
		  {"op": "replace", "path": "/spec/template/spec/containers/1/image", "value": "json"}]`, metav1.PatchOptions{})
	equal(t, "a JSON patch", image(it, "second"), "json")

	it = patch(types.StrategicMergePatchType,
		`{"spec": {"template": {"spec": {"containers": [{"name": "first", "image": "strategic"}]}}}}`, metav1.PatchOptions{})
	equal(t, "a strategic patch", image(it, "first"), "strategic")
	equal(t, "the other container", image(it, "second"), "json")

	it = patch(types.ApplyPatchType,
		`{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {"by": "apply"}}}`,
		metav1.PatchOptions{FieldManager: "conformance"})
	equal(t, "an applied label", it.Labels["by"], "apply")

	it = patch(types.MergePatchType,
		`{"metadata": {"labels": {"by": null}}, "spec": {"template": {"spec": {"containers": [{"name": "only", "image": "merge"}]}}}}`,
		metav1.PatchOptions{})
	equal(t, "containers after a merge patch", len(it.Spec.Template.Spec.Containers), 1)
	equal(t, "labels", len(it.Labels), 0)

	_, err = deployments.Patch(t.Context(), "web", types.JSONPatchType,
		[]byte(`[{"op": "test", "path": "/metadata/name", "value": "other"}]`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Fatalf("a test that fails: %v", err)
	}
	_, err = deployments.Patch(t.Context(), "none", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("a patch of what is not there: %v", err)
	}
}

// Two managers apply to one object: each keeps its fields, a conflict is told, force takes.
func TestTwoManagersApply(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	maps := clients.CoreV1().ConfigMaps(namespace)
	apply := func(manager string, force bool, data map[string]string) (*corev1.ConfigMap, error) {
		wanted := applycorev1.ConfigMap("shared", namespace).WithData(data)
		return maps.Apply(t.Context(), wanted, metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	_, err := apply("one", false, map[string]string{"a": "1", "b": "1"})
	must(t, err)
	now, err := apply("two", false, map[string]string{"b": "1", "c": "2"})
	must(t, err)
	equal(t, "values", len(now.Data), 3)

	_, err = apply("two", false, map[string]string{"a": "2", "c": "2"})
	if !apierrors.IsConflict(err) {
		t.Fatalf("a field of another manager: %v", err)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	equal(t, "causes", len(causes), 1)
	equal(t, "the field in conflict", causes[0].Field, ".data.a")
	equal(t, "its type", causes[0].Type, metav1.CauseTypeFieldManagerConflict)

	now, err = apply("two", true, map[string]string{"a": "2", "c": "2"})
	must(t, err)
	equal(t, "a taken field", now.Data["a"], "2")
	equal(t, "a field of the first alone", now.Data["b"], "1")

	now, err = apply("one", false, map[string]string{})
	must(t, err)
	if _, is := now.Data["b"]; is {
		t.Fatal("a field that its last manager gave up is still there")
	}
	equal(t, "a field of the second", now.Data["a"], "2")
	equal(t, "managers", len(now.ManagedFields), 1)

	extracted, err := applycorev1.ExtractConfigMap(now, "two")
	must(t, err)
	equal(t, "extracted values", len(extracted.Data), 2)
}

// A dry run answers as the write would, and stores nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	dry := []string{metav1.DryRunAll}
	services := clients.CoreV1().Services(namespace)
	planned, err := services.Create(t.Context(), service("web"), metav1.CreateOptions{DryRun: dry})
	must(t, err)
	if planned.UID == "" || planned.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Fatalf("a dry run without defaults: %v", planned)
	}
	_, err = services.Get(t.Context(), "web", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("a dry run made it: %v", err)
	}
	_, err = services.Create(t.Context(), service("Web_"), metav1.CreateOptions{DryRun: dry})
	if !apierrors.IsInvalid(err) {
		t.Fatalf("a dry run of an invalid name: %v", err)
	}

	made := create(t, clients, namespace, "a", "1")
	maps := clients.CoreV1().ConfigMaps(namespace)
	patched, err := maps.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data": {"value": "2"}}`),
		metav1.PatchOptions{DryRun: dry})
	must(t, err)
	equal(t, "the planned value", patched.Data["value"], "2")
	must(t, maps.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dry}))
	unchanged(t, clients, made)
}

func unchanged(t *testing.T, clients kubernetes.Interface, made *corev1.ConfigMap) {
	t.Helper()
	now, err := clients.CoreV1().ConfigMaps(made.Namespace).Get(t.Context(), made.Name, metav1.GetOptions{})
	must(t, err)
	equal(t, "the version", now.ResourceVersion, made.ResourceVersion)
}
