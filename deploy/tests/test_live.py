"""What only a whole agent shows: an API server found by name, metrics."""

import re
import shutil
import subprocess
import sys

import pytest

from conftest import DEPLOY, EXAMPLES, KEEP_SIZE, SLUICE, TOOLS, Agent, http, inside, start
from test_prometheus import alerts, metrics_in, questions

EMPTY = """
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: default}
spec: {clusterIP: 10.96.200.200, ports: [{port: 80}]}
"""


@pytest.mark.parametrize("by", ["hosts", "dns"])
def test_it_finds_the_api_server_by_name(image, netns, by):
    """A static C library has its own way to look up names: with the two files the kubelet mounts."""
    address, name = "192.0.2.10", "control-plane.example"
    lines = {"hosts": f"{address} {name}\n", "dns": ""}
    (image / "etc/hosts").write_text("127.0.0.1 localhost\n" + lines[by])
    (image / "etc/resolv.conf").write_text(f"nameserver {address}\n" if by == "dns" else "")
    (image / "ca.crt").write_text((DEPLOY / "tests/fixtures/ca.crt").read_text())
    (image / "kubeconfig").write_text(
        f"""
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "https://{name}:6443", certificate-authority: /ca.crt}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""
    )
    server = inside(netns, sys.executable, DEPLOY / "tests/name_server.py", address, name)
    flags = ["proxy", "--kubeconfig=/kubeconfig", "--hostname-override=node-a", KEEP_SIZE]
    with Agent(server) as server:
        server.until(lambda: "ready" in server.said(), "name server")
        with start(image, netns, *flags, "--init-only", privileged=True) as init:
            assert init.process.wait(30) == 0, init.said()
        with start(image, netns, *flags) as agent:
            agent.until(lambda: "connected" in server.said(), f"a connection to {name}")


@pytest.fixture
def metrics(netns, tmp_path):
    """What an agent with the examples, and a Service without endpoints, says at /metrics."""
    manifests = shutil.copytree(EXAMPLES, tmp_path / "manifests")
    (manifests / "empty.yaml").write_text(EMPTY)
    flags = ["--hostname-override=node-a", "--network-policy", KEEP_SIZE]
    command = inside(netns, SLUICE, "proxy", "--manifests", manifests, *flags)
    with Agent([*command, "--socket", tmp_path / "sluice.sock"]) as agent:

        def synced():
            answer = http(netns, "http://127.0.0.1:10249/metrics")
            wanted = ["last_sync_succeeded", "network_policy_in_force"]
            return answer and all(re.search(rf"^sluice_{it} 1$", answer[1], re.M) for it in wanted) and answer

        status, text = agent.until(synced, "metrics of a first sync")
        assert status == 200
        yield text


def test_every_metric_exists(metrics):
    there = {it.split()[2] for it in metrics.splitlines() if it.startswith("# TYPE ")}
    # The agent is in the nftables mode, and no packet was dropped.
    others = ("sluice_map_", "sluice_network_policy_policy_reports_")
    wanted = {it for it in metrics_in(alerts() + questions()) if not it.startswith(others)}
    missing = {it for it in wanted - there if re.sub("_(bucket|sum|count)$", "", it) not in there}
    assert missing == set()


def test_the_metrics_lint(metrics):
    command = [TOOLS / "promtool", "check", "metrics"]
    done = subprocess.run(command, input=metrics, capture_output=True, text=True)
    # Nobody chooses kube-proxy's names again; ours have nothing to be remarked on.
    assert done.returncode in (0, 3), done.stderr
    assert [it for it in done.stderr.splitlines() if not it.startswith("kubeproxy_")] == []
