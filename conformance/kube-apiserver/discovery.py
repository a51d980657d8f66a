"""Discovery of all groups, and the columns of each kind's table."""

TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


def resources(answer):
    """What clients read of each resource, by its name."""
    return {
        it["name"]: {
            "kind": it["kind"], "namespaced": it["namespaced"], "verbs": sorted(it["verbs"]),
            "short": sorted(it.get("shortNames", [])), "categories": sorted(it.get("categories", [])),
            "singular": it.get("singularName"), "group": it.get("group"), "version": it.get("version"),
        }
        for it in answer["resources"]
    }  # fmt: skip


def columns(answer):
    return [[it["name"], it["type"], it["format"], it["priority"]] for it in answer["columnDefinitions"]]


def run(asked, _only):
    groups = asked.judge.ask("GET", "/apis")[1]["groups"]
    versions = ["api/v1"] + ["apis/" + it["groupVersion"] for group in groups for it in group["versions"]]
    for version in versions:
        (code, lab), (_, judge) = asked.each("GET", "/" + version)
        asked.count += 1
        if code != 200:
            asked.found.append(f"discovery {version}: lab {code}")
            continue
        lab, judge = resources(lab), resources(judge)
        for name in sorted(lab.keys() | judge.keys()):
            if lab.get(name) != judge.get(name):
                asked.found.append(f"discovery {version} {name}: lab {lab.get(name)}, judge {judge.get(name)}")
        for name in (it for it in lab if "list" in lab[it]["verbs"] and it in judge):
            tables = asked.each("GET", f"/{version}/{name}?limit=1", accept=TABLE)
            asked.count += 1
            if {code for code, _ in tables} != {200}:
                asked.found.append(f"columns {version} {name}: codes {[code for code, _ in tables]}")
                continue
            left, right = (columns(it) for _, it in tables)
            if left != right:
                asked.found.append(f"columns {version} {name}: lab {left}, judge {right}")
