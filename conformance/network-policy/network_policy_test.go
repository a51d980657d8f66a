// The Network Policy API's own conformance suite against a lab of three nodes, where agnhost stands in for its image.
//
// KUBECONFIG names the cluster, which has the API's definitions: `conformance/run network-policy` starts it.
package networkpolicy

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"
	k8s "k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	api "sigs.k8s.io/network-policy-api/apis/v1beta1"
	"sigs.k8s.io/network-policy-api/conformance"
	reports "sigs.k8s.io/network-policy-api/conformance/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/conformance/tests"
	timeouts "sigs.k8s.io/network-policy-api/conformance/utils/config"
	"sigs.k8s.io/network-policy-api/conformance/utils/kubernetes"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
	written "sigs.k8s.io/yaml"
)

var (
	report  = flag.String("report", "", "the file that the suite's report is written to")
	version = flag.String("sluice-version", "0.1.0", "the version that the report names")
)

// The tests that dial over SCTP, too.
var needsSCTP = []string{
	"CNPAdminTierEgressInlineCIDRPeers",
	"CNPAdminTierEgressNodePeers",
	"CNPAdminTierEgressSCTP",
	"CNPAdminTierGress",
	"CNPAdminTierIngressSCTP",
	"CNPAdminTierPortRange",
	"CNPBaselineTierEgressInlineCIDRPeers",
	"CNPBaselineTierEgressNodePeers",
	"CNPBaselineTierEgressSCTP",
	"CNPBaselineTierGress",
	"CNPBaselineTierIngressSCTP",
	"CNPBaselineTierPortRange",
}

func TestConformance(t *testing.T) {
	kubeconfig, err := config.GetConfig()
	require.NoError(t, err)
	cluster, err := client.New(kubeconfig, client.Options{})
	require.NoError(t, err)
	require.NoError(t, api.Install(cluster.Scheme()))
	require.NoError(t, apiextensions.AddToScheme(cluster.Scheme()))
	clientset, err := k8s.NewForConfig(kubeconfig)
	require.NoError(t, err)

	var skipped []string
	if !hasSCTP() {
		t.Logf("SKIP %s: this kernel has no SCTP", strings.Join(needsSCTP, ", "))
		skipped = needsSCTP
	}
	judge, err := suite.NewConformanceProfileTestSuite(suite.ConformanceProfileOptions{
		Options: suite.Options{
			Client:                     cluster,
			ClientSet:                  clientset,
			KubeConfig:                 *kubeconfig,
			EnableAllSupportedFeatures: true,
			SkipTests:                  skipped,
			// On a busy machine one connection takes seconds.
			TimeoutConfig: timeouts.TimeoutConfig{PokeTimeout: time.Minute},
		},
		Implementation: reports.Implementation{
			Organization:          "sluice",
			Project:               "sluice",
			URL:                   "https://sluice.dev",
			Version:               *version,
			Contact:               []string{"@sluice"},
			AdditionalInformation: "conformance/run network-policy: a lab of three nodes on one machine",
		},
		ConformanceProfiles: sets.New(suite.CNPConformanceProfileName),
	})
	require.NoError(t, err)
	setUp(t, judge, cluster)
	require.NoError(t, judge.Run(t, tests.ConformanceTests))
	result, err := judge.Report()
	require.NoError(t, err)
	text, err := written.Marshal(result)
	require.NoError(t, err)
	t.Logf("%s", text)
	if *report != "" {
		require.NoError(t, os.WriteFile(*report, text, 0o644))
	}
}

// setUp does what the suite's own does, without the servers of SCTP, which end where the kernel has none.
func setUp(t *testing.T, judge *suite.ConformanceProfileTestSuite, cluster client.Client) {
	features := judge.SupportedFeatures
	judge.SupportedFeatures = nil
	judge.Setup(t)
	judge.SupportedFeatures = features

	text, err := conformance.Manifests.ReadFile("base/manifests.yaml")
	require.NoError(t, err)
	manifest, err := template.New("base").Parse(string(text))
	require.NoError(t, err)
	var filled bytes.Buffer
	require.NoError(t, manifest.Execute(&filled, kubernetes.TemplateData{HostNetworkPorts: judge.HostNetworkPorts}))
	var namespaces, sets []string
	for _, object := range apply(t, cluster, filled.Bytes()) {
		if object.GetKind() == "StatefulSet" {
			namespaces = append(namespaces, object.GetNamespace())
			sets = append(sets, object.GetName())
		}
	}
	kubernetes.NamespacesMustBeReady(t, cluster, judge.TimeoutConfig, namespaces, sets)
}

// apply creates the objects of a text, and returns them.
func apply(t *testing.T, cluster client.Client, text []byte) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(object.Object) == 0 {
			continue
		}
		if !hasSCTP() {
			dropSCTP(t, object)
		}
		require.NoErrorf(t, cluster.Create(t.Context(), object), "%s %s", object.GetKind(), object.GetName())
		all = append(all, object)
	}
}

// dropSCTP takes away the containers of a workload that serve SCTP.
func dropSCTP(t *testing.T, object *unstructured.Unstructured) {
	path := []string{"spec", "template", "spec", "containers"}
	containers, has, err := unstructured.NestedSlice(object.Object, path...)
	require.NoError(t, err)
	if !has {
		return
	}
	var others []any
	for _, it := range containers {
		variables, _, err := unstructured.NestedSlice(it.(map[string]any), "env")
		require.NoError(t, err)
		servesSCTP := false
		for _, variable := range variables {
			name, _ := variable.(map[string]any)["name"].(string)
			servesSCTP = servesSCTP || strings.HasPrefix(name, "SERVE_"+string(corev1.ProtocolSCTP))
		}
		if !servesSCTP {
			others = append(others, it)
		}
	}
	require.NoError(t, unstructured.SetNestedSlice(object.Object, others, path...))
}
