//! `kubectl exec`, `attach`, `cp`, `port-forward` and `run --rm -it`, with kubectl of both ages: SPDY until 1.30, WebSocket
//! since.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

use crate::lab::kubectl::programs;
use crate::lab::{Lab, text};

/// A pod with a shell and a server, one that ends its own input, and one that no node takes.
const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: box, labels: {app: box}}
spec:
  containers:
  - {name: shell, image: busybox, command: [sleep], args: ['100000']}
  - {name: server, image: agnhost, args: [netexec]}
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere}
spec: {nodeSelector: {no: such}, containers: [{name: c, image: any}]}
---
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec:
  containers:
  - {name: c, image: busybox, stdin: true, command: [sh, -c, 'echo begin; while read it; do echo \"got $it\"; done']}
---
apiVersion: v1
kind: Pod
metadata: {name: lacking}
spec:
  containers:
  - {name: program, image: any, command: [no-such-program]}
  - {name: args, image: any, args: [--flag]}
";

/// kubectl of both ages: that of Debian 12, and that of the tests of deploy/ or of this machine.
fn of_both_ages() -> Vec<String> {
    let newest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/deploy-tools/bin/kubectl"
    );
    let mut found = programs();
    if fs::exists(newest).unwrap() {
        found.truncate(1);
        found.push(newest.to_owned());
    }
    found
}

struct Kubectl<'a> {
    program: &'a str,
    lab: &'a Lab,
    config: String,
}

impl Kubectl<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(["--kubeconfig", &self.config]).args(words);
        // Its discovery cache belongs to the test.
        command.env("HOME", self.lab.files.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn good(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        text(&output.stdout)
    }

    #[track_caller]
    fn bad(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words:?}: {output:?}");
        text(&output.stderr)
    }

    /// Runs kubectl on a terminal of 33 lines and 101 columns. Returns what the terminal shows.
    #[track_caller]
    fn on_terminal(&self, words: &str, typed: &str) -> String {
        let script = format!(
            "stty rows 33 cols 101; {} --kubeconfig {} {words}",
            self.program, self.config
        );
        let mut command = Command::new("script");
        command.args(["-qefc", &script, "/dev/null"]);
        command
            .env("HOME", self.lab.files.path())
            .env("SHELL", "/bin/sh");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let mut keyboard = child.stdin.take().unwrap();
        keyboard.write_all(typed.as_bytes()).unwrap();
        // At the end of its input `script` would hang up.
        let mut shown = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut shown)
            .unwrap();
        drop(keyboard);
        let status = child.wait().unwrap();
        assert!(status.success(), "{words}: {status:?}: {shown}");
        shown
    }
}

fn on_each(test: impl Fn(&Kubectl<'_>)) {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let config = lab.good(&["kubeconfig"]).trim().to_owned();
    assert!(lab.apply(PODS).status.success());
    for pod in ["box", "echo"] {
        lab.until(pod, || {
            let pod = lab.json(&["pod", pod]);
            (pod["status"]["phase"] == "Running").then_some(())
        });
    }
    for program in of_both_ages() {
        test(&Kubectl {
            program: &program,
            lab: &lab,
            config: config.clone(),
        });
    }
}

#[test]
fn programs_run_in_pods() {
    on_each(|kubectl| {
        let script = "echo out; echo err >&2; exit 3";
        let output = kubectl.run(&["exec", "box", "-c", "shell", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert_eq!(text(&output.stdout), "out\n");
        assert!(text(&output.stderr).contains("err\n"), "{output:?}");
        // Without a name it is the first one.
        assert!(
            kubectl
                .good(&["exec", "box", "--", "hostname"])
                .contains("box")
        );
        // Nothing of the environment of `lab up`, which had SLUICE_LAB.
        let seen = kubectl.good(&["exec", "box", "-c", "shell", "--", "env"]);
        assert!(
            seen.contains("HOSTNAME=box\n") && !seen.contains("SLUICE_LAB"),
            "{seen}"
        );
        // Nor of the processes that a pod sees.
        let all = "cat /proc/[0-9]*/environ 2>/dev/null; true";
        let seen = kubectl.good(&["exec", "box", "-c", "shell", "--", "sh", "-c", all]);
        assert!(
            seen.contains("HOSTNAME=box") && !seen.contains("SLUICE_LAB"),
            "{seen}"
        );
        let mut cat = kubectl.command(&["exec", "-i", "box", "-c", "shell", "--", "cat"]);
        let mut cat = cat
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        cat.stdin
            .take()
            .unwrap()
            .write_all(b"there and back")
            .unwrap();
        assert_eq!(
            text(&cat.wait_with_output().unwrap().stdout),
            "there and back"
        );
        let size = kubectl.on_terminal("exec -it box -c shell -- stty size", "");
        assert!(size.contains("33 101"), "{size}");
        let shell = "exec -it box -c shell -- sh -c 'tty; read it; echo =$it='";
        let shown = kubectl.on_terminal(shell, "typed\n");
        assert!(
            shown.contains("/dev/") && shown.contains("=typed="),
            "{shown}"
        );

        for (words, expect) in [
            (
                &["exec", "box", "-c", "shell", "--", "no-such-program"][..],
                "exec: \"no-such-program\": executable file not found in $PATH: no image is run",
            ),
            (
                &["exec", "box", "-c", "other", "--", "ls"],
                "container other is not valid for pod box",
            ),
            (
                &["exec", "nowhere", "--", "ls"],
                "pod nowhere does not have a host assigned",
            ),
            (&["exec", "none", "--", "ls"], "pods \"none\" not found"),
            (
                &["exec", "lacking", "-c", "program", "--", "ls"],
                "container not found (\"program\")",
            ),
        ] {
            let said = kubectl.bad(words);
            assert!(said.contains(expect), "{words:?}: {said}");
        }
    });
}

#[test]
fn what_cannot_be_run_says_so() {
    on_each(|kubectl| {
        let lab = kubectl.lab;
        let waiting = lab.until("the containers wait", || {
            let pod = lab.json(&["pod", "lacking"]);
            let all = pod["status"]["containerStatuses"].as_array()?.clone();
            let all: Vec<_> = all
                .iter()
                .map(|it| it["state"]["waiting"].clone())
                .collect();
            all.iter()
                .all(|it| it["message"].is_string())
                .then_some(all)
        });
        assert_eq!(waiting[0]["reason"], "RunContainerError");
        assert_eq!(waiting[1]["reason"], "ErrImagePull");
        let described = kubectl.good(&["describe", "pod", "lacking"]);
        assert!(described.contains("Error: exec: \"no-such-program\": executable file not found"));
        assert!(
            described.contains("with args alone is not known here"),
            "{described}"
        );
    });
}

#[test]
fn files_are_copied() {
    on_each(|kubectl| {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let data: Vec<u8> = (0..10u32 << 20)
            .map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        fs::write(path("data"), &data).unwrap();
        kubectl.good(&["cp", &path("data"), "box:/tmp/data", "-c", "shell"]);
        kubectl.good(&["cp", "box:/tmp/data", &path("back"), "-c", "shell"]);
        assert!(
            fs::read(path("back")).unwrap() == data,
            "10 MiB there and back"
        );
    });
}

#[test]
fn ports_are_forwarded() {
    on_each(|kubectl| {
        let mut command = kubectl.command(&["port-forward", "pod/box", ":8080", ":1"]);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Ends(piped.spawn().unwrap());
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut port = |remote: &str| -> u16 {
            let line = lines.by_ref().map(Result::unwrap).find(|it| {
                it.starts_with("Forwarding from 127.0.0.1:")
                    && it.ends_with(&format!("-> {remote}"))
            });
            let line = line.unwrap();
            let port = line.split([':', ' ']).nth(3).unwrap();
            port.parse().unwrap_or_else(|_| panic!("{line}"))
        };
        let (open, closed) = (port("8080"), port("1"));
        for _ in 0..20 {
            let mut stream = TcpStream::connect(("127.0.0.1", open)).unwrap();
            let request = b"GET /hostname HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(
                answer.ends_with("box\n") || answer.ends_with("box"),
                "{answer}"
            );
        }
        let mut stream = TcpStream::connect(("127.0.0.1", closed)).unwrap();
        // A connection that is refused in the pod is closed here.
        let _ = stream.read(&mut [0]);
        let mut errors = BufReader::new(child.0.stderr.take().unwrap()).lines();
        let said = errors.find_map(|it| it.ok().filter(|it| it.contains("localhost:1")));
        assert!(
            said.unwrap()
                .contains("failed to connect to localhost:1 inside namespace")
        );
    });
}

/// A child that is killed with the value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn containers_are_attached_to() {
    on_each(|kubectl| {
        let mut attach = kubectl.command(&["attach", "-i", "echo"]);
        let piped = attach.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Ends(piped.spawn().unwrap());
        let mut keyboard = child.0.stdin.take().unwrap();
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let word = format!("from {}", kubectl.program);
        writeln!(keyboard, "{word}").unwrap();
        let found = lines
            .by_ref()
            .map(Result::unwrap)
            .find(|it| *it == format!("got {word}"));
        assert!(found.is_some());
        drop(child);
        // Its input goes on: it is not `stdinOnce`.
        let mut follow = kubectl.command(&["logs", "-f", "echo"]);
        let mut follow = Ends(follow.stdout(Stdio::piped()).spawn().unwrap());
        let output = BufReader::new(follow.0.stdout.take().unwrap());
        let mut lines = output.lines().map(Result::unwrap);
        assert!(lines.any(|it| it == format!("got {word}")));
        drop(follow);

        for (flags, typed, expect) in [
            (
                "--restart=Never --image=busybox -- sh -c 'nslookup kubernetes; true'",
                "",
                "10.96.0.1",
            ),
            (
                "--restart=Never --image=busybox",
                "echo al''ive; exit\n",
                "alive",
            ),
            (
                "--image=busybox --overrides='{\"spec\":{\"terminationGracePeriodSeconds\":1}}' -- sh -c 'echo be''gun; read it; echo =$it='",
                "typed\n",
                "=typed=",
            ),
        ] {
            let shown = kubectl.on_terminal(&format!("run tmp --rm -it {flags}"), typed);
            assert!(shown.contains(expect), "{flags}: {shown}");
            assert!(shown.contains("pod \"tmp\" deleted"), "{flags}: {shown}");
            kubectl.lab.until("the pod is gone", || {
                (!kubectl.run(&["get", "pod", "tmp"]).status.success()).then_some(())
            });
        }
        let words = [
            "run",
            "tmp",
            "--rm",
            "-i",
            "--restart=Never",
            "--image=busybox",
            "--",
            "wc",
            "-c",
        ];
        let mut count = kubectl.command(&words);
        let mut count = count
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        count
            .stdin
            .take()
            .unwrap()
            .write_all(&[b'x'; 100_000])
            .unwrap();
        let output = count.wait_with_output().unwrap();
        assert!(text(&output.stdout).contains("100000"), "{output:?}");
    });
}

#[test]
fn sessions_end_with_their_client_and_their_pod() {
    on_each(|kubectl| {
        let lab = kubectl.lab;
        let sleepers = |seconds: &str| {
            let ps = kubectl.good(&["exec", "box", "-c", "shell", "--", "ps"]);
            ps.lines()
                .filter(|it| it.ends_with(&format!("sleep {seconds}")))
                .count()
        };
        let sleep = ["exec", "box", "-c", "shell", "--", "sleep", "4321"];
        let mut client = Ends(kubectl.command(&sleep).spawn().unwrap());
        lab.until("the program runs", || (sleepers("4321") > 0).then_some(()));
        client.0.kill().unwrap();
        lab.until("the program is gone", || {
            (sleepers("4321") == 0).then_some(())
        });

        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: short}\nspec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: busybox, command: [sleep, '1000']}]}\n";
        assert!(lab.apply(pod).status.success());
        lab.until("it runs", || {
            (lab.json(&["pod", "short"])["status"]["phase"] == "Running").then_some(())
        });
        let mut client =
            kubectl.command(&["exec", "short", "--", "sh", "-c", "echo ready; sleep 1234"]);
        let mut client = Ends(client.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        let mut output = BufReader::new(client.0.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kubectl.good(&["delete", "pod", "short", "--wait=false"]);
        assert_eq!(client.0.wait().unwrap().code(), Some(137));
        assert_eq!(sleepers("1234"), 0);
    });
}

#[test]
fn a_lab_ends_with_open_sessions() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    let config = lab.good(&["kubeconfig"]).trim().to_owned();
    assert!(lab.apply(PODS).status.success());
    lab.until("box", || {
        (lab.json(&["pod", "box"])["status"]["phase"] == "Running").then_some(())
    });
    let mut clients = Vec::new();
    for program in of_both_ages() {
        let kubectl = Kubectl {
            program: &program,
            lab: &lab,
            config: config.clone(),
        };
        let mut client = kubectl.command(&[
            "exec",
            "box",
            "-c",
            "shell",
            "--",
            "sh",
            "-c",
            "echo ready; exec sleep 7654",
        ]);
        let mut client = Ends(
            client
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let mut line = String::new();
        let mut output = BufReader::new(client.0.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        clients.push(client);
    }
    lab.good(&["down"]);
    for client in &mut clients {
        // Its exit code is its own affair: over SPDY it is 0.
        client.0.wait().unwrap();
    }
    let is_left = |it: &fs::DirEntry| {
        let words = fs::read(it.path().join("cmdline")).unwrap_or_default();
        words == b"sleep\x007654\x00"
    };
    let left = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(is_left)
        .count();
    assert_eq!(left, 0);
}
