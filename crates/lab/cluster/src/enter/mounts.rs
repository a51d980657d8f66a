//! What a container sees at places of its own. There is no image: most of the places do not exist on this machine, and must
//! not be made there.
//!
//! ```text
//! /etc/nginx/conf.d, and /etc exists:  a tmpfs at /etc with every entry of the old /etc mounted in it, then the folder
//!                                      nginx/conf.d there, then the volume on that
//! ```
//!
//! All of it is in the mount namespace of one process: the machine sees nothing.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, chroot};

use crate::entry::Mount;

/// Where a tmpfs is filled before it takes its place. `/run` is the lab's own.
const STAGE: &str = "/run/sluice-stage";

/// The folder in which the lab may make folders.
const OWN: &str = "/run";

/// Makes the mounts in the mount namespace of this process, which must be private. `devices` are those on which folders may be
/// made.
pub(super) fn make(mounts: &[Mount], devices: Vec<u64>) -> anyhow::Result<()> {
    let mut sorted: Vec<&Mount> = mounts.iter().collect();
    // A mount below another one comes after it.
    sorted.sort_by_key(|it| it.target.components().count());
    let mut places = Places {
        targets: Vec::new(),
        devices,
    };
    for it in sorted {
        let at = || format!("mount a volume at {}", it.target.display());
        places.mount(it).with_context(at)?;
    }
    Ok(())
}

/// Makes a folder one of the container's own, unless it is. Returns its device then.
pub(super) fn own_folder(folder: &Path, devices: &[u64]) -> anyhow::Result<Option<u64>> {
    let is_own = devices.contains(&fs::metadata(folder)?.dev());
    if is_own {
        Ok(None)
    } else {
        copy(folder).map(Some)
    }
}

/// Forbids writes to a mount.
pub(super) fn read_only(target: &Path) -> anyhow::Result<()> {
    // A user namespace may not take away what the mount forbids already.
    let held = statvfs(target)?.flags();
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | kept(held);
    mount(None::<&str>, target, None::<&str>, flags, None::<&str>)
        .with_context(|| format!("make {} read-only", target.display()))
}

/// The places where missing folders may be made.
struct Places {
    targets: Vec<PathBuf>,
    /// The devices of file systems of ours.
    devices: Vec<u64>,
}

impl Places {
    fn mount(&mut self, it: &Mount) -> anyhow::Result<()> {
        let target = self.prepare(&it.target, it.source.is_dir())?;
        let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
        bind(&it.source, &target, flags)?;
        if it.read_only {
            read_only(&target)?;
        }
        self.targets.push(target);
        Ok(())
    }

    /// Makes the place of a mount, unless it exists. Returns its path without symbolic links.
    fn prepare(&mut self, wanted: &Path, is_folder: bool) -> anyhow::Result<PathBuf> {
        let mut missing = Vec::new();
        let mut existing = wanted;
        let real = loop {
            match fs::canonicalize(existing) {
                Ok(real) => break real,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
            missing.push(existing.file_name().context("no absolute path")?);
            existing = existing.parent().context("no absolute path")?;
        };
        let mut target = real.clone();
        target.extend(missing.iter().rev());
        if missing.is_empty() {
            if real.is_dir() != is_folder {
                bail!("not a directory: one is a file, the other a directory");
            }
            return Ok(target);
        }
        if !self.is_own(&real)? {
            self.devices.push(copy(&real)?);
        }
        if is_folder {
            fs::create_dir_all(&target)?;
        } else {
            fs::create_dir_all(target.parent().unwrap_or(&target))?;
            File::create(&target)?;
        }
        Ok(target)
    }

    fn is_own(&self, folder: &Path) -> anyhow::Result<bool> {
        let below = |it: &PathBuf| folder.starts_with(it);
        Ok(folder.starts_with(OWN)
            || self.targets.iter().any(below)
            || self.devices.contains(&fs::metadata(folder)?.dev()))
    }
}

/// Puts a tmpfs with all entries of a folder in its place. Returns the device of the tmpfs.
fn copy(folder: &Path) -> anyhow::Result<u64> {
    let (stage, tmpfs) = (Path::new(STAGE), Some("tmpfs"));
    fs::create_dir_all(stage)?;
    mount(tmpfs, stage, tmpfs, MsFlags::empty(), None::<&str>).context("mount a tmpfs")?;
    fs::set_permissions(stage, fs::metadata(folder)?.permissions())?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (from, to) = (entry.path(), stage.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&to)?;
        } else {
            File::create(&to)?;
        }
        bind(&from, &to, MsFlags::MS_BIND | MsFlags::MS_REC)?;
    }
    let none = None::<&str>;
    if folder == Path::new("/") {
        // The stage came along with `/run`.
        umount2(&stage.join(&STAGE[1..]), MntFlags::MNT_DETACH).context("unmount the stage")?;
        chdir(stage)?;
        mount(Some("."), "/", none, MsFlags::MS_MOVE, none).context("move the root")?;
        chroot(".")?;
    } else {
        mount(Some(stage), folder, none, MsFlags::MS_MOVE, none).context("move the tmpfs")?;
    }
    chdir("/")?;
    Ok(fs::metadata(folder)?.dev())
}

pub(super) fn bind(from: &Path, to: &Path, flags: MsFlags) -> anyhow::Result<()> {
    let none = None::<&str>;
    let at = || format!("{} at {}", from.display(), to.display());
    mount(Some(from), to, none, flags, none).with_context(at)
}

/// The flags of a mount that a remount must repeat.
fn kept(held: FsFlags) -> MsFlags {
    let pairs = [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        (FsFlags::ST_RELATIME, MsFlags::MS_RELATIME),
    ];
    let set = pairs.iter().filter(|(it, _)| held.contains(*it));
    set.fold(MsFlags::empty(), |all, (_, it)| all | *it)
}
