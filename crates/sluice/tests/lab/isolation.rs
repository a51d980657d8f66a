//! What a pod sees and may do, and what it may not: the machine is the same afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;

use crate::lab::{LABS, Lab, text};

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: plain, annotations: {sluice.dev/command: exec sleep 1000, sluice.dev/command.second: exec sleep 1000}}
spec:
  hostAliases: [{ip: 192.0.2.9, hostnames: [alias.test]}]
  containers:
  - {name: c, image: any, workingDir: /work/place}
  - {name: second, image: any}
---
apiVersion: v1
kind: Pod
metadata: {name: admin, annotations: {sluice.dev/command: exec sleep 1000}}
spec:
  containers: [{name: c, image: any, securityContext: {privileged: true}}]
---
apiVersion: v1
kind: Pod
metadata: {name: host, annotations: {sluice.dev/command: exec sleep 1000}}
spec:
  hostNetwork: true
  containers: [{name: c, image: any, securityContext: {privileged: true}}]
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 3000, fsGroup: 2000, runAsNonRoot: true}
  containers:
  - name: c
    image: any
    ports: [{containerPort: 80}]
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    readinessProbe: {tcpSocket: {port: 80}}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: last, annotations: {sluice.dev/command: echo it is over > /dev/termination-log; exit 3}}
spec: {restartPolicy: Never, containers: [{name: c, image: any}]}
---
apiVersion: v1
kind: Pod
metadata: {name: refused}
spec: {containers: [{name: c, image: any, securityContext: {runAsUser: 0, runAsNonRoot: true}}]}
";

/// Size and time of files, by path.
type Files = BTreeMap<String, (u64, Option<SystemTime>)>;

/// Adds all files below a folder.
fn files(folder: &Path, all: &mut Files) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.metadata().unwrap();
        let seen = (found.len(), found.modified().ok());
        all.insert(entry.path().display().to_string(), seen);
        if found.is_dir() {
            files(&entry.path(), all);
        }
    }
}

/// What pods could change of the machine.
fn machine() -> (Files, Vec<String>, String) {
    let mut all = Files::new();
    files(Path::new("/etc"), &mut all);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    // Other tests make network namespaces and file systems meanwhile.
    let is_ours = |it: &&str| !it.contains("/run/netns") && !it.contains(" /tmp/");
    let mounts = mounts.lines().filter(is_ours).map(str::to_owned).collect();
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    (all, mounts, pattern)
}

fn runs(lab: &Lab, pods: &[&str]) {
    for name in pods {
        lab.until(name, || {
            let conditions = lab.json(&["pod", name])["status"]["conditions"].take();
            let mut conditions = conditions.as_array()?.iter();
            let is_ready = |it: &Value| it["type"] == "Ready" && it["status"] == "True";
            conditions.any(is_ready).then_some(())
        });
    }
}

#[test]
fn a_pod_has_a_machine_of_its_own() {
    let Some(lab) = Lab::new() else { return };
    let before = machine();
    lab.good(&["up", "--nodes", "1"]);
    assert!(lab.apply(PODS).status.success());
    runs(&lab, &["plain", "admin", "host", "user"]);
    let ask = |pod: &str, script: &str| {
        let output = lab.run(&["exec", pod, "--", "sh", "-c", script]);
        text(&output.stdout).trim_end().to_owned()
    };
    looks_like_a_pod(&lab, &ask);
    keeps_off_the_machine(&lab, &ask);
    lab.until("its last words", || {
        let status = &lab.json(&["pod", "last"])["status"]["containerStatuses"][0];
        let ended = &status["state"]["terminated"];
        (ended["message"] == "it is over\n" && ended["exitCode"] == 3).then_some(())
    });
    lab.until("the refusal", || {
        let status = &lab.json(&["pod", "refused"])["status"]["containerStatuses"][0];
        let waiting = &status["state"]["waiting"];
        let why = "container's runAsUser breaks non-root policy (pod: \"refused\", container: c)";
        (waiting["reason"] == "CreateContainerConfigError" && waiting["message"] == why)
            .then_some(())
    });
    lab.good(&[
        "delete",
        "pod",
        "plain",
        "admin",
        "host",
        "user",
        "--grace-period",
        "0",
    ]);
    lab.good(&["down"]);
    let after = machine();
    assert_eq!(after.1, before.1);
    assert_eq!(after.2, before.2);
    assert_eq!(after.0, before.0);
}

fn looks_like_a_pod(lab: &Lab, ask: &dyn Fn(&str, &str) -> String) {
    let ip = lab.json(&["pod", "plain"])["status"]["podIP"].take();
    let ip = ip.as_str().unwrap();
    for (pod, script, expected) in [
        (
            "plain",
            "hostname; cat /etc/hostname; pwd",
            "plain\nplain\n/work/place",
        ),
        (
            "plain",
            "getent ahostsv4 plain | head -n1 | cut -d' ' -f1",
            ip,
        ),
        ("host", "hostname", "node-a"),
        ("plain", "hostname -i | tr ' ' '\\n' | grep -c .", "2"),
        (
            "plain",
            "getent hosts alias.test | tr -s ' '",
            "192.0.2.9 alias.test",
        ),
        (
            "plain",
            "head -n1 /etc/resolv.conf",
            "nameserver 169.254.20.10",
        ),
        (
            "plain",
            "ls -A /tmp /root /home /mnt",
            "/home:\n\n/mnt:\n\n/root:\n\n/tmp:",
        ),
        (
            "plain",
            "id -u; id -g; grep CapBnd /proc/self/status",
            "0\n0\nCapBnd:\t00000000a80425fb",
        ),
        // Process 1, and the shell, which runs nothing meanwhile.
        (
            "plain",
            "cat /proc/1/comm; set -- /proc/[0-9]*; echo $#",
            "sleep\n2",
        ),
        (
            "plain",
            "ls /dev",
            "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntermination-log\ntty\nurandom\nzero",
        ),
        ("plain", "ls /sys/class/net", "eth0\nlo"),
        (
            "plain",
            "echo x > /usr/share/new && mkdir /made && cat /usr/share/new",
            "x",
        ),
        (
            "plain",
            "which sluice && sluice --version | cut -d' ' -f1",
            "/run/sluice-bin/sluice\nsluice",
        ),
        (
            "admin",
            "grep CapEff /proc/self/status",
            "CapEff:\t000001ffffffffff",
        ),
        (
            "user",
            "id -u; id -g; id -G; echo $HOME",
            "1000\n3000\n3000 2000\n/",
        ),
        (
            "user",
            "grep -E 'CapBnd|NoNewPrivs' /proc/self/status",
            "CapBnd:\t0000000000000000\nNoNewPrivs:\t1",
        ),
        (
            "user",
            "touch /made /tmp/made 2>&1 | grep -c Read-only",
            "2",
        ),
        ("user", "touch /data/made && stat -c %g /data/made", "2000"),
    ] {
        assert_eq!(ask(pod, script), expected, "{pod}: {script}");
    }
    // Containers of a pod share its network alone.
    ask("plain", "touch /tmp/made");
    let second = "sh -c 'ls /tmp; cat /proc/1/comm'";
    for program in crate::lab::kubectl::programs() {
        let config = lab.good(&["kubeconfig"]);
        let script = format!(
            "{program} --kubeconfig {} exec plain -c second -- {second}",
            config.trim()
        );
        let mut command = std::process::Command::new("sh");
        let output = command
            .args(["-c", &script])
            .env("HOME", lab.files.path())
            .output();
        assert_eq!(text(&output.unwrap().stdout), "sleep\n");
    }
}

fn keeps_off_the_machine(lab: &Lab, ask: &dyn Fn(&str, &str) -> String) {
    let own = std::process::id();
    let config = lab.dir().join("kubeconfig");
    let config = config.display();
    assert!(fs::exists(lab.dir().join("kubeconfig")).unwrap());
    let rules = || lab.good(&["exec", "node-a", "--", "nft", "list", "tables"]);
    let tables = rules();
    let attempts = [
        format!("cat {config}"),
        format!("ls {LABS}"),
        "grep root: /etc/shadow".to_owned(),
        format!("kill -0 {own}"),
        "echo x > /proc/sys/kernel/core_pattern".to_owned(),
        "echo h > /proc/sysrq-trigger".to_owned(),
        "mount -t tmpfs t /mnt".to_owned(),
        "mount -o remount,bind,rw /proc/sys".to_owned(),
        "unshare -Urm mount -o remount,bind,rw /proc/sys".to_owned(),
        "unshare -Urpfm --mount-proc sh -c 'echo x > /proc/sys/kernel/core_pattern'".to_owned(),
        "mknod /dev/disk b 8 0".to_owned(),
        "nsenter --net=/run/netns/lab-node-a true".to_owned(),
        "echo x >> /run/sluice-bin/sluice".to_owned(),
        "ls /.machine".to_owned(),
        "nsenter -t 1 -U --preserve-credentials mount -t tmpfs t /mnt".to_owned(),
    ];
    for pod in ["plain", "admin", "host", "user"] {
        for it in &attempts {
            assert_eq!(
                ask(pod, &format!("{it} >/dev/null 2>&1 && echo done")),
                "",
                "{pod}: {it}"
            );
        }
    }
    for pod in ["plain", "user"] {
        assert_eq!(
            ask(pod, "nft add table ip pod 2>/dev/null && echo done"),
            ""
        );
    }
    // Who is privileged rules over the network of the pod, and over no other.
    assert_eq!(
        ask("admin", "nft add table ip pod && nft list tables"),
        "table ip pod"
    );
    assert_eq!(rules(), tables);
}

const SHARING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: shared}
spec:
  shareProcessNamespace: true
  containers:
  - {name: c, image: any, command: [sleep, '123456']}
  - {name: second, image: any, command: [sleep, '234567']}
  - {name: ends, image: any, command: [sh, -c, sleep 0.1]}
---
apiVersion: v1
kind: Pod
metadata: {name: processes}
spec: {hostPID: true, containers: [{name: c, image: any}]}
---
apiVersion: v1
kind: Pod
metadata: {name: memory}
spec: {hostIPC: true, containers: [{name: c, image: any}]}
";

#[test]
fn processes_are_shared_where_the_pod_says_so() {
    let Some(lab) = Lab::up(&["--nodes", "1"]) else {
        return;
    };
    assert!(lab.apply(SHARING).status.success());
    let script = "cat /proc/[0-9]*/cmdline; echo; cat /proc/1/comm";
    lab.until(
        "both containers are seen, behind a process of neither",
        || {
            let seen = text(
                &lab.run(&["exec", "shared", "--", "sh", "-c", script])
                    .stdout,
            );
            let has_both = seen.contains("123456") && seen.contains("234567");
            (has_both && seen.ends_with("sleep\n") && seen.contains("infinity")).then_some(())
        },
    );
    lab.until("a container ends and starts again alone", || {
        let status = lab.json(&["pod", "shared"])["status"]["containerStatuses"].take();
        let restarts = |index: usize| status[index]["restartCount"].as_i64();
        (restarts(2) > Some(1) && restarts(0) == Some(0) && restarts(1) == Some(0)).then_some(())
    });
    for (pod, field) in [("processes", "hostPID"), ("memory", "hostIPC")] {
        let message = lab.until(&format!("{field} is refused"), || {
            let status = &lab.json(&["pod", pod])["status"]["containerStatuses"][0];
            let message = status["state"]["waiting"]["message"].as_str();
            message.map(str::to_owned)
        });
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
        let told = |it: &Value| {
            it["message"]
                .as_str()
                .is_some_and(|it| it.contains(&message))
        };
        lab.until("an Event says so", || {
            lab.items(&["events"]).into_iter().find(told)
        });
    }
}
