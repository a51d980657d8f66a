use std::os::unix::fs::{chown, symlink};

use sluice_lab::require_netns;
use tempfile::TempDir;

use super::*;

const FORWARD: &str = "/proc/sys/net/ipv4/ip_forward";

/// A folder that no other user can write, and the file beside a socket in its `run`.
fn memory() -> (TempDir, Memory) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let memory = Memory::beside(&folder.path().join("run/sluice.sock"));
    (folder, memory)
}

fn text(memory: &Memory) -> String {
    fs::read_to_string(memory.path()).expect("written")
}

#[test]
fn the_first_old_value_stays() {
    let (_folder, memory) = memory();
    assert!(matches!(memory.changed(), Ok(None)));
    memory.keep(FORWARD, 0, 1);
    memory.keep(HASHSIZE, 16384, 32768);
    memory.keep(FORWARD, 1, 2);
    let expected = format!("{FORWARD} 0 2\n{HASHSIZE} 16384 32768\n");
    assert_eq!(text(&memory), expected);
    // Another start, by another user.
    let again = Memory::of_init_only(&memory.path().with_extension("sock"));
    again.keep(FORWARD, 2, 3);
    assert_eq!(text(&memory), expected.replace("0 2", "0 3"));
    let mode = fs::metadata(memory.path()).expect("written").permissions();
    assert_eq!(mode.mode() & 0o777, 0o644);
    let folder = memory.path().parent().expect("a folder");
    assert_eq!(
        fs::read_dir(folder).expect("ours").count(),
        1,
        "no draft is left"
    );
    memory.forget().expect("ours");
    assert!(matches!(memory.changed(), Ok(None)));
}

#[test]
fn a_file_of_somebody_else_is_named_and_left_alone() {
    let (_folder, memory) = memory();
    memory.keep(FORWARD, 0, 1);
    for line in [
        "",
        "garbage",
        "/proc/sys/net/ipv4/ip_forward 0",
        "/proc/sys/net/ipv4/ip_forward 0 1 2",
        "/proc/sys/net/ipv4/ip_forward no 1",
        "/proc/sys/net/../kernel/panic 0 1",
        "/etc/passwd 0 1",
    ] {
        let wrong = format!("{FORWARD} 0 1\n{line}\n");
        fs::write(memory.path(), &wrong).expect("ours");
        let error = memory.changed().expect_err("wrong").to_string();
        let start = format!("{}: line 2: ", memory.path().display());
        assert!(error.starts_with(&start), "{line}: {error}");
        memory.keep(FORWARD, 0, 7);
        assert_eq!(text(&memory), wrong);
    }
    fs::remove_file(memory.path()).expect("ours");
    symlink("/etc/hostname", memory.path()).expect("ours");
    let error = memory.changed().expect_err("a link").to_string();
    assert!(error.starts_with("read /"), "{error}");
}

/// A service manager gives the folder to the agent's user, and starts `--init-only` as root.
#[test]
fn the_folder_may_be_the_agents_and_not_the_file_of_a_stranger() {
    require_netns!();
    let (_folder, memory) = memory();
    let run = memory.path().parent().expect("a folder");
    fs::create_dir(run).expect("ours");
    chown(run, Some(65534), None).expect("root");
    memory.keep(FORWARD, 0, 1);
    chown(memory.path(), Some(65534), None).expect("root");
    memory.keep(FORWARD, 0, 2);
    assert_eq!(text(&memory), format!("{FORWARD} 0 2\n"));
    chown(memory.path(), Some(65533), None).expect("root");
    let error = chain(&memory.changed().expect_err("a stranger's"));
    assert!(error.ends_with("it belongs to user 65533"), "{error}");
}

/// As in a pod, where `/run` is a volume: the agent is another user than the init container.
#[test]
fn init_only_leaves_a_folder_of_all_to_the_agent() {
    let (folder, memory) = memory();
    let socket = memory.path().with_extension("sock");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("ours");
    Memory::of_init_only(&socket).keep(FORWARD, 0, 1);
    assert_eq!(fs::read_dir(folder.path()).expect("ours").count(), 0);
    memory.keep(FORWARD, 0, 1);
    Memory::of_init_only(&socket).keep(FORWARD, 1, 2);
    assert_eq!(text(&memory), format!("{FORWARD} 0 2\n"));
}
