//! The faults of an object, with the path to each.

use std::fmt;
use std::sync::Arc;

use sluice_yaml::{push_field, push_index};

use super::Interner;

/// One step of a field path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A field of a mapping.
    Field(&'static str),
    /// An element of a list.
    Index(usize),
}

/// One problem of an object. Displays as `spec.ports[1].port: 0 is not in 1..=65535`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The path to the field, outermost first.
    pub path: Vec<Step>,
    /// The reason.
    pub message: String,
}

impl Fault {
    /// A fault of the field that a path leads to.
    pub fn at(path: impl Into<Vec<Step>>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
        }
    }

    /// The path as people write it.
    pub fn field(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) => push_field(&mut text, name),
                Step::Index(at) => push_index(&mut text, *at),
            }
        }
        text
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            [] => f.write_str(&self.message),
            _ => write!(f, "{}: {}", self.field(), self.message),
        }
    }
}

/// The result of a conversion: the model object, and the faults of the API object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted<T> {
    /// The object; `None` when it is refused.
    pub object: Option<T>,
    /// The first 20 problems, and the number of further ones. An object that is not refused may have some: the values they name are
    /// left out of it.
    pub faults: Vec<Fault>,
}

/// A place in an object: a list of steps that lives on the stack, so that a path costs nothing
/// until something is wrong.
#[derive(Clone, Copy)]
pub struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step,
}

impl<'a> At<'a> {
    /// A path from the root of the object, with dots between the fields.
    pub const fn top(path: &'static str) -> Self {
        Self {
            parent: None,
            step: Step::Field(path),
        }
    }

    /// A field of this mapping.
    pub const fn field(&'a self, field: &'static str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Field(field),
        }
    }

    /// An element of this list, from 0.
    pub const fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    fn path(&self) -> Vec<Step> {
        match (self.parent, self.step) {
            (None, Step::Field(path)) => path.split('.').map(Step::Field).collect(),
            (parent, step) => {
                let mut path = parent.map(At::path).unwrap_or_default();
                path.push(step);
                path
            }
        }
    }
}

/// Collects the faults of one object, and shares its texts with other objects.
pub struct Faults<'n> {
    names: &'n mut Interner,
    list: Vec<Fault>,
    /// Faults that are not in the list.
    unlisted: usize,
    /// One of the faults refuses the object.
    is_refused: bool,
}

impl<'n> Faults<'n> {
    /// No faults yet. Texts are shared with the other objects that `names` has seen.
    pub fn new(names: &'n mut Interner) -> Self {
        Self {
            names,
            list: Vec::new(),
            unlisted: 0,
            is_refused: false,
        }
    }

    /// The object cannot be used.
    pub fn refuse(&mut self, at: At<'_>, message: impl fmt::Display) {
        self.is_refused = true;
        self.note(at, message);
    }

    /// The value is left out; the object is used.
    pub fn note(&mut self, at: At<'_>, message: impl fmt::Display) {
        if self.list.len() == MAX_FAULTS {
            self.unlisted += 1;
            return;
        }
        self.list.push(Fault {
            path: at.path(),
            message: message.to_string(),
        });
    }

    /// Unwraps a checked value, or refuses the object.
    pub fn take<T>(&mut self, at: At<'_>, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|why| self.refuse(at, why)).ok()
    }

    /// Shares a checked text, or refuses the object.
    pub fn text(&mut self, at: At<'_>, checked: Result<&str, String>) -> Option<Arc<str>> {
        self.take(at, checked).map(|it| self.share(it))
    }

    /// The shared copy of a text.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        self.names.share(text)
    }

    /// The interner that shares the texts of objects.
    pub fn names(&mut self) -> &mut Interner {
        self.names
    }

    /// The object, unless a fault refuses it, with the faults.
    pub fn finish<T>(mut self, object: Option<T>) -> Converted<T> {
        debug_assert!(
            object.is_some() || self.is_refused,
            "refused without a fault"
        );
        if self.unlisted > 0 {
            self.list.push(Fault {
                path: Vec::new(),
                message: format!("{} further problems", self.unlisted),
            });
        }
        Converted {
            object: object.filter(|_| !self.is_refused),
            faults: self.list,
        }
    }
}

/// Faults of one object that are listed. An object of 1.5 MB may have 100,000, and status, log and
/// memory of the node belong to all tenants.
const MAX_FAULTS: usize = 20;
