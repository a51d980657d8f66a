"""Dry runs of creations: of each kind a good object with one field changed at a time, for all its fields, and with other names."""

import copy
import json

from objects import KINDS


# Fields of these are looked at where they are alone; a volume's are those of storage that no lab has.
ELSEWHERE = {"io.k8s.api.core.v1.PodSpec": "pods", "io.k8s.api.core.v1.PersistentVolumeSpec": None}


class Kinds:
    """What the judge's discovery and OpenAPI say about resources."""

    def __init__(self, judge):
        self.judge = judge
        self.types = {}

    def document(self, version):
        return ("apis/" if "/" in version else "api/") + version

    def path(self, version, resource):
        """Where objects of the namespace `default`, or of none, are made."""
        document = self.document(version)
        for it in self.judge.ask("GET", "/" + document)[1]["resources"]:
            if it["name"] == resource:
                return it["kind"], f"/{document}/" + ("namespaces/default/" if it["namespaced"] else "") + resource
        raise SystemExit(f"the judge does not serve {resource} of {version}")

    def schema(self, version, kind):
        """The schema of a kind, and all types that it may name."""
        if version not in self.types:
            answer = self.judge.ask("GET", "/openapi/v3/" + self.document(version))[1]
            self.types[version] = answer["components"]["schemas"]
        group, _, number = version.rpartition("/")
        wanted = {"group": group, "kind": kind, "version": number}
        types = self.types[version]
        return next(it for it in types.values() if wanted in it.get("x-kubernetes-group-version-kind", [])), types


def resolve(schema, types):
    """The schema that a reference means, and the name of its type."""
    name = None
    while True:
        if "$ref" in schema:
            name = schema["$ref"].split("/")[-1]
            schema = types[name]
        elif len(schema.get("allOf", [])) == 1 and "type" not in schema:
            schema = schema["allOf"][0]
        else:
            return schema, name


def fields(schema, types, resource, path=(), within=()):
    """Each field of an object, but for types within themselves and those that are looked at elsewhere."""
    schema, name = resolve(schema, types)
    if name in within or ELSEWHERE.get(name, resource) != resource:
        return
    within = (*within, name) if name else within
    yield path, schema
    for key, it in schema.get("properties", {}).items():
        yield from fields(it, types, resource, (*path, key), within)
    if schema.get("type") == "array":
        yield from fields(schema["items"], types, resource, (*path, 0), within)
    elif isinstance(schema.get("additionalProperties"), dict):
        yield from fields(schema["additionalProperties"], types, resource, (*path, "k"), within)


TWICE = "twice"
NAMES = ["A", "1a", "a.b", "a_b", "-a", "a:b", "a/b", "..", "%", "a" * 53, "a" * 64, "a" * 254]


def values(schema):
    """Values to try in a field: some that rules forbid, some of a wrong type, some that are right."""
    kind, form = schema.get("type"), schema.get("format")
    if "Quantity" in schema.get("description", "")[:60] and kind != "object":
        return ["-1", "0", "1500m", "abc"]
    if form == "int-or-string" or (schema.get("oneOf") and not kind):
        return [0, -1, 70000, "Ab_", "120%", "a"]
    if form == "date-time":
        return ["x", "2026-01-01T00:00:00Z"]
    if form == "byte":
        return ["***", "Yg=="]
    if kind == "string":
        return ["", "A_b c", "x" * 260, "a", "a/b", "..", "1.2.3.4"]
    if kind in ("integer", "number"):
        return [-1, 0, 1, 70000, 3000000000, "x"]
    if kind == "boolean":
        return [True, False, "x"]
    if kind == "array":
        return [[], [None], TWICE]
    return [{}, {"A b": "x"}, {"a": "b"}] if schema.get("additionalProperties") else [{}]


def changed(good, path, value):
    """The object with `value` at `path`, or nothing where the path leads through a value of another type."""
    object = here = copy.deepcopy(good)
    for key, after in zip(path, (*path[1:], None)):
        if isinstance(here, list):
            if not here:
                here.append({})
        elif not isinstance(here, dict):
            return None
        if after is None:
            if value == TWICE:
                first = (here.get(key) or [{}])[0]
                value = [first, first]
            here[key] = value
            return object
        if not isinstance(here, list) and here.get(key) is None:
            here[key] = [] if after == 0 else {}
        elif isinstance(here, list) and not here[key]:
            here[key] = [] if after == 0 else {}
        here = here[key]
    return None


def json_path(field):
    """The path in the form of a cause's."""
    return "".join(f"[{it}]" if it in (0, "k") else f".{it}" for it in field).lstrip(".")


def run(asked, only):
    kinds = Kinds(asked.judge)
    for name, good in KINDS.items():
        version, resource = name.split()
        if only and resource not in only:
            continue
        kind, path = kinds.path(version, resource)
        schema, types = kinds.schema(version, kind)
        path += "?dryRun=All"
        good = {**good, "metadata": {"name": "x", **good.get("metadata", {})}}
        # What differs for the good object differs for most of the others as well.
        base = asked.both(f"create {name}", "POST", path, good)
        for it in NAMES:
            where = f"create {name} metadata.name {it[:10]} of {len(it)}"
            asked.both(where, "POST", path, {**good, "metadata": {**good["metadata"], "name": it}}, base, "metadata.name")
        for field, at in fields(schema, types, resource):
            if not field or field[0] in ("status", "kind", "apiVersion", "metadata"):
                continue
            for value in values(at):
                object = changed(good, field, value)
                if object:
                    said = json.dumps(value)
                    said = said if len(said) < 40 else said[:20] + "..."
                    where = f"create {name} {'.'.join(map(str, field))} {said}"
                    asked.both(where, "POST", path, object, base, json_path(field))
