//! The root of a confined container: a tmpfs with the programs of the machine in it. Nothing of the machine can be changed
//! there, and what is written is gone with the container.
//!
//! ```text
//! /usr /etc /lib ...     the machine's, below a tmpfs that takes what is written; read-only where the kernel has no overlays
//! /var                   empty folders of the same names
//! /dev /proc /sys        of its own
//! /root /home /tmp /run  empty
//! ```

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};

use super::Inside;
use super::mounts::{self, bind, read_only};
use crate::entry::{Confined, Mount};
use crate::images::{APPLETS, PROGRAMS};

/// Where the root is made before this process moves there; in the lab's own `/run`.
const STAGE: &str = "/run/sluice-root";

/// The tmpfs with what the container writes below folders of the machine.
const LAYERS: &str = "/run/sluice-layers";

/// Where the machine's root is until volumes are mounted.
const MACHINE: &str = "/.machine";

/// Most that a container can write in each of its two file systems: it takes memory.
const SIZE: &str = "mode=755,size=1g";

/// The folders of the machine that a container sees: those with programs.
const SEEN: [&str; 12] = [
    "bin", "etc", "lib", "lib32", "lib64", "libx32", "nix", "opt", "sbin", "snap", "srv", "usr",
];

/// Files of the machine that containers do not see.
const HIDDEN: [&str; 14] = [
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/sched_debug",
    "/proc/timer_list",
];

/// What the kernel lets the machine's root write by its user alone, as runc makes it (`readonlyPaths`).
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

const NONE: Option<&str> = None;

/// Moves this process into a new root. It must be process 1 of a pid namespace, in a private mount namespace.
pub(super) fn make(inside: &Inside, confined: &Confined) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("find this program")?;
    // Where the machine is a chroot, the kernel's path begins outside of it.
    let parts: Vec<_> = program.iter().skip(1).collect();
    let program = (0..parts.len())
        .map(|it| Path::new("/").join(parts[it..].iter().collect::<PathBuf>()))
        .find(|it| it.exists())
        .context("find this program")?;
    let resolv_conf = inside
        .resolv_conf
        .as_deref()
        .unwrap_or(super::RESOLV_CONF.as_ref());
    let texts = [
        ("/etc/hosts", confined.hosts.clone()),
        ("/etc/hostname", format!("{}\n", inside.hostname)),
        (
            super::RESOLV_CONF,
            fs::read_to_string(resolv_conf).unwrap_or_default(),
        ),
    ];
    let stage = Path::new(STAGE);
    tmpfs(stage, SIZE)?;
    let mut own = fill(stage).context("show the machine")?;
    devices(&stage.join("dev"), inside.terminal.as_deref()).context("make /dev")?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let proc = stage.join("proc");
    mount(Some("proc"), &proc, Some("proc"), quiet, NONE).context("mount /proc")?;
    let sys = stage.join("sys");
    let flags = quiet | MsFlags::MS_RDONLY;
    if mount(Some("sysfs"), &sys, Some("sysfs"), flags, NONE).is_err() {
        // In a lab without privileges it is that of the machine, where nothing can be written either.
        bind(Path::new("/sys"), &sys, MsFlags::MS_BIND | MsFlags::MS_REC)?;
    }
    let programs = stage.join(&PROGRAMS[1..]);
    fs::create_dir_all(&programs)?;
    let own_program = programs.join("sluice");
    File::create(&own_program)?;
    shown(&program, &own_program)?;
    if Path::new(APPLETS).is_dir() {
        let applets = stage.join(&APPLETS[1..]);
        fs::create_dir_all(&applets)?;
        shown(Path::new(APPLETS), &applets)?;
    }
    let volumes = inside.mounts.iter().cloned().map(|mut it| {
        let source = fs::canonicalize(&it.source);
        let source = source.with_context(|| it.source.display().to_string())?;
        it.source = below(MACHINE, &source);
        anyhow::Ok(it)
    });
    let mut volumes: Vec<Mount> = volumes.collect::<Result<_, _>>()?;
    if let Some((source, target)) = &confined.termination_log {
        volumes.push(Mount {
            source: below(MACHINE, source),
            target: target.clone(),
            read_only: false,
        });
    }
    let machine = below(STAGE, Path::new(MACHINE));
    fs::create_dir(&machine)?;
    pivot_root(stage, &machine).context("change the root")?;
    chdir("/")?;
    mounts::make(&volumes, own.clone())?;
    for (path, text) in texts {
        own.extend(mounts::own_folder(Path::new("/etc"), &own)?);
        let path = Path::new(path);
        if volumes.iter().any(|it| it.target == path) {
            continue;
        }
        // It may be a symbolic link, or a mount of that of the machine.
        let _ = umount2(path, MntFlags::MNT_DETACH);
        let _ = fs::remove_file(path);
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    if let Some(directory) = &confined.directory {
        // The program's start says why there is none.
        let _ = fs::create_dir_all(directory);
    }
    for path in HIDDEN.map(Path::new) {
        hide(path).with_context(|| format!("hide {}", path.display()))?;
    }
    for path in READ_ONLY
        .map(Path::new)
        .into_iter()
        .filter(|it| it.exists())
    {
        shown(path, path)?;
    }
    umount2(MACHINE, MntFlags::MNT_DETACH).context("leave the machine's root")?;
    fs::remove_dir(MACHINE)?;
    if confined.read_only {
        let folders = SEEN.iter().map(|it| Path::new("/").join(it));
        let folders = folders.filter(|it| it.is_dir() && !it.is_symlink());
        for it in folders.chain([PathBuf::from("/")]) {
            read_only(&it)?;
        }
    }
    Ok(())
}

/// Fills the new root. Returns the devices on which the container may write.
fn fill(stage: &Path) -> anyhow::Result<Vec<u64>> {
    let layers = Path::new(LAYERS);
    tmpfs(layers, SIZE)?;
    let mut own = vec![fs::metadata(stage)?.dev()];
    for name in SEEN {
        let (machine, at) = (Path::new("/").join(name), stage.join(name));
        if machine.is_symlink() {
            symlink(fs::read_link(&machine)?, &at)?;
        } else if machine.is_dir() {
            fs::create_dir(&at)?;
            if overlay(&machine, &layers.join(name), &at).is_ok() {
                own.push(fs::metadata(&at)?.dev());
            } else {
                shown(&machine, &at)?;
            }
        }
    }
    // The overlays hold it.
    umount2(layers, MntFlags::MNT_DETACH)?;
    for (name, mode) in [
        ("dev", 0o755),
        ("home", 0o755),
        ("media", 0o755),
        ("mnt", 0o755),
        ("proc", 0o555),
        ("root", 0o700),
        ("run", 0o755),
        ("run/lock", 0o1777),
        ("sys", 0o555),
        ("tmp", 0o1777),
        ("var", 0o755),
        ("var/tmp", 0o1777),
    ] {
        let at = stage.join(name);
        fs::create_dir(&at)?;
        fs::set_permissions(&at, Permissions::from_mode(mode))?;
    }
    symlink("/run", stage.join("var/run"))?;
    symlink("/run/lock", stage.join("var/lock"))?;
    for name in ["cache", "lib", "log", "spool"] {
        let at = stage.join("var").join(name);
        fs::create_dir(&at)?;
        same_folders(&Path::new("/var").join(name), &at)?;
    }
    Ok(own)
}

/// Makes an empty folder for each of a folder: programs expect theirs there.
fn same_folders(machine: &Path, at: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(machine).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else {
            continue;
        };
        if found.is_dir() {
            let at = at.join(entry.file_name());
            fs::create_dir(&at)?;
            // In a lab without privileges the owners of most do not exist.
            let _ = chown(&at, Some(found.uid()), Some(found.gid()));
            fs::set_permissions(&at, found.permissions())?;
        }
    }
    Ok(())
}

/// A folder of the machine below one that takes what is written.
fn overlay(machine: &Path, layer: &Path, at: &Path) -> anyhow::Result<()> {
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    fs::create_dir_all(&upper)?;
    fs::create_dir(&work)?;
    fs::set_permissions(&upper, fs::metadata(machine)?.permissions())?;
    let [machine, upper, work] = [machine, &upper, &work].map(Path::display);
    let options = format!("lowerdir={machine},upperdir={upper},workdir={work},userxattr");
    let flags = MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    mount(Some("overlay"), at, Some("overlay"), flags, Some(&*options))?;
    Ok(())
}

/// `/dev` with what every container has (`github.com/opencontainers/runtime-spec`, default devices).
fn devices(dev: &Path, terminal: Option<&Path>) -> anyhow::Result<()> {
    tmpfs(dev, "mode=755,size=64k")?;
    for name in ["null", "zero", "full", "random", "urandom", "tty"] {
        let at = dev.join(name);
        File::create(&at)?;
        bind(&Path::new("/dev").join(name), &at, MsFlags::MS_BIND)?;
    }
    for (name, leads_to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(leads_to, dev.join(name))?;
    }
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let pts = dev.join("pts");
    fs::create_dir(&pts)?;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    mount(Some("devpts"), &pts, Some("devpts"), quiet, options).context("mount devpts")?;
    let shm = dev.join("shm");
    fs::create_dir(&shm)?;
    tmpfs(&shm, "mode=1777,size=64m")?;
    if let Some(terminal) = terminal {
        let console = dev.join("console");
        File::create(&console)?;
        bind(terminal, &console, MsFlags::MS_BIND)?;
    }
    Ok(())
}

fn tmpfs(at: &Path, options: &str) -> anyhow::Result<()> {
    fs::create_dir_all(at)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let made = mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(options));
    made.with_context(|| format!("mount a tmpfs at {}", at.display()))
}

/// Shows a file or folder, read-only.
fn shown(from: &Path, at: &Path) -> anyhow::Result<()> {
    bind(from, at, MsFlags::MS_BIND)?;
    read_only(at)
}

/// Puts something empty in the place of a file or folder.
fn hide(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        let options = Some("mode=000,size=4k");
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), path, Some("tmpfs"), flags, options)?;
    } else if path.exists() {
        bind(Path::new("/dev/null"), path, MsFlags::MS_BIND)?;
    }
    Ok(())
}

/// An absolute path below another folder.
fn below(folder: &str, path: &Path) -> PathBuf {
    let mut all = PathBuf::from(folder);
    all.extend(path.components().skip(1));
    all
}
