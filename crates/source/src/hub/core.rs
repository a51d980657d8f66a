//! The topics of a hub and its consumers, on the thread of the feed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use sluice_model::{NamespacedName, Notice};

use super::delivered::Delivered;
use super::selection::{Topic, Topics};
use super::stale::{Absence, ORIGIN, Stale};
use super::wants::{Need, Stated, Want, Wants};
use crate::object::{Event, Object};

/// A message to the consumers. Topics are given by their position.
#[derive(Clone, Debug)]
pub(crate) enum Told {
    Set(usize, Object),
    Delete(usize, NamespacedName),
    /// The first list of a topic is complete.
    Listed(usize),
    /// The first list of every topic is complete.
    Complete,
    /// The topics that are not required are not waited for any more.
    GoOn,
    /// The problems of an origin, and its topic if it has one.
    Problems(Option<usize>, Arc<str>, Vec<String>),
}

/// A consumer that has subscribed.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) consumer: usize,
    pub(crate) topics: Vec<usize>,
    /// The topics that no consumer wanted before.
    pub(crate) new: Vec<usize>,
}

#[derive(Default)]
pub(crate) struct Core {
    /// Host and port of the API server; empty for a folder.
    pub(crate) server: String,
    pub(crate) topics: Vec<State>,
    /// The key is the number of the subscription, which grows.
    consumers: BTreeMap<usize, Box<dyn Consume>>,
}

/// A topic and its state.
pub(crate) struct State {
    pub(crate) topic: Topic,
    /// The objects of the API server.
    pub(crate) delivered: Delivered,
    /// The API server has sent its first complete list of the topic.
    is_listed: bool,
    /// Why the topic is not up to date.
    stale: Option<Stale>,
    /// The selected objects of a folder, for a topic that does not select all objects of its kind.
    chosen: HashSet<NamespacedName>,
    /// No consumer wants it any more: another topic may take its place.
    is_over: bool,
}

impl Core {
    /// The topics of an API server.
    pub(crate) fn of(server: &str) -> Self {
        Self {
            server: server.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn join<E: 'static>(
        &mut self,
        consumer: usize,
        wants: Wants<E>,
        sink: Sink<E>,
    ) -> Joined {
        let (mut topics, mut new) = (Vec::new(), Vec::new());
        for want in &wants.wants {
            let is_it = |it: &State| !it.is_over && it.topic == want.topic;
            let at = self.topics.iter().position(is_it).unwrap_or_else(|| {
                let at = self.put(State::new(want.topic.clone()));
                new.push(at);
                at
            });
            topics.push(at);
        }
        let added = Consumer {
            waiting: topics.iter().copied().collect(),
            wants: topics.iter().copied().zip(wants.wants).collect(),
            notice: wants.notice,
            has_every_problem: wants.has_every_problem,
            sink,
            is_synced: false,
        };
        self.consumers.insert(consumer, Box::new(added));
        Joined {
            consumer,
            topics,
            new,
        }
    }

    /// Gives a topic a position.
    fn put(&mut self, state: State) -> usize {
        if let Some(at) = self.topics.iter().position(|it| it.is_over) {
            self.topics[at] = state;
            return at;
        }
        self.topics.push(state);
        self.topics.len() - 1
    }

    /// Removes a consumer. Returns the topics that no consumer wants any more.
    pub(crate) fn leave(&mut self, consumer: usize) -> Vec<usize> {
        self.consumers.remove(&consumer);
        let is_left = |at: &usize| {
            let mut consumers = self.consumers.values();
            !self.topics[*at].is_over && consumers.all(|it| it.need(*at).is_none())
        };
        let left: Vec<usize> = (0..self.topics.len()).filter(is_left).collect();
        for at in &left {
            let state = &mut self.topics[*at];
            let problems = state.delivered.problems();
            let solved = problems.map(|(origin, _)| Told::Problems(Some(*at), origin, Vec::new()));
            let solved: Vec<Told> = solved.collect();
            state.delivered = Delivered::default();
            state.stale = None;
            state.is_over = true;
            self.tell(&solved);
            self.report(*at);
        }
        left
    }

    /// Sends a new consumer the earlier answers of the API server about its topics.
    pub(crate) fn welcome(&mut self, joined: &Joined) {
        let mut told = Vec::new();
        for (at, state) in self.topics.iter().enumerate() {
            let State {
                delivered,
                is_listed,
                ..
            } = state;
            if joined.topics.contains(&at) {
                told.extend(delivered.objects().map(|it| Told::Set(at, it.clone())));
                told.extend(is_listed.then_some(Told::Listed(at)));
            }
            let problems = delivered.problems();
            told.extend(problems.map(|(origin, it)| Told::Problems(Some(at), origin, it)));
        }
        let Some(consumer) = self.consumers.get(&joined.consumer) else {
            return;
        };
        let mut topics = self.topics.iter().enumerate();
        if topics.any(|(at, it)| it.stale.is_some() && consumer.hears_of(at)) {
            told.push(self.stale_topics(&**consumer));
        }
        self.tell_one(joined.consumer, &told);
    }

    pub(crate) fn tell_one(&mut self, consumer: usize, told: &[Told]) {
        if let Some(consumer) = self.consumers.get_mut(&consumer) {
            consumer.tell(told);
        }
    }

    pub(crate) fn tell(&mut self, told: &[Told]) {
        self.consumers.values_mut().for_each(|it| it.tell(told));
    }

    /// All topics.
    pub(crate) fn wanted(&self) -> Topics {
        let wanted = self.topics.iter().filter(|it| !it.is_over);
        Topics(wanted.map(|it| it.topic.clone()).collect())
    }

    /// Sorts the events of a folder, which are about all its objects, by topic.
    pub(crate) fn split(&mut self, events: Vec<Event>) -> Vec<Told> {
        let mut told = Vec::new();
        for event in events {
            let kind = match &event {
                Event::Set(object) => object.kind().name,
                Event::Delete(key) => key.kind.name,
                Event::Problems { origin, problems } => {
                    told.push(Told::Problems(None, origin.clone(), problems.clone()));
                    continue;
                }
            };
            for (at, state) in self.topics.iter_mut().enumerate() {
                if !state.is_over && state.topic.known.form.kind() == kind {
                    told.extend(state.choose(at, &event));
                }
            }
        }
        told
    }

    /// Sends the events of a list or watch about the objects of one topic.
    pub(crate) fn send(&mut self, topic: usize, events: Vec<Event>, is_list: bool) {
        let one = |event| match event {
            Event::Set(object) => Told::Set(topic, object),
            Event::Delete(key) => Told::Delete(topic, key.name),
            Event::Problems { origin, problems } => Told::Problems(Some(topic), origin, problems),
        };
        let mut told: Vec<Told> = events.into_iter().map(one).collect();
        if is_list {
            self.topics[topic].is_listed = true;
            told.push(Told::Listed(topic));
        }
        self.tell(&told);
    }

    /// The events for one consumer that wants these topics.
    pub(crate) fn split_for(&mut self, topics: &[usize], events: Vec<Event>) -> Vec<Told> {
        let mut told = self.split(events);
        told.retain(|it| match it {
            Told::Set(topic, _) | Told::Delete(topic, _) => topics.contains(topic),
            _ => true,
        });
        told
    }

    /// What it means to the consumers that the server does not have the topic's kind: the strictest meaning counts.
    pub(crate) fn absence(&self, topic: usize) -> Absence {
        let needs = self.consumers.values().filter_map(|it| it.need(topic));
        let absences = needs.map(|it| match it {
            Need::Required | Need::Complete => Absence::Outage,
            Need::Optional(lost) => Absence::Loss(lost),
            Need::MayBeAbsent => Absence::Normal,
        });
        absences.max().unwrap_or(Absence::Normal)
    }

    /// A consumer stops waiting for the topics that it does not require.
    pub(crate) fn go_on_without(&mut self, consumer: usize) {
        let optional = self.consumers.get(&consumer).map(|it| it.optional());
        for topic in optional.unwrap_or_default() {
            let kind = self.topics[topic].topic.known.objects;
            tracing::warn!(
                kind,
                "the API server has not listed this kind yet: starting without it"
            );
        }
        self.tell_one(consumer, &[Told::GoOn]);
    }

    /// Replaces the reason why a topic is not up to date, from `since` on if it was before. Returns whether it was.
    pub(crate) fn renew(
        &mut self,
        topic: usize,
        reason: &str,
        lost: Option<&'static str>,
        since: jiff::Timestamp,
    ) -> bool {
        let before = self.topics[topic].stale.as_ref();
        if before.is_some_and(|it| it.reason == reason && it.lost == lost) {
            return false;
        }
        let was_fresh = before.is_none();
        let since = before.map_or(since, |it| it.since);
        self.topics[topic].stale = Some(Stale {
            since,
            reason: reason.to_owned(),
            lost,
        });
        self.report(topic);
        was_fresh
    }

    /// Marks the topic as up to date, and reports it if it was not before.
    pub(crate) fn report_fresh(&mut self, topic: usize) {
        if self.topics[topic].stale.take().is_some() {
            let kind = self.topics[topic].topic.known.objects;
            tracing::info!(kind, "changes from the API server again");
            self.report(topic);
        }
    }

    /// Whether no consumer waits any more.
    pub(crate) fn is_synced(&self) -> bool {
        self.consumers.values().all(|it| it.is_synced())
    }

    /// Tells the consumers of the topic which of their topics are not up to date.
    fn report(&mut self, topic: usize) {
        let consumers = self.consumers.iter().filter(|(_, it)| it.hears_of(topic));
        let told = consumers.map(|(number, it)| (*number, self.stale_topics(&**it)));
        for (consumer, told) in told.collect::<Vec<_>>() {
            self.tell_one(consumer, &[told]);
        }
    }

    fn stale_topics(&self, consumer: &dyn Consume) -> Told {
        let heard = self.topics.iter().enumerate();
        let heard = heard.filter(|(at, _)| consumer.hears_of(*at));
        let stale = heard.filter_map(|(_, it)| Some((it.topic.known.objects, it.stale.as_ref()?)));
        let mut lines: Vec<String> = stale.map(|(kind, stale)| stale.line(kind)).collect();
        lines.sort();
        Told::Problems(None, ORIGIN.into(), lines)
    }
}

impl State {
    fn new(topic: Topic) -> Self {
        Self {
            topic,
            delivered: Delivered::default(),
            is_listed: false,
            stale: None,
            chosen: HashSet::new(),
            is_over: false,
        }
    }

    /// The message of an event for this topic; `None` when the event does not concern it.
    fn choose(&mut self, at: usize, event: &Event) -> Option<Told> {
        let is_narrow = self.topic.selection.is_narrow();
        match event {
            Event::Set(object) if !is_narrow => Some(Told::Set(at, object.clone())),
            Event::Set(object) => {
                let name = object.reference().name;
                if self.topic.selection.has(object) {
                    self.chosen.insert(name);
                    return Some(Told::Set(at, object.clone()));
                }
                self.chosen.remove(&name).then_some(Told::Delete(at, name))
            }
            Event::Delete(key) => {
                let was_chosen = !is_narrow || self.chosen.remove(&key.name);
                was_chosen.then(|| Told::Delete(at, key.name.clone()))
            }
            Event::Problems { .. } => None,
        }
    }
}

type Sink<E> = Box<dyn FnMut(Vec<E>) + Send>;

/// A consumer, of whatever event type.
trait Consume: Send {
    /// Takes in a batch.
    fn tell(&mut self, told: &[Told]);
    /// How it needs a topic; `None` if it does not want it.
    fn need(&self, topic: usize) -> Option<Need>;
    /// Whether it gets the problems of a topic.
    fn hears_of(&self, topic: usize) -> bool;
    /// The topics that the consumer waits for and does not require.
    fn optional(&self) -> Vec<usize>;
    fn is_synced(&self) -> bool;
}

struct Consumer<E> {
    wants: Vec<(usize, Want<E>)>,
    notice: Box<dyn Fn(Notice) -> E + Send>,
    has_every_problem: bool,
    sink: Sink<E>,
    /// The topics whose first lists have not come yet.
    waiting: BTreeSet<usize>,
    /// [`Notice::Synced`] has been sent.
    is_synced: bool,
}

impl<E> Consumer<E> {
    fn say(&self, topic: usize, stated: impl Fn() -> Stated, events: &mut Vec<E>) {
        let own = self.wants.iter().filter(|it| it.0 == topic);
        events.extend(own.map(|(_, want)| (want.event)(stated())));
    }
}

impl<E> Consume for Consumer<E> {
    fn tell(&mut self, told: &[Told]) {
        let mut events = Vec::new();
        for it in told {
            match it {
                Told::Set(topic, object) => {
                    if self.need(*topic) == Some(Need::Complete) && object.is_complete() {
                        self.waiting.remove(topic);
                    }
                    self.say(*topic, || Stated::Set(object.clone()), &mut events);
                }
                Told::Delete(topic, name) => {
                    self.say(*topic, || Stated::Delete(name.clone()), &mut events);
                }
                Told::Listed(topic) => {
                    if self.need(*topic) != Some(Need::Complete) {
                        self.waiting.remove(topic);
                    }
                }
                Told::Complete => self.waiting.clear(),
                Told::GoOn => {
                    let optional = self.optional();
                    self.waiting.retain(|it| !optional.contains(it));
                }
                Told::Problems(topic, origin, problems) => {
                    if topic.is_none_or(|it| self.hears_of(it)) {
                        let (origin, problems) = (origin.clone(), problems.clone());
                        events.push((self.notice)(Notice::Problems { origin, problems }));
                    }
                }
            }
        }
        if self.waiting.is_empty() && !self.is_synced {
            self.is_synced = true;
            events.push((self.notice)(Notice::Synced));
        }
        if !events.is_empty() {
            (self.sink)(events);
        }
    }

    fn need(&self, topic: usize) -> Option<Need> {
        let own = self.wants.iter().find(|it| it.0 == topic);
        own.map(|(_, want)| want.need)
    }

    fn hears_of(&self, topic: usize) -> bool {
        self.has_every_problem || self.need(topic).is_some()
    }

    fn optional(&self) -> Vec<usize> {
        let waiting = self.waiting.iter().copied();
        let optional = waiting.filter(|it| self.need(*it) != Some(Need::Required));
        optional.collect()
    }

    fn is_synced(&self) -> bool {
        self.is_synced
    }
}
