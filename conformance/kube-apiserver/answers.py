"""What differs between two answers, as lines of text."""

import json
import re

# Values that each server chooses: only whether there is one is compared.
CHOSEN = {
    "uid", "resourceVersion", "creationTimestamp", "time", "deletionTimestamp", "clusterIP", "clusterIPs", "nodePort",
    "lastTransitionTime", "healthCheckNodePort", "controller-uid", "batch.kubernetes.io/controller-uid",
}  # fmt: skip
# Those who act upon objects in the lab, and do not exist beside the judge.
CONTROLLERS = {"kube-controller-manager", "kube-scheduler", "kubelet"}
REVISION = "deployment.kubernetes.io/revision"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
TOKENS = re.compile(r"kube-api-access-[a-z0-9]{5}")


def plain(value):
    """The value without what servers choose and controllers write."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (k == "status" and isinstance(v, dict))}
        if set(kept.get("annotations") or {}) == {REVISION}:
            del kept["annotations"]
        return {
            k: "*" if k in CHOSEN and not isinstance(v, dict) and v not in (None, "", []) else plain(v)
            for k, v in kept.items()
            if k != REVISION
        }
    if isinstance(value, list):
        return [plain(it) for it in value if not (isinstance(it, dict) and it.get("manager") in CONTROLLERS)]
    if isinstance(value, str):
        return TOKENS.sub("kube-api-access-*", UID.sub("*", value))
    return value


def leaves(value, path=""):
    """Each value that has no others in it, with its path."""
    if isinstance(value, dict) and value:
        for key, it in value.items():
            yield from leaves(it, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for index, it in enumerate(value):
            yield from leaves(it, f"{path}[{index}]")
    else:
        yield path.lstrip("."), json.dumps(value)


def causes(status, field):
    """The causes of a refusal, or only those of one field: one that is wrong has others that follow from it."""
    found = (status.get("details") or {}).get("causes") or []
    return {f"{it.get('field')}: {it.get('message')}" for it in found if field in (None, it.get("field"))}


def message(answer):
    return str(answer.get("message") or "") if isinstance(answer, dict) else answer


def differences(lab, judge, field=None):
    """Lines that say what the lab and the judge answered, each as (status code, answer), or nothing."""
    if lab[0] != judge[0]:
        said = [f"{code} {short(message(it) if code >= 400 else '')}".strip() for code, it in (lab, judge)]
        return [f"lab {said[0]}, judge {said[1]}"]
    code, lab, judge = judge[0], plain(lab[1]), plain(judge[1])
    if not isinstance(lab, dict) or not isinstance(judge, dict):
        return [] if lab == judge else [f"lab {short(lab)}, judge {short(judge)}"]
    if code >= 400:
        left, right = causes(lab, field), causes(judge, field)
        lines = [f"lab only {short(it)}" for it in sorted(left - right)]
        lines += [f"judge only {short(it)}" for it in sorted(right - left)]
        if lab.get("reason") != judge.get("reason"):
            lines.append(f"reason: lab {lab.get('reason')}, judge {judge.get('reason')}")
        if not causes(lab, None) and not causes(judge, None) and message(lab) != message(judge):
            lines.append(f"message: lab {short(message(lab))}, judge {short(message(judge))}")
        return lines
    left, right = dict(leaves(lab)), dict(leaves(judge))
    return [
        f"{it}: lab {short(left.get(it, 'none'))}, judge {short(right.get(it, 'none'))}"
        for it in sorted(left.keys() | right.keys())
        if left.get(it) != right.get(it)
    ]


def short(text):
    text = str(text).replace("\n", " ")
    return text if len(text) < 240 else f"{text[:200]}..."


class Asked:
    """Sends the same request to both, and keeps what differs."""

    def __init__(self, lab, judge):
        self.lab, self.judge = lab, judge
        self.count = 0
        self.found = []

    def both(self, where, method, path, body=None, without=(), field=None, **options):
        """Asks both; `without` are lines that were said before. Returns all lines."""
        self.count += 1
        answers = [it.ask(method, path, body, **options) for it in (self.lab, self.judge)]
        lines = differences(*answers, field)
        self.found += [f"{where}: {it}" for it in lines if it not in without]
        return lines

    def each(self, method, path, body=None, **options):
        """Asks both, where the answers are of no interest."""
        return [it.ask(method, path, body, **options) for it in (self.lab, self.judge)]
