//! Volumes of a pod: folders below its own folder, which its containers mount (`pkg/volume`, `pkg/kubelet/volumemanager`).

pub(super) mod content;
mod files;
mod group;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{
    Container, HostPathVolumeSource, ServiceAccountTokenProjection, Volume,
};

use super::Read;
use super::fields::Own;
use super::variables::expand;
use crate::entry::Mount;
use content::Sources;
use group::{READ, READ_WRITE};

/// Lifetime in seconds of a token when the volume names none.
const LIFETIME: i64 = 3600;

/// Longest time until a token is renewed (`pkg/kubelet/token/token_manager.go`).
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A volume that is ready.
struct Ready {
    path: PathBuf,
    /// Whether every mount of it is read-only.
    read_only: bool,
}

struct Token {
    text: String,
    renew_at: Instant,
}

pub(super) struct Volumes {
    /// The folder of all volumes of the pod.
    folder: PathBuf,
    /// The folder of what stands in for PersistentVolumes, by namespace and claim.
    claims: PathBuf,
    ready: BTreeMap<String, Ready>,
    /// The keys are a volume and a path in it.
    tokens: RefCell<BTreeMap<(String, String), Token>>,
}

impl Volumes {
    pub(super) fn new(folder: &Path, claims: PathBuf) -> Self {
        Self {
            folder: folder.join("volumes"),
            claims,
            ready: BTreeMap::new(),
            tokens: RefCell::default(),
        }
    }

    /// Makes the volumes, or brings them up to date. Returns name and problem of each that failed: it stays as it was.
    pub(super) fn set_up(&mut self, own: &Own<'_>, objects: &dyn Read) -> Vec<(String, String)> {
        let spec = own.pod.spec.as_ref();
        let volumes = spec.and_then(|it| it.volumes.as_deref());
        let mut failed = Vec::new();
        for volume in volumes.unwrap_or_default() {
            match self.one(volume, own, objects) {
                Ok(ready) => {
                    self.ready.insert(volume.name.clone(), ready);
                }
                Err(why) => failed.push((volume.name.clone(), why)),
            }
        }
        failed
    }

    /// When a token must be renewed.
    pub(super) fn renew_at(&self) -> Option<Instant> {
        self.tokens.borrow().values().map(|it| it.renew_at).min()
    }

    fn one(&self, volume: &Volume, own: &Own<'_>, objects: &dyn Read) -> Result<Ready, String> {
        let path = self.folder.join(&volume.name);
        let sources = Sources {
            own,
            objects,
            token: &|it| self.token(&volume.name, it, own, objects),
        };
        if let Some(files) = sources.files(volume) {
            let written = files::write(&path, &files?);
            written.map_err(|it| format!("{}: {it}", path.display()))?;
            group::give(&path, own, READ);
            return Ok(Ready {
                path,
                read_only: true,
            });
        }
        if let Some(it) = &volume.host_path {
            return host_path(it, path);
        }
        let path = match &volume.persistent_volume_claim {
            Some(it) => self.claims.join(own.namespace()).join(&it.claim_name),
            None => path,
        };
        let is_new = !path.exists();
        let made = fs::create_dir_all(&path).and_then(|()| {
            // Kubernetes' own, too, are for all users.
            let all = Permissions::from_mode(0o777);
            if is_new {
                fs::set_permissions(&path, all)
            } else {
                Ok(())
            }
        });
        made.map_err(|it| format!("{}: {it}", path.display()))?;
        if is_new {
            group::give(&path, own, READ_WRITE);
        }
        Ok(Ready {
            path,
            read_only: false,
        })
    }

    /// The token for a projection: the one that was fetched before, for four fifths of its lifetime.
    fn token(
        &self,
        volume: &str,
        wanted: &ServiceAccountTokenProjection,
        own: &Own<'_>,
        objects: &dyn Read,
    ) -> Result<String, String> {
        let key = (volume.to_owned(), wanted.path.clone());
        let now = Instant::now();
        let mut tokens = self.tokens.borrow_mut();
        if let Some(it) = tokens.get(&key).filter(|it| now < it.renew_at) {
            return Ok(it.text.clone());
        }
        let seconds = wanted.expiration_seconds.unwrap_or(LIFETIME);
        let text = objects.token(own.pod, wanted.audience.as_deref(), seconds)?;
        let lifetime = Duration::from_secs(seconds.unsigned_abs());
        let token = Token {
            text: text.clone(),
            renew_at: now + (lifetime * 4 / 5).min(DAY),
        };
        tokens.insert(key, token);
        Ok(text)
    }

    /// The mounts of a container.
    pub(super) fn mounts(
        &self,
        container: &Container,
        variables: &[(String, String)],
    ) -> Result<Vec<Mount>, String> {
        let mut mounts = Vec::new();
        for it in container.volume_mounts.iter().flatten() {
            let (volume, name) = (&it.name, &container.name);
            let ready = self.ready.get(volume).ok_or_else(|| {
                format!("cannot find volume {volume:?} to mount into container {name:?}")
            })?;
            let text = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
            let below = match (text(&it.sub_path), text(&it.sub_path_expr)) {
                (Some(path), _) => Some(path),
                (None, Some(path)) => Some(expand(&path, |name| {
                    let mut variables = variables.iter();
                    variables
                        .find(|(it, _)| it == name)
                        .map(|(_, it)| it.clone())
                })),
                (None, None) => None,
            };
            let source = match below {
                None => ready.path.clone(),
                Some(below) => sub_path(&ready.path, &below).map_err(|why| {
                    format!(
                        "failed to prepare subPath for volumeMount {volume:?} of container {name:?}: {why}"
                    )
                })?,
            };
            mounts.push(Mount {
                source,
                target: it.mount_path.clone().into(),
                read_only: ready.read_only || it.read_only == Some(true),
            });
        }
        Ok(mounts)
    }
}

/// A file or folder in a volume; a folder that is missing is made, as by kubelet. The file that a symbolic link names now
/// stays mounted when the link changes: such a mount does not follow its ConfigMap.
fn sub_path(volume: &Path, below: &str) -> Result<PathBuf, String> {
    if below.starts_with('/') || below.split('/').any(|it| it == "..") {
        return Err(format!("{below:?} leads out of the volume"));
    }
    let path = volume.join(below);
    if !path.exists() {
        fs::create_dir_all(&path).map_err(|it| it.to_string())?;
    }
    fs::canonicalize(&path).map_err(|it| it.to_string())
}

/// A path of this machine. What is missing there is not made: an empty folder or file of the pod's own stands in.
fn host_path(wanted: &HostPathVolumeSource, own: PathBuf) -> Result<Ready, String> {
    let path = PathBuf::from(&wanted.path);
    let kind = wanted.type_.as_deref().unwrap_or_default();
    let failed = |what: &str| format!("hostPath type check failed: {} is not {what}", wanted.path);
    let path = match (kind, path.is_dir(), path.exists()) {
        ("Directory", false, _) => return Err(failed("a directory")),
        ("DirectoryOrCreate", false, true) => return Err(failed("a directory")),
        ("File" | "FileOrCreate", true, _) => return Err(failed("a file")),
        ("File", _, false) => return Err(failed("a file")),
        (_, _, true) => path,
        ("FileOrCreate", ..) => {
            let made = own.parent().map_or(Ok(()), fs::create_dir_all);
            let made = made.and_then(|()| File::options().create(true).append(true).open(&own));
            made.map_err(|it| format!("{}: {it}", own.display()))?;
            own
        }
        ("Socket" | "CharDevice" | "BlockDevice", ..) => return Err(failed(kind)),
        _ => {
            fs::create_dir_all(&own).map_err(|it| format!("{}: {it}", own.display()))?;
            own
        }
    };
    Ok(Ready {
        path,
        read_only: false,
    })
}
