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

const SERVERS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: pages}
spec:
  containers:
  - name: nginx
    image: nginx:1.27
    volumeMounts: [{name: html, mountPath: /usr/share/nginx/html}]
  - name: writer
    image: busybox
    command: [sh, -c, 'echo of the writer > /html/index.html; sleep 100000']
    volumeMounts: [{name: html, mountPath: /html}]
  volumes: [{name: html, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: written}
spec: {containers: [{name: nginx, image: nginx, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: echo}
spec: {containers: [{name: echo, image: 'registry.k8s.io/echoserver:1.10'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: hostname}
spec: {containers: [{name: hostname, image: registry.k8s.io/serve_hostname}]}
";

/// What tutorials do with images that nobody has here.
#[test]
fn servers_of_tutorials_do_what_they_are_asked_for() {
    let Some(lab) = Lab::new() else { return };
    lab.good(&["up", "--nodes", "1"]);
    assert!(lab.apply(SERVERS).status.success());
    let asks = |pod: &str, path: &str, expect: &str| {
        lab.until(&format!("{pod} answers {path} with {expect}"), || {
            let ip = lab.json(&["pod", pod])["status"]["podIP"].clone();
            let url = format!("http://{}{path}", ip.as_str()?);
            let output = lab.run(&["exec", "node-a", "--", "curl", "-s", &url]);
            text(&output.stdout).starts_with(expect).then_some(())
        });
    };
    asks("pages", "/", "of the writer\n");
    // Before anybody writes a page it is the name, as everywhere.
    asks("written", "/", "written 192.168.100.10 ");
    let script = "echo '<b>mine</b>' > /usr/share/nginx/html/index.html";
    lab.good(&["exec", "written", "--", "sh", "-c", script]);
    asks("written", "/", "<b>mine</b>\n");
    asks("written", "/index.html", "<b>mine</b>\n");
    asks("written", "/hostname", "written");
    let ip = lab.json(&["pod", "echo"])["status"]["podIP"].clone();
    asks("echo", ":8080/", "echo 192.168.100.10 ");
    let url = format!("http://{}:8080", ip.as_str().unwrap());
    let said = lab.good(&["exec", "node-a", "--", "curl", "-s", &url]);
    assert!(
        said.ends_with("\nclient_address=192.168.100.10\n"),
        "{said}"
    );
    asks("hostname", ":9376/", "hostname ");
}
