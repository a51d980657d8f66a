//! Programs of this machine, by the names of their processes.

use std::fs;

/// The processes of this network namespace with their names.
pub(super) fn processes() -> Vec<(u32, String)> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let Some(own) = namespace("self") else {
        return Vec::new();
    };
    let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = listed.filter_map(|it| it.file_name().into_string().ok());
    let here = pids.filter(|pid| namespace(pid).as_ref() == Some(&own));
    let named = here.filter_map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        Some((pid.parse().ok()?, name.trim_end().to_owned()))
    });
    named.collect()
}
