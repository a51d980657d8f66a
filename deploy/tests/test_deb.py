"""The Debian package: installed, used as its unit says, removed; on a copy of this machine's files."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

import pytest

from conftest import CAP_NET_ADMIN, DEB, Agent, eventually, http, inside, ruleset, run

UNIT = "/usr/lib/systemd/system/sluice.service"
# As systemd would choose one for DynamicUser=.
USER = 61184
# Worst accepted exposure of the unit, in tenths, by systemd's own scale of 0 to 10.
EXPOSURE = 20

# A copy-on-write view of / with a /run and a /tmp of its own, as root of a process that only waits.
COPY = """
mount -t tmpfs sluice /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay sluice -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs sluice run
mount -t tmpfs sluice tmp
chmod 1777 tmp
echo ready
exec chroot . sleep infinity
"""


class Machine:
    def __init__(self, netns):
        self.netns = netns
        command = inside(netns, "unshare", "--mount", "--propagation=private", "sh", "-ec", COPY)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        root = pathlib.Path(f"/proc/{self.process.pid}/root")
        eventually(lambda: not (root / "mnt/root/proc").exists(), "its root changed")
        self.root = root

    def inside(self, *command):
        into = ["nsenter", f"--target={self.process.pid}", "--mount", "--net", "--root", "--wdns=/"]
        return [*into, *(str(it) for it in command)]

    def run(self, *command):
        return run(*self.inside(*command))

    def path(self, name):
        return self.root / name.lstrip("/")

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def machine(netns):
    machine = Machine(netns)
    try:
        machine.path("/root/sluice.deb").write_bytes(DEB.read_bytes())
        yield machine
    finally:
        machine.end()


def settings(text):
    """The unit's settings; of those given twice, all."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def command_of(line, environment):
    """The words of an Exec line: systemd splits `$NAME` at spaces."""
    words = []
    for word in shlex.split(line.lstrip("+-")):
        is_name = word.startswith("$") and word[1:] in environment
        words += environment[word[1:]].split() if is_name else [word.replace("$$", "$")]
    return words


def as_the_unit(unit, command):
    """With the unit's user and capabilities, as far as they can be had without systemd."""
    capability = "+net_admin"
    assert unit["AmbientCapabilities"] == unit["CapabilityBoundingSet"] == ["CAP_NET_ADMIN"]
    assert unit["NoNewPrivileges"] == unit["DynamicUser"] == ["yes"]
    return [
        "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--no-new-privs",
        f"--inh-caps=-all,{capability}", f"--ambient-caps=-all,{capability}",
        f"--bounding-set=-all,{capability}", *command,
    ]


def system_calls(machine, unit):
    """The names that the unit's filter lets through."""

    def names(groups):
        found = set()
        for group in groups:
            if not group.startswith("@"):
                found.add(group)
                continue
            listed = machine.run("systemd-analyze", "syscall-filter", group).splitlines()[1:]
            words = [it.strip() for it in listed]
            found |= names([it for it in words if it and not it.startswith("#")])
        return found

    allowed = set()
    for line in unit["SystemCallFilter"]:
        if line.startswith("~"):
            allowed -= names(line[1:].split())
        else:
            allowed |= names(line.split())
    return allowed


def check_trace(machine, unit):
    """The agent did nothing that the unit forbids."""
    trace = machine.path("/tmp/trace").read_text()
    used = set(re.findall(r"^\d+ +(\w+)\(", trace, re.M))
    assert "sendto" in used or "sendmsg" in used, "a trace of an agent that wrote rules"
    assert used - system_calls(machine, unit) == set()
    families = set(re.findall(r"\bsocket\((AF_\w+)", trace))
    assert families - set(unit["RestrictAddressFamilies"][0].split()) == set()
    assert unit["MemoryDenyWriteExecute"] == ["yes"]
    assert not re.search(r"PROT_WRITE\|PROT_EXEC|\bmprotect\(.*PROT_EXEC", trace)


def test_from_installation_to_purge(machine):
    machine.run("dpkg", "--install", "/root/sluice.deb")
    files = machine.run("dpkg", "--listfiles", "sluice").split()
    files = [it for it in files if not machine.path(it).is_dir()]
    assert machine.run("sluice", "--version").startswith("sluice ")

    # What the package says about itself.
    machine.run("systemd-analyze", "verify", UNIT)
    machine.run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE}", UNIT)
    pages = [pathlib.Path(it).name.split(".")[0] for it in files if "/man/man8/" in it]
    assert {"sluice", "sluice-proxy", "sluice-cleanup", "sluice-lab-demo"} <= set(pages)
    for name in pages:
        page = machine.run("man", "--warnings", "--encoding=utf8", name)
        assert "EXIT STATUS" in page and "EXAMPLES" in page, page
    machine.run("bash", "-n", "/usr/share/bash-completion/completions/sluice")
    assert not list(machine.path("/etc/systemd/system").rglob("sluice.service")), "not enabled"

    # What systemd does with the unit.
    unit = settings(machine.path(UNIT).read_text())
    # The table's size belongs to the machine, not to a namespace: a test must not change it.
    default = 'SLUICE_FLAGS="--conntrack-max-per-core 0 --v 2"\n'
    assert settings(machine.path("/etc/default/sluice").read_text()) == {"SLUICE_FLAGS": ['""']}
    machine.path("/etc/default/sluice").write_text(default)
    environment = {name: value.strip('"') for name, [value] in settings(default).items()}
    machine.run("sh", "-c", "cp /usr/share/doc/sluice/examples/*.yaml /etc/sluice/manifests/")
    directory = machine.path("/run/" + unit["RuntimeDirectory"][0])
    directory.mkdir()
    os.chown(directory, USER, USER)
    [before], [start] = unit["ExecStartPre"], unit["ExecStart"]
    machine.run(*command_of(before, environment))
    trace = ["strace", "--follow-forks", "--quiet=all", "--output=/tmp/trace"]
    command = as_the_unit(unit, [*trace, *command_of(start, environment)])
    with Agent(machine.inside(*command)) as agent:
        agent.until(lambda: http(machine.netns, "http://127.0.0.1:10256/livez"), "health server")
        [after] = unit["ExecStartPost"]
        machine.run(*command_of(after, environment))
        assert "default/web" in ruleset(machine.netns), "the unit has started when there are rules"
        told = json.loads(machine.run("sluice", "status", "-o", "json"))
        pid = told["pid"]
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        assert f"CapEff:\t{1 << CAP_NET_ADMIN:016x}\n" in status
        # An upgrade leaves the rules alone.
        machine.run("dpkg", "--install", "/root/sluice.deb")
        assert "default/web" in ruleset(machine.netns)
        os.kill(pid, signal.SIGTERM)
        assert agent.process.wait(30) == 0, agent.said()
    check_trace(machine, unit)

    # Nothing left.
    assert "default/web" in ruleset(machine.netns), "rules outlive the agent"
    machine.run("sh", "-c", "rm /etc/sluice/manifests/*.yaml")
    machine.run("dpkg", "--remove", "sluice")
    assert ruleset(machine.netns) == ""
    machine.run("dpkg", "--purge", "sluice")
    assert [it for it in files if machine.path(it).exists()] == []
    assert not machine.path("/etc/sluice").exists()
