package e2enetwork

// leftOut are parts of names of tests that a lab does not pass, and why. docs/lab.md has the same groups.
var leftOut = []struct {
	why   string
	tests []string
}{
	{"a kubelet with its own port, its eviction and its logs", []string{
		"should be rejected for evicted pods",
		"should proxy logs on node",
	}},
	{"hostPort", []string{
		"HostPort",
	}},
	{"a shell on the nodes over SSH", []string{
		"[Disruptive]",
	}},
	{"an image with a program of its own", []string{
		"should not be vulnerable to the invalid conntrack state bug",
	}},
	{"HTTPS to pods by the API server's proxy", []string{
		"should proxy through a service and a pod",
	}},
	{"hints by the annotation service.kubernetes.io/topology-mode", []string{
		"Topology Hints should distribute endpoints evenly",
	}},
	{"connections in /proc/net/nf_conntrack, which stays empty in pods of a lab", []string{
		"should set TCP CLOSE_WAIT timeout",
	}},
	{"the Internet, or a cloud", []string{
		"Forward PTR lookup",
		"Forward external name lookup",
		"[Provider:GCE]",
	}},
}
