//! The objects that a consumer wants, and the events of its own type that they become.

use std::fmt;

use sluice_model::{Change, Model, NamespacedName, Notice};

use super::selection::{Selection, Topic, Topics};
use crate::kind::Kind;
use crate::known::Known;
use crate::object::Object;

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
    pub(super) has_every_problem: bool,
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
            has_every_problem: false,
        }
    }

    /// The consumer reports for the whole process: it gets the problems of objects that only others want, too.
    #[must_use]
    pub fn with_every_problem(self) -> Self {
        Self {
            has_every_problem: true,
            ..self
        }
    }

    /// Adds all objects of a kind, which are required.
    #[must_use]
    pub fn want_all<K: Kind>(self, event: impl Fn(Change<K::Model>) -> E + Send + 'static) -> Self {
        self.want::<K>(Selection::default(), Need::Required, event)
    }

    /// Adds the objects that another event type is made of. Notices come once, in the form of `self`.
    #[must_use]
    pub fn and<F: 'static>(mut self, other: Wants<F>, event: fn(F) -> E) -> Self
    where
        E: 'static,
    {
        self.wants.extend(other.wants.into_iter().map(|want| Want {
            topic: want.topic,
            need: want.need,
            event: Box::new(move |stated| event((want.event)(stated))),
        }));
        self
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
            let own = objects.iter().filter(move |it| it.kind().name == kind);
            let own = own.filter(|it| want.topic.selection.has(it));
            own.map(|it| (want.event)(Stated::Set(it.clone())))
                .collect::<Vec<E>>()
        };
        self.wants.iter().flat_map(of_want).collect()
    }

    /// The kinds by their plural, with selection and need.
    pub fn selections(&self) -> impl Iterator<Item = (&'static str, &Selection, Need)> {
        let wants = self.wants.iter();
        wants.map(|it| (it.topic.known.objects, &it.topic.selection, it.need))
    }

    /// The topics of these wants, each once.
    pub(crate) fn topics(&self) -> Topics {
        let mut topics = Topics::default();
        for want in &self.wants {
            if !topics.0.contains(&want.topic) {
                topics.0.push(want.topic.clone());
            }
        }
        topics
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
        f.debug_list().entries(self.selections()).finish()
    }
}
