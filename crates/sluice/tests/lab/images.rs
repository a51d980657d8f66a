//! Programs of this machine in the place of images.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::lab::{Lab, text};

/// A program that says how it was started, and waits.
const PROGRAM: &str = "#!/bin/sh\necho \"$0 $*\"\n[ \"$1\" = once ] || exec sleep 100000\n";

const PODS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: play}
spec:
  containers:
  - {name: default, image: registry.example/e2e/echoer:2.1}
  - {name: args, image: echoer, args: [-x, one]}
  - {name: command, image: echoer, command: [/echoer, two]}
  - {name: tagged, image: 'a/echoer:1'}
  - {name: table, image: 'registry.example/shop/cart@sha256:00'}
---
apiVersion: v1
kind: Pod
metadata: {name: lacking}
spec:
  containers:
  - {name: program, image: a/other-echoer, command: [/other-echoer]}
  - {name: args, image: 'other:1', args: [--flag]}
  - {name: server, image: e2e/agnhost, args: [webhook]}
";

#[test]
fn a_program_stands_in_for_an_image() {
    let Some(lab) = Lab::new() else { return };
    let program = lab.files.path().join("program");
    fs::write(&program, PROGRAM).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let table = lab.files.path().join("table.yaml");
    let row =
        "{program: ./program, path: /opt/cart/bin, command: [/opt/cart/bin, -v], args: [serve]}";
    fs::write(&table, format!("shop/cart: {row}\n")).unwrap();
    let (program, table) = (program.to_str().unwrap(), table.to_str().unwrap());
    let every = format!("echoer={program}");
    let one = format!("echoer:1={program}");
    let flags = ["--nodes", "1", "--image", &every, "--image", &one];
    let flags = [&flags[..], &["--images", table]].concat();

    // Bad flags make no lab.
    let said = lab.bad(&["up", "--image", "a=/no/such", "--image", "b"]);
    for expect in ["--image a=/no/such: program", "--image b: program"] {
        assert!(said.contains(expect), "{said}");
    }
    assert!(!lab.dir().exists());

    lab.good(&[&["up"], &flags[..]].concat());
    assert!(lab.apply(PODS).status.success());
    for (container, expect) in [
        ("default", "/echoer \n"),
        ("args", "/echoer -x one\n"),
        ("command", "/echoer two\n"),
        ("tagged", "/echoer \n"),
        ("table", "/opt/cart/bin -v serve\n"),
    ] {
        lab.until(container, || {
            let log = lab.run(&["logs", "play", "-c", container]);
            (text(&log.stdout) == expect).then_some(())
        });
    }
    // Whoever runs something in the pod finds it there, too, and nowhere else.
    assert_eq!(
        lab.good(&["exec", "play", "--", "/echoer", "once"]),
        "/echoer once\n"
    );
    assert!(!fs::exists("/echoer").unwrap());

    // What nobody stands in for waits, and says how somebody would.
    let waiting = lab.until("the containers wait", || {
        let pod = lab.json(&["pod", "lacking"]);
        let all = pod["status"]["containerStatuses"].as_array()?.clone();
        let all = all.iter().map(|it| {
            it["state"]["waiting"]["message"]
                .as_str()
                .map(str::to_owned)
        });
        all.collect::<Option<Vec<_>>>()
    });
    for (message, image) in waiting.iter().zip(["other-echoer", "other", "agnhost"]) {
        let flag = format!("`sluice lab up --image {image}=PROGRAM`");
        assert!(message.contains(&flag), "{message}");
    }
    let said = lab.bad(&["up", "--image", "echoer=sh"]);
    assert!(said.contains("runs already"), "{said}");
}
