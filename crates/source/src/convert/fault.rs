//! What is wrong with an object, and where in it.

use std::fmt;

use sluice_yaml::{push_field, push_index};

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
    /// The way to the field, outermost first.
    pub path: Vec<Step>,
    /// What is wrong with it.
    pub message: String,
}

impl Fault {
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
        write!(f, "{}: {}", self.field(), self.message)
    }
}

/// What became of an API object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted<T> {
    /// The object; `None` when it is refused.
    pub object: Option<T>,
    /// Every problem. An object that is not refused may have some: the values they name are
    /// left out of it.
    pub faults: Vec<Fault>,
}

/// A place in an object: a list of steps that lives on the stack, so that a path costs nothing
/// until something is wrong.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step,
}

impl<'a> At<'a> {
    pub(super) const fn top(field: &'static str) -> Self {
        Self {
            parent: None,
            step: Step::Field(field),
        }
    }

    pub(super) const fn field(&'a self, field: &'static str) -> Self {
        Self {
            parent: Some(self),
            step: Step::Field(field),
        }
    }

    pub(super) const fn index(&'a self, index: usize) -> Self {
        Self {
            parent: Some(self),
            step: Step::Index(index),
        }
    }

    fn path(&self) -> Vec<Step> {
        let mut path = self.parent.map(At::path).unwrap_or_default();
        path.push(self.step);
        path
    }
}

/// Collects faults; knows whether one of them refuses the object.
#[derive(Default)]
pub(super) struct Faults {
    list: Vec<Fault>,
    refused: bool,
}

impl Faults {
    /// The object cannot be used.
    pub(super) fn refuse(&mut self, at: At<'_>, message: impl fmt::Display) {
        self.refused = true;
        self.note(at, message);
    }

    /// The value is left out; the object stands.
    pub(super) fn note(&mut self, at: At<'_>, message: impl fmt::Display) {
        // An object of 1,000 endpoints can have 1,000 problems: the first say enough.
        if self.list.len() < MAX_FAULTS {
            self.list.push(Fault {
                path: at.path(),
                message: message.to_string(),
            });
        }
    }

    /// Unwraps a checked value, or refuses the object.
    pub(super) fn take<T>(&mut self, at: At<'_>, checked: Result<T, String>) -> Option<T> {
        checked.map_err(|why| self.refuse(at, why)).ok()
    }

    pub(super) fn finish<T>(self, object: Option<T>) -> Converted<T> {
        debug_assert!(object.is_some() || self.refused, "refused without a word");
        Converted {
            object: object.filter(|_| !self.refused),
            faults: self.list,
        }
    }
}

/// Faults kept per object.
const MAX_FAULTS: usize = 100;
