"""The DNS server in CoreDNS's place, and the one inside the agent: their manifests and their image."""

import copy
import json
import os
import socket
import struct
import subprocess

import pytest
import yaml

from conftest import (
    CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, DEPLOY, NONROOT, SLUICE, TOOLS, by_kind, check_schemas, documents, http,
    inside, kustomize, run, start,
)

BASE = DEPLOY / "dns"
CHART = DEPLOY / "helm/sluice-dns"
AGENT = DEPLOY / "helm/sluice"


def helm(*options, chart=CHART):
    command = ["template", "release", chart, "--namespace", "kube-system", *options]
    return documents(run(TOOLS / "helm", *command))


def composed(tmp_path, base, *components):
    """A folder of deploy/ as a base, with components of it."""
    run("cp", "-r", DEPLOY / "dns", DEPLOY / "kustomize", tmp_path)
    lines = {"resources": [base], "components": list(components)}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(lines))
    return kustomize(tmp_path)


def pod_of(objects, kind):
    return by_kind(objects, kind)["spec"]["template"]["spec"]


def resources_of(objects):
    """What the ClusterRole may list and watch."""
    rules = by_kind(objects, "ClusterRole")["rules"]
    return {it for rule in rules if "watch" in rule["verbs"] for it in rule["resources"]}


def test_dns_kustomize_is_valid(tmp_path):
    check_schemas(kustomize(BASE))
    check_schemas(composed(tmp_path, "dns", "dns/daemonset", "dns/pods-verified"))


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--set", "kind=DaemonSet"],
        ["--set", "replicas=3", "--set", "maxUnavailable=34%", "--set", "readPods=true"],
        ["--set", "image.digest=sha256:" + "0" * 64, "--set", "imagePullSecrets[0].name=pull"],
        ["--set", "podLabels.a=b", "--set", "podAnnotations.a=b", "--set", "extraArgs={-quiet}"],
        ["--set", "resources=null", "--set", "priorityClassName=other", "--set", "nodeSelector=null"],
        ["--set", "name=sluice-dns", "--set", "service.name=sluice-dns", "--set", "service.clusterIP=fd00::a"],
    ],
)
def test_dns_helm_is_valid(options):
    check_schemas(helm(*options))


def test_dns_helm_lints():
    run(TOOLS / "helm", "lint", "--strict", "--quiet", CHART)


@pytest.mark.parametrize(("kind", "components"), [("Deployment", []), ("DaemonSet", ["dns/daemonset"])])
def test_dns_helm_and_kustomize_agree(tmp_path, kind, components):
    """But for labels."""

    def plain(objects):
        for it in objects:
            # kustomize and Helm mark their objects; what the cluster knows them by stays.
            known = {"k8s-app", "kubernetes.io/cluster-service", "kubernetes.io/name"}
            labels = it["metadata"].pop("labels")
            it["metadata"]["labels"] = {name: value for name, value in labels.items() if name in known}
            if it["kind"] == kind:
                [container] = it["spec"]["template"]["spec"]["containers"]
                # What Kubernetes sets for a tag that is not `latest`.
                assert container.pop("imagePullPolicy", "IfNotPresent") == "IfNotPresent"
            if it["kind"] == "ConfigMap":
                it["data"] = {name: text.rstrip() for name, text in it["data"].items()}
        return {(it["kind"], it["metadata"]["name"]): it for it in objects}

    assert plain(helm("--set", f"kind={kind}")) == plain(composed(tmp_path, "dns", *components))


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("colour=red", "colour"),
        ("kind=StatefulSet", "kind"),
        ("replicas=0", "replicas"),
        ("service.clusterIP=dns", "clusterIP"),
        ("clusterDomain=Cluster.local", "clusterDomain"),
        ("image.digest=latest", "digest"),
    ],
)
def test_dns_helm_refuses(option, named):
    command = [TOOLS / "helm", "template", "release", CHART, "--set", option]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and named in done.stderr, done.stderr


def test_dns_corefile_is_that_of_the_values():
    corefile = by_kind(helm("--set", "clusterDomain=k8s.example"), "ConfigMap")["data"]["Corefile"]
    assert "kubernetes k8s.example in-addr.arpa ip6.arpa {" in corefile
    own = by_kind(helm("--set", "corefile=.:53 { whoami }"), "ConfigMap")["data"]["Corefile"]
    assert own.strip() == ".:53 { whoami }"


def test_dns_replaces_the_objects_of_coredns():
    """What is immutable or known to others has the names and values of CoreDNS's objects."""
    theirs = documents((DEPLOY / "tests/fixtures/coredns.yaml").read_text())
    ours = kustomize(BASE)
    named = lambda objects: {(it["kind"], it["metadata"]["name"]) for it in objects}
    assert named(theirs) <= named(ours)
    assert by_kind(ours, "Service")["spec"] == by_kind(theirs, "Service")["spec"]
    deployments = [by_kind(it, "Deployment")["spec"] for it in (ours, theirs)]
    assert deployments[0]["selector"] == deployments[1]["selector"]
    pods = [it["template"]["spec"] for it in deployments]
    for field in ("serviceAccountName", "priorityClassName", "dnsPolicy", "nodeSelector", "tolerations", "volumes"):
        assert pods[0][field] == pods[1][field], field
    containers = [it["containers"][0] for it in pods]
    for field in ("name", "args", "ports", "livenessProbe", "readinessProbe", "resources", "volumeMounts"):
        assert containers[0][field] == containers[1][field], field
    assert resources_of(ours) < resources_of(theirs)


def test_dns_swap_changes_nothing_but_the_image(tmp_path):
    theirs = documents((DEPLOY / "tests/fixtures/coredns.yaml").read_text())
    (tmp_path / "base").mkdir()
    (tmp_path / "base/coredns.yaml").write_text((DEPLOY / "tests/fixtures/coredns.yaml").read_text())
    (tmp_path / "base/kustomization.yaml").write_text("resources: [coredns.yaml]\n")
    swapped = composed(tmp_path, "base", "dns/coredns")
    check_schemas(swapped)
    wanted = copy.deepcopy(theirs)
    pod_of(wanted, "Deployment")["containers"][0]["image"] = "sluice-dns:0.1.0"
    key = lambda it: it["kind"]
    assert sorted(swapped, key=key) == sorted(wanted, key=key)


def test_dns_pods_may_do_nothing_but_bind_their_ports(tmp_path):
    for kind, objects in [
        ("Deployment", kustomize(BASE)),
        ("DaemonSet", composed(tmp_path, "dns", "dns/daemonset")),
    ]:
        pod = pod_of(objects, kind)
        assert "hostNetwork" not in pod
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "runAsUser": NONROOT,
            "runAsGroup": NONROOT,
            "runAsNonRoot": True,
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        }
        probes = [container[it]["httpGet"] for it in ("livenessProbe", "readinessProbe")]
        ports = {it["name"]: it["containerPort"] for it in container["ports"]}
        assert [(it["path"], ports[it["port"]]) for it in probes] == [("/health", 8080), ("/ready", 8181)]


def test_dns_rights_are_what_is_followed(tmp_path):
    needed = {"services", "namespaces", "endpointslices"}
    assert resources_of(kustomize(BASE)) == resources_of(helm()) == needed
    assert resources_of(helm("--set", "readPods=true")) == needed | {"pods"}
    assert resources_of(composed(tmp_path, "dns", "dns/pods-verified")) == needed | {"pods"}


def test_dns_daemonset_takes_the_place_of_the_deployment(tmp_path):
    kinds = [it["kind"] for it in composed(tmp_path, "dns", "dns/daemonset")]
    assert "DaemonSet" in kinds
    assert not {"Deployment", "PodDisruptionBudget"} & set(kinds)
    assert "PodDisruptionBudget" in [it["kind"] for it in kustomize(BASE)]


def test_dns_agent_component(tmp_path):
    """The rights for DNS are the component's: without it the agent has none of them."""
    plain = kustomize(DEPLOY / "kustomize")
    with_dns = composed(tmp_path, "kustomize", "kustomize/dns")
    check_schemas(with_dns)
    assert resources_of(with_dns) - resources_of(plain) == {"namespaces", "pods"}
    [agent] = pod_of(with_dns, "DaemonSet")["containers"]
    assert agent["args"][-1] == "--dns"
    security = agent["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_BIND_SERVICE"]}
    assert security["runAsUser"] == 0 and "runAsNonRoot" not in security
    assert security["privileged"] is False and security["readOnlyRootFilesystem"] is True
    # Helm says the same.
    chart = helm("--set", "dns.enabled=true", chart=AGENT)
    assert resources_of(chart) == resources_of(with_dns)
    [of_chart] = pod_of(chart, "DaemonSet")["containers"]
    assert of_chart["args"] == agent["args"]
    assert of_chart["securityContext"] == security


def test_dns_agent_flags_of_the_chart():
    options = "dns.enabled=true,dns.service=kube-system/dns,dns.domain=k8s.example"
    lists = "dns.addresses={169.254.1.1},dns.clusterIPs={10.96.0.10,fd00::a}"
    agent = helm("--set", options, "--set", lists, "--set", "extraArgs={--v=2}", chart=AGENT)
    check_schemas(agent)
    assert pod_of(agent, "DaemonSet")["containers"][0]["args"][2:] == [
        "--dns",
        "--dns-address=169.254.1.1",
        "--dns-cluster-ip=10.96.0.10,fd00::a",
        "--dns-service=kube-system/dns",
        "--dns-domain=k8s.example",
        "--v=2",
    ]
    for mode, more in [("iptables", ["NET_RAW"]), ("ebpf", ["BPF", "PERFMON"])]:
        pod = pod_of(helm("--set", f"dns.enabled=true,config.mode={mode}", chart=AGENT), "DaemonSet")
        added = pod["containers"][0]["securityContext"]["capabilities"]["add"]
        assert added == ["NET_ADMIN", *more, "NET_BIND_SERVICE"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("dns.enable=true", "enable"),
        ("dns.service=kube-dns", "service"),
    ],
)
def test_dns_agent_chart_refuses(options, named):
    command = [TOOLS / "helm", "template", "sluice", AGENT, "--set", options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and named in done.stderr, done.stderr


@pytest.mark.parametrize("of", ["base", "coredns"])
def test_dns_corefiles_are_understood(of, tmp_path):
    if of == "base":
        corefile = (BASE / "Corefile").read_text()
    else:
        fixture = documents((DEPLOY / "tests/fixtures/coredns.yaml").read_text())
        corefile = by_kind(fixture, "ConfigMap")["data"]["Corefile"]
    # There is no service account here.
    (tmp_path / "Corefile").write_text(corefile)
    run(SLUICE, "dns", "--conf", tmp_path / "Corefile", "--manifests", tmp_path, "--check")


ASK = """
import socket, sys
kind = socket.SOCK_DGRAM if sys.argv[1] == "udp" else socket.SOCK_STREAM
with socket.socket(socket.AF_INET, kind) as it:
    it.settimeout(2)
    try:
        it.connect(("127.0.0.1", 53))
        it.sendall(bytes.fromhex(sys.argv[2]))
        sys.stdout.write(it.recv(4096).hex())
    except OSError:
        pass
"""


def addresses(netns, name, transport):
    """The A records of a name, as the server of the namespace answers; None without an answer."""
    labels = b"".join(bytes([len(it)]) + it.encode() for it in name.split("."))
    query = struct.pack(">6H", 4711, 0x0100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, 1, 1)
    if transport == "tcp":
        query = struct.pack(">H", len(query)) + query
    answer = bytes.fromhex(run(*inside(netns, "python3", "-c", ASK, transport, query.hex())))
    answer = answer[2:] if transport == "tcp" else answer
    if len(answer) < 12 or answer[3] & 0xF:
        return None
    count = struct.unpack(">H", answer[6:8])[0]
    # Each A record of a compressed name ends with its four bytes of address; it is 16 bytes long.
    start = len(query) - (2 if transport == "tcp" else 0)
    records = (answer[start + 16 * it : start + 16 * (it + 1)] for it in range(count))
    return {socket.inet_ntoa(it[12:16]) for it in records}


@pytest.fixture
def dns_image(root, tmp_path):
    """The root of the DNS server's image, with places for /proc and /dev, a Corefile and a Service."""
    folder = tmp_path / "image"
    folder.mkdir()
    run(DEPLOY / "image/rootfs", "dns", SLUICE, folder)
    # /dev is the runtime's: a program without the C library's loader reads its random numbers there.
    for name in ("proc", "dev", "manifests", "etc/coredns"):
        (folder / name).mkdir()
    # The runtime's: the upstream of `forward`.
    (folder / "etc/resolv.conf").write_text("nameserver 192.0.2.1\n")
    (folder / "etc/coredns/Corefile").write_text((BASE / "Corefile").read_text())
    spec = {"clusterIP": "10.96.0.99", "ports": [{"port": 80}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    (folder / "manifests/web.json").write_text(json.dumps(service))
    return folder


def test_dns_image_layout(dns_image):
    binary = dns_image / "usr/local/bin/sluice"
    assert run("getcap", binary).split()[1] == "cap_net_bind_service=ep"
    assert os.readlink(dns_image / "usr/local/bin/coredns") == "sluice"
    assert not (dns_image / "usr/local/bin/kube-proxy").is_symlink()


def test_dns_image_answers_as_an_ordinary_user(dns_image, netns):
    """As in kubeadm's Deployment: its flags, no right but to bind the port, a root that cannot be written."""
    flags = ["-conf", "/etc/coredns/Corefile", "--manifests=/manifests"]
    only = {"capabilities": (CAP_NET_BIND_SERVICE,), "program": "/usr/local/bin/coredns"}
    run(*inside(netns, "sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=1024"))
    with start(dns_image, netns, *flags, **only) as server:
        ready = lambda: (http(netns, "http://127.0.0.1:8181/ready") or [0])[0] == 200
        server.until(ready, "ready")
        assert http(netns, "http://127.0.0.1:8080/health")[0] == 200
        for transport in ("udp", "tcp"):
            assert addresses(netns, "web.default.svc.cluster.local", transport) == {"10.96.0.99"}
        words = server.proc_status()
        assert set(words["Uid"]) == {str(NONROOT)}
        bound = f"{1 << CAP_NET_BIND_SERVICE:016x}"
        assert words["CapBnd"] == [bound] and words["NoNewPrivs"] == ["1"]
        assert int(words["CapPrm"][0], 16) & ~(1 << CAP_NET_BIND_SERVICE) == 0
        assert server.stop() == 0, server.said()


def test_dns_image_is_not_the_agents(dns_image, netns):
    """Why there are two images: the kernel refuses a program whose file has more than its container."""
    with pytest.raises((PermissionError, subprocess.SubprocessError)):
        start(dns_image, netns, "--version", capabilities=(CAP_NET_ADMIN,))
