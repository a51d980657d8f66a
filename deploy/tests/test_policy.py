"""Network policy in the agent: a component of kustomize, a value of the chart."""

import yaml

from conftest import DEPLOY, TOOLS, by_kind, check_schemas, documents, kustomize, run


def rules_of(objects):
    return by_kind(objects, "ClusterRole")["rules"]


def args_of(objects):
    [agent] = by_kind(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    return agent["args"]


def test_the_rights_and_the_flag_are_the_component_s(tmp_path):
    run("cp", "-r", DEPLOY / "kustomize", tmp_path)
    lines = {"resources": ["kustomize"], "components": ["kustomize/network-policy"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(lines))
    plain, enforcing = kustomize(DEPLOY / "kustomize"), kustomize(tmp_path)
    check_schemas(enforcing)
    added = [it for it in rules_of(enforcing) if it not in rules_of(plain)]
    resources = [(it["apiGroups"][0], it["resources"]) for it in added]
    assert resources == [
        ("", ["namespaces", "pods"]),
        ("networking.k8s.io", ["networkpolicies"]),
        ("policy.networking.k8s.io", ["clusternetworkpolicies"]),
    ]
    assert all(it["verbs"] == ["get", "list", "watch"] for it in added)
    assert args_of(enforcing) == args_of(plain) + ["--network-policy"]
    # Helm says the same.
    chart = ["template", "sluice", DEPLOY / "helm/sluice", "--namespace", "kube-system"]
    of_chart = documents(run(TOOLS / "helm", *chart, "--set", "networkPolicy.enabled=true"))
    check_schemas(of_chart)
    assert rules_of(of_chart) == rules_of(enforcing)
    assert args_of(of_chart) == args_of(enforcing)
    drop = ["--set", "networkPolicy.enabled=true,networkPolicy.unknownPods=drop"]
    closing = documents(run(TOOLS / "helm", *chart, *drop))
    assert args_of(closing) == args_of(enforcing) + ["--policy-unknown-pods=drop"]
