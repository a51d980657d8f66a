// Kubernetes' own end-to-end tests of sig-network against a lab of three nodes, where agnhost stands in for its image.
//
// KUBECONFIG names the cluster: `conformance/run e2e-network` starts it. Flags are those of Kubernetes' e2e.test, as in
// `-ginkgo.focus DNS`.
package e2enetwork

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"k8s.io/kubernetes/test/e2e"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	_ "k8s.io/kubernetes/test/e2e/network"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
)

// group is the beginning of the names of sig-network's tests. The suite has those of others, too.
const group = "[sig-network]"

func TestMain(tests *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	set("provider", "skeleton")
	set("num-nodes", "3")
	for _, left := range leftOut {
		for _, name := range left.tests {
			set("ginkgo.skip", regexp.QuoteMeta(name))
		}
	}
	flag.Parse()
	isFocused := false
	flag.Visit(func(it *flag.Flag) { isFocused = isFocused || it.Name == "ginkgo.focus" })
	if !isFocused {
		set("ginkgo.focus", "^"+regexp.QuoteMeta(group))
	}
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(tests.Run())
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}

func TestNetwork(t *testing.T) {
	e2e.RunE2ETests(t)
}

// One line for each test that ran.
var _ = ginkgo.ReportAfterEach(func(report ginkgo.SpecReport) {
	if report.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
		return
	}
	name := strings.TrimPrefix(report.FullText(), group+" ")
	fmt.Println(report.State, name)
})
