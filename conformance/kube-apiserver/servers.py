"""The two servers that are asked: the judge, which is started here, and the lab's API, which runs already."""

import base64
import http.client
import json
import pathlib
import re
import socket
import ssl
import subprocess
import time


class Server:
    """A Kubernetes API and the one connection that asks it."""

    def __init__(self, name, port, token=None, certificate=None):
        self.name = name
        self.port = port
        self.token = token
        self.connection = None
        self.processes = []
        # Whether this is the right server is no question here: both listen on 127.0.0.1.
        self.tls = ssl._create_unverified_context()
        if certificate:
            self.tls.load_cert_chain(*certificate)

    def ask(self, method, path, body=None, content_type="application/json", accept="application/json"):
        """The status code and the answer, read as JSON where it is that."""
        for it in self.processes:
            if it.poll() is not None:
                raise SystemExit(f"{it.args[0]} has ended: {it.returncode}")
        headers = {"Accept": accept}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        if body is not None:
            headers["Content-Type"] = content_type
            body = body if isinstance(body, str) else json.dumps(body)
        for last in (False, True):
            try:
                if not self.connection:
                    self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=60)
                self.connection.request(method, path, body, headers)
                answer = self.connection.getresponse()
                text = answer.read().decode(errors="replace")
                break
            except (OSError, http.client.HTTPException):
                # A server may end a connection that was idle.
                self.connection = None
                if last:
                    raise
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text


def lab(kubeconfig, folder):
    """The lab's API, by the client certificate of its kubeconfig. `folder` gets the certificate."""
    text = pathlib.Path(kubeconfig).read_text()
    files = []
    for key in ("client-certificate-data", "client-key-data"):
        files.append(folder / key)
        files[-1].write_bytes(base64.b64decode(re.search(key + r":\s*[\"']?([\w+/=]+)", text)[1]))
    return Server("lab", int(re.search(r"server:\s*[\"']?https://[^:]+:(\d+)", text)[1]), certificate=files)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [it.getsockname()[1] for it in sockets]
    for it in sockets:
        it.close()
    return ports


class Judge:
    """kube-apiserver and its etcd, in a folder of their own, until the end of the `with`."""

    def __init__(self, program, etcd, folder):
        self.program, self.etcd, self.folder = program, etcd, folder
        self.processes = []

    def start(self, name, *command):
        with open(self.folder / (name + ".log"), "w") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def __enter__(self):
        try:
            return self.begin()
        except BaseException:
            self.__exit__()
            raise

    def begin(self):
        client, peer, port = free_ports(3)
        client, peer = (f"http://127.0.0.1:{it}" for it in (client, peer))
        self.start(
            "etcd", self.etcd, "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
        )  # fmt: skip
        key, token = self.folder / "tokens.key", "judge"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, stderr=subprocess.DEVNULL)
        (self.folder / "users.csv").write_text(f"{token},kubernetes-admin,1,system:masters\n")
        # Left out are the plugins of admission that the lab does not have either (docs/lab.md).
        off = "Priority,LimitRanger,ResourceQuota,StorageObjectInUseProtection,DefaultStorageClass,PodSecurity,RuntimeClass"
        self.start(
            "kube-apiserver", self.program, "--etcd-servers", client, "--cert-dir", self.folder,
            "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", str(port),
            "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/16",
            "--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
            "--service-account-key-file", key, "--service-account-signing-key-file", key,
            "--authorization-mode", "AlwaysAllow", "--token-auth-file", self.folder / "users.csv",
            "--allow-privileged", "--disable-admission-plugins", off,
        )  # fmt: skip
        server = Server("judge", port, token)
        server.processes = self.processes
        deadline = time.monotonic() + 300
        while not ready(server):
            if time.monotonic() > deadline:
                log = (self.folder / "kube-apiserver.log").read_text()
                raise SystemExit(f"the judge is not ready after 5 minutes; the end of its log:\n{log[-2000:]}")
            time.sleep(0.2)
        # What a controller makes in a cluster, and the lab has.
        server.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        return server

    def __exit__(self, *_):
        for it in self.processes:
            # Nothing of theirs is kept, so they need not end in order.
            it.kill()
            it.wait()


def ready(server):
    try:
        return server.ask("GET", "/readyz")[0] == 200 and server.ask("GET", "/api/v1/namespaces/default")[0] == 200
    except (OSError, http.client.HTTPException):
        return False
