use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use clap::Parser;
use tempfile::TempDir;

use super::*;

/// Long enough for a machine with better things to do.
const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    proxy: ProxyArgs,
}

fn text(rest: &str) -> String {
    format!("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n{rest}\n")
}

/// A change that is applied, and that tells which one it is.
fn numbered(min: u32) -> String {
    text(&format!("conntrack: {{min: {min}}}"))
}

struct Watched {
    reloads: Receiver<Reload>,
    _watch: Watch,
}

impl Watched {
    fn start(path: &Path) -> Self {
        let config = format!("--config={}", path.display());
        let args = ["proxy", "--manifests=/m", "--masquerade-all", &config];
        let args = Typed::try_parse_from(args).expect("valid flags").proxy;
        let current = args.validate("node-a").expect("a valid file");
        let (sender, reloads) = mpsc::channel();
        // The test may be over.
        let sink = move |reload| drop(sender.send(reload));
        let watch = watch(&args, "node-a", &current, sink).expect("a watch");
        Self {
            reloads,
            _watch: watch.expect("there is a file"),
        }
    }

    fn next(&self) -> Reload {
        self.reloads
            .recv_timeout(DEADLINE)
            .expect("a change in time")
    }

    #[track_caller]
    fn applies(&self, min: u32) {
        match self.next() {
            Reload::Apply(it) => assert_eq!(it.node.effective.conntrack.min, min),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn refuses(&self, with: &str) {
        match self.next() {
            Reload::Invalid(error) => assert!(format!("{error:#}").contains(with), "{error:#}"),
            other => panic!("{other:?}"),
        }
    }
}

fn start(first: &str) -> (TempDir, Watched) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("config.conf");
    fs::write(&path, first).expect("writable");
    let watched = Watched::start(&path);
    (folder, watched)
}

fn write(folder: &TempDir, text: &str) {
    fs::write(folder.path().join("config.conf"), text).expect("writable");
}

#[test]
fn a_file_is_read_again_when_it_is_written_or_replaced() {
    let (folder, watched) = start(&numbered(1));
    write(&folder, &numbered(2));
    watched.applies(2);
    let new = folder.path().join("new");
    fs::write(&new, numbered(3)).expect("writable");
    fs::rename(&new, folder.path().join("config.conf")).expect("the same folder");
    watched.applies(3);
    // What the new file's own bytes do counts, too.
    write(&folder, &numbered(4));
    watched.applies(4);
}

#[test]
fn a_file_is_read_again_when_the_link_of_its_config_map_changes() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let dir = folder.path();
    let version = |n: u32| {
        fs::create_dir(dir.join(format!("..v{n}"))).expect("a free name");
        fs::write(dir.join(format!("..v{n}/config.conf")), numbered(n)).expect("writable");
    };
    version(1);
    symlink("..v1", dir.join("..data")).expect("a free name");
    symlink("..data/config.conf", dir.join("config.conf")).expect("a free name");
    let watched = Watched::start(&dir.join("config.conf"));
    for n in 2..4 {
        version(n);
        symlink(format!("..v{n}"), dir.join("..data_tmp")).expect("a free name");
        fs::rename(dir.join("..data_tmp"), dir.join("..data")).expect("the same folder");
        fs::remove_dir_all(dir.join(format!("..v{}", n - 1))).expect("the old version");
        watched.applies(n);
    }
}

#[test]
fn a_file_that_is_gone_is_refused_and_read_when_it_is_back() {
    let (folder, watched) = start(&numbered(1));
    fs::remove_file(folder.path().join("config.conf")).expect("it is there");
    watched.refuses("No such file");
    write(&folder, &numbered(2));
    watched.applies(2);
}

#[test]
fn a_file_is_read_again_when_its_folder_is_replaced() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let dir = folder.path().join("dir");
    fs::create_dir(&dir).expect("a free name");
    fs::write(dir.join("config.conf"), numbered(1)).expect("writable");
    let watched = Watched::start(&dir.join("config.conf"));
    fs::rename(&dir, folder.path().join("old")).expect("the same folder");
    watched.refuses("No such file");
    fs::create_dir(&dir).expect("a free name");
    fs::write(dir.join("config.conf"), numbered(2)).expect("writable");
    watched.applies(2);
}

#[test]
fn what_is_invalid_is_told_once_and_changes_nothing() {
    let (folder, watched) = start(&numbered(1));
    write(&folder, &text("conntrack: {min: -5}"));
    watched.refuses("line 3: conntrack.min: -5");
    // The same problem, other bytes; then what was in force all the time.
    write(&folder, &text("conntrack: {min: -5} # really"));
    write(&folder, &numbered(1));
    write(&folder, &text("mode: [nftables"));
    watched.refuses("line ");
    write(&folder, &numbered(2));
    watched.applies(2);
}

#[test]
fn a_sync_period_that_equals_the_default_is_applied_when_the_file_sets_it() {
    let (folder, watched) = start(&text("mode: ipvs"));
    write(&folder, &text("mode: ipvs\nipvs: {syncPeriod: 30s}"));
    match watched.next() {
        Reload::Apply(it) => assert_eq!(it.periods.resync, Duration::from_secs(30)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_read_at_start_needs_a_restart() {
    let (folder, watched) = start(&numbered(1));
    write(
        &folder,
        &text("mode: nftables\nhealthzBindAddress: 0.0.0.0:1\nhostnameOverride: other"),
    );
    match watched.next() {
        // Without a mode it was nftables, too.
        Reload::Restart(fields) => assert_eq!(fields, ["hostnameOverride", "healthzBindAddress"]),
        other => panic!("{other:?}"),
    }
    // Back to what runs, and on.
    write(&folder, &numbered(1));
    write(&folder, &numbered(2));
    watched.applies(2);
}

#[test]
fn flags_stay_in_force_and_comments_mean_nothing() {
    let (folder, watched) = start(&numbered(1));
    write(&folder, &(numbered(1) + "# nothing new\n"));
    write(&folder, &numbered(2));
    watched.applies(2);
}

#[test]
fn without_a_file_there_is_nothing_to_watch() {
    let args = Typed::try_parse_from(["proxy", "--manifests=/m"]).expect("valid flags");
    let current = args.proxy.validate("node-a").expect("valid");
    let watch = watch(&args.proxy, "node-a", &current, |_| ()).expect("no error");
    assert!(watch.is_none());
}
