"""A definition of a kind with most of what schemas can say, objects of that kind, and definitions that are refused."""

import json
import time

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/judge.example.com"
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "part": {"type": "number", "multipleOf": 0.5, "exclusiveMinimum": True, "minimum": 0},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "word": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "nullable": True},
                "day": {"type": "string", "format": "date"},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "integer", "default": 3}},
                "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 3},
                "keyed": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "on": {"type": "boolean", "default": True}},
                    },
                },
                "deep": {"type": "object", "default": {}, "properties": {"a": {"type": "string", "default": "b"}}},
                "one": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                },
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "replicas": {"type": "integer", "format": "int32"},
                "even": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "is odd"}]},
            },
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "text": {"type": "string"}}},
    },
}


def definition(plural="widgets", schema=SCHEMA, **spec):
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }  # fmt: skip
    if schema == SCHEMA:
        version["selectableFields"] = [{"jsonPath": ".spec.color"}]
    # Versions with equal schemas would be refused in other words.
    older = {"name": "v1beta1", "served": True, "storage": False}
    older["schema"] = {"openAPIV3Schema": {**schema, "description": "The same."}}
    return {
        "metadata": {"name": plural + ".judge.example.com"},
        "spec": {
            "group": "judge.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.title()[:-1], "listKind": plural.title() + "List"},
            "versions": [version, older], **spec,
        },
    }  # fmt: skip


# Fields of `spec`, beside the size.
OBJECTS = [
    {}, {"size": 0}, {"size": 10}, {"size": 1.5}, {"size": "1"}, {"size": None}, {"part": 0}, {"part": 0.7}, {"part": 1.5},
    {"color": "green"}, {"color": None}, {"word": None}, {"word": "A"}, {"word": "abcdef"}, {"word": 1},
    {"day": "2026-13-01"}, {"day": "2026-12-01"}, {"port": 1}, {"port": "a"}, {"port": 1.5}, {"port": True},
    {"free": {"a": {"b": [1]}}}, {"free": []}, {"unknown": 1}, {"map": {"a": 1}}, {"map": {"a": None}}, {"map": {"a": "b"}},
    {"map": {"a": 1, "b": 2, "c": 3}}, {"set": ["a", "a"]}, {"set": ["a", "b", "c", "d"]}, {"set": [None]}, {"set": "a"},
    {"keyed": [{"name": "a"}, {"name": "a"}]}, {"keyed": [{}]}, {"keyed": [{"name": "a", "more": 1}]}, {"keyed": None},
    {"deep": {}}, {"deep": None}, {"deep": {"a": None}}, {"deep": {"c": 1}}, {"one": {}}, {"one": {"a": "x"}},
    {"one": {"a": "x", "b": "y"}}, {"pod": {}}, {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A_"}}},
    {"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "odd": 1}, "spec": {"x": 1}}},
    {"replicas": 2**31}, {"even": 3}, {"even": 4},
]  # fmt: skip

PATCHES = [
    ("merge-patch+json", "", {"spec": {"size": 3}}), ("merge-patch+json", "", {"spec": {"size": 30}}),
    ("merge-patch+json", "", {"spec": {"color": None}}), ("merge-patch+json", "", {"spec": {"unknown": 1}}),
    ("merge-patch+json", "", {"status": {"replicas": 1}}), ("merge-patch+json", "/status", {"status": {"replicas": 1}}),
    ("merge-patch+json", "/status", {"spec": {"size": 4}}), ("merge-patch+json", "/status", {"status": {"text": 1}}),
    ("merge-patch+json", "/scale", {"spec": {"replicas": 3}}), ("merge-patch+json", "/scale", {"spec": {"replicas": -1}}),
    ("merge-patch+json", "", {"metadata": {"labels": {"a b": "c"}}}), ("merge-patch+json", "", {"kind": "Foo"}),
    ("strategic-merge-patch+json", "", {"spec": {"size": 3}}),
    ("json-patch+json", "", [{"op": "replace", "path": "/spec/size", "value": 99}]),
    ("json-patch+json", "", [{"op": "remove", "path": "/spec"}]),
]  # fmt: skip

# What is added to a schema of a field, and makes it no structural one, or says nothing that can be.
SCHEMAS = [
    {}, {"type": "string", "default": 1}, {"type": "integer", "default": 1.5}, {"type": "foo"},
    {"type": "string", "x-kubernetes-int-or-string": True}, {"type": "object", "uniqueItems": True},
    {"type": "array"}, {"type": "array", "items": {}}, {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
    {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"},
    {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "foo"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
    {"type": "string", "anyOf": [{"type": "string"}]}, {"type": "string", "not": {"default": "a"}},
    {"type": "string", "pattern": "["}, {"type": "string", "enum": [1]}, {"type": "string", "$ref": "#/a"},
    {"type": "object", "x-kubernetes-preserve-unknown-fields": False}, {"type": "object", "x-kubernetes-embedded-resource": True},
    {"type": "integer", "minimum": 5, "default": 1}, {"type": "string", "format": "foo"}, {"type": "string", "nullable": True},
    {"type": "object", "x-kubernetes-map-type": "foo"}, {"type": "string", "maxLength": -1}, {"additionalProperties": False},
]  # fmt: skip

SPECS = [
    {"group": "a_b"}, {"scope": "Foo"}, {"versions": []}, {"names": {"plural": "widgets", "kind": "Widget"}},
    {"names": {"plural": "Widgets", "kind": "Widget"}}, {"names": {"plural": "widgets"}}, {"preserveUnknownFields": True},
    {"conversion": {"strategy": "None"}}, {"conversion": {"strategy": "Webhook"}}, {"conversion": {"strategy": "Foo"}},
]  # fmt: skip


def run(asked, _only):
    for spec in SPECS:
        asked.both(f"custom definition {json.dumps(spec)}", "POST", DEFINITIONS + "?dryRun=All", definition(**spec))
    for schema in SCHEMAS:
        whole = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": schema}}}}
        asked.both(f"custom schema {json.dumps(schema)}", "POST", DEFINITIONS + "?dryRun=All", definition(schema=whole))
    asked.each("POST", DEFINITIONS, definition())
    served(asked)
    for version in ("v1", "v1beta1"):
        path = f"{GROUP}/{version}/namespaces/default/widgets"
        for spec in OBJECTS:
            object = widget(version, {"size": 1, **spec})
            asked.both(f"custom {version} {json.dumps(spec)}", "POST", path + "?dryRun=All", object)
    path = f"{GROUP}/v1/namespaces/default/widgets"
    asked.both("custom strict", "POST", path + "?dryRun=All&fieldValidation=Strict", widget("v1", {"size": 1, "odd": 2}))
    asked.each("POST", path, widget("v1", {"size": 1, "replicas": 2}))
    for version in ("v1", "v1beta1"):
        asked.both(f"custom get {version}", "GET", f"{GROUP}/{version}/namespaces/default/widgets/a")
    asked.both("custom scale", "GET", path + "/a/scale")
    for kind, part, patch in PATCHES:
        where = f"custom patch{part} {kind} {json.dumps(patch)}"
        asked.both(where, "PATCH", f"{path}/a{part}?dryRun=All", patch, content_type="application/" + kind)
    for selector in ("spec.color=red", "spec.color=blue", "spec.size=1"):
        asked.both(f"custom fieldSelector={selector}", "GET", f"{path}?fieldSelector={selector}&limit=1")
    for method, part in (("PUT", ""), ("PUT", "/status")):
        asked.both(f"custom {method}{part} without a version", method, f"{path}/a{part}", widget("v1", {"size": 2}))
    asked.each("DELETE", DEFINITIONS + "/widgets.judge.example.com")


def widget(version, spec):
    return {"apiVersion": "judge.example.com/" + version, "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


def served(asked):
    """Waits until both serve the kind, which each does in its time."""
    deadline = time.monotonic() + 30
    while {code for code, _ in asked.each("GET", GROUP + "/v1/namespaces/default/widgets")} != {200}:
        if time.monotonic() > deadline:
            raise SystemExit("the definition of widgets is not served after 30 seconds")
        time.sleep(0.1)
