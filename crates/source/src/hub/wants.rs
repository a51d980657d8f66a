//! The objects that a consumer wants, and the events of its own type that they become.

use std::fmt;
use std::sync::Arc;

use sluice_model::{Change, Model, NamespacedName};

use super::selection::{Selection, Topic};
use crate::kind::{Kind, Known};
use crate::object::Object;

/// A message of a feed that is about no kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The problems of one origin (a file, an object, the API server). Replaces the problems of this origin; an empty
    /// list clears them. Each problem is one line for a person.
    Problems {
        /// File name, object, or name of a watch.
        origin: Arc<str>,
        /// Every problem, with object and field.
        problems: Vec<String>,
    },
    /// The first complete list of every kind that the consumer waits for was delivered. Half a cluster would delete
    /// the other half's rules, so nothing should be applied before. Comes once.
    Synced,
}

/// Whether a consumer can do without the objects of a kind.
///
/// Waiting is for the API server: a folder that was read has all objects of all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// [`Notice::Synced`] waits for the first list.
    Required,
    /// [`Notice::Synced`] waits for an object that is complete ([`Model::is_complete`]), but for
    /// [`Timeouts::node`](crate::apiserver::Timeouts::node) at most.
    Complete,
    /// [`Notice::Synced`] waits for the first list, but for [`Timeouts::node`](crate::apiserver::Timeouts::node) at
    /// most. A server without the kind has no objects of it, and this is no problem.
    MayBeAbsent,
    /// As `MayBeAbsent`, but a server that does not know or show the kind is a problem. The text names the loss.
    Optional(&'static str),
}

/// The objects that a consumer wants: for each kind a selection, and the event `E` that a change becomes.
pub struct Wants<E> {
    pub(super) wants: Vec<Want<E>>,
    pub(super) notice: Box<dyn Fn(Notice) -> E + Send>,
}

pub(super) struct Want<E> {
    pub(super) topic: Topic,
    pub(super) need: Need,
    pub(super) event: Box<dyn Fn(Stated) -> E + Send>,
}

/// A change of an object that has the kind of the topic.
pub(crate) enum Stated {
    Set(Object),
    Delete(NamespacedName),
}

impl<E> Wants<E> {
    /// Wants no object yet, only notices.
    #[must_use]
    pub fn new(notice: impl Fn(Notice) -> E + Send + 'static) -> Self {
        Self {
            wants: Vec::new(),
            notice: Box::new(notice),
        }
    }

    /// Adds the objects of a selection.
    #[must_use]
    pub fn want<K: Kind>(
        mut self,
        selection: Selection,
        need: Need,
        event: impl Fn(Change<K::Model>) -> E + Send + 'static,
    ) -> Self {
        let known = Known::of::<K>();
        self.wants.push(Want {
            topic: Topic { known, selection },
            need,
            event: Box::new(move |stated| event(change::<K::Model>(stated))),
        });
        self
    }

    /// The events for the present objects of a folder or file, in the order of [`Wants::want`].
    pub(crate) fn events_of(&self, objects: &[Object]) -> Vec<E> {
        let of_want = |want: &Want<E>| {
            let kind = want.topic.known.form.kind();
            let own = objects
                .iter()
                .filter(move |it| it.reference().kind.name == kind);
            let own = own.filter(|it| want.topic.selection.has(it));
            own.map(|it| (want.event)(Stated::Set(it.clone())))
                .collect::<Vec<E>>()
        };
        self.wants.iter().flat_map(of_want).collect()
    }

    #[cfg(test)]
    pub(crate) fn topics_and_needs(&self) -> impl Iterator<Item = (&Topic, Need)> {
        self.wants.iter().map(|it| (&it.topic, it.need))
    }

    /// The topics of these wants.
    pub(crate) fn topics(&self) -> super::Topics {
        super::Topics(self.wants.iter().map(|it| it.topic.clone()).collect())
    }
}

fn change<M: Model>(stated: Stated) -> Change<M> {
    match stated {
        Stated::Set(object) => {
            Change::Set(object.model().expect("a topic has objects of its kind"))
        }
        Stated::Delete(name) => Change::Delete(name),
    }
}

impl<E> fmt::Debug for Wants<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics = self.wants.iter().map(|it| (&it.topic, it.need));
        f.debug_list().entries(topics).finish()
    }
}
