"""The manifests: valid for every release that matters, the same from kustomize and from Helm."""

import copy
import json
import re
import subprocess
import tomllib

import pytest
import yaml

from conftest import DEPLOY, REPO, TOOLS, by_kind, check_schemas, documents, kustomize, run

CHART = DEPLOY / "helm/sluice"


def helm(*options, release="sluice"):
    command = ["template", release, CHART, "--namespace", "kube-system", *options]
    return documents(run(TOOLS / "helm", *command))


def swapped(tmp_path):
    """kubeadm's objects with the component over them."""
    base = tmp_path / "base"
    base.mkdir()
    kubeadm = (DEPLOY / "tests/fixtures/kubeadm.yaml").read_text()
    (base / "kubeadm.yaml").write_text(kubeadm)
    component = tmp_path / "component"
    component.mkdir()
    for file in (DEPLOY / "kustomize/kube-proxy").iterdir():
        (component / file.name).write_text(file.read_text())
    (base / "kustomization.yaml").write_text("resources: [kubeadm.yaml]\ncomponents: [../component]\n")
    return documents(kubeadm), kustomize(base)


def test_kustomize_is_valid():
    check_schemas(kustomize(DEPLOY / "kustomize"))


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--set", "apiServer.host=10.0.0.1"],
        ["--set", "sysctls=false", "--set", "extraArgs={--v=2}"],
        ["--set", "image.digest=sha256:" + "0" * 64, "--set", "imagePullSecrets[0].name=pull"],
        ["--set", "podLabels.a=b", "--set", "podAnnotations.a=b", "--set", "maxUnavailable=1"],
        ["--set", "resources=null", "--set", "tolerations=null", "--set", "priorityClassName="],
        ["--set", "config.mode=iptables"],
        ["--set", "config.mode=ipvs", "--set", "sysctls=false"],
    ],
)
def test_helm_is_valid(options):
    check_schemas(helm(*options))
    check_schemas(helm(*options, release="other"))


def test_helm_lints():
    run(TOOLS / "helm", "lint", "--strict", "--quiet", CHART)


def test_helm_and_kustomize_agree():
    """But for labels, and for how a changed configuration rolls the DaemonSet: kustomize gives the
    ConfigMap another name, Helm an annotation to the pods."""

    def plain(objects):
        objects = json.loads(re.sub(r'"sluice-[0-9a-z]{10}"', '"sluice"', json.dumps(objects)))
        for it in objects:
            it["metadata"].pop("labels")
            if it["kind"] == "DaemonSet":
                it["spec"]["template"]["metadata"].pop("annotations", None)
                pod = it["spec"]["template"]["spec"]
                for container in pod["initContainers"] + pod["containers"]:
                    # What Kubernetes sets for a tag that is not `latest`.
                    assert container.pop("imagePullPolicy", "IfNotPresent") == "IfNotPresent"
            if it["kind"] == "ConfigMap":
                it["data"] = {name: yaml.safe_load(text) for name, text in it["data"].items()}
        return {(it["kind"], it["metadata"]["name"]): it for it in objects}

    assert plain(helm()) == plain(kustomize(DEPLOY / "kustomize"))


def test_a_changed_configuration_rolls_the_daemonset():
    one = by_kind(helm(), "DaemonSet")
    two = by_kind(helm("--set", "config.clusterCIDR=10.244.0.0/16"), "DaemonSet")
    checksum = lambda it: it["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert checksum(one) != checksum(two)


def test_the_api_server_address_reaches_the_agent():
    pod = by_kind(helm("--set", "apiServer.host=10.0.0.1"), "DaemonSet")["spec"]["template"]["spec"]
    env = {it["name"]: it.get("value") for it in pod["containers"][0]["env"]}
    assert env["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"
    assert env["KUBERNETES_SERVICE_PORT"] == "6443"


@pytest.mark.parametrize(
    ("address", "port"),
    [("", 10256), ("0.0.0.0", 10256), ("0.0.0.0:10300", 10300), ("[::]:10300", 10300), ("[::]", 10256)],
)
def test_probes_follow_the_health_address(address, port):
    pod = by_kind(helm("--set", f"config.healthzBindAddress={address}"), "DaemonSet")["spec"]["template"]
    [named] = pod["spec"]["containers"][0]["ports"]
    assert (named["containerPort"], named["hostPort"]) == (port, port)


def test_a_rollout_waits_for_the_first_sync():
    agent = by_kind(helm(), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    probes = {it: agent[it]["httpGet"] for it in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert probes == {
        "startupProbe": {"path": "/livez", "port": "healthz"},
        "livenessProbe": {"path": "/livez", "port": "healthz"},
        "readinessProbe": {"path": "/readyz", "port": "healthz"},
    }


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("colour=red", "colour"),
        ("image.digest=latest", "digest"),
        ("config.mode=ip-tables", "mode"),
        ("apiServer.port=0", "port"),
        ("apiServer.host=https://10.0.0.1", "host"),
        ("maxUnavailable=some", "maxUnavailable"),
        ("config.kind=Pod", "kind"),
    ],
)
def test_helm_refuses(option, named):
    command = [TOOLS / "helm", "template", "sluice", CHART, "--set", option]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and named in done.stderr, done.stderr


def test_the_swap_changes_nothing_but_the_image(tmp_path):
    before, after = swapped(tmp_path)
    check_schemas(after)
    wanted = copy.deepcopy(before)
    [container] = by_kind(wanted, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    container["image"] = "sluice:0.1.0"
    key = lambda it: it["kind"]
    assert sorted(after, key=key) == sorted(wanted, key=key)


def test_one_version_everywhere():
    version = tomllib.loads((REPO / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    daemonset = by_kind(kustomize(DEPLOY / "kustomize"), "DaemonSet")
    assert daemonset["spec"]["template"]["spec"]["containers"][0]["image"] == f"sluice:{version}"
    patch = documents((DEPLOY / "kustomize/kube-proxy/daemonset.yaml").read_text())
    assert patch[0]["spec"]["template"]["spec"]["containers"][0]["image"] == f"sluice:{version}"
    dns = yaml.safe_load((DEPLOY / "helm/sluice-dns/Chart.yaml").read_text())
    assert (dns["version"], dns["appVersion"]) == (version, version)
    deployment = by_kind(kustomize(DEPLOY / "dns"), "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == f"sluice-dns:{version}"
    component = yaml.safe_load((DEPLOY / "dns/daemonset/kustomization.yaml").read_text())
    assert component["images"] == [{"name": "sluice-dns", "newTag": version}]
    patch = documents((DEPLOY / "dns/coredns/deployment.yaml").read_text())
    assert patch[0]["spec"]["template"]["spec"]["containers"][0]["image"] == f"sluice-dns:{version}"


def test_the_agent_is_not_privileged():
    pod = by_kind(kustomize(DEPLOY / "kustomize"), "DaemonSet")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert [it["name"] for it in pod["initContainers"]] == ["sysctls"]


def test_the_mode_that_loads_programs_gets_what_it_takes():
    pod = by_kind(helm("--set", "config.mode=ebpf"), "DaemonSet")["spec"]["template"]["spec"]
    [agent] = pod["containers"]
    security = agent["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "BPF", "PERFMON"]}
    assert security["runAsUser"] == 0 and security["privileged"] is False
    [pins] = [it for it in pod["volumes"] if it["name"] == "bpffs"]
    assert pins["hostPath"] == {"path": "/sys/fs/bpf", "type": "Directory"}
    mounts = {it["name"]: it["mountPath"] for it in agent["volumeMounts"]}
    assert mounts["bpffs"] == "/sys/fs/bpf"
    assert mounts["cgroup"] == "/sys/fs/cgroup"


@pytest.mark.parametrize("mode", ["iptables", "ipvs"])
def test_modes_that_run_iptables_get_what_it_takes(mode):
    pod = by_kind(helm("--set", f"config.mode={mode}"), "DaemonSet")["spec"]["template"]["spec"]
    [agent], [init] = pod["containers"], pod["initContainers"]
    security = agent["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}
    assert security["runAsUser"] == 0 and "runAsNonRoot" not in security
    assert agent["livenessProbe"]["failureThreshold"] == 180
    assert security["privileged"] is False and security["allowPrivilegeEscalation"] is False
    [lock] = [it for it in pod["volumes"] if it["name"] == "xtables-lock"]
    assert lock["hostPath"] == {"path": "/run/xtables.lock", "type": "FileOrCreate"}
    for container in (agent, init):
        assert container["image"].startswith("sluice-iptables:")
        mounts = {it["name"]: it["mountPath"] for it in container["volumeMounts"]}
        assert mounts["xtables-lock"] == "/run/xtables.lock"
    named = by_kind(helm("--set", f"config.mode={mode},image.repository=mine"), "DaemonSet")
    assert named["spec"]["template"]["spec"]["containers"][0]["image"].startswith("mine:")
