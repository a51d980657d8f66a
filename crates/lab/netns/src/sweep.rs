//! Removes the namespaces of killed processes.

use std::{fs, path::Path};

use crate::{
    LabError,
    netns::{RUN_NETNS, delete},
};

/// The results of a [`sweep`], which goes on after an error.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Names of the namespaces that were deleted.
    pub removed: Vec<String>,
    /// One error per namespace that could not be deleted.
    pub errors: Vec<LabError>,
}

/// Deletes the namespaces of labs whose process has ended.
///
/// While another process has the same process id, the namespaces stay. A process in another pid
/// namespace looks ended: `/run/netns` must not be shared between pid namespaces.
pub fn sweep() -> Sweep {
    let mut swept = Sweep::default();
    // Without the directory there is no named namespace.
    let Ok(entries) = fs::read_dir(RUN_NETNS) else {
        return swept;
    };
    for name in entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
    {
        let Some(pid) = creator(&name) else { continue };
        if Path::new("/proc").join(pid.to_string()).exists() {
            continue;
        }
        match delete(&name) {
            Ok(()) => swept.removed.push(name),
            Err(error) => swept.errors.push(error),
        }
    }
    swept
}

/// The process id in the name of a lab's namespace; `None` for other names.
fn creator(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("sl")?.splitn(3, '-');
    let (pid, lab, _label) = (parts.next()?, parts.next()?, parts.next()?);
    lab.parse::<u32>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::creator;

    #[test]
    fn only_names_of_labs_have_a_creator() {
        assert_eq!(creator("sl4711-3-web-1"), Some(4711));
        for foreign in [
            "sl4711",
            "sl4711-3",
            "sl-3-web",
            "slow-1-x",
            "cni-4711-3-web",
            "sl1-b-c",
        ] {
            assert_eq!(creator(foreign), None, "{foreign}");
        }
    }
}
