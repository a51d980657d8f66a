//! Mistakes of users, and parts that are killed.

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Lab, text};

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
fn any_part_may_be_killed() {
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
    // The server: pods, agents and connections go on meanwhile.
    let server = kill_hard(&lab, "lab serve");
    lab.until("another server", || {
        pid_of(&lab, "lab serve").filter(|it| *it != server)
    });
    lab.until("its API", || {
        lab.run(&["get", "nodes"]).status.success().then_some(())
    });
    assert_eq!(pods(), before);
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
    let refused = lab.bad(&["up", "--network", "vxlan"]);
    assert!(refused.contains("runs already"), "{refused}");
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
            .env("SLUICE", crate::SLUICE)
            .env("SLUICE_LAB", &lab.name);
        command.output().unwrap()
    };
    let output = unshared(
        "mkdir -p /var/lib/sluice/labs && mount -t tmpfs -o size=3m t /var/lib/sluice/labs && \
         $SLUICE lab up --nodes 1 >&2 && \
         dd if=/dev/zero of=/var/lib/sluice/labs/full bs=4k 2>/dev/null; \
         for i in $(seq 200); do printf 'apiVersion: v1\\nkind: Service\\nmetadata: {name: s%s}\\nspec: {ports: [{port: 80}]}\\n---\\n' $i; done > $HOME/some.yaml; \
         $SLUICE lab apply -f $HOME/some.yaml > /dev/null; echo refused $?; \
         rm $HOME/some.yaml /var/lib/sluice/labs/full; \
         $SLUICE lab get nodes && $SLUICE lab down && ls /var/lib/sluice/labs",
    );
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("refused 1"), "{stdout}{stderr}");
    assert!(stderr.contains("No space left"), "{stdout}{stderr}");
    assert!(
        output.status.success() && stdout.contains("node-a"),
        "{stdout}{stderr}"
    );
}
