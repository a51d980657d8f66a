//! Programs of this machine, by the names of their processes.

use std::fs;

/// A process of this network namespace with one of these names.
pub(super) fn runs(names: &[&str]) -> Option<u32> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = namespace("self")?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|it| it.file_name().into_string().ok());
    let found = pids.find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        let is_named = name.is_ok_and(|it| names.contains(&it.trim_end()));
        is_named && namespace(pid).as_ref() == Some(&own)
    });
    found?.parse().ok()
}
