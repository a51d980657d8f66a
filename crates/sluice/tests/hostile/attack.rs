//! A row of the table of attacks.

use std::any::Any;

use serde_json::Value;

use crate::hostile::world::World;

/// Does something, and undoes it when what it returns is dropped.
pub(crate) type Begin = fn(&World) -> Box<dyn Any>;

/// What the hostile tenant does, and what is said about it.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Manifests, by file name.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// Called again and again with a number that counts up, in a thread, while the victim is watched.
    pub(crate) storm: Option<fn(&World, u64)>,
    /// Does what is no manifest, such as connections; what it returns is dropped at the end.
    pub(crate) begin: Option<Begin>,
    /// Asserts more, when everything is written.
    pub(crate) check: Option<fn(&World)>,
    /// Text that an issue or a problem in the status contains.
    pub(crate) said: Vec<&'static str>,
    /// Whether the manifests are taken away and written again.
    pub(crate) twice: bool,
    /// Objects of the largest single service port, which are written together.
    pub(crate) largest: usize,
    /// Whether it makes the data plane's rules those of a large cluster, for good.
    pub(crate) enlarges: bool,
}

impl Attack {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            files: Vec::new(),
            storm: None,
            begin: None,
            check: None,
            said: Vec::new(),
            twice: false,
            largest: 0,
            enlarges: false,
        }
    }

    /// Manifests, one file for each object.
    pub(crate) fn objects(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        for object in objects {
            let name = format!("hostile-{}.json", self.files.len());
            self.files.push((name, object.to_string().into_bytes()));
        }
        self
    }

    /// A manifest that is given as it is.
    pub(crate) fn file(mut self, name: &str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), content.into()));
        self
    }

    pub(crate) fn storm(mut self, storm: fn(&World, u64)) -> Self {
        self.storm = Some(storm);
        self
    }

    pub(crate) fn begin(mut self, begin: Begin) -> Self {
        self.begin = Some(begin);
        self
    }

    pub(crate) fn check(mut self, check: fn(&World)) -> Self {
        self.check = Some(check);
        self
    }

    pub(crate) fn said(mut self, said: &'static str) -> Self {
        self.said.push(said);
        self
    }

    pub(crate) fn twice(mut self) -> Self {
        self.twice = true;
        self
    }

    pub(crate) fn largest(mut self, objects: usize) -> Self {
        self.largest = objects;
        self
    }

    pub(crate) fn enlarges(mut self) -> Self {
        self.enlarges = true;
        self
    }
}
