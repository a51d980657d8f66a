//! The command line as others see it: text, exit codes, no privileges.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn examples() -> String {
    format!("{}/../../examples", env!("CARGO_MANIFEST_DIR"))
}

fn sluice(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(args).env_remove("NO_COLOR");
    command.output().expect("the program was built")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// Runs the program, expects this exit code, returns stdout and stderr.
#[track_caller]
fn run(args: &[&str], code: i32) -> (String, String) {
    let output = sluice(args);
    let (out, err) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    (out, err)
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("writable");
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary path is text")
}

const COMMANDS: [&str; 7] = [
    "proxy",
    "render",
    "explain",
    "status",
    "cleanup",
    "completions",
    "man",
];

/// Files of anybody: what is said of them must not steer a terminal.
#[test]
fn texts_that_leave_have_no_control_characters() {
    let steers = |it: char| it.is_control() && !matches!(it, '\n' | '\t') || it == '\u{202e}';
    for corefile in [
        "(a\u{1b}[31mevil\u{1b}[2J) {\n errors\n",
        "(x\u{1b}[31m) {\n errors\n}\n(x\u{1b}[31m) {\n errors\n}\n",
        ". {\n whoami \u{202e}\n forward \u{1b}[2J 1.2.3.4\n}\n\u{1b}[31m {\n}\n",
    ] {
        let files = folder(&[("Core\u{202e}file", corefile)]);
        let path = files.path().join("Core\u{202e}file");
        let (out, err) = run(&["dns", "--conf", text(&path), "--check"], 1);
        assert!(!out.contains(steers) && !err.contains(steers), "{err:?}");
        assert!(err.contains(r"\u{202e}") && err.ends_with('\n'), "{err:?}");
    }
    for arguments in [
        &["x\u{202e}\u{1b}[31m"][..],
        &["render", "--manifests", "a", "b\u{202e}\u{9b}31m"],
        &["status", "--output", "\u{202e}"],
    ] {
        let (_, err) = run(arguments, 2);
        assert!(!err.contains(steers), "{err:?}");
        assert!(err.contains(r"\u{202e}") && err.ends_with('\n'), "{err:?}");
    }
    let files = folder(&[("a\u{1b}[31m\u{202e}.yaml", "kind: [\n")]);
    for output in ["text", "json"] {
        let (out, err) = run(
            &[
                "render",
                "--manifests",
                text(files.path()),
                "-o",
                output,
                "--hostname-override",
                "n",
            ],
            0,
        );
        assert!(
            !out.contains(steers) && !err.contains(steers),
            "{out:?} {err:?}"
        );
        assert!(err.contains(r"a\u{1b}[31m\u{202e}.yaml:"), "{err:?}");
    }
}

#[test]
fn help_names_every_command_and_each_shows_an_example() {
    let (help, _) = run(&["--help"], 0);
    for command in COMMANDS {
        assert!(
            help.contains(&format!("\n  {command} ")),
            "{command}: {help}"
        );
        let (help, _) = run(&[command, "--help"], 0);
        assert!(help.contains("Example"), "{help}");
        assert!(help.contains(&format!("  sluice {command}")), "{help}");
    }
}

#[test]
fn wrong_usage_has_exit_status_2() {
    for args in [
        &["frobnicate"][..],
        &[],
        &["proxy", "--frobnicate"],
        &["explain", "node"],
        &["render"],
        &["render", "--manifests", "/x", "--masquerade-bit", "32"],
        &["proxy", "--manifests", "/x", "--min-sync-period", "5"],
    ] {
        let (out, err) = run(args, 2);
        assert_eq!(out, "", "{args:?}");
        assert!(!err.is_empty(), "{args:?}");
    }
}

#[test]
fn all_wrong_flags_are_named_at_once() {
    let (_, err) = run(
        &["proxy", "--cluster-cidr", "x", "--masquerade-bit", "99"],
        2,
    );
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(
        lines,
        [
            "sluice: --iptables-masquerade-bit: 99: must be within 0 to 31",
            "sluice: --cluster-cidr: \"x\": must be a prefix such as 10.244.0.0/16, or one of each \
             family",
        ]
    );
}

#[test]
fn a_web_page_for_everybody_needs_a_token() {
    let page = [
        "proxy",
        "--manifests",
        "/x",
        "--web-bind-address",
        "0.0.0.0",
    ];
    let (_, err) = run(&page, 2);
    let expected = "sluice: --web-bind-address: 0.0.0.0:10261 is no loopback address: give \
                    --web-token-file, so that only those who know the token see the page\n";
    assert_eq!(err, expected);
    run(&["proxy", "--manifests", "/x", "--web-token-file", "/t"], 2);
}

#[test]
fn a_missing_folder_is_an_error_in_one_line() {
    let (_, err) = run(&["render", "--manifests", "/does/not/exist"], 1);
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("sluice: "), "{err}");
    assert!(err.contains("/does/not/exist"), "{err}");
}

#[test]
fn render_prints_the_rules_of_the_examples() {
    let args = ["render", "--hostname-override", "node-a", "--manifests"];
    let examples = examples();
    let args = [&args[..], &[&examples]].concat();
    let (rules, err) = run(&args, 0);
    assert_eq!(err, "");
    assert!(rules.contains("table ip sluice {"), "{rules}");
    assert!(rules.contains("default/web"), "{rules}");
    assert_eq!(run(&args, 0).0, rules, "the same every time");

    let (json, _) = run(&[&args[..], &["-o", "json"]].concat(), 0);
    let objects: Vec<serde_json::Value> = serde_json::from_str(&json).expect("a JSON list");
    let is_web = |it: &&serde_json::Value| it["comment"] == "default/web";
    let web = objects
        .iter()
        .find(is_web)
        .expect("an object of the Service");
    assert!(web["key"].is_string() && web["text"].is_string(), "{web}");
}

#[test]
fn render_prints_the_rules_of_each_mode() {
    let examples = examples();
    let args = |mode| {
        let node = ["--hostname-override", "node-a", "--proxy-mode", mode];
        [&["render", "--manifests", &examples][..], &node[..]].concat()
    };
    for (mode, expected) in [
        (
            "iptables",
            &[
                "# IPv4: iptables-restore --noflush",
                "# IPv6: ip6tables-restore --noflush",
                ":KUBE-SERVICES - [0:0]",
                "--comment \"default/web cluster IP\" -m tcp -p tcp -d 10.96.10.1 --dport 80 -j KUBE-SVC-",
            ][..],
        ),
        (
            "ipvs",
            &[
                "# ipset restore",
                "# ipvsadm -R",
                "# iptables-restore --noflush",
                "-A -t 10.96.10.1:80 -s rr",
                "KUBE-CLUSTER-IP 10.96.10.1,tcp:80",
            ],
        ),
        (
            "ebpf",
            &[
                "\"FRONTENDS\": [",
                "\"frontend\": \"10.96.10.1:80/tcp\"",
                "\"node\": \"any endpoint, masqueraded as clients of ClusterIPs are\"",
            ],
        ),
    ] {
        let (text, _) = run(&args(mode), 0);
        for part in expected {
            assert!(text.contains(part), "{mode}: no {part:?} in\n{text}");
        }
        let (json, _) = run(&[&args(mode)[..], &["-o", "json"]].concat(), 0);
        let objects: Vec<serde_json::Value> = serde_json::from_str(&json).expect("a JSON list");
        let texts = objects.iter().filter_map(|it| it["text"].as_str());
        let lines: Vec<&str> = texts.flat_map(str::lines).collect();
        let rules = text.lines().filter(|it| it.starts_with("-A KUBE-"));
        for rule in rules {
            assert!(lines.contains(&rule), "{mode}: no {rule:?} in JSON");
        }
    }
}

#[test]
fn render_tells_problems_and_strict_fails_on_them() {
    let folder = folder(&[("broken.yaml", "kind: [")]);
    let args = ["render", "--manifests", text(folder.path())];
    let (rules, err) = run(&args, 0);
    assert!(rules.contains("table ip sluice"), "{rules}");
    assert!(err.contains("broken.yaml"), "{err}");
    assert!(err.lines().all(|it| it.starts_with("sluice: ")), "{err}");
    run(&[&args[..], &["--strict"]].concat(), 1);
}

#[test]
fn explain_answers_for_addresses_services_and_pods() {
    let examples = examples();
    let explain = |from: &str, to: &str, code| {
        let node = "--hostname-override=node-a";
        run(&["explain", from, to, "--manifests", &examples, node], code)
    };
    let (by_name, _) = explain("node", "default/web", 0);
    let (by_address, _) = explain("node", "10.96.10.1:80", 0);
    assert_eq!(by_name, by_address);
    assert!(by_name.contains("default/web"), "{by_name}");
    let (refused, _) = explain("10.244.0.99", "10.96.10.1:81/tcp", 0);
    assert!(refused.to_lowercase().contains("reject"), "{refused}");
    explain("default/web-6c9f-a1", "default/shop:https/tcp", 0);
    explain("node", "default/nobody", 1);
    explain("nobody", "default/web", 1);

    let args = ["explain", "node", "default/web", "-o", "json"];
    let node = ["--hostname-override=node-a", "--manifests", &examples];
    let (json, _) = run(&[&args[..], &node].concat(), 0);
    serde_json::from_str::<serde_json::Value>(&json).expect("JSON");
}

#[test]
fn count_connections_says_where_it_does_nothing() {
    let folder = folder(&[]);
    let args = [
        "render",
        "--count-connections",
        "--manifests",
        text(folder.path()),
    ];
    for (mode, expected) in [
        ("nftables", ""),
        ("iptables", "the iptables mode counts packets, by rule"),
        ("ipvs", "the ipvs mode always counts connections"),
        (
            "ebpf",
            "the ebpf mode counts connections of the node, not of endpoints",
        ),
    ] {
        let (_, err) = run(&[&args[..], &["--proxy-mode", mode]].concat(), 0);
        let said: Vec<&str> = err.lines().filter(|it| it.contains("--count")).collect();
        match expected {
            "" => assert_eq!(said, [""; 0], "{mode}"),
            _ => assert_eq!(
                said,
                [format!(
                    "sluice: --count-connections does nothing: {expected}"
                )]
            ),
        }
    }
}

#[test]
fn status_without_an_agent_says_so() {
    let folder = folder(&[]);
    let socket = folder.path().join("sluice.sock");
    let (out, err) = run(&["status", "--socket", text(&socket)], 1);
    assert_eq!(out, "");
    let socket = socket.display();
    assert_eq!(
        err,
        format!("sluice: no agent at {socket}: is `sluice proxy` running?\n")
    );
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let (script, err) = run(&["completions", shell], 0);
        assert!(script.contains("cluster-cidr"), "{shell}: {script}");
        assert_eq!(err, "");
    }
}

#[test]
fn the_manual_page_has_every_command_and_its_flags() {
    let folder = folder(&[]);
    run(&["man", "--dir", text(folder.path())], 0);
    let pages = fs::read_dir(folder.path()).expect("written");
    let pages: BTreeMap<String, String> = pages
        .map(|it| {
            let path = it.expect("readable").path();
            let name = path.file_stem().expect("a name").to_string_lossy();
            (name.into_owned(), fs::read_to_string(&path).expect("text"))
        })
        .collect();
    for command in COMMANDS {
        assert!(
            pages.contains_key(&format!("sluice-{command}")),
            "{command}"
        );
    }
    assert!(pages["sluice-proxy"].contains("cluster\\-cidr"));
    assert_eq!(run(&["man"], 0).0, pages["sluice"]);
    assert_eq!(run(&["man", "lab", "demo"], 0).0, pages["sluice-lab-demo"]);
    let (_, err) = run(&["man", "lab", "frobnicate"], 2);
    let known = "sluice: `sluice lab` has no command \"frobnicate\": it has up, down, list,";
    assert!(
        err.starts_with(known) && !err.contains("supervise"),
        "{err}"
    );
    assert!(!pages.contains_key("sluice-lab-supervise"));
    for (name, page) in &pages {
        assert!(page.contains(&format!(".TH {name} 8")), "{page}");
        for section in ["\"EXIT STATUS\"", "FILES", "EXAMPLES", "\"SEE ALSO\""] {
            assert!(
                page.contains(&format!(".SH {section}\n")),
                "{name}: {section}"
            );
        }
        let plain = page.replace('\\', "");
        let words = plain.split([' ', ',', '\n']);
        for other in words.filter_map(|it| it.strip_suffix("(8)")) {
            assert!(pages.contains_key(other), "{name} names {other}(8)");
        }
    }
}

#[test]
fn man_has_no_complaint_about_any_page() {
    if Command::new("man").arg("--version").output().is_err() {
        eprintln!("SKIP: there is no `man`");
        assert!(std::env::var_os("CI").is_none(), "CI must run this");
        return;
    }
    let folder = folder(&[]);
    run(&["man", "--dir", text(folder.path())], 0);
    for page in fs::read_dir(folder.path()).expect("written") {
        let path = page.expect("readable").path();
        let mut man = Command::new("man");
        man.args(["--warnings", "--encoding=utf8", "--local-file"]);
        let output = man
            .arg(&path)
            .env("MANWIDTH", "80")
            .output()
            .expect("it is there");
        assert_eq!(stderr(&output), "", "{}", path.display());
        assert!(output.status.success() && stdout(&output).contains("NAME"));
    }
}

#[test]
fn errors_have_no_colour_in_a_pipe() {
    let (_, err) = run(&["render"], 2);
    assert!(!err.contains('\u{1b}'), "{err:?}");
}

#[test]
fn kube_proxys_name_and_flags() {
    let folder = folder(&[]);
    let kube_proxy = folder.path().join("kube-proxy");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluice"), &kube_proxy).expect("a free name");
    let mut command = Command::new(&kube_proxy);
    command.args(["--v=2", "--masquerade-all=maybe", "--hostname-override=x"]);
    let output = command.output().expect("the program was built");
    assert_eq!(output.status.code(), Some(2));
    let err = stderr(&output);
    assert!(err.contains("--masquerade-all: \"maybe\""), "{err}");
}

#[test]
fn kube_proxys_help_is_about_kube_proxy() {
    let folder = folder(&[]);
    let kube_proxy = folder.path().join("kube-proxy");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluice"), &kube_proxy).expect("a free name");
    let run = |flag| {
        let mut command = Command::new(&kube_proxy);
        command.arg(flag).output().expect("the program was built")
    };
    let help = stdout(&run("--help"));
    assert!(help.contains("Usage: kube-proxy [OPTIONS]\n"), "{help}");
    assert!(help.contains("\n  kube-proxy --manifests "), "{help}");
    assert!(!help.contains("sluice proxy"), "{help}");
    let wrong = run("--frobnicate");
    assert_eq!(wrong.status.code(), Some(2));
    let usage = stderr(&wrong);
    assert!(usage.contains("Usage: kube-proxy [OPTIONS]\n"), "{usage}");
}

#[test]
fn kube_proxys_version() {
    let folder = folder(&[]);
    let kube_proxy = folder.path().join("kube-proxy");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_sluice"), &kube_proxy).expect("a free name");
    let mut command = Command::new(&kube_proxy);
    let output = command
        .arg("--version")
        .output()
        .expect("the program was built");
    assert!(output.status.success());
    let line = stdout(&output);
    assert!(line.starts_with("Kubernetes v1."), "{line}");
    assert!(
        line.contains(&format!("Sluice {}", env!("CARGO_PKG_VERSION"))),
        "{line}"
    );
}

#[test]
fn help_is_in_groups() {
    let (help, _) = run(&["proxy", "--help"], 0);
    for group in [
        "Sluice:",
        "Kubernetes API:",
        "Data plane:",
        "Process, health and metrics:",
        "Conntrack:",
        "IPVS mode:",
        "Logging:",
        "Accepted and ignored:",
    ] {
        assert!(help.lines().any(|it| it == group), "{group} {help}");
    }
    let (help, _) = run(&["render", "--help"], 0);
    assert!(help.contains("--nodeport-addresses"), "{help}");
    assert!(!help.contains("--conntrack-min"), "{help}");
}

/// What kubeadm writes, and what else there is.
fn config(name: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    format!("{root}/../config/tests/fixtures/{name}")
}

#[test]
fn a_written_configuration_is_complete_and_means_the_same() {
    let folder = folder(&[]);
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    let kubeadm = config("kubeadm.yaml");
    run(
        &[
            "proxy",
            "--config",
            &kubeadm,
            "--write-config-to",
            text(&first),
        ],
        0,
    );
    run(
        &[
            "proxy",
            "--config",
            text(&first),
            "--write-config-to",
            text(&second),
        ],
        0,
    );
    let [first, second] = [first, second].map(|it| fs::read_to_string(it).expect("written"));
    assert_eq!(first, second);
    assert!(
        first.contains("\nhealthzBindAddress: 0.0.0.0:10256\n"),
        "{first}"
    );
    assert!(first.contains("kind: KubeProxyConfiguration\n"), "{first}");

    let flags = folder.path().join("c");
    let args = [
        "proxy",
        "--conntrack-min=7",
        "--write-config-to",
        text(&flags),
    ];
    run(&args, 0);
    let flags = fs::read_to_string(&flags).expect("written");
    assert!(flags.contains("\n  min: 7\n"), "{flags}");

    // What stands there would be somebody's choice.
    for (chosen, written) in [("", "0s"), ("--ipvs-sync-period=30s", "30s")] {
        let file = folder.path().join("d");
        let args = [
            "proxy",
            "--proxy-mode=ipvs",
            "--write-config-to",
            text(&file),
        ];
        let chosen = Some(chosen).filter(|it| !it.is_empty());
        run(&args.into_iter().chain(chosen).collect::<Vec<_>>(), 0);
        let file = fs::read_to_string(&file).expect("written");
        let (_, ipvs) = file.split_once("\nipvs:\n").expect("a section");
        let (ipvs, _) = ipvs.split_once("\nkind:").expect("another section");
        assert!(
            ipvs.contains(&format!("\n  syncPeriod: {written}\n")),
            "{ipvs}"
        );
    }
}

#[test]
fn a_written_configuration_comes_with_the_warnings_of_an_agent() {
    let folder = folder(&[]);
    let file = folder.path().join("config.conf");
    let flags = [
        "--vmodule=a=2",
        "--proxy-mode=ipvs",
        "--count-connections",
        "--healthz-port=0",
    ];
    let args = ["proxy", "--write-config-to", text(&file)];
    let (_, written) = run(&[&args[..], &flags].concat(), 0);
    let manifests = text(folder.path());
    let (_, rendered) = run(
        &[&["render", "--manifests", manifests][..], &flags].concat(),
        0,
    );
    assert!(rendered.starts_with(&written), "{written}{rendered}");
    for part in [
        "--vmodule",
        "--count-connections does nothing",
        "--healthz-port: is deprecated",
    ] {
        assert!(written.contains(part), "{written}");
    }
}

#[test]
fn render_takes_a_configuration() {
    let examples = examples();
    let kubeadm = config("kubeadm.yaml");
    let args = ["render", "--manifests", &examples, "--config", &kubeadm];
    let (rules, err) = run(&[&args[..], &["--hostname-override=node-a"]].concat(), 0);
    assert_eq!(err, "");
    assert!(rules.contains("10.244.0.0/16"), "{rules}");
    let (_, err) = run(&[&args[..], &["--masquerade-all", "--v=4"]].concat(), 0);
    let line = "sluice: ignored because --config is given: --masquerade-all";
    assert!(err.lines().any(|it| it == line), "{err}");
}

#[test]
fn a_wrong_configuration_is_one_and_names_file_line_and_field() {
    let text_of_file = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\n\
                        kind: KubeProxyConfiguration\nmode: 5\niptables: {syncPeriod: 5}\n";
    let folder = folder(&[("config.conf", text_of_file)]);
    let file = folder.path().join("config.conf");
    let (_, err) = run(&["proxy", "--config", text(&file)], 1);
    let file = file.display();
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 2, "{err}");
    assert!(
        lines[0].starts_with(&format!("sluice: {file}: line 3: mode: ")),
        "{err}"
    );
    assert!(
        lines[1].starts_with(&format!("sluice: {file}: line 4: iptables.syncPeriod: ")),
        "{err}"
    );
}

/// Whoever reads an answer may have read enough: `sluice lab draw | head`.
#[test]
fn a_reader_that_goes_is_no_error() {
    let examples = examples();
    let render = [
        "render",
        "--manifests",
        &examples,
        "--hostname-override",
        "node-a",
    ];
    for args in [&["lab", "list"][..], &["man"], &render] {
        let ended = |stdout: Stdio| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
            command.args(args).stdout(stdout).stderr(Stdio::piped());
            let process = command.spawn().expect("the program was built");
            process.wait_with_output().expect("it ends")
        };
        let (reader, writer) = std::io::pipe().expect("two descriptors");
        drop(reader);
        let closed = ended(writer.into());
        assert_eq!(
            closed.status.code(),
            Some(0),
            "{args:?} {}",
            stderr(&closed)
        );
        let full = fs::OpenOptions::new().write(true).open("/dev/full");
        let full = ended(full.expect("a device").into());
        assert_eq!(full.status.code(), Some(1), "{args:?}");
        assert!(stderr(&full).contains("No space left"), "{}", stderr(&full));
    }
}
