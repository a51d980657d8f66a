// What programs on client-go do, against a Kubernetes API: each test has a namespace of its own.
//
// KUBECONFIG names the cluster. `make conformance` starts a lab and runs all tests.
package clientgo

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// How long anything may take before a test fails. The server answers in milliseconds.
const patience = time.Minute

// For what happens after a test, whose own context is over by then.
var background = context.Background()

// client-go logs what it tries again, on purpose in these tests.
func TestMain(tests *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(tests.Run())
}

// config is the client configuration of the cluster under test.
func config(t *testing.T) *rest.Config {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Fatal("KUBECONFIG names no cluster: run `make conformance`")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	// client-go waits between requests by itself, which would hide how the server does.
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func clients(t *testing.T) kubernetes.Interface {
	t.Helper()
	return clientsOf(t, config(t))
}

func clientsOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	return clients
}

// namespace creates a namespace that is deleted with the test.
func namespace(t *testing.T, clients kubernetes.Interface) string {
	t.Helper()
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	made, err := clients.CoreV1().Namespaces().Create(t.Context(), wanted, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := clients.CoreV1().Namespaces().Delete(background, made.Name, metav1.DeleteOptions{})
		if err != nil {
			t.Errorf("the namespace %s stays: %v", made.Name, err)
		}
	})
	return made.Name
}

// settings is a ConfigMap with one value.
func settings(name, value string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Data:       map[string]string{"value": value},
	}
}

// create stores a ConfigMap with one value.
func create(t *testing.T, clients kubernetes.Interface, namespace, name, value string) *corev1.ConfigMap {
	t.Helper()
	made, err := clients.CoreV1().ConfigMaps(namespace).
		Create(t.Context(), settings(name, value, nil), metav1.CreateOptions{})
	must(t, err)
	return made
}

// next is the next value of a channel.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case it, is := <-from:
		if !is {
			t.Fatal("the channel was closed")
		}
		return it
	case <-time.After(patience):
		t.Fatalf("nothing after %v", patience)
		panic("unreachable")
	}
}

// eventually waits until `is` has no complaint.
func eventually(t *testing.T, is func() error) {
	t.Helper()
	last := fmt.Errorf("not asked")
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			last = is()
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("still after %v: %v", patience, last)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
