"""Alerts and dashboard: they parse, fire when they should, and ask only for metrics that exist."""

import json
import re

import yaml

from conftest import DEPLOY, REPO, TOOLS, run

RULES = DEPLOY / "prometheus/rules.yaml"
DASHBOARD = DEPLOY / "grafana/sluice.json"


def alerts():
    return [it["expr"] for it in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]]


def panels():
    return [it for it in json.loads(DASHBOARD.read_text())["panels"] if it["type"] != "row"]


def questions():
    """The dashboard's expressions, with its variables filled in."""
    found = [target["expr"] for panel in panels() for target in panel["targets"]]
    values = {"$__rate_interval": "5m", "$job": ".*", "$instance": ".*"}
    for name, value in values.items():
        found = [it.replace(name, value) for it in found]
    assert found and not any("$" in it for it in found)
    return found


def metrics_in(expressions):
    """Names that are metrics: ours, kube-proxy's and the process's."""
    return set(re.findall(r"\b(?:sluice|kubeproxy|process)_[a-z0-9_]+", " ".join(expressions)))


def test_rules_are_valid_and_fire():
    run(TOOLS / "promtool", "check", "rules", RULES)
    run(TOOLS / "promtool", "test", "rules", DEPLOY / "prometheus/rules.test.yaml")


def test_every_alert_is_tested():
    tested = (DEPLOY / "prometheus/rules.test.yaml").read_text()
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    assert [it["alert"] for it in rules if it["alert"] not in tested] == []
    assert all(set(it["annotations"]) == {"summary", "description"} for it in rules)


def test_the_operator_gets_the_same_rules():
    rule = yaml.safe_load((DEPLOY / "prometheus/prometheusrule.yaml").read_text())
    assert (rule["apiVersion"], rule["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())


def test_the_dashboard_parses(tmp_path):
    rules = [{"record": f"panel:{n}", "expr": it} for n, it in enumerate(questions())]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    run(TOOLS / "promtool", "check", "rules", file)
    ids = [it["id"] for it in json.loads(DASHBOARD.read_text())["panels"]]
    assert len(ids) == len(set(ids))
    places = {(it["gridPos"]["x"], it["gridPos"]["y"]) for it in panels()}
    assert len(places) == len(panels()), "panels lie on each other"


def test_every_metric_is_documented():
    """docs/metrics.md lists what the agent has."""
    documented = set(re.findall(r"^\| `(\w+)` \|", (REPO / "docs/metrics.md").read_text(), re.M))
    wanted = metrics_in(alerts() + questions())
    missing = {it for it in wanted - documented if re.sub("_(bucket|sum|count)$", "", it) not in documented}
    assert missing == set()
