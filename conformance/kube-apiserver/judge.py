"""Asks kube-apiserver and a lab's API the same, and prints what differs: judge.py KUBE-APISERVER ETCD [TOPIC[:RESOURCE]]...

KUBECONFIG is the lab's. What is in known.toml is counted; anything else fails, and so does an entry of it that no answer has.
"""

import os
import pathlib
import re
import signal
import sys
import tempfile
import tomllib

import creations
import custom
import discovery
import requests
import servers
import updates
from answers import Asked

TOPICS = {it.__name__: it.run for it in (creations, updates, requests, discovery, custom)}


def main(program, etcd, *chosen):
    # What was started ends with this program, however that ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    chosen = dict.fromkeys(chosen or TOPICS)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        lab = servers.lab(os.environ["KUBECONFIG"], folder)
        with servers.Judge(program, etcd, folder) as judge:
            asked = Asked(lab, judge)
            for topic, run in TOPICS.items():
                only = {it.partition(":")[2] for it in chosen if it.partition(":")[0] == topic}
                if only:
                    run(asked, only - {""})
    return report(asked, whole=set(chosen) >= set(TOPICS))


def report(asked, whole):
    """Prints what is not known, and what is no longer so."""
    known = tomllib.loads((pathlib.Path(__file__).parent / "known.toml").read_text()).get("known", [])
    for it in known:
        it["lines"] = []
        it["pattern"] = re.compile(it["differs"])
    wrong = []
    for line in asked.found:
        entry = next((it for it in known if it["pattern"].search(line)), None)
        if entry:
            entry["lines"].append(line)
        else:
            wrong.append("NEW " + line)
    for it in known if whole else []:
        count, lines = it.get("count"), it["lines"]
        if not lines:
            wrong.append(f"MENDED no answer has this entry of known.toml: {it['differs']}")
        elif count and count != len(lines):
            wrong += [f"COUNT {len(lines)} and not {count} differences are {it['differs']}:", *lines]
    print(*wrong, sep="\n")
    print(f"{asked.count} requests, {len(asked.found)} differences, of {len(known)} known kinds; {len(wrong)} lines of news")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
