// Helm installs, upgrades and rolls back the chart of deploy/ in a lab whose nodes have no agent of their own: the pods of
// its DaemonSet become the agents.
//
// KUBECONFIG names the cluster. `make conformance` starts it.
package helm

import (
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	folder    = "../../deploy/helm/sluice"
	name      = "sluice"
	namespace = "kube-system"
	// How long Helm waits until all pods are ready.
	patience = 2 * time.Minute
)

// values are what a lab needs: no kube-proxy leads to the API server, and the sysctls of conntrack are the machine's.
func values(more map[string]any) map[string]any {
	values := map[string]any{
		"apiServer": map[string]any{"host": "192.168.100.2"},
		"config":    map[string]any{"conntrack": map[string]any{"maxPerCore": 0}},
	}
	maps.Copy(values, more)
	return values
}

// helm is a release's cluster.
type helm struct {
	*testing.T
	config  *action.Configuration
	clients kubernetes.Interface
	chart   chart.Charter
}

func start(t *testing.T) helm {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Fatal("KUBECONFIG names no cluster: run `make conformance`")
	}
	settings := cli.New()
	settings.SetNamespace(namespace)
	config := action.NewConfiguration()
	must(t, config.Init(settings.RESTClientGetter(), namespace, "secret"))
	rest, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	clients, err := kubernetes.NewForConfig(rest)
	must(t, err)
	chart, err := loader.LoadDir(folder)
	must(t, err)
	return helm{t, config, clients, chart}
}

// revision checks the number and the state of what Helm did.
func (it helm) revision(made release.Releaser, err error, want int) {
	it.Helper()
	must(it.T, err)
	now, err := release.NewAccessor(made)
	must(it.T, err)
	if now.Version() != want || now.Status() != "deployed" {
		it.Fatalf("revision %d is %s, want %d deployed", now.Version(), now.Status(), want)
	}
}

// agents returns the DaemonSet when each node has a ready pod of it.
func (it helm) agents() *appsv1.DaemonSet {
	it.Helper()
	nodes, err := it.clients.CoreV1().Nodes().List(it.Context(), metav1.ListOptions{})
	must(it.T, err)
	all, err := it.clients.AppsV1().DaemonSets(namespace).List(it.Context(), metav1.ListOptions{})
	must(it.T, err)
	if len(all.Items) != 1 {
		it.Fatalf("%d DaemonSets", len(all.Items))
	}
	set := &all.Items[0]
	ready := [2]int{int(set.Status.NumberReady), int(set.Status.UpdatedNumberScheduled)}
	if want := len(nodes.Items); ready != [2]int{want, want} {
		it.Fatalf("agents ready and updated: %v of %d", ready, want)
	}
	return set
}

func arguments(set *appsv1.DaemonSet) string {
	container := set.Spec.Template.Spec.Containers[0]
	return fmt.Sprint(container.Command, container.Args)
}

func TestTheChartLives(t *testing.T) {
	it := start(t)

	install := action.NewInstall(it.config)
	install.ReleaseName, install.Namespace = name, namespace
	install.Timeout, install.WaitStrategy = patience, kube.StatusWatcherStrategy
	made, err := install.RunWithContext(t.Context(), it.chart, values(nil))
	it.revision(made, err, 1)
	first := it.agents()

	upgrade := action.NewUpgrade(it.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy = namespace, patience, kube.StatusWatcherStrategy
	made, err = upgrade.RunWithContext(t.Context(), name, it.chart,
		values(map[string]any{"extraArgs": []any{"--v=2"}}))
	it.revision(made, err, 2)
	second := it.agents()
	if arguments(first) == arguments(second) || first.Generation == second.Generation {
		t.Fatalf("the upgrade changed nothing: %s", arguments(second))
	}

	rollback := action.NewRollback(it.config)
	rollback.Version, rollback.Timeout, rollback.WaitStrategy = 1, patience, kube.StatusWatcherStrategy
	must(t, rollback.Run(name))
	made, err = action.NewGet(it.config).Run(name)
	it.revision(made, err, 3)
	if third := it.agents(); arguments(third) != arguments(first) {
		t.Fatalf("rolled back to %s, not %s", arguments(third), arguments(first))
	}

	uninstall := action.NewUninstall(it.config)
	uninstall.Timeout, uninstall.WaitStrategy = patience, kube.StatusWatcherStrategy
	_, err = uninstall.Run(name)
	must(t, err)
	_, err = it.clients.AppsV1().DaemonSets(namespace).Get(t.Context(), first.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatalf("after the end: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
