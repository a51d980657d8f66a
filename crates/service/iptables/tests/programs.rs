//! Programs that do not do what they are for, for a while.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{Node, in_namespace, save, with_examples, with_programs};
use sluice_lab::{eventually, write_program};
use sluice_model::IpFamily;
use sluice_plan::testing::{endpoints, service};
use sluice_plane::DataPlane as _;
use sluice_reconcile::{Report, Upkeep};
use sluice_scenarios::Drive as _;
use sluice_xtables::programs::{Lock, Programs, Variant};

#[test]
fn a_mangle_table_that_cannot_be_read_stops_nobody() {
    sluice_lab::require_netns!();
    in_namespace(|| {
        let mut node = with_examples(Variant::Nft);
        node.synced();
        for family in ["ip", "ip6"] {
            nft(&format!("add chain {family} mangle STRANGE"));
            nft(&format!("add rule {family} mangle STRANGE ct state new"));
        }
        assert!(node.resync().is_empty(), "nothing is to be repaired");
        let mut events = vec![service("default/new 10.99.60.1 fd00:99:60::1 :80")];
        events.extend(endpoints("default/new", "10.244.0.5:80@ [fd00:244::5]:80@"));
        node.change(events);
        assert_eq!(node.reconciler().backend().unserved(), None);
        for program in ["iptables", "ip6tables"] {
            let rules = save(Variant::Nft, program, &[]);
            assert!(rules.contains("default/new cluster IP"), "{rules}");
        }
        for family in ["ip", "ip6"] {
            nft(&format!("delete chain {family} mangle STRANGE"));
        }
        assert!(node.resync().is_empty());
    });
}

for_each_variant! {
    a_program_that_hangs_fails_one_sync
    a_listing_does_not_wait_for_programs_that_hang
    ipv6_is_served_as_soon_as_it_can_be
    ipv6_that_cannot_be_read_does_not_stop_ipv4
    a_family_that_cannot_be_written_does_not_stop_the_other
    without_the_match_nothing_is_counted
    what_the_kernel_lacks_is_asked_for_alone
}

/// The host's programs, one of which does this first.
struct Wrapped {
    folder: tempfile::TempDir,
    variant: Variant,
}

impl Wrapped {
    fn new(variant: Variant, which: &str, first: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for plain in ["iptables", "ip6tables"] {
            for verb in ["restore", "save"] {
                let name = format!("{plain}-{variant}-{verb}");
                let own = if *which == name { first } else { "" };
                let file = folder.path().join(&name);
                write_program(&file, &format!("{own}\nexec {name} \"$@\"")).unwrap();
            }
        }
        Self { folder, variant }
    }

    fn programs(&self) -> Programs {
        let lock = Lock {
            file: Path::new(env!("CARGO_TARGET_TMPDIR")).join("xtables.lock"),
            seconds: 60,
        };
        let found = Programs::find_in(self.variant, self.folder.path().as_os_str());
        found.unwrap().with_lock(lock)
    }
}

/// The host's programs, of which those of one family fail while this file is there.
fn failing(variant: Variant, plain: &str, verb: &str, file: &str) -> Wrapped {
    let fail = format!("test -e {file} && {{ echo no memory >&2; exit 4; }}");
    Wrapped::new(variant, &format!("{plain}-{variant}-{verb}"), &fail)
}

/// A file that a program looks for.
fn switch(folder: &tempfile::TempDir) -> String {
    folder.path().join("switch").display().to_string()
}

fn a_program_that_hangs_fails_one_sync(variant: Variant) {
    let folder = tempfile::tempdir().unwrap();
    let file = switch(&folder);
    let hang = format!("test -e {file} && sleep 1000");
    let wrapped = Wrapped::new(variant, &format!("iptables-{variant}-restore"), &hang);
    // It does not wait for the lock, so it has no time for that.
    let lock = Lock {
        file: folder.path().join("lock"),
        seconds: 0,
    };
    let timeout = Duration::from_secs(4);
    let programs = wrapped.programs().with_lock(lock).with_timeout(timeout);
    let mut node = with_programs(programs);
    node.synced();
    let mut events = vec![service("default/new 10.99.60.1 :80")];
    events.extend(endpoints("default/new", "10.244.0.5:80@"));
    node.tell(events);
    fs::write(&file, "").unwrap();
    let error = node.try_sync().unwrap_err().to_string();
    let named = format!("iptables-{variant}-restore --noflush --counters -w 0: killed");
    assert!(error.contains(&named), "{error}");
    node.synced();
    let unserved = node.reconciler().backend().unserved().unwrap();
    assert_eq!(unserved.family, IpFamily::V4);
    assert!(unserved.reason.contains(&named), "{unserved}");
    fs::remove_file(&file).unwrap();
    assert!(!until_served(&mut node).is_empty());
    assert_eq!(node.reconciler().backend().unserved(), None);
    assert!(save(variant, "iptables", &[]).contains("default/new cluster IP"));
    assert!(node.resync().is_empty());
}

fn a_listing_does_not_wait_for_programs_that_hang(variant: Variant) {
    let folder = tempfile::tempdir().unwrap();
    let file = switch(&folder);
    let hang = format!("test -e {file} && exec sleep 1000");
    let wrapped = Wrapped::new(variant, &format!("ip6tables-{variant}-save"), &hang);
    let mut node = with_programs(wrapped.programs());
    node.synced();
    fs::write(&file, "").unwrap();
    node.resync();
    let unserved = node.reconciler().backend().unserved().unwrap();
    assert_eq!(unserved.family, IpFamily::V6);
    let named = format!("ip6tables-{variant}-save --version: killed");
    assert!(unserved.reason.contains(&named), "{unserved}");
}

fn ipv6_is_served_as_soon_as_it_can_be(variant: Variant) {
    let folder = tempfile::tempdir().unwrap();
    let file = switch(&folder);
    let wrapped = failing(variant, "ip6tables", "restore", &file);
    let programs = wrapped.programs();
    fs::write(&file, "").unwrap();
    let mut node = with_programs(programs);
    node.synced();
    assert!(node.resync().is_empty());
    let unserved = node.reconciler().backend().unserved().unwrap();
    assert_eq!(unserved.family, IpFamily::V6);
    assert!(unserved.reason.contains("no memory"), "{unserved}");
    let due = node.reconciler_mut().upkeep().unwrap();
    assert!(
        matches!(due, Upkeep::After(it) if it.as_secs() <= 30),
        "{due:?}"
    );
    assert!(!save(variant, "ip6tables", &[]).contains("KUBE"));
    fs::remove_file(&file).unwrap();
    let report = until_served(&mut node);
    assert!(report.added > 20, "{report:?}");
    assert_eq!(node.reconciler().backend().unserved(), None);
    assert!(save(variant, "ip6tables", &[]).contains("-j KUBE-SVC-"));
    assert!(node.resync().is_empty());
}

fn ipv6_that_cannot_be_read_does_not_stop_ipv4(variant: Variant) {
    let folder = tempfile::tempdir().unwrap();
    let file = switch(&folder);
    let wrapped = failing(variant, "ip6tables", "save", &file);
    let mut node = with_programs(wrapped.programs());
    node.synced();
    // Nothing but nft shows such a rule, and the legacy tables have none.
    let reason = match variant {
        Variant::Nft => {
            nft("add chain ip6 filter STRANGE");
            nft("add rule ip6 filter STRANGE ct state new");
            "table filter has rules that only nft can show"
        }
        Variant::Legacy => {
            fs::write(&file, "").unwrap();
            "no memory"
        }
    };
    node.resync();
    let unserved = node.reconciler().backend().unserved().unwrap();
    assert_eq!(unserved.family, IpFamily::V6);
    assert!(unserved.reason.contains(reason), "{unserved}");
    let mut events = vec![service("default/new 10.99.60.1 fd00:99:60::1 :80")];
    events.extend(endpoints("default/new", "10.244.0.5:80@ [fd00:244::5]:80@"));
    node.change(events);
    assert!(save(variant, "iptables", &[]).contains("default/new cluster IP"));
    assert!(node.resync().is_empty());
    let due = node.reconciler_mut().upkeep().unwrap();
    assert!(
        matches!(due, Upkeep::After(it) if it.as_secs() <= 30),
        "{due:?}"
    );
    match variant {
        Variant::Nft => nft("delete chain ip6 filter STRANGE"),
        Variant::Legacy => fs::remove_file(&file).unwrap(),
    }
    assert!(!save(variant, "ip6tables", &[]).contains("default/new"));
    assert!(!until_served(&mut node).is_empty());
    assert_eq!(node.reconciler().backend().unserved(), None);
    assert!(save(variant, "ip6tables", &[]).contains("default/new cluster IP"));
    assert!(node.resync().is_empty());
}

fn a_family_that_cannot_be_written_does_not_stop_the_other(variant: Variant) {
    let names = [(IpFamily::V4, "iptables"), (IpFamily::V6, "ip6tables")];
    for [(lost, broken), (_, healthy)] in [names, [names[1], names[0]]] {
        in_namespace(|| {
            let folder = tempfile::tempdir().unwrap();
            let file = switch(&folder);
            let wrapped = failing(variant, broken, "restore", &file);
            let mut node = with_programs(wrapped.programs());
            node.synced();
            fs::write(&file, "").unwrap();
            let both = |name: &str, number: u8| {
                let about = format!("default/{name} 10.99.60.{number} fd00:99:60::{number} :80");
                let pool = "10.244.0.5:80@ [fd00:244::5]:80@";
                let mut events = vec![service(&about)];
                events.extend(endpoints(&format!("default/{name}"), pool));
                events
            };
            let error = node.try_change(both("new", 1)).unwrap_err().to_string();
            assert!(error.contains("no memory"), "{error}");
            let rules = save(variant, healthy, &[]);
            assert!(
                rules.contains("default/new cluster IP"),
                "in the same sync: {rules}"
            );
            assert!(node.synced().full, "one failed sync");
            let unserved = node.reconciler().backend().unserved().unwrap();
            assert_eq!(unserved.family, lost);
            assert!(unserved.reason.contains("no memory"), "{unserved}");
            // A sync of what changed, as all that follow.
            assert!(!node.change(both("other", 2)).full);
            let rules = save(variant, healthy, &[]);
            for name in ["default/new cluster IP", "default/other cluster IP"] {
                assert!(rules.contains(name), "{rules}");
            }
            assert!(node.resync().is_empty());
            fs::remove_file(&file).unwrap();
            assert!(!until_served(&mut node).is_empty());
            assert_eq!(node.reconciler().backend().unserved(), None);
            let rules = save(variant, broken, &[]);
            assert!(rules.contains("default/other cluster IP"), "{rules}");
        });
    }
}

/// All of it can be read, and each rule be tried by itself.
#[test]
fn ipv6_that_refuses_what_all_services_need_does_not_stop_ipv4() {
    sluice_lab::require_netns!();
    in_namespace(|| {
        nft("add table ip6 nat");
        nft("add chain ip6 nat POSTROUTING { type nat hook postrouting priority 0; }");
        let mut node = with_examples(Variant::Nft);
        let error = node.try_sync().unwrap_err().to_string();
        assert!(error.contains("POSTROUTING"), "{error}");
        node.resync();
        let unserved = node.reconciler().backend().unserved().unwrap();
        assert!(unserved.reason.contains("POSTROUTING"), "{unserved}");
        assert!(node.resync().is_empty());
        assert!(save(Variant::Nft, "iptables", &[]).contains("-j KUBE-SVC-"));
    });
}

/// The sync with both families, once the agent would try it again.
fn until_served(node: &mut Node) -> Report {
    let asked = eventually(Duration::from_secs(60), || {
        match node.reconciler_mut().upkeep() {
            Ok(Upkeep::Resync(_)) => return Some(()),
            Ok(_) => {}
            // Somebody else changed rules.
            Err(_) => drop(node.synced()),
        }
        None
    });
    asked.expect("the family is tried again");
    node.synced()
}

fn nft(command: &str) {
    let status = Command::new("nft").args(command.split(' ')).status();
    assert!(status.unwrap().success(), "nft {command}");
}

/// Shell that refuses each input with this word, by its line. The program reads the rest.
fn refuse(folder: &tempfile::TempDir, word: &str) -> String {
    let input = folder.path().join("input").display().to_string();
    format!(
        "cat >{input}\nif line=$(grep -n -m 1 {word} {input}); then\n\
         echo \"Couldn't load match \\`{word}':No such file or directory\" >&2\n\
         echo >&2; echo \"Error occurred at line: ${{line%%:*}}\" >&2; exit 2\nfi\nexec <{input}"
    )
}

/// The kernel has the objects and iptables has no way to mention them.
fn without_the_match_nothing_is_counted(variant: Variant) {
    let folder = tempfile::tempdir().unwrap();
    let refuse = refuse(&folder, "nfacct");
    let wrapped = Wrapped::new(variant, &format!("iptables-{variant}-restore"), &refuse);
    let mut node = with_programs(wrapped.programs());
    node.synced();
    assert!(node.reconciler().refusals().is_empty());
    let rules = save(variant, "iptables", &[]);
    assert!(rules.contains("--ctstate INVALID -j DROP"), "{rules}");
    assert!(!rules.contains("nfacct"), "{rules}");
    let rules = save(variant, "ip6tables", &[]);
    assert!(rules.contains("nfacct"), "each family is asked: {rules}");
    assert!(node.resync().is_empty());
}

/// Somebody loads the module of one match later, or nobody ever does.
fn what_the_kernel_lacks_is_asked_for_alone(variant: Variant) {
    let folder = tempfile::tempdir().unwrap();
    let file = switch(&folder);
    let refuse = refuse(&folder, "recent");
    let refuse = format!("if test -e {file}; then\n{refuse}\nfi");
    let wrapped = Wrapped::new(variant, &format!("iptables-{variant}-restore"), &refuse);
    fs::write(&file, "").unwrap();
    let mut node = with_programs(wrapped.programs());
    node.tell(vec![service("default/sticky 10.99.60.1 :80 affinity=60")]);
    node.tell(endpoints("default/sticky", "10.244.0.5:80@"));
    node.synced();
    let refused = node.reconciler().refusals().len();
    assert!(refused > 0);
    let rules = || save(variant, "iptables", &[]);
    assert!(!rules().contains("default/sticky cluster IP"));
    assert!(node.resync().is_empty());
    assert_eq!(node.reconciler().refusals().len(), refused);
    node.reconciler_mut().probe().unwrap();
    assert!(!node.reconciler().is_resync_due(), "it is still not there");
    fs::remove_file(&file).unwrap();
    node.reconciler_mut().probe().unwrap();
    let report = node.synced();
    assert!(report.full && report.added > 0, "{report:?}");
    assert!(node.reconciler().refusals().is_empty());
    assert!(rules().contains("default/sticky cluster IP"));
    assert!(node.resync().is_empty());
}
