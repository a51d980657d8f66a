//! The pins of programs and maps, by which they outlive the agent.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::BpfError;

/// The pins of one network namespace: `ROOT/vVERSION/net-COOKIE/maps` and `links`. Each user has a root and versions of
/// its own: a version is that of the maps' contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// The pins of the calling thread's network namespace under this root. Creates nothing.
    ///
    /// # Errors
    ///
    /// The namespace has no cookie (Linux before 5.14).
    pub fn of_namespace(root: &Path, version: u32) -> Result<Self, BpfError> {
        let cookie = netns_cookie()?;
        Ok(Self {
            folder: root
                .join(format!("v{version}"))
                .join(format!("net-{cookie}")),
        })
    }

    /// The pins of the calling thread's network namespace that processes with another version left under this root.
    /// The meaning of their maps is not known, but their programs go on.
    ///
    /// # Errors
    ///
    /// The namespace has no cookie (Linux before 5.14).
    pub fn of_other_versions(root: &Path, version: u32) -> Result<Vec<Self>, BpfError> {
        Self::of_versions(root, version, |it| it != Some(version))
    }

    /// Those of them with an older version.
    ///
    /// # Errors
    ///
    /// The namespace has no cookie (Linux before 5.14).
    pub fn of_older_versions(root: &Path, version: u32) -> Result<Vec<Self>, BpfError> {
        Self::of_versions(root, version, |it| it.is_some_and(|it| it < version))
    }

    fn of_versions(
        root: &Path,
        own: u32,
        is_wanted: impl Fn(Option<u32>) -> bool,
    ) -> Result<Vec<Self>, BpfError> {
        let own = Self::of_namespace(root, own)?;
        let name = own.folder.file_name().unwrap_or_default();
        let versions = fs::read_dir(root).into_iter().flatten().flatten();
        let wanted = versions.filter(|it| {
            let version = it.file_name();
            let version = version.to_str().and_then(|it| it.strip_prefix('v'));
            is_wanted(version.and_then(|it| it.parse().ok()))
        });
        let folders = wanted.map(|it| it.path().join(name));
        let folders = folders.filter(|it| it.is_dir());
        Ok(folders.map(|folder| Self { folder }).collect())
    }

    /// Whether anything is pinned.
    #[must_use]
    pub fn exist(&self) -> bool {
        self.folder.is_dir()
    }

    /// Makes the folders, and mounts a file system for pins where there is none.
    pub(crate) fn create(&self) -> Result<(), BpfError> {
        mount_at(&self.folder)?;
        for folder in [self.maps(), self.links()] {
            fs::create_dir_all(&folder).map_err(|source| BpfError::Pin {
                operation: "create",
                path: folder.clone(),
                source,
            })?;
        }
        // A process that may open a folder may lock it, and keep the agent waiting.
        let private = Permissions::from_mode(0o700);
        fs::set_permissions(&self.folder, private).map_err(|source| BpfError::Pin {
            operation: "close to others",
            path: self.folder.clone(),
            source,
        })
    }

    /// The folder of all pins, to be locked.
    pub(crate) fn open_folder(&self) -> Result<File, BpfError> {
        open(&self.folder)
    }

    /// The folder of the maps, to be locked.
    pub(crate) fn open_maps(&self) -> Result<File, BpfError> {
        open(&self.maps())
    }

    /// Removes all pins: the kernel removes the maps and links that nothing else holds. Filters of clsact stay:
    /// [`remove`](crate::remove).
    ///
    /// # Errors
    ///
    /// [`BpfError::Pin`].
    pub fn remove(&self) -> Result<(), BpfError> {
        let pin = |operation, path: &Path, source| BpfError::Pin {
            operation,
            path: path.to_owned(),
            source,
        };
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(pin("remove", &self.folder, error));
            }
            _ => {}
        }
        // Empty folders above are removed, too.
        for above in self.folder.ancestors().skip(1).take(2) {
            if fs::remove_dir(above).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// The folder of the maps.
    #[must_use]
    pub fn maps(&self) -> PathBuf {
        self.folder.join("maps")
    }

    /// The folder of the links.
    #[must_use]
    pub fn links(&self) -> PathBuf {
        self.folder.join("links")
    }
}

fn open(folder: &Path) -> Result<File, BpfError> {
    File::open(folder).map_err(|source| BpfError::Pin {
        operation: "open",
        path: folder.to_owned(),
        source,
    })
}

/// Mounts a file system for pins at the usual place, if `folder` lies there and nothing is mounted.
fn mount_at(folder: &Path) -> Result<(), BpfError> {
    let usual = Path::new("/sys/fs/bpf");
    let is_mounted = statfs(usual).is_ok_and(|it| it.filesystem_type() == BPF_FS_MAGIC);
    if !folder.starts_with(usual) || is_mounted {
        return Ok(());
    }
    let mounted = mount(
        Some("bpf"),
        usual,
        Some("bpf"),
        MsFlags::empty(),
        None::<&str>,
    );
    mounted.map_err(|source| BpfError::Mount {
        path: usual.to_owned(),
        source,
    })
}

/// The number that no other network namespace has while the machine runs (`SO_NETNS_COOKIE`).
///
/// # Errors
///
/// The kernel has no such number (Linux before 5.14).
pub fn netns_cookie() -> Result<u64, BpfError> {
    let failed = |source: io::Error| BpfError::Machine {
        operation: "read the cookie of the network namespace",
        source: source.into(),
    };
    let (domain, kind) = (AddressFamily::Inet, SockType::Datagram);
    let socket = socket(domain, kind, SockFlag::SOCK_CLOEXEC, None);
    let socket = socket.map_err(|errno| failed(errno.into()))?;
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as nix::libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `cookie`.
    #[expect(unsafe_code, reason = "nix has no such socket option")]
    let result = unsafe {
        nix::libc::getsockopt(
            socket.as_raw_fd(),
            nix::libc::SOL_SOCKET,
            nix::libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut length,
        )
    };
    match result {
        0 => Ok(cookie),
        _ => Err(failed(io::Error::last_os_error())),
    }
}
