"""Requests of other forms: the four kinds of patch, server-side apply, deletions, subresources, pages that are no objects."""

from objects import CONTAINER, TEMPLATE

CORE = "/api/v1/namespaces/default/"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
ONE = DEPLOYMENTS + "/patched"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
LIST, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
SPEC = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}


def containers(*items):
    return {"spec": {"template": {"spec": {"containers": list(items)}}}}


def applied(name="patched", version="apps/v1", metadata={}, **fields):
    return {"apiVersion": version, "kind": "Deployment", "metadata": {"name": name, **metadata}, **fields}


def operation(op, path, value=None):
    return [{"op": op, "path": path, "value": value}]


# Each is a dry run on a Deployment with one container, with what is added to the query.
PATCHES = [
    (STRATEGIC, containers({"name": "d", "image": "j"})),
    (STRATEGIC, containers({"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "B", "$patch": "delete"}]})),
    (STRATEGIC, {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "d"}, {"name": "c"}],
                                                "containers": [{"name": "d", "image": "k"}]}}}}),
    (STRATEGIC, {"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c"}],
                                                "containers": [{"name": "d", "image": "k"}]}}}}),
    (STRATEGIC, {"metadata": {"$setElementOrder/finalizers": ["a/c", "a/b"], "finalizers": ["a/b", "a/c"]}}),
    (STRATEGIC, containers({"name": "d", "image": "i", "$patch": "replace"})),
    (STRATEGIC, containers({"image": "q"})),
    (STRATEGIC, containers({"name": "c", "$patch": "delete"})),
    (STRATEGIC, {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    (STRATEGIC, {"spec": {"template": {"spec": {"$deleteFromPrimitiveList/x": ["a"]}}}}),
    (STRATEGIC, {"$patch": "replace", "metadata": {"labels": {"x": "y"}}}),
    (STRATEGIC, {"$patch": "foo"}),
    (STRATEGIC, []),
    (STRATEGIC, {"spec": {"foo": 1}}, "&fieldValidation=Strict"),
    (STRATEGIC, '{"a'),
    (MERGE, []),
    (MERGE, {"metadata": {"name": "z"}}),
    (MERGE, {"metadata": {"namespace": "z"}}),
    (MERGE, {"metadata": {"uid": "z"}}),
    (MERGE, {"metadata": {"resourceVersion": "1"}}),
    (MERGE, {"metadata": {"deletionTimestamp": "2036-01-03T00:00:00Z"}}),
    (MERGE, {"kind": "Foo"}),
    (MERGE, {"apiVersion": "v1"}),
    (MERGE, {"spec": {"foo": 1}}),
    (MERGE, {"spec": {"foo": 1}}, "&fieldValidation=Strict"),
    (MERGE, {"spec": {"replicas": "x"}}),
    (MERGE, '{"a'),
    (MERGE, {}, "&force=true"),
    (MERGE, {}, "&fieldManager=" + "m" * 129),
    (LIST, {}),
    (LIST, operation("test", "/spec/replicas", 5)),
    (LIST, operation("remove", "/spec/foo")),
    (LIST, operation("add", "/metadata/labels/a~1b", "c")),
    (LIST, operation("foo", "/metadata/labels", {})),
    (LIST, operation("replace", "/metadata/name", "z")),
    (LIST, operation("replace", "/spec/replicas", 0) * 10001),
    (LIST, '{"a'),
    ("application/json", {}),
    (APPLY, "a: ["),
    (APPLY, "a: [", "&fieldManager=m"),
    (APPLY, {}, "&fieldManager=m&force=maybe"),
    (APPLY, applied(metadata={"managedFields": []}), "&fieldManager=m"),
    (APPLY, applied("other"), "&fieldManager=m"),
    (APPLY, applied(version="v1"), "&fieldManager=m"),
    (APPLY, applied(spec={"foo": 1}), "&fieldManager=m"),
    (APPLY, applied(metadata={"uid": "x"}), "&fieldManager=m"),
    (APPLY, applied(metadata={"resourceVersion": "5"}), "&fieldManager=m"),
    (APPLY, applied(spec={"replicas": 3}), "&fieldManager=m"),
    (APPLY, applied(spec={"replicas": 3}), "&fieldManager=m&force=true"),
    (APPLY, applied(**containers(CONTAINER, CONTAINER)), "&fieldManager=m"),
    (APPLY, applied(**containers({"image": "i"})), "&fieldManager=m"),
    (APPLY, applied(status={"replicas": 1}), "&fieldManager=m"),
]  # fmt: skip

# Deployments that do not exist.
NEW = [
    (MERGE, {"spec": {}}),
    (APPLY, applied("new", metadata={"uid": "x"}, spec=SPEC)),
    (APPLY, applied("new", metadata={"resourceVersion": "5"}, spec=SPEC)),
    (APPLY, applied("new", spec=SPEC)),
    (APPLY, applied("new", spec={**SPEC, **containers({"image": "i"})["spec"]})),
]

OTHERS = [
    ("DELETE", CORE + "configmaps/kept?dryRun=All", None),
    ("DELETE", CORE + "configmaps?dryRun=All&labelSelector=kept", None),
    ("DELETE", CORE + "configmaps/none", None),
    ("DELETE", CORE + "serviceaccounts/default?dryRun=All", None),
    ("DELETE", CORE + "configmaps/kept?propagationPolicy=Foo", None),
    ("DELETE", CORE + "configmaps/kept?gracePeriodSeconds=x", None),
    ("DELETE", CORE + "configmaps/kept?dryRun=x", None),
    ("DELETE", CORE + "configmaps/kept", {"preconditions": {"uid": "x"}}),
    ("DELETE", CORE + "configmaps/kept", {"kind": "Foo", "apiVersion": "v1"}),
    ("DELETE", CORE + "configmaps/kept", {"propagationPolicy": "Orphan", "orphanDependents": True}),
    ("DELETE", "/api/v1/namespaces/kube-system", None),
    ("DELETE", "/api/v1/namespaces", None),
    ("POST", CORE + "configmaps", None),
    ("POST", CORE + "configmaps", "{"),
    ("POST", CORE + "configmaps", []),
    ("POST", CORE + "configmaps", "\"x\""),
    ("POST", CORE + "configmaps", {"metadata": []}),
    ("POST", CORE + "configmaps", {"metadata": {"name": 5}}),
    ("POST", CORE + "configmaps", {}),
    ("POST", CORE + "configmaps", {"metadata": {"name": "kept"}}),
    ("POST", CORE + "configmaps?fieldValidation=Strict", {"metadata": {"name": "x", "foo": 1}, "x": 2}),
    ("POST", CORE + "configmaps?fieldValidation=Foo", {"metadata": {"name": "x"}}),
    ("POST", CORE + "configmaps?fieldManager=%07", {"metadata": {"name": "x"}}),
    ("POST", CORE + "configmaps/x", {}),
    ("PUT", CORE + "configmaps", {}),
    ("PUT", CORE + "configmaps/none", {"metadata": {"name": "none"}}),
    ("PUT", CORE + "configmaps/kept", {"metadata": {"name": "other"}}),
    ("PUT", CORE + "configmaps/kept", {"metadata": {}}),
    ("PUT", CORE + "configmaps/kept", {"metadata": {"name": "kept", "resourceVersion": "1"}}),
    ("PUT", CORE + "configmaps/kept", {"metadata": {"name": "kept", "resourceVersion": "x"}}),
    ("PUT", CORE + "configmaps/kept", {"metadata": {"name": "kept", "uid": "x"}}),
    ("POST", CORE + "pods/none/eviction", {"metadata": {"name": "none"}}),
    ("POST", CORE + "pods/none/binding", {"metadata": {"name": "none"}, "target": {"name": "n"}}),
    ("POST", CORE + "serviceaccounts/default/token", {"spec": {"expirationSeconds": 5}}),
    ("POST", CORE + "serviceaccounts/default/token", {"spec": {"expirationSeconds": 2**33}}),
    ("POST", CORE + "serviceaccounts/default/token", {"spec": {"boundObjectRef": {"kind": "Foo", "name": "x"}}}),
    ("POST", CORE + "serviceaccounts/none/token", {"spec": {}}),
    ("POST", "/api/v1/namespaces/none/configmaps", {"metadata": {"name": "x"}}),
    ("POST", DEPLOYMENTS, {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "x"}}),
    ("POST", "/api/v1/pods", {"metadata": {"name": "x"}}),
    ("GET", CORE + "configmaps?continue=x", None),
    ("GET", CORE + "configmaps?limit=x", None),
    ("GET", CORE + "configmaps?resourceVersionMatch=Exact", None),
    ("GET", CORE + "configmaps?resourceVersion=0&resourceVersionMatch=Exact", None),
    ("GET", CORE + "configmaps?resourceVersion=x", None),
    ("GET", CORE + "configmaps?labelSelector=a%20in", None),
    ("GET", CORE + "configmaps?fieldSelector=spec.foo=c", None),
    ("GET", CORE + "configmaps?watch=1&sendInitialEvents=true", None),
    ("GET", CORE + "configmaps?watch=1&resourceVersion=x", None),
    ("GET", CORE + "foos", None),
    ("GET", CORE + "configmaps/none", None),
    ("GET", "/apis/foo/v1", None),
    ("GET", "/api/v2", None),
    ("GET", "/foo", None),
]


def run(asked, _only):
    asked.each("POST", DEPLOYMENTS, {"metadata": {"name": "patched"}, "spec": SPEC})
    asked.each("POST", CORE + "configmaps", {"metadata": {"name": "kept", "labels": {"kept": "yes"}}})
    base = asked.both("get a Deployment", "GET", ONE)
    for kind, patch, *query in PATCHES:
        where = f"patch {kind.removeprefix('application/')} {str(patch)[:160]}{''.join(query)[:40]}"
        asked.both(where, "PATCH", f"{ONE}?dryRun=All{''.join(query)}", patch, base, content_type=kind)
    for kind, patch in NEW:
        where = f"patch of none {kind.removeprefix('application/')} {str(patch)[:160]}"
        asked.both(where, "PATCH", DEPLOYMENTS + "/new?dryRun=All&fieldManager=m", patch, base, content_type=kind)
    for method, path, body in OTHERS:
        asked.both(f"{method} {path} {body}", method, path, body)
    asked.each("DELETE", ONE)
    asked.each("DELETE", CORE + "configmaps/kept")
