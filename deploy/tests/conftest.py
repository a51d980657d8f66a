"""What the tests of deploy/ share: paths, programs, network namespaces, running agents."""

import ctypes
import json
import os
import pathlib
import subprocess
import tempfile
import time
import uuid

import kubernetes_validate
import pytest
import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = REPO / "deploy"
TOOLS = REPO / "target/deploy-tools/bin"
PACKAGE = REPO / "target/package"
SLUICE = PACKAGE / "sluice"
DEB = PACKAGE / "sluice.deb"
EXAMPLES = REPO / "examples"
RELEASES = ["1.29", "1.33", "1.36", "1.37"]
# The table's size belongs to the machine, not to a namespace: a test must not change it.
KEEP_SIZE = "--conntrack-max-per-core=0"
# Of the image's ordinary user.
NONROOT = 65532
# Longest wait for anything; machines of others are slow.
WITHIN = 30.0

# linux/prctl.h, linux/capability.h, linux/sched.h, linux/mount.h
PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 8, 24, 38
CAP_NET_BIND_SERVICE, CAP_NET_ADMIN, CAP_NET_RAW, CAP_LAST = 10, 12, 13, 40
CAPABILITY_VERSION_3 = 0x20080522
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000

LIBC = ctypes.CDLL(None, use_errno=True)


def run(*command, **kwargs):
    """Runs a program that must succeed; its output."""
    kwargs.setdefault("timeout", 300)
    done = subprocess.run([str(it) for it in command], capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def eventually(probe, what):
    """Asks until the answer is true."""
    deadline = time.monotonic() + WITHIN
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"not within {WITHIN} s: {what}"
        time.sleep(0.05)
    return answer


def documents(text):
    return [it for it in yaml.safe_load_all(text) if it]


def kustomize(folder):
    return documents(run(TOOLS / "kubectl", "kustomize", folder))


def by_kind(objects, kind):
    [found] = [it for it in objects if it["kind"] == kind]
    return found


def check_schemas(objects):
    """Against every release that matters."""
    for release in RELEASES:
        for it in objects:
            kubernetes_validate.validate(it, release, strict=True)


@pytest.fixture(scope="session")
def root():
    """Namespaces, owners and capabilities need root: elsewhere the test is skipped, never in CI."""
    if os.geteuid() != 0:
        assert "CI" not in os.environ, "CI must run this as root"
        pytest.skip("needs root")


@pytest.fixture
def netns(root):
    """The name of a network namespace of this test's own, with a loopback interface."""
    name = f"sluice-deploy-{uuid.uuid4().hex[:8]}"
    run("ip", "netns", "add", name)
    try:
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        run("ip", "-n", name, "address", "add", "192.0.2.10/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "eth1", "up")
        run("ip", "-n", name, "route", "add", "default", "via", "192.0.2.1")
        yield name
    finally:
        run("ip", "netns", "delete", name)


def inside(netns, *command):
    return ["ip", "netns", "exec", netns, *(str(it) for it in command)]


def ruleset(netns):
    return run(*inside(netns, "nft", "list", "ruleset"))


def http(netns, url):
    """Status and body, asked from inside the namespace."""
    program = (
        "import json, sys, urllib.error, urllib.request as u\n"
        "try: r = u.urlopen(sys.argv[1], timeout=5)\n"
        "except urllib.error.HTTPError as e: r = e\n"
        "except OSError: sys.exit(3)\n"
        "json.dump([r.status, r.read().decode()], sys.stdout)\n"
    )
    command = inside(netns, "python3", "-c", program, url)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode == 3:
        return None
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Agent:
    """A process that ends with the block."""

    def __init__(self, command, **kwargs):
        self.log = tempfile.TemporaryFile("w+")
        command = [str(it) for it in command]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, **kwargs)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def proc_status(self):
        """The words of each line of /proc/PID/status, by its name."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return {it.split(":")[0]: it.split()[1:] for it in status.splitlines()}

    def stop(self):
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(WITHIN)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def until(self, probe, what):
        def answer():
            assert self.process.poll() is None, f"ended {self.process.returncode}: {self.said()}"
            return probe()

        try:
            return eventually(answer, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said()}") from None


# What the second image has of Debian, as the machine has it, and the devices of any container.
PROGRAMS = ["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/etc/alternatives", "/dev"]


def container(root, netns, privileged=False, user=NONROOT, capabilities=(CAP_NET_ADMIN,)):
    """What a container runtime does before it starts the program of a user with capabilities: a
    network namespace, a root that cannot be written, /proc with settings that cannot be written, a
    bounding set, no inheritable capability, no new privileges. If privileged, only the namespace, the
    root and /proc. Pass it as `preexec_fn`."""
    bits = sum(1 << it for it in capabilities)

    def check(result):
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def mount(source, target, kind, flags, data=None):
        words = [it and str(it).encode() for it in (source, target, kind)]
        check(LIBC.mount(*words, ctypes.c_ulong(flags), data))

    def prepare():
        with open(f"/run/netns/{netns}") as namespace:
            check(LIBC.setns(namespace.fileno(), CLONE_NEWNET))
        check(LIBC.unshare(CLONE_NEWNS))
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        mount(root, root, None, MS_BIND | MS_REC)
        mount("proc", root / "proc", "proc", 0)
        for folder in PROGRAMS:
            inner = root / folder[1:]
            if inner.exists():
                mount(folder, inner, None, MS_BIND | MS_REC)
        lock = root / "run/xtables.lock"
        machines = os.open(lock, os.O_RDONLY) if lock.exists() else None
        if not privileged:
            # As the kubelet makes an emptyDir.
            mount("tmpfs", root / "run", "tmpfs", 0, b"mode=0777")
        if machines is not None:
            lock.touch()
            mount(f"/proc/self/fd/{machines}", lock, None, MS_BIND)
        if privileged:
            os.chroot(root)
            os.chdir("/")
            return
        mount(root / "proc/sys", root / "proc/sys", None, MS_BIND)
        mount(None, root / "proc/sys", None, MS_BIND | MS_REMOUNT | MS_RDONLY)
        mount(None, root, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
        os.chroot(root)
        os.chdir("/")
        for capability in range(CAP_LAST + 1):
            if capability not in capabilities:
                check(LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
        check(LIBC.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0))
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
        low, high = bits & 0xFFFFFFFF, bits >> 32
        # Effective, permitted, inheritable, twice: the inheritable set is empty.
        sets = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)
        check(LIBC.capset(header, sets))
        check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))

    return prepare


@pytest.fixture
def image(root, tmp_path):
    """The root of the image, with a place for /proc and the examples as manifests."""
    folder = tmp_path / "image"
    folder.mkdir()
    run(DEPLOY / "image/rootfs", "proxy", SLUICE, folder)
    (folder / "proc").mkdir()
    manifests = folder / "manifests"
    manifests.mkdir()
    for example in EXAMPLES.glob("*.yaml"):
        (manifests / example.name).write_text(example.read_text())
    return folder


@pytest.fixture
def iptables_image(image):
    """The image with the programs of iptables, and the machine's lock mounted into it."""
    for folder in PROGRAMS:
        if os.path.isdir(folder):
            (image / folder[1:]).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (image / name).symlink_to(f"usr/{name}")
    lock = image / "run/xtables.lock"
    lock.touch()
    lock.chmod(0o600)
    return image


def start(image, netns, *args, program="/usr/local/bin/sluice", **kwargs):
    return Agent([program, *args], preexec_fn=container(image, netns, **kwargs))
