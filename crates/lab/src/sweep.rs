//! Removal of what killed processes left behind.

use std::{fs, path::Path};

use crate::{
    LabError,
    netns::{RUN_NETNS, delete},
};

/// What a [`sweep`] did; it goes on after an error.
#[derive(Debug, Default)]
pub struct Sweep {
    /// Names of the namespaces that were deleted.
    pub removed: Vec<String>,
    /// One error per namespace that could not be deleted.
    pub errors: Vec<LabError>,
}

/// Deletes the namespaces of labs whose process is dead.
///
/// A process id that was given out again protects the old namespaces until that process ends too.
/// Labs in other pid namespaces that share `/run/netns` look dead: do not share it.
pub fn sweep() -> Sweep {
    let mut swept = Sweep::default();
    // No directory: nobody has ever made a named namespace here.
    let Ok(entries) = fs::read_dir(RUN_NETNS) else {
        return swept;
    };
    for name in entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
    {
        let Some(pid) = maker(&name) else { continue };
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

/// The process that made a namespace; `None` when its name is not one of a lab.
fn maker(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("sl")?.splitn(3, '-');
    let (pid, lab, _label) = (parts.next()?, parts.next()?, parts.next()?);
    lab.parse::<u32>().ok()?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::maker;

    #[test]
    fn only_names_of_labs_have_a_maker() {
        assert_eq!(maker("sl4711-3-web-1"), Some(4711));
        for foreign in [
            "sl4711",
            "sl4711-3",
            "sl-3-web",
            "slow-1-x",
            "cni-4711-3-web",
            "sl1-b-c",
        ] {
            assert_eq!(maker(foreign), None, "{foreign}");
        }
    }
}
