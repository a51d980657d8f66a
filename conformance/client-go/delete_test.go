package clientgo

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// family creates an owner, and a dependent that a finalizer of ours keeps.
func family(t *testing.T, clients kubernetes.Interface, namespace string) (owner, child *corev1.ConfigMap) {
	t.Helper()
	owner = create(t, clients, namespace, "owner", "1")
	yes := true
	wanted := settings("child", "1", nil)
	wanted.Finalizers = []string{"example.com/keep"}
	wanted.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	child, err := clients.CoreV1().ConfigMaps(namespace).Create(t.Context(), wanted, metav1.CreateOptions{})
	must(t, err)
	return owner, child
}

// lets the child go.
func release(t *testing.T, clients kubernetes.Interface, namespace string) {
	t.Helper()
	maps := clients.CoreV1().ConfigMaps(namespace)
	now, err := maps.Get(t.Context(), "child", metav1.GetOptions{})
	must(t, err)
	now.Finalizers = nil
	_, err = maps.Update(t.Context(), now, metav1.UpdateOptions{})
	must(t, err)
}

func gone(t *testing.T, clients kubernetes.Interface, namespace, name string) {
	t.Helper()
	eventually(t, func() error {
		_, err := clients.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s: %v", name, err)
	})
}

// waits until an object is being deleted.
func deleting(t *testing.T, clients kubernetes.Interface, namespace, name string) *corev1.ConfigMap {
	t.Helper()
	var now *corev1.ConfigMap
	eventually(t, func() (err error) {
		now, err = clients.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && now.DeletionTimestamp == nil {
			err = fmt.Errorf("%s is not being deleted", name)
		}
		return err
	})
	return now
}

func remove(t *testing.T, clients kubernetes.Interface, namespace string, how metav1.DeletionPropagation) {
	t.Helper()
	err := clients.CoreV1().ConfigMaps(namespace).
		Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &how})
	must(t, err)
}

func TestDeletionInTheBackground(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	family(t, clients, namespace)
	remove(t, clients, namespace, metav1.DeletePropagationBackground)
	gone(t, clients, namespace, "owner")
	deleting(t, clients, namespace, "child")
	release(t, clients, namespace)
	gone(t, clients, namespace, "child")
}

func TestDeletionInTheForeground(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	family(t, clients, namespace)
	remove(t, clients, namespace, metav1.DeletePropagationForeground)
	deleting(t, clients, namespace, "child")
	owner := deleting(t, clients, namespace, "owner")
	equal(t, "finalizers of the owner", fmt.Sprint(owner.Finalizers), "[foregroundDeletion]")
	release(t, clients, namespace)
	gone(t, clients, namespace, "child")
	gone(t, clients, namespace, "owner")
}

func TestDeletionThatOrphans(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	family(t, clients, namespace)
	remove(t, clients, namespace, metav1.DeletePropagationOrphan)
	gone(t, clients, namespace, "owner")
	child, err := clients.CoreV1().ConfigMaps(namespace).Get(t.Context(), "child", metav1.GetOptions{})
	must(t, err)
	equal(t, "owners", len(child.OwnerReferences), 0)
	if child.DeletionTimestamp != nil {
		t.Fatal("an orphan is being deleted")
	}
	release(t, clients, namespace)
}

// Preconditions: what is not as its deleter believes stays.
func TestDeletionOfAnother(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	made := create(t, clients, namespace(t, clients), "a", "1")
	maps := clients.CoreV1().ConfigMaps(made.Namespace)
	err := maps.Delete(t.Context(), "a", *metav1.NewPreconditionDeleteOptions("another"))
	if !apierrors.IsConflict(err) {
		t.Fatalf("another uid: %v", err)
	}
	err = maps.Delete(t.Context(), "a", *metav1.NewRVDeletionPrecondition("1"))
	if !apierrors.IsConflict(err) {
		t.Fatalf("another version: %v", err)
	}
	unchanged(t, clients, made)
	must(t, maps.Delete(t.Context(), "a", *metav1.NewPreconditionDeleteOptions(string(made.UID))))
	gone(t, clients, made.Namespace, "a")
}
