//! Packets as a file and as lines.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::lab::{Lab, text};

#[test]
fn packets_are_lines_or_a_file_until_the_answer_or_ctrl_c() {
    let Some(lab) = Lab::up(&["--nodes", "1"]) else {
        return;
    };
    let file = lab.files.path().join("packets.pcapng");
    let path = file.to_str().unwrap();
    let request = ["--port", "30080,8080", "--probe", "client", "node-a:30080"];
    let capture = ["pcap", "client", "node-a", "-w", path];
    lab.good(&[&capture[..], &request].concat());
    let written = fs::read(&file).unwrap();
    // The first block is a section of a file with the least significant bytes first.
    assert_eq!(written[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    assert_eq!(written[8..12], [0x4D, 0x3C, 0x2B, 0x1A]);
    let has = |part: &[u8]| written.windows(part.len()).any(|it| it == part);
    assert!(has(b"client eth0") && has(b"node-a eth0"));
    assert!(has(b"GET / HTTP/1.1"), "packets are whole");
    // Elsewhere than on a terminal it is a file too.
    let capture = ["pcap", "node-a", "--count", "2"];
    let output = lab.run(&[&capture[..], &request].concat());
    assert_eq!(output.stdout[..4], written[..4]);
    assert_eq!(text(&output.stderr), "2 packets\n");
    let capture = ["pcap", "node-a", "--output", "text", "--protocol", "udp"];
    let said = lab.good(&[&capture[..], &request].concat());
    assert!(said.contains("answered, and saw 192.168.100.10"), "{said}");
    assert!(!said.contains("tcp"), "{said}");
    let refused = lab.bad(&["pcap", "nobody"]);
    assert!(refused.contains("no node and no pod nobody"), "{refused}");
    // Ctrl-C at a terminal is for all processes of the command.
    let mut capture = lab.command(&["pcap", "node-a", "-o", "text", "--host", "192.168.100.100"]);
    capture
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let capture = capture.spawn().unwrap();
    let group = Pid::from_raw(capture.id().cast_signed());
    lab.until("it captures", || {
        let listening = lab.run(&["exec", "node-a", "--", "cat", "/proc/net/packet"]);
        (text(&listening.stdout).lines().count() > 1).then_some(())
    });
    lab.probe("client", "node-a:30080");
    killpg(group, Signal::SIGINT).unwrap();
    let output = capture.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).contains("> 192.168.100.10:30080 tcp SYN"));
    assert!(text(&output.stderr).ends_with(" packets\n"), "{output:?}");
}
