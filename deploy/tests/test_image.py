"""The image: its file system, laid out by the script that the Dockerfile runs, used as a container."""

import json
import os
import stat

import pytest
import yaml

from conftest import (
    CAP_NET_ADMIN, CAP_NET_RAW, DEPLOY, EXAMPLES, KEEP_SIZE, NONROOT, REPO, SLUICE, TOOLS, by_kind, documents, http,
    inside, ruleset, run, start,
)


def test_dockerfile_lints():
    run(TOOLS / "hadolint", REPO / "Dockerfile")


def test_the_binary_is_static():
    headers = run("readelf", "--program-headers", "--dynamic", SLUICE)
    assert "INTERP" not in headers and "NEEDED" not in headers


def test_the_layout(image):
    binary = image / "usr/local/bin/sluice"
    assert run("getcap", binary).split()[1] == "cap_net_admin=ep"
    assert os.readlink(image / "usr/local/bin/kube-proxy") == "sluice"
    assert stat.S_IMODE((image / "run").stat().st_mode) == 0o1777
    assert stat.S_IMODE(binary.stat().st_mode) == 0o755


def test_it_needs_no_other_file(root, tmp_path):
    """In an empty root, without even /proc."""
    program = tmp_path / "sluice"
    program.write_bytes(SLUICE.read_bytes())
    program.chmod(0o755)
    (tmp_path / "node.yaml").write_text((EXAMPLES / "clusterip.yaml").read_text())
    assert run("chroot", tmp_path, "/sluice", "--version").startswith("sluice ")
    rules = run("chroot", tmp_path, "/sluice", "render", "--manifests", "/", "--hostname-override=a")
    assert "table ip sluice" in rules


@pytest.mark.parametrize(
    ("program", "command"), [("/usr/local/bin/sluice", ["proxy"]), ("/usr/local/bin/kube-proxy", [])]
)
def test_an_ordinary_user_with_one_capability_writes_rules(image, netns, program, command):
    flags = [*command, "--manifests=/manifests", "--hostname-override=node-a", KEEP_SIZE]
    # As in the DaemonSet: the second container cannot set what the first has set.
    with start(image, netns, *flags, "--init-only", program=program, privileged=True) as init:
        assert init.process.wait(30) == 0, init.said()
    with start(image, netns, *flags, program=program) as agent:
        agent.until(lambda: http(netns, "http://127.0.0.1:10256/livez"), "health server")
        agent.until(lambda: "default/web" in ruleset(netns), "rules")
        words = agent.proc_status()
        assert set(words["Uid"]) == {str(NONROOT)}
        only = f"{1 << CAP_NET_ADMIN:016x}"
        assert [words[it] for it in ("CapEff", "CapPrm", "CapBnd")] == [[only]] * 3
        assert words["NoNewPrivs"] == ["1"]
        # As `kubectl exec` does.
        into = ["nsenter", "--target", agent.process.pid, "--mount", "--net", "--root"]
        user = ["--setuid", NONROOT, "--setgid", NONROOT]
        told = json.loads(run(*into, *user, "/usr/local/bin/sluice", "status", "-o", "json"))
        assert told["node"] == "node-a" and told["pid"] == agent.process.pid
        assert agent.stop() == 0, agent.said()
    assert "default/web" in ruleset(netns), "rules outlive the agent"


def test_root_with_everything_writes_rules(image, netns):
    """As in the DaemonSet of kubeadm, which mounts no volume for the socket."""
    flags = ["--manifests=/manifests", "--hostname-override=node-a", KEEP_SIZE]
    program = "/usr/local/bin/kube-proxy"
    with start(image, netns, *flags, program=program, privileged=True) as agent:
        agent.until(lambda: "default/web" in ruleset(netns), "rules")
        assert agent.stop() == 0, agent.said()


@pytest.mark.parametrize("variant", ["nft", "legacy"])
def test_root_with_two_capabilities_writes_iptables_rules(iptables_image, netns, variant):
    """As the chart does in this mode, in the variant that the machine's kubelet uses."""
    run(*inside(netns, f"iptables-{variant}", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT"))
    flags = ["--proxy-mode=iptables", "--manifests=/manifests", "--hostname-override=node-a", KEEP_SIZE]
    program = "/usr/local/bin/kube-proxy"
    arguments = (iptables_image, netns, *flags)
    with start(*arguments, "--init-only", program=program, privileged=True) as init:
        assert init.process.wait(30) == 0, init.said()
    localnet = "/proc/sys/net/ipv4/conf/all/route_localnet"
    assert run(*inside(netns, "cat", localnet)).strip() == "1"
    saved = lambda table: run(*inside(netns, f"iptables-{variant}-save", "-t", table))
    assert "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8" in saved("filter")
    bounds = {"user": 0, "capabilities": (CAP_NET_ADMIN, CAP_NET_RAW)}
    with start(*arguments, program=program, **bounds) as agent:
        agent.until(lambda: http(netns, "http://127.0.0.1:10256/livez"), "health server")
        agent.until(lambda: "default/web" in saved("nat"), "rules")
        words = agent.proc_status()
        both = f"{1 << CAP_NET_ADMIN | 1 << CAP_NET_RAW:016x}"
        assert [words[it] for it in ("CapEff", "CapPrm", "CapBnd")] == [[both]] * 3
        assert words["NoNewPrivs"] == ["1"]
        assert agent.stop() == 0, agent.said()
        # Of the namespace, not of the rules.
        assert agent.said().count("WARN") == agent.said().count("ip_forward is 0"), agent.said()


def test_without_the_file_capability_the_one_of_the_container_is_lost(image, netns):
    run("setcap", "-r", image / "usr/local/bin/sluice")
    with start(image, netns, "proxy", "--manifests=/manifests") as agent:
        assert agent.process.wait(30) == 1
        assert "missing capability CAP_NET_ADMIN" in agent.said()


def test_the_init_container_sets_the_sysctls_and_ends(image, netns):
    """Root with everything, as the DaemonSet says; nothing of the agent is started."""
    flags = ["--config=/config.conf", "--hostname-override=node-a", "--init-only"]
    config = (DEPLOY / "kustomize/config.conf").read_text()
    config += "conntrack: {maxPerCore: 0, tcpBeLiberal: true}\n"
    (image / "config.conf").write_text(config)
    with start(image, netns, *flags, program="/usr/local/bin/kube-proxy", privileged=True) as init:
        assert init.process.wait(30) == 0, init.said()
    liberal = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal"
    assert run(*inside(netns, "cat", liberal)).strip() == "1"
    assert ruleset(netns) == ""


@pytest.mark.parametrize("of", ["kustomize", "kubeadm"])
def test_the_configurations_are_understood(of, tmp_path):
    if of == "kustomize":
        config = (DEPLOY / "kustomize/config.conf").read_text()
    else:
        kubeadm = documents((DEPLOY / "tests/fixtures/kubeadm.yaml").read_text())
        config = by_kind(kubeadm, "ConfigMap")["data"]["config.conf"]
    (tmp_path / "config.conf").write_text(config)
    out = tmp_path / "out.conf"
    run(SLUICE, "proxy", "--config", tmp_path / "config.conf", "--write-config-to", out)
    assert yaml.safe_load(out.read_text())["mode"] == "nftables"
