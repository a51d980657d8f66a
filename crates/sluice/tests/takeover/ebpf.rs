//! The ebpf mode follows the nftables mode and is followed by it, under traffic; it survives its agent.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluice_ebpf::{Maps, cgroup_root};
use sluice_lab::{Hammer, LabError, OwnCgroup, Probe, Session, eventually, require_netns};

use crate::takeover::kube_proxy::PORT;
use crate::takeover::world::{SOON, World, more, unhurt};

/// Where agents pin.
const PINS: &str = "/sys/fs/bpf/sluice";

/// Clients that never stop connecting see nothing of it, and neither do open connections: netfilter and the programs
/// keep theirs until they end.
#[test]
fn nftables_and_ebpf() {
    require_netns!();
    let mut world = World::new();
    world.start_in("nftables");
    world.until_logged("synced");
    let mut sessions: Vec<_> = world.sessions().into();
    let hammers = world.hammers();
    world.stop();
    world.start_in("ebpf");
    world.until_logged("removed what an earlier proxy left");
    assert!(
        world.log().contains("taken over from netfilter"),
        "{}",
        world.log()
    );
    assert!(!world.tables().contains("sluice"), "{}", world.log());
    more(&hammers, 30);
    sessions.extend(world.sessions());
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    world.stop();
    world.start_in("nftables");
    world.until_logged("waiting for their end");
    let status = world.sluice(&["status"], None);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("still carry connections"), "{status}");
    more(&hammers, 30);
    sessions.extend(world.sessions());
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    drop(sessions);
    let removed = || world.log().contains("eBPF programs and maps").then_some(());
    assert!(
        eventually(SOON, removed).is_some(),
        "{}\n{}",
        world.log(),
        carried(&world)
    );
    more(&hammers, 30);
    unhurt(hammers);
}

/// The entries of the connections that the programs carry.
fn carried(world: &World) -> String {
    let entries = world.node().run(|| {
        let pins = sluice_ebpf::pins(Path::new(PINS)).unwrap();
        Maps::open(&pins).unwrap().flows.entries().unwrap()
    });
    let lines = entries.iter().map(|(key, it)| format!("{key:?} {it:?}\n"));
    lines.collect()
}

/// Sessions of a pod and of the node itself that never pause, each on a thread.
struct Talk {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), LabError>>>,
}

impl Talk {
    fn start(world: &World) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let from = [world.shell(), world.node()].into_iter();
        let sessions = from.flat_map(|client| {
            let targets = world.families().map(|it| SocketAddr::new(it.web, PORT));
            targets.map(|it| Session::connect(client, it).unwrap())
        });
        let talk = |mut session: Session| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    session.ping()?;
                }
                Ok(())
            })
        };
        let threads = sessions.map(talk).collect();
        Self { stop, threads }
    }

    /// Ends the sessions. Each was answered to the end.
    #[track_caller]
    fn unhurt(self, world: &World) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let ended = thread.join().unwrap();
            assert!(ended.is_ok(), "{ended:?}: {}", world.log());
        }
    }
}

/// A connection whose packets come without a pause has one of them at every moment of a change: none may see one half of
/// a translation.
#[test]
fn connections_that_talk_are_not_cut() {
    require_netns!();
    for mode in ["nftables", "iptables"] {
        let mut world = World::new();
        world.start_in(mode);
        world.until_logged("synced");
        let talk = Talk::start(&world);
        let hammers = world.hammers();
        world.stop();
        world.start_in("ebpf");
        world.until_logged("removed what an earlier proxy left");
        more(&hammers, 30);
        talk.unhurt(&world);
        // Netfilter has its hooks until its connections have ended.
        assert!(world.tables().contains("opened-by-rules"));
        unhurt(hammers);
        world.stop();
        world.sluice(&["cleanup"], None);
        assert!(!world.tables().contains("opened-by-rules"));
    }
}

/// Netfilter remembers connections that have ended. Others of ours, from the same ports, are not theirs.
#[test]
fn ended_connections_of_netfilter_hurt_no_later_one() {
    require_netns!();
    let mut world = World::new();
    world.start_in("nftables");
    world.until_logged("synced");
    let mut probes = Vec::new();
    for services in world.families() {
        let target = SocketAddr::new(services.web, PORT);
        probes.extend((20_001..20_009).map(|port| Probe::tcp(target).source_port(port)));
    }
    for probe in &probes {
        let outcome = probe.from(world.shell());
        assert!(outcome.name().is_some(), "{outcome}");
    }
    world.stop();
    world.start_in("ebpf");
    world.until_logged("removed what an earlier proxy left");
    let sessions = probes
        .into_iter()
        .map(|probe| Session::open(world.shell(), probe));
    let mut sessions: Vec<Session> = sessions.collect::<Result<_, _>>().unwrap();
    world.stop();
    world.start_in("nftables");
    world.until_logged("waiting for their end");
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
}

/// Netfilter remembers connections whose rules somebody has removed, and translates none of them.
#[test]
fn connections_without_rules_are_nobodys() {
    require_netns!();
    let mut world = World::new();
    world.start_in("nftables");
    world.until_logged("synced");
    let targets = world.families().map(|it| SocketAddr::new(it.web, PORT));
    let probes = targets.map(|it| Probe::tcp(it).source_port(20_101));
    let sessions = probes.map(|it| Session::open(world.shell(), it).unwrap());
    world.stop();
    world.sluice(&["cleanup"], None);
    drop(sessions);
    world.start_in("ebpf");
    world.until_logged("first sync");
    for probe in probes {
        let outcome = probe.from(world.shell());
        assert!(outcome.name().is_some(), "{outcome}: {}", world.log());
    }
}

/// The programs go on without the agent, and the next agent takes them over as they are.
#[test]
fn a_killed_agent_leaves_programs_that_work() {
    require_netns!();
    let mut world = World::new();
    world.start_in("ebpf");
    world.until_logged("synced");
    let mut sessions = world.sessions();
    let hammers = world.hammers();
    for _ in 0..2 {
        world.kill();
        more(&hammers, 30);
        world.start_in("ebpf");
        world.until_logged("first sync");
        // What is right already is not written again.
        assert!(!world.log().contains("added="), "{}", world.log());
        more(&hammers, 30);
    }
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    unhurt(hammers);
}

/// Makes the pins of the agent that has ended those of another version. Returns ours, and theirs.
fn change_version(world: &World, version: &str) -> [PathBuf; 2] {
    let root = Path::new(PINS);
    let pins = world.node().run(|| sluice_ebpf::pins(root).unwrap());
    let ours = pins.maps().parent().unwrap().to_owned();
    let theirs = root.join(version).join(ours.file_name().unwrap());
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::rename(&ours, &theirs).unwrap();
    [ours, theirs]
}

/// What an agent comes to whose predecessor had another version.
struct Predecessor {
    world: World,
    /// Opened before, and still in use.
    sessions: [Session; 2],
    hammers: [Hammer; 2],
    /// The folder of pins of this version, and that of the predecessor's.
    ours: PathBuf,
    theirs: PathBuf,
}

impl Predecessor {
    /// Of this version. It has ended.
    fn of(version: &str) -> Self {
        let mut world = World::new();
        world.start_in("ebpf");
        world.until_logged("synced");
        let sessions = world.sessions();
        let hammers = world.hammers();
        world.stop();
        let [ours, theirs] = change_version(&world, version);
        Self {
            world,
            sessions,
            hammers,
            ours,
            theirs,
        }
    }
}

/// An agent takes over what programs of an older version carry, and what they open until its own are there. Then they go.
#[test]
fn programs_of_an_older_version_are_replaced() {
    require_netns!();
    let Predecessor {
        mut world,
        mut sessions,
        hammers,
        theirs,
        ..
    } = Predecessor::of("v0");
    world.start_in("ebpf");
    world.until_logged("taken over from programs of an older version");
    assert!(!theirs.exists());
    more(&hammers, 30);
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    unhurt(hammers);
}

/// An agent that knows less than its predecessor begins with maps of its own. The earlier programs keep their connections
/// until these end, or somebody cleans up.
#[test]
fn programs_of_a_newer_version_are_followed() {
    require_netns!();
    let Predecessor {
        mut world,
        mut sessions,
        hammers,
        ours,
        theirs,
    } = Predecessor::of("v999");
    world.start_in("ebpf");
    world.until_logged("waiting for their end");
    assert!(world.log().contains("added="), "{}", world.log());
    more(&hammers, 30);
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    let mut later = world.sessions();
    world.stop();
    world.start_in("ebpf");
    world.until_logged("first sync");
    later.iter_mut().for_each(|it| it.ping().unwrap());
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    unhurt(hammers);
    world.stop();
    let cleaned = world.sluice(&["cleanup"], None);
    let said = String::from_utf8_lossy(&cleaned.stdout).into_owned();
    assert!(said.contains("of another version"), "{said}");
    assert!(!theirs.exists() && !ours.exists());
}

/// Afterwards there is no program, no pin, and nobody answers.
#[test]
fn cleanup_leaves_nothing() {
    require_netns!();
    let mut world = World::new();
    world.start_in("ebpf");
    world.until_logged("synced");
    world.answers();
    let running = world.sluice(&["cleanup"], None);
    assert!(!running.status.success(), "the agent runs");
    world.stop();
    let cleaned = world.sluice(&["cleanup"], None);
    let said = String::from_utf8_lossy(&cleaned.stdout).into_owned();
    assert!(said.contains("eBPF programs and maps"), "{said}");
    // The kernel detaches a program a moment after its last pin is gone.
    let is_gone = || {
        let silent = world.families().map(|it| {
            let target = SocketAddr::new(it.web, PORT);
            let probe = Probe::tcp(target).timeout(Duration::from_millis(300));
            probe.from(world.shell()).name().is_none()
        });
        (silent == [true, true]).then_some(())
    };
    eventually(SOON, is_gone).expect("nobody answers");
    let again = world.sluice(&["cleanup"], None);
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(!said.contains("eBPF"), "{said}");
}

/// The agent leads the sockets of a cgroup, and ends them.
fn led(cgroup: &OwnCgroup) -> [String; 3] {
    [
        "--ebpf-sockets=all".to_owned(),
        "--ebpf-end-sockets=all".to_owned(),
        format!("--ebpf-cgroup={}", cgroup.path().display()),
    ]
}

/// The same for clients that are led when they connect. Packets of pods pass no programs, so nobody else can answer.
#[test]
fn a_killed_agent_leaves_sockets_that_are_led() {
    require_netns!();
    let cgroup = OwnCgroup::enter(&cgroup_root().unwrap()).unwrap();
    let mut world = World::new();
    let flags = led(&cgroup);
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.push("--ebpf-interfaces=none");
    world.start_with("ebpf", &flags);
    world.until_logged("first sync");
    let mut sessions: Vec<Session> = world.sessions().into();
    let hammers = world.hammers();
    for _ in 0..2 {
        world.kill();
        more(&hammers, 30);
        sessions.extend(world.sessions());
        sessions.iter_mut().for_each(|it| it.ping().unwrap());
        world.start_with("ebpf", &flags);
        world.until_logged("first sync");
        assert!(!world.log().contains("added="), "{}", world.log());
        more(&hammers, 30);
        sessions.iter_mut().for_each(|it| it.ping().unwrap());
    }
    unhurt(hammers);
    // The agent knows whom those before led.
    world.lose_endpoints();
    for session in &mut sessions {
        let ended = || session.ping().err();
        eventually(SOON, ended).expect("the connection ends");
    }
}

/// Clients are led to an endpoint when they connect, and end with it, also in pods and with the sandbox on.
#[test]
fn sockets_end_with_their_endpoint() {
    require_netns!();
    let cgroup = OwnCgroup::enter(&cgroup_root().unwrap()).unwrap();
    let mut world = World::new();
    let flags = led(&cgroup);
    world.start_with("ebpf", &flags.each_ref().map(String::as_str));
    world.until_logged("first sync");
    let mut sessions = world.sessions();
    sessions.iter_mut().for_each(|it| it.ping().unwrap());
    world.lose_endpoints();
    for session in &mut sessions {
        let ended = || session.ping().err();
        eventually(SOON, ended).expect("the connection ends");
    }
    world.until_logged("sockets ended");
    let refused = world.families().map(|it| {
        let probe = Probe::tcp(SocketAddr::new(it.web, PORT));
        probe.from(world.shell()).name().is_none()
    });
    assert_eq!(refused, [true, true]);
}
