//! Places for objects, with a source that follows them.

use std::sync::Arc;
use std::sync::mpsc::channel;

use serde_json::Value;
use sluice_miniapi::{MiniApi, Options};
use sluice_source::apiserver::{Access, Follow, Timeouts, connect};
use sluice_source::{Hub, Subscription, Watch};

use crate::support::{NODE, View, Wanted, node_object, service_object, watch};

/// A place to put objects.
pub(crate) trait World {
    /// A world with the Node and the Service that every cluster has.
    fn start() -> (Self, View)
    where
        Self: Sized;
    /// Creates an object, or replaces the object of this name.
    fn put(&mut self, object: &Value);
    /// Deletes an object.
    fn delete(&mut self, object: &Value);
}

fn first_objects() -> [Value; 2] {
    [
        node_object(NODE, "10.0.0.1"),
        service_object("kubernetes", 443),
    ]
}

fn name_of(object: &Value) -> (&str, &str, &str) {
    let metadata = &object["metadata"];
    (
        object["kind"].as_str().unwrap(),
        metadata["namespace"].as_str().unwrap_or_default(),
        metadata["name"].as_str().unwrap(),
    )
}

/// A folder of manifests: one file per object.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    _watch: (Watch, Subscription),
}

fn write(folder: &tempfile::TempDir, object: &Value) {
    let path = folder.path().join(file_of(object));
    std::fs::write(path, object.to_string()).unwrap();
}

fn file_of(object: &Value) -> String {
    let (kind, namespace, name) = name_of(object);
    format!("{kind}.{namespace}.{name}.json")
}

impl World for Folder {
    fn start() -> (Self, View) {
        let folder = tempfile::tempdir().unwrap();
        first_objects().iter().for_each(|it| write(&folder, it));
        let (sender, batches) = channel();
        let sink = move |it| {
            let _ = sender.send(it);
        };
        let watch = watch(folder.path(), Wanted::agent().wants(), sink).unwrap();
        let world = Self {
            folder,
            _watch: watch,
        };
        (world, View::new(batches))
    }

    fn put(&mut self, object: &Value) {
        write(&self.folder, object);
    }

    fn delete(&mut self, object: &Value) {
        std::fs::remove_file(self.folder.path().join(file_of(object))).unwrap();
    }
}

/// An API server.
pub(crate) struct Server {
    _follow: (Follow, Subscription),
    _files: tempfile::TempDir,
    api: MiniApi,
}

impl World for Server {
    fn start() -> (Self, View) {
        let api = MiniApi::start(Options::default()).unwrap();
        api.put_all(first_objects()).unwrap();
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("kubeconfig");
        std::fs::write(&path, api.kubeconfig()).unwrap();
        let access = Access {
            kubeconfig: Some(path),
            ..Access::default()
        };
        let client = connect(&access).unwrap();
        let (sender, batches) = channel();
        let sink = move |it| {
            let _ = sender.send(it);
        };
        let hub = Hub::default();
        let subscription = hub.subscribe(Wanted::agent().wants(), sink);
        let follow = hub
            .follow(&client, Timeouts::default(), Arc::new(|_| ()))
            .unwrap();
        let world = Self {
            _follow: (follow, subscription),
            _files: files,
            api,
        };
        (world, View::new(batches))
    }

    fn put(&mut self, object: &Value) {
        self.api.put(object.clone()).unwrap();
    }

    fn delete(&mut self, object: &Value) {
        let (kind, namespace, name) = name_of(object);
        self.api.delete(kind, namespace, name).unwrap();
    }
}
