//! The folder of complete manifests: one file for each Service, one for what belongs to none.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use sluice_controller::{Completed, Manifests, Typed};
use sluice_model::NamespacedName;
use sluice_source::objects;

use super::reading;

/// Says whose folder it is: what is not ours is never deleted.
const MARKER: &str = "WRITTEN-BY-SLUICE-CONTROLLER";

/// Nodes and ServiceCIDRs. No Service has such a path.
const CLUSTER: &str = "cluster.json";

/// A folder, and what is in it.
pub(super) struct Output {
    dir: PathBuf,
    /// Locked: two controllers would give one address twice.
    _marker: File,
    /// Text by path below the folder; empty before the first write.
    files: BTreeMap<String, String>,
}

impl Output {
    /// Opens the folder, and makes it if it is missing. Returns the Services and slices of an earlier run, too.
    pub(super) fn open(dir: PathBuf) -> anyhow::Result<(Self, Vec<Service>, Vec<EndpointSlice>)> {
        let at = || format!("--output {}", dir.display());
        fs::create_dir_all(&dir).with_context(at)?;
        let is_ours = dir.join(MARKER).exists();
        if !is_ours && fs::read_dir(&dir).with_context(at)?.next().is_some() {
            bail!("{}: has files of somebody else: name an empty folder", at());
        }
        let marker = File::create(dir.join(MARKER)).with_context(at)?;
        match marker.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("{}: another controller writes there", at()),
            Err(TryLockError::Error(error)) => return Err(error).with_context(at),
        }
        let (written, problems) = objects(&dir)?;
        let (manifests, wrong) = reading::manifests(&written);
        if let Some(problem) = problems.iter().chain(&wrong).next() {
            // Its addresses would go to other Services.
            bail!("{}: {problem}: repair or remove the file", at());
        }
        let output = Self {
            dir,
            _marker: marker,
            files: BTreeMap::new(),
        };
        Ok((output, manifests.services, manifests.slices))
    }

    /// Writes the files that differ, and deletes those of Services that are gone. Returns how many. Without a `cluster`
    /// its file stays.
    pub(super) fn write(
        &mut self,
        completed: &BTreeMap<NamespacedName, Completed>,
        cluster: Option<String>,
    ) -> anyhow::Result<usize> {
        let mut wanted = BTreeMap::new();
        let held = || fs::read_to_string(self.dir.join(CLUSTER)).ok();
        if let Some(cluster) = cluster.or_else(held) {
            wanted.insert(CLUSTER.to_owned(), cluster);
        }
        for (key, it) in completed {
            wanted.insert(format!("{}/{}.json", key.namespace, key.name), text(it)?);
        }
        let mut count = 0;
        for (name, text) in &wanted {
            if self.files.get(name) != Some(text) && self.is_other(name, text) {
                write(&self.dir.join(name), text)?;
                count += 1;
            }
        }
        for name in self.listed()? {
            if !wanted.contains_key(&name) {
                let path = self.dir.join(&name);
                fs::remove_file(&path).with_context(|| path.display().to_string())?;
                count += 1;
            }
        }
        self.files = wanted;
        Ok(count)
    }

    /// The file of an earlier run may be the same.
    fn is_other(&self, name: &str, text: &str) -> bool {
        fs::read(self.dir.join(name)).ok().as_deref() != Some(text.as_bytes())
    }

    /// The files that are there: of this run, or at first of the one before.
    fn listed(&self) -> anyhow::Result<Vec<String>> {
        if !self.files.is_empty() {
            return Ok(self.files.keys().cloned().collect());
        }
        let (written, _) = objects(&self.dir)?;
        let mut names: Vec<String> = written.iter().map(|it| it.file.to_string()).collect();
        names.dedup();
        Ok(names)
    }
}

/// Replaces a file in one step: a reader finds the old or the new one, also after a crash.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Readers of manifests leave hidden files alone.
    let new = folder.join(format!(".{name}.new"));
    let written: io::Result<()> = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&new, text))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // It may not be there.
        let _ = fs::remove_file(&new);
    }
    written.with_context(|| format!("write {}", path.display()))
}

fn text(completed: &Completed) -> anyhow::Result<String> {
    let mut items = vec![completed.service.write()];
    items.extend(completed.slices.iter().map(Typed::write));
    items.extend(completed.ip_addresses.iter().map(Typed::write));
    list(&items)
}

/// Nodes and ServiceCIDRs as a file. None while a manifest that cannot be read may have more of them.
pub(super) fn cluster(manifests: &Manifests) -> anyhow::Result<Option<String>> {
    if manifests.unread {
        return Ok(None);
    }
    let nodes = manifests.nodes.iter().map(Typed::write);
    let cidrs = manifests.service_cidrs.iter().map(Typed::write);
    list(&nodes.chain(cidrs).collect::<Vec<_>>()).map(Some)
}

fn list(items: &[Value]) -> anyhow::Result<String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}
