use super::*;
use crate::images::StandIns;

#[test]
fn command_and_args_are_programs_of_this_machine() {
    let texts = |it: &[&str]| -> Option<Vec<String>> {
        (!it.is_empty()).then(|| it.iter().map(|it| (*it).to_owned()).collect())
    };
    let show = |image: &str, command: &[&str], args: &[&str], stdin: bool| {
        let container = Container {
            name: "c".to_owned(),
            image: Some(image.to_owned()),
            command: texts(command),
            args: texts(args),
            stdin: Some(stdin),
            ..Container::default()
        };
        let entry = Entry {
            variables: vec![("WHERE".to_owned(), "/".to_owned())],
            ..Entry::default()
        };
        match words(&container, &entry, None) {
            Ok(Words::None) => "none".to_owned(),
            Ok(Words::Ports(ports)) => {
                let ports = ports.iter().map(Port::to_string);
                ports.collect::<Vec<_>>().join(" ")
            }
            Ok(Words::Sick(seconds)) => format!("well for {seconds} s"),
            Ok(Words::Program(program, rest)) => format!("{program} {}", rest.join(" ")),
            Err(it) => format!("{}: {}", it.reason, &it.message[..17]),
        }
    };
    for (image, command, args, stdin, expect) in [
        ("nginx", &[][..], &[][..], false, "none"),
        (
            "nginx",
            &["/bin/sh", "-c"],
            &["ls $(WHERE)"],
            false,
            "/bin/sh -c ls /",
        ),
        ("any", &[], &["sh", "-c", "true"], false, "sh -c true"),
        ("busybox:1.36", &[], &[], true, "sh "),
        ("busybox", &[], &[], false, "none"),
        ("nginx", &[], &[], true, "none"),
        (
            "any",
            &[],
            &["-text=hello"],
            false,
            "ErrImagePull: no image is run, ",
        ),
        (
            "any",
            &["/no/such"],
            &[],
            false,
            "RunContainerError: exec: \"/no/such\":",
        ),
        (
            "any",
            &[],
            &["no-such-program"],
            false,
            "RunContainerError: exec: \"no-such-pr",
        ),
        (
            "a/agnhost:2.53",
            &[],
            &["netexec"],
            false,
            "8080/tcp 8081/udp",
        ),
        (
            "agnhost",
            &["/agnhost"],
            &["netexec", "--http-port=80", "--udp-port", "-1"],
            false,
            "80/tcp",
        ),
        (
            "agnhost",
            &["/agnhost", "serve-hostname", "--port", "80"],
            &[],
            false,
            "80/tcp",
        ),
        ("agnhost", &["sh"], &[], false, "sh "),
        ("agnhost", &[], &["liveness"], false, "well for 10 s"),
        ("agnhost", &[], &["pause"], false, "sleep infinity"),
        (
            "registry.k8s.io/pause:3.10",
            &[],
            &[],
            false,
            "sleep infinity",
        ),
        (
            "agnhost",
            &[],
            &["webhook"],
            false,
            "RunContainerError: no image is run: ",
        ),
    ] {
        assert_eq!(
            show(image, command, args, stdin),
            expect,
            "{image} {command:?} {args:?}"
        );
    }
}

#[test]
fn containers_of_a_pod_share_its_ports() {
    let pod = |containers: &str| -> Pod {
        let text = format!("{{\"spec\": {{\"containers\": [{containers}]}}}}");
        serde_json::from_str(&text).unwrap()
    };
    let plain = |name: &str| format!("{{\"name\": \"{name}\", \"image\": \"any\"}}");
    let serving = "{\"name\": \"s\", \"ports\": [{\"containerPort\": 80}]}";
    let words = "{\"name\": \"w\", \"command\": [\"sleep\", \"1\"]}";
    for (containers, expected) in [
        (plain("a"), "80/tcp,8080/tcp"),
        (format!("{},{}", plain("a"), plain("b")), "80/tcp,8080/tcp;"),
        (format!("{serving},{}", plain("b")), "80/tcp;8080/tcp"),
        (
            format!("{},{serving},{}", plain("a"), plain("b")),
            "8080/tcp;80/tcp;",
        ),
        (format!("{words},{}", plain("b")), ";80/tcp,8080/tcp"),
        (
            "{\"name\": \"h\", \"image\": \"registry.k8s.io/serve_hostname\"}".to_owned(),
            "80/tcp,8080/tcp,9376/tcp",
        ),
    ] {
        let pod = pod(&containers);
        let all = pod.spec.as_ref().unwrap().containers.iter();
        let shown = all.map(|it| {
            let ports = ports(&pod, it)
                .iter()
                .map(Port::to_string)
                .collect::<Vec<_>>();
            ports.join(",")
        });
        assert_eq!(
            shown.collect::<Vec<_>>().join(";"),
            expected,
            "{containers}"
        );
    }
}

#[test]
fn a_program_in_the_place_of_an_image_has_its_entrypoint() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.yaml");
    let rows = "a: {program: sh, path: /bin/sh, args: [-c, 'true']}\nagnhost: {program: sh}\n";
    std::fs::write(&table, rows).unwrap();
    let images = StandIns::read(&[], &[table]).unwrap();
    for (image, command, args, expect) in [
        ("a:1", &[][..], &[][..], "/bin/sh -c true"),
        ("a:1", &[], &["-x"], "/bin/sh -x"),
        ("a:1", &["sh"], &[], "sh "),
        ("b/agnhost:2", &[], &[], "/agnhost pause"),
        (
            "b/agnhost:2",
            &[],
            &["netexec", "--udp-port=1"],
            "/agnhost netexec --udp-port=1",
        ),
        (
            "b/agnhost:2",
            &["/agnhost", "webhook"],
            &["x"],
            "/agnhost webhook x",
        ),
    ] {
        let texts = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        let container = Container {
            image: Some(image.to_owned()),
            command: Some(texts(command)),
            args: Some(texts(args)),
            ..Container::default()
        };
        let stand_in = images.of(image).unwrap();
        let entry = Entry {
            mounts: stand_in.mounts(),
            ..Entry::default()
        };
        let found = words(&container, &entry, Some(stand_in)).unwrap();
        let Words::Program(program, rest) = found else {
            panic!("{image}: {found:?}");
        };
        assert_eq!(
            format!("{program} {}", rest.join(" ")),
            expect,
            "{image} {args:?}"
        );
    }
}

#[test]
fn images_of_sluice_are_this_program() {
    for (image, command, args, expect) in [
        (
            "sluice:0.1",
            vec!["/usr/local/bin/kube-proxy"],
            vec!["--hostname-override=$(NODE_NAME)"],
            "- proxy --hostname-override=n1",
        ),
        (
            "example.com:5000/a/sluice-iptables@sha256:1",
            vec![],
            vec!["status"],
            "- status",
        ),
        (
            "sluice-dns",
            vec![],
            vec!["-conf", "$$(X)"],
            "- dns -conf $(X)",
        ),
        (
            "sluice",
            vec!["/bin/sh", "-c"],
            vec!["true"],
            "/bin/sh -c true",
        ),
    ] {
        let texts = |it: Vec<&str>| Some(it.into_iter().map(str::to_owned).collect());
        let container = Container {
            image: Some(image.to_owned()),
            command: texts(command),
            args: texts(args),
            ..Container::default()
        };
        assert!(own_image(&container).is_some(), "{image}");
        let variables = vec![("NODE_NAME".to_owned(), "n1".to_owned())];
        let (program, arguments) = of_image(&container, &variables);
        let program = program.map_or("-".to_owned(), |it| it.display().to_string());
        assert_eq!(
            format!("{program} {}", arguments.join(" ")),
            expect,
            "{image}"
        );
    }
    let other = |image: &str| Container {
        image: Some(image.to_owned()),
        ..Container::default()
    };
    assert_eq!(own_image(&other("sluice-lab")), None);
    assert_eq!(own_image(&other("sluice/nginx")), None);
}
