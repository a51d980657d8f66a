//! Volumes that belong to the group of a pod (`fsGroup`; `pkg/volume/volume_linux.go`).

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::Path;

use crate::pods::fields::Own;

/// Permission bits of files that their owner and `fsGroup` have.
pub(super) const READ: u32 = 0o440;
pub(super) const READ_WRITE: u32 = 0o660;

/// What the group may do with folders besides, whose new files belong to it, too.
const ENTER: u32 = 0o2110;

/// Gives a volume to the group of the pod, if it has one.
pub(super) fn give(volume: &Path, own: &Own<'_>, mode: u32) {
    let context = own
        .pod
        .spec
        .as_ref()
        .and_then(|it| it.security_context.as_ref());
    let group = context
        .and_then(|it| it.fs_group)
        .and_then(|it| u32::try_from(it).ok());
    if let Some(group) = group {
        give_all(volume, group, mode);
    }
}

/// In a lab without privileges there is one group: nothing changes then.
fn give_all(path: &Path, group: u32, mode: u32) {
    let Ok(found) = fs::symlink_metadata(path) else {
        return;
    };
    if lchown(path, None, Some(group)).is_err() || found.is_symlink() {
        return;
    }
    let more = if found.is_dir() { mode | ENTER } else { mode };
    let permissions = Permissions::from_mode(found.permissions().mode() | more);
    // Its owner may do it, if it is still there.
    let _ = fs::set_permissions(path, permissions);
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        give_all(&entry.path(), group, mode);
    }
}
