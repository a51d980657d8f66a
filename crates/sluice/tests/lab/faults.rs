//! Mistakes of users, and parts that are killed.

use std::fs;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::lab::{Lab, text};

/// The process of a lab whose command line has this, as the machine numbers it.
fn pid_of(lab: &Lab, what: &str) -> Option<Pid> {
    let found = fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = text(&line).replace('\0', " ");
        let of_lab = line.split([' ', '/']).any(|it| it == lab.name);
        (line.contains(what) && of_lab).then_some(pid)
    });
    found.map(Pid::from_raw)
}

fn kill_hard(lab: &Lab, what: &str) -> Pid {
    let pid = pid_of(lab, what).unwrap_or_else(|| panic!("no process {what}"));
    kill(pid, Signal::SIGKILL).unwrap();
    pid
}

#[test]
fn a_lab_recovers_when_any_of_its_processes_is_killed() {
    let Some(lab) = Lab::up(&["--nodes", "2"]) else {
        return;
    };
    let pods = || {
        let mut pods: Vec<_> = lab
            .items(&["pods"])
            .iter()
            .map(|it| {
                (
                    it["metadata"]["uid"].to_string(),
                    it["status"]["podIP"].to_string(),
                )
            })
            .collect();
        pods.sort();
        pods
    };
    let before = pods();
    // As if today's flags were others than those that the agents run with.
    let record = lab.dir().join("nodes/node-b/record.json");
    let written = fs::read_to_string(&record).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert!(other["flags"][0].is_string(), "{written}");
    other["flags"] = serde_json::json!([]);
    fs::write(&record, other.to_string()).unwrap();
    let agents = ["node-a", "node-b"].map(|it| format!("--hostname-override {it}"));
    let agents = || agents.each_ref().map(|it| pid_of(&lab, it));
    let old_agents = agents();
    // The server: pods, agents and connections go on meanwhile.
    let server = kill_hard(&lab, "lab serve");
    lab.until("another server", || {
        pid_of(&lab, "lab serve").filter(|it| *it != server)
    });
    lab.until("its API", || {
        lab.run(&["get", "nodes"]).status.success().then_some(())
    });
    assert_eq!(pods(), before);
    lab.until("another agent of node-b", || {
        agents()[1].filter(|it| Some(*it) != old_agents[1])
    });
    assert_eq!(agents()[0], old_agents[0]);
    lab.spread("client", "svc/web", 3);
    let restarts = |at: usize| {
        lab.items(&["pods"])[at]["status"]["containerStatuses"][0]["restartCount"].as_u64()
    };
    assert_eq!((0..3).map(restarts).collect::<Vec<_>>(), [Some(0); 3]);
    // It still works: a change arrives.
    lab.good(&["scale", "deployment/web", "--replicas", "4"]);
    lab.good(&["rollout", "status", "deployment/web"]);
    // An agent.
    let agent = kill_hard(&lab, "--hostname-override node-a");
    lab.until("another agent", || {
        pid_of(&lab, "--hostname-override node-a").filter(|it| *it != agent)
    });
    lab.spread("node-a", "svc/web", 4);
    // A container.
    let name = lab.items(&["pods"])[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    lab.good(&["kill", &name]);
    lab.until("a restart", || {
        let pod = lab.json(&["pod", &name]);
        let status = &pod["status"]["containerStatuses"][0];
        (status["restartCount"] == 1 && status["ready"] == true).then_some(())
    });
    // Process 1 takes all with it, and the objects stay.
    kill_hard(&lab, "lab init");
    lab.until("the end", || {
        pid_of(&lab, "lab serve").is_none().then_some(())
    });
    lab.until("it is known to be killed", || {
        lab.good(&["list"]).contains("killed").then_some(())
    });
    let said = lab.bad(&["get", "pods"]);
    assert!(said.contains("starts it again"), "{said}");
    lab.good(&["up"]);
    assert_eq!(lab.items(&["pods"]).len(), 4);
    lab.spread("client", "svc/web", 4);
    // What the first life wrote down is no trouble for a server of the second.
    let server = kill_hard(&lab, "lab serve");
    lab.until("another server", || {
        pid_of(&lab, "lab serve").filter(|it| *it != server)
    });
    lab.spread("client", "svc/web", 4);
    assert!(lab.good(&["list"]).contains("running"));
    let server = pid_of(&lab, "lab serve").unwrap();
    kill(server, Signal::SIGSTOP).unwrap();
    let listed = lab.good(&["list"]);
    kill(server, Signal::SIGCONT).unwrap();
    assert!(listed.contains("does not answer"), "{listed}");
    let refused = lab.bad(&["up", "--network", "vxlan"]);
    assert!(refused.contains("runs already"), "{refused}");
}

#[test]
fn an_interrupted_start_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    let file = lab.files.path().join("never.yaml");
    let never = "apiVersion: v1\nkind: Pod\nmetadata: {name: never}\n\
         spec: {containers: [{name: c, image: any, readinessProbe: {exec: {command: ['false']}}}]}\n";
    fs::write(&file, never).unwrap();
    let start = |path: &str| {
        let mut up = lab.command(&["up", path]);
        up.stderr(Stdio::piped()).spawn().unwrap()
    };
    let interrupt = |up: Child| {
        let pid = Pid::from_raw(up.id().cast_signed());
        // More than once, as people do.
        kill(pid, Signal::SIGINT).unwrap();
        kill(pid, Signal::SIGINT).unwrap();
        let output = up.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stderr)
    };
    let up = start(file.to_str().unwrap());
    lab.until("its first process", || pid_of(&lab, "lab init"));
    let said = interrupt(up);
    assert!(said.contains("interrupted"), "{said}");
    assert!(!lab.dir().exists());
    assert_eq!(pid_of(&lab, "lab "), None);
    // One that was killed keeps its objects.
    lab.good(&["up", "--no-wait", file.to_str().unwrap()]);
    kill_hard(&lab, "lab init");
    lab.until("the end", || {
        lab.good(&["list"]).contains("killed").then_some(())
    });
    let up = start(file.to_str().unwrap());
    lab.until("its first process", || pid_of(&lab, "lab init"));
    let said = interrupt(up);
    assert!(said.contains("keeps its objects"), "{said}");
    assert_eq!(pid_of(&lab, "lab "), None);
    lab.good(&["up", "--no-wait"]);
    assert_eq!(lab.items(&["pods"]).len(), 1);
}

#[test]
fn bad_manifests_make_nothing() {
    let Some(lab) = Lab::new() else { return };
    let file = lab.files.path().join("bad.yaml");
    for (manifest, said) in [
        ("kind: Service\nspec: [\n", "bad.yaml:"),
        (
            "apiVersion: v1\nkind: Sercive\nmetadata: {name: web}\n",
            "there is no kind Sercive",
        ),
        (
            "apiVersion: v1\nkind: Service\nmetadata: {}\n",
            "metadata.name: is required",
        ),
    ] {
        fs::write(&file, manifest).unwrap();
        let refused = lab.bad(&["up", file.to_str().unwrap()]);
        assert!(refused.contains(said), "{refused}");
        assert!(!lab.dir().exists(), "{said}");
    }
    let refused = lab.bad(&["up", "/nowhere"]);
    assert!(refused.contains("/nowhere"), "{refused}");
    assert!(lab.bad(&["up", "--name", "A b"]).contains("--name"));
}

#[test]
fn what_the_api_refuses_is_named_and_the_rest_is_written() {
    let Some(lab) = Lab::up(&["--nodes", "1"]) else {
        return;
    };
    let output = lab.apply(
        "apiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: 99999}]}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {name: good}\nspec: {ports: [{port: 80}]}\n",
    );
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(
        said.contains("services/bad: ") && said.contains("port"),
        "{said}"
    );
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: odd, annotations: {sluice.dev/proxy-mode: odd}}\n";
    let said = text(&lab.apply(node).stderr);
    assert!(
        said.contains("sluice.dev/proxy-mode") && said.contains("no such mode"),
        "{said}"
    );
    assert_eq!(lab.json(&["svc", "good"])["metadata"]["name"], "good");
    assert!(lab.bad(&["get", "svc", "bad"]).contains("not found"));
    assert!(lab.bad(&["get", "sercives"]).contains("there is no kind"));
    assert!(
        lab.bad(&["exec", "nobody", "--", "true"])
            .contains("no node and no pod nobody")
    );
    assert!(
        lab.bad(&["exec", "node-a", "--", "no-such-program"])
            .contains("no-such-program")
    );
    let code = lab
        .run(&["exec", "node-a", "--", "sh", "-c", "exit 7"])
        .status
        .code();
    assert_eq!(code, Some(7));
}

#[test]
fn a_full_disk_refuses_and_loses_nothing() {
    let Some(lab) = Lab::new() else { return };
    // A folder of a few megabytes where labs are kept.
    let home = lab.files.path().join("home");
    fs::create_dir(&home).unwrap();
    let unshared = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
        command
            .env("HOME", &home)
            .env("SLUICE", crate::lab::SLUICE)
            .env("SLUICE_LAB", &lab.name);
        command.output().unwrap()
    };
    let output = unshared(
        "mkdir -p /var/lib/sluice/labs && mount -t tmpfs -o size=3m t /var/lib/sluice/labs && \
         dd if=/dev/zero of=/var/lib/sluice/labs/full bs=4k 2>/dev/null; \
         $SLUICE lab up --nodes 1; echo refused $? with $(ls /var/lib/sluice/labs); \
         rm /var/lib/sluice/labs/full; \
         $SLUICE lab up --nodes 1 >&2 && \
         dd if=/dev/zero of=/var/lib/sluice/labs/full bs=4k 2>/dev/null; \
         for i in $(seq 200); do printf 'apiVersion: v1\\nkind: Service\\nmetadata: {name: s%s}\\nspec: {ports: [{port: 80}]}\\n---\\n' $i; done > $HOME/some.yaml; \
         $SLUICE lab apply -f $HOME/some.yaml > /dev/null; echo refused $?; \
         rm $HOME/some.yaml /var/lib/sluice/labs/full; \
         $SLUICE lab get nodes && $SLUICE lab down && ls /var/lib/sluice/labs",
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(
        stdout.starts_with("refused 1 with full\n"),
        "{stdout}{stderr}"
    );
    assert!(stdout.contains("refused 1\n"), "{stdout}{stderr}");
    assert!(
        stderr.matches("No space left").count() > 1,
        "{stdout}{stderr}"
    );
    assert!(
        output.status.success() && stdout.contains("node-a"),
        "{stdout}{stderr}"
    );
}

/// As in a container whose root has no capabilities.
#[test]
fn without_privileges_it_says_what_it_needs_and_leaves_nothing() {
    let labs = tempfile::tempdir().unwrap();
    let mut up = Command::new("setpriv");
    up.args(["--bounding-set=-all", "--inh-caps=-all", crate::lab::SLUICE]);
    let up = up.args(["lab", "up"]).env("SLUICE_LABS", labs.path());
    let output = up.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("run it as root"), "{said}");
    assert_eq!(fs::read_dir(labs.path()).unwrap().count(), 0);
}
