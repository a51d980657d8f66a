//! A user that the crate does not know: one program and three maps of its own, through the public API only.
//!
//! The object is put together here, as a compiler would write it, so the test needs no other toolchain.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod toy;

use std::fs;
use std::path::PathBuf;
use std::process;
use std::sync::OnceLock;
use std::time::Duration;

use sluice_bpf::{
    BpfError, Direction, Filter, Interfaces, Losses, Machine, Object, Order, Patterns, Pins,
    Prefix, Programs, Table, remove,
};
use sluice_lab::{Netns, eventually, require_netns};
use sluice_route::{Kind, Link, Settings, link};

const SOON: Duration = Duration::from_secs(10);
const VERSION: u32 = 7;
/// Few entries, so that the maps must grow.
const SIZES: [(&str, u32); 2] = [("ADMITTED", 4), ("BLOCKED", 4)];
/// `TC_ACT_UNSPEC`.
const NEXT: i32 = -1;
/// `TC_ACT_SHOT`.
const DROP: i32 = 2;

fn object() -> Object {
    static ELF: OnceLock<Vec<u8>> = OnceLock::new();
    Object {
        bytes: ELF.get_or_init(toy::elf),
        pinned: &["ADMITTED", "BLOCKED", "PASSED"],
        packets: &[(toy::NAME, Direction::In)],
        sockets: &[],
        filter: Filter {
            priority: 2,
            handle: 0x77,
        },
        order: Order::Last,
        losses: Losses {
            programs: "nothing is admitted",
            sockets: "sockets are not looked at",
            interface: "this interface admits nothing",
            old_interface: "this interface has old rules",
            old_sockets: "sockets have old rules",
        },
    }
}

/// A folder for pins, which is removed with the value.
struct Root(PathBuf);

impl Root {
    fn new(label: &str) -> Self {
        Self(format!("/sys/fs/bpf/sluice-test-{}-{label}", process::id()).into())
    }

    fn pins(&self) -> Pins {
        Pins::of_namespace(&self.0, VERSION).unwrap()
    }

    fn open(&self) -> Programs {
        Programs::open(object(), self.pins(), &SIZES).unwrap()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs a test in a network namespace with the interface `east`, whose other end is `west`.
fn run(label: &str, test: impl FnOnce(&Root) + Send) {
    let netns = Netns::new("second").unwrap();
    let west = Kind::Veth {
        peer: "west",
        settings: Settings::default(),
    };
    let made = netns.wire(|it| it.create("east", &west, &Settings::default()));
    made.unwrap();
    let root = Root::new(label);
    netns.run(|| test(&root));
}

/// An IPv4 packet from this address in an Ethernet frame.
fn frame(from: [u8; 4]) -> Vec<u8> {
    let mut frame = vec![0; 34];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[26..30].copy_from_slice(&from);
    frame
}

fn action(programs: &Programs, from: [u8; 4]) -> i32 {
    let east = link("east").unwrap().unwrap().index;
    let trial = programs.try_packet(Direction::In, east, east, &frame(from), 1);
    trial.unwrap().action
}

fn admitted(root: &Root) -> Table<Prefix<[u8; 4]>, u32> {
    Table::open(&root.pins(), "ADMITTED").unwrap()
}

fn blocked(root: &Root) -> Table<u32, u32> {
    Table::open(&root.pins(), "BLOCKED").unwrap()
}

fn passed(root: &Root) -> u64 {
    let table: Table<u32, u64> = Table::open(&root.pins(), "PASSED").unwrap();
    table.get(&0).unwrap().unwrap()
}

#[test]
fn its_maps_decide() {
    require_netns!();
    run("decide", |root| {
        let programs = root.open();
        let pod = [10, 1, 2, 3];
        assert_eq!(action(&programs, pod), DROP);
        let range = Prefix::new(8, [10, 0, 0, 0]);
        admitted(root).insert(&range, &1).unwrap();
        assert_eq!(action(&programs, pod), NEXT);
        assert_eq!(action(&programs, [11, 1, 2, 3]), DROP);
        assert_eq!(passed(root), 1);
        let east = link("east").unwrap().unwrap().index;
        blocked(root).insert(&east, &1).unwrap();
        assert_eq!(action(&programs, pod), DROP);
        assert!(blocked(root).remove(&east).unwrap());
        assert_eq!(action(&programs, pod), NEXT);
        assert_eq!(passed(root), 2);
    });
}

#[test]
fn a_map_with_other_types_is_refused() {
    require_netns!();
    run("types", |root| {
        let _programs = root.open();
        let pins = root.pins();
        let refused = |result: Result<(), BpfError>| {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with("open of map BLOCKED"), "{error}");
        };
        refused(Table::<u64, u32>::open(&pins, "BLOCKED").map(drop));
        refused(Table::<u32, u64>::open(&pins, "BLOCKED").map(drop));
        let error = Table::<u32, u32>::open(&pins, "FRONTENDS").map(drop);
        assert!(error.unwrap_err().to_string().contains("FRONTENDS"));
    });
}

/// The next process adopts the maps, also those that have grown, and its program takes the place of the old one.
#[test]
fn maps_grow_and_are_adopted() {
    require_netns!();
    run("grow", |root| {
        let mut programs = root.open();
        programs.attach(Patterns::new(["east"])).unwrap();
        let ranges = [1, 2, 3, 4].map(|it| Prefix::new(8, [it, 0, 0, 0]));
        for range in &ranges {
            admitted(root).insert(range, &1).unwrap();
        }
        let fifth = Prefix::new(8, [5, 0, 0, 0]);
        assert!(admitted(root).insert(&fifth, &1).is_err(), "it is full");
        assert_eq!(programs.grow(&[("ADMITTED", 4)]).unwrap(), [""; 0]);
        let wanted = [("ADMITTED", 1024), ("BLOCKED", 1024)];
        assert_eq!(programs.grow(&wanted).unwrap(), ["ADMITTED", "BLOCKED"]);
        admitted(root).insert(&fifth, &1).unwrap();
        assert_eq!(action(&programs, [1, 1, 1, 1]), NEXT);
        drop(programs);
        let programs = root.open();
        assert_eq!(admitted(root).capacity(), 1024);
        assert_eq!(admitted(root).entries().unwrap().len(), 5);
        assert_eq!(action(&programs, [5, 1, 1, 1]), NEXT);
        assert_eq!(passed(root), 2);
    });
}

/// Wants every interface whose name begins with `pod`, and blocks those whose MTU is small.
struct SmallOnes(Table<u32, u32>);

impl Interfaces for SmallOnes {
    fn wants(&self, link: &Link) -> bool {
        link.name.starts_with("pod")
    }

    fn changed(&mut self, machine: &Machine<'_>) -> Result<(), BpfError> {
        for link in machine.links.values().filter(|it| it.mtu < 1400) {
            self.0.insert(&link.index, &1)?;
        }
        Ok(())
    }
}

#[test]
fn it_follows_interfaces_in_its_own_way() {
    require_netns!();
    run("follow", |root| {
        let mut programs = root.open();
        programs.attach(SmallOnes(blocked(root))).unwrap();
        let pins = || fs::read_dir(root.pins().links()).map_or(0, Iterator::count);
        assert_eq!(pins(), 0, "there is no pod");
        let ip = |words: &str| {
            let done = process::Command::new("ip").args(words.split(' ')).status();
            assert!(done.unwrap().success(), "ip {words}");
        };
        ip("link add pod1 mtu 1300 type veth peer name other");
        let pod1 = link("pod1").unwrap().unwrap().index;
        let is_told = || blocked(root).get(&pod1).unwrap();
        assert!(eventually(SOON, is_told).is_some());
        assert!(eventually(SOON, || (pins() == 1).then_some(())).is_some());
        programs.remove().unwrap();
        assert!(!root.0.exists());
    });
}

/// Two objects at one interface: each has a link, and removing one leaves the other.
#[test]
fn two_users_share_an_interface() {
    require_netns!();
    run("both", |root| {
        let other = Root::new("other");
        let mut both = [root, &other].map(Root::open);
        for programs in &mut both {
            programs.attach(Patterns::new(["east"])).unwrap();
        }
        let links = |root: &Root| fs::read_dir(root.pins().links()).map_or(0, Iterator::count);
        assert_eq!((links(root), links(&other)), (1, 1));
        drop(both);
        remove(&object(), &root.pins()).unwrap();
        assert_eq!((links(root), links(&other)), (0, 1));
        assert!(!root.0.exists());
    });
}
