//! A process that takes the queries of a node: this test program, started again. It answers as a server of the lab
//! does, under the name `local`.

use std::io::{BufRead, BufReader, Write, stdin};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, thread};

use sluice_dns_agent::local_dns::LocalDns;
use sluice_model::{LocalDetector, NodeDns};

use crate::world::World;

/// Set in the process of a holder: the port of its sockets, then its addresses, its ClusterIPs, and the
/// ranges of pods.
const HOLDER: &str = "SLUICE_TEST_LOCAL_DNS";

pub(crate) struct Holder {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts a process on the node that has the sockets and does not take the queries yet.
    pub(crate) fn start(world: &World, port: u16) -> Self {
        let netns = world.node();
        let program = env::current_exe().unwrap();
        let arguments = ["--exact", "holder::holds", "--nocapture"];
        let mut command: Command = netns.command(program.to_str().unwrap(), &arguments);
        let mut child = command
            .env(HOLDER, world.holds(port))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut holder = Self {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        holder.wait_for("bound");
        holder
    }

    /// Starts a process that also takes the queries.
    pub(crate) fn taking(world: &World, port: u16) -> Self {
        let mut holder = Self::start(world, port);
        holder.say("take");
        holder
    }

    /// Calls `take` or `give back` of [`LocalDns`] in the process. Returns when it is done.
    pub(crate) fn say(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
        self.wait_for(command);
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn wait_for(&mut self, answer: &str) {
        let mut line = String::new();
        // On one processor the test harness begins the line with the name of the test.
        while !line.trim().ends_with(&format!("holder: {answer}")) {
            line.clear();
            let length = self.answers.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "the holder ended before {answer:?}");
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process of a [`Holder`]; does nothing in a run of the tests.
#[test]
fn holds() {
    let Ok(held) = env::var(HOLDER) else {
        return;
    };
    let [port, addresses, cluster_ips, pods] = held.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{held:?}");
    };
    fn all<T: std::str::FromStr>(text: &str) -> Vec<T> {
        let words = text.split(',').filter(|it| !it.is_empty());
        words.map(|it| it.parse().ok().unwrap()).collect()
    }
    let dns = NodeDns {
        addresses: all(addresses),
        cluster_ips: all(cluster_ips),
        ..NodeDns::usual()
    };
    let pods = LocalDetector::ClusterCidrs(all(pods));
    let mut local = LocalDns::open(&dns, &pods, port.parse().unwrap()).unwrap();
    for address in local.sockets() {
        answer(address);
    }
    println!("holder: bound");
    for command in stdin().lines() {
        let command = command.unwrap();
        match &*command {
            "take" => local.take().unwrap(),
            "give back" => local.give_back(),
            _ => panic!("{command:?}"),
        }
        println!("holder: {command}");
    }
}

fn answer(address: SocketAddr) {
    let udp = UdpSocket::bind(address).unwrap();
    thread::spawn(move || {
        let mut query = [0; 512];
        loop {
            let (_, client) = udp.recv_from(&mut query).unwrap();
            let answer = line(client);
            udp.send_to(answer.as_bytes(), client).unwrap();
        }
    });
    let tcp = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        loop {
            match tcp.accept() {
                Ok((mut stream, client)) => {
                    // A client may have gone away.
                    let _ = stream.write_all(line(client).as_bytes());
                }
                Err(error) => eprintln!("holder: accept on {address}: {error}"),
            }
        }
    });
}

fn line(client: SocketAddr) -> String {
    format!("local {} {}\n", client.ip(), client.port())
}
