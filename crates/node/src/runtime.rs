//! The loop: one thread on which all consumers work, one after the other.
//!
//! ```text
//! sources ──events──▶ queue ─┐
//! servers ──questions────────┼─▶ channel ─▶ Runtime::run: wait, drain, step each consumer
//! watches ──tasks────────────┤                  │
//! signals ──stop─────────────┘                  └─▶ settled objects ─▶ consumers that wait for them
//! ```

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::path::{self, Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluice_reconcile::Portion;
use tokio::sync::oneshot;

use crate::consumer::{Consumer, Section};
use crate::events::EventQueue;
use crate::hold::{Hold, Settled};
use crate::memory::{Memory, give_back};
use crate::status::{AgentStatus, StatusAnswer};

/// Largest number of inputs absorbed before a step: a stream of inputs must not delay it for ever.
const BURST: usize = 1024;
/// Longest time of inputs before a step, but for the input that is under way: questions must not delay changes.
const INPUTS_TAKE: Duration = Duration::from_millis(2);
/// Most events that a consumer absorbs before a step, if more wait; fewer where these take long.
const EVENTS: usize = 1024;
/// So many it absorbs in any case, however long they take.
const FEW: usize = 256;
/// What a step should take with the events before it.
const STEP_TAKES: Duration = Duration::from_millis(40);

/// A message to the loop.
enum Input {
    /// There is one more item for the consumer in this slot.
    For(usize),
    Status(oneshot::Sender<StatusAnswer>),
    /// Ends the loop. The rules that the consumers wrote stay.
    Stop,
}

/// A message to one consumer.
enum Item<C> {
    /// Events are in the queue.
    Events,
    Task(Task<C>),
}

/// Runs on the consumer's thread, between two steps.
type Task<C> = Box<dyn FnOnce(&mut C) + Send>;

/// Sends messages to the loop that are for no single consumer.
#[derive(Clone)]
pub struct Control {
    inputs: Sender<Input>,
    published: Published,
}

/// The last status that the loop has made, for whoever asks while it works.
type Published = Arc<Mutex<Option<StatusAnswer>>>;

/// Shortest time between two statuses that nobody asked for.
const PUBLISH_PERIOD: Duration = Duration::from_secs(1);

impl Control {
    /// Ends the loop after the present step. `false`: the loop has ended already.
    pub fn stop(&self) -> bool {
        self.inputs.send(Input::Stop).is_ok()
    }

    /// The last status that the loop has made; `None` before its first step.
    pub(crate) fn last_status(&self) -> Option<StatusAnswer> {
        let last = self.published.lock();
        // Nothing panics with the lock held.
        last.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for the status. The answer never comes when the loop ends before.
    pub(crate) fn status(&self) -> oneshot::Receiver<StatusAnswer> {
        let (reply, answer) = oneshot::channel();
        // Without a loop the reply is dropped, which the receiver sees.
        let _ = self.inputs.send(Input::Status(reply));
        answer
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}

/// Sends messages to a consumer, from any thread. A message to a consumer that has ended is dropped.
pub struct Handle<C: Consumer> {
    slot: usize,
    queue: EventQueue<C::Event>,
    items: Sender<Item<C>>,
    inputs: Sender<Input>,
}

impl<C: Consumer> Clone for Handle<C> {
    fn clone(&self) -> Self {
        Self {
            slot: self.slot,
            queue: self.queue.clone(),
            items: self.items.clone(),
            inputs: self.inputs.clone(),
        }
    }
}

impl<C: Consumer> Handle<C> {
    /// Sends a batch of events, which the consumer absorbs as a whole. An event replaces a waiting event about the
    /// same subject. A batch for several consumers is sent first to those that other consumers wait for.
    pub fn events(&self, events: impl IntoIterator<Item = C::Event>) {
        // One item stands for everything in the queue.
        if self.queue.add(events.into_iter().collect()) {
            self.send(Item::Events);
        }
    }

    /// Runs a task on the consumer's thread. `false`: the loop has ended.
    pub fn tell(&self, task: impl FnOnce(&mut C) + Send + 'static) -> bool {
        self.send(Item::Task(Box::new(task)))
    }

    /// Asks the consumer. No answer comes when the loop ends before.
    pub fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut C) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (reply, answer) = oneshot::channel();
        self.tell(move |consumer| {
            // The client may have gone away.
            let _ = reply.send(ask(consumer));
        });
        answer
    }

    fn send(&self, item: Item<C>) -> bool {
        // The item is sent first, so that the receiver of the input finds it.
        self.items.send(item).is_ok() && self.inputs.send(Input::For(self.slot)).is_ok()
    }
}

/// The place of a consumer in the loop, before the consumer exists.
pub struct Inbox<C: Consumer> {
    handle: Handle<C>,
    items: Receiver<Item<C>>,
}

impl<C: Consumer> Inbox<C> {
    /// The handle of the consumer.
    pub fn handle(&self) -> Handle<C> {
        self.handle.clone()
    }
}

/// A consumer and its messages.
struct Slot<C: Consumer> {
    consumer: C,
    items: Receiver<Item<C>>,
    queue: EventQueue<C::Event>,
    /// The slot of the consumer that this one waits for, and its events that wait.
    hold: Option<(usize, Hold<C::Event>)>,
    /// How many events it absorbs before a step.
    portion: Portion,
    /// How many of these it still may absorb before the next step.
    room: usize,
    /// The time that it took to absorb the others.
    absorbed: Duration,
}

/// The operations of the loop on a consumer of any type.
trait Run {
    /// Takes one item. Returns whether the consumer got events.
    fn take(&mut self) -> bool;
    /// Absorbs events of the queue, as many as there is room for. Returns whether the consumer got some.
    fn absorb(&mut self) -> bool;
    /// How many events it has absorbed since its last step.
    fn events(&self) -> usize;
    /// The namespaces about which events are left in the queue.
    fn namespaces(&self) -> HashSet<Arc<str>>;
    fn due(&self, now: Instant) -> Option<Instant>;
    fn step(&mut self, now: Instant) -> Option<Settled>;
    /// Absorbs the events that waited for settled objects; `settled` is indexed by slot.
    fn settle(&mut self, settled: &[Option<Settled>]);
    fn status(&self) -> Section;
    fn begin(&mut self);
    fn stop(&mut self);
}

impl<C: Consumer> Run for Slot<C> {
    fn take(&mut self) -> bool {
        match self.items.try_recv() {
            Ok(Item::Events) => return self.absorb(),
            Ok(Item::Task(task)) => task(&mut self.consumer),
            // Every input has its item.
            Err(_) => {}
        }
        false
    }

    fn absorb(&mut self) -> bool {
        if self.room == 0 {
            return false;
        }
        let mut events = self.queue.take(self.room);
        self.room = self.room.saturating_sub(events.len());
        if let Some((_, hold)) = &mut self.hold {
            events = hold.add(events);
        }
        let any = !events.is_empty();
        if any {
            let begin = Instant::now();
            self.consumer.absorb(events);
            self.absorbed += begin.elapsed();
        }
        any
    }

    fn events(&self) -> usize {
        self.portion.limit().saturating_sub(self.room)
    }

    fn namespaces(&self) -> HashSet<Arc<str>> {
        self.queue.namespaces()
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        if self.queue.is_empty() {
            self.consumer.due(now)
        } else {
            Some(now)
        }
    }

    fn step(&mut self, now: Instant) -> Option<Settled> {
        let begin = Instant::now();
        let settled = self.consumer.step(now);
        let events = self.events();
        self.portion.took(events, self.absorbed + begin.elapsed());
        self.room = self.portion.limit();
        self.absorbed = Duration::ZERO;
        settled
    }

    fn settle(&mut self, settled: &[Option<Settled>]) {
        if let Some((whom, hold)) = &mut self.hold
            && let Some(settled) = &settled[*whom]
            && let events = hold.settle(settled)
            && !events.is_empty()
        {
            self.consumer.absorb(events);
        }
    }

    fn status(&self) -> Section {
        self.consumer.status()
    }

    fn begin(&mut self) {
        self.consumer.begin();
    }

    fn stop(&mut self) {
        self.consumer.stop();
    }
}

/// The consumers of a process.
pub struct Runtime {
    inputs: Receiver<Input>,
    control: Control,
    /// `None`: the slot of a consumer that is not added yet.
    slots: Vec<Option<Box<dyn Run>>>,
    /// The result of each slot's last step that settled anything; `None` once the consumer got further events.
    settled: Vec<Option<Settled>>,
    node: String,
    mode: String,
    kubeconfig: Option<PathBuf>,
    started: Instant,
    /// When the last status was published.
    published: Option<Instant>,
    memory: Memory,
}

impl Runtime {
    /// A runtime without consumers. The node's name and the data plane are for the status.
    pub fn new(node: &str, mode: &str) -> Self {
        let (sender, inputs) = mpsc::channel();
        Self {
            inputs,
            control: Control {
                inputs: sender,
                published: Published::default(),
            },
            slots: Vec::new(),
            settled: Vec::new(),
            node: node.to_owned(),
            mode: mode.to_owned(),
            kubeconfig: None,
            started: Instant::now(),
            published: None,
            memory: Memory::default(),
        }
    }

    /// Shows in the status which kubeconfig leads to the API server.
    pub fn follows(&mut self, kubeconfig: &Path) {
        // Without a working folder it stays as it was given.
        let absolute = path::absolute(kubeconfig);
        self.kubeconfig = Some(absolute.unwrap_or_else(|_| kubeconfig.to_owned()));
    }

    /// A control, which stops the loop and asks it for the status.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// A place for a consumer. Consumers work, and stand in the status, in the order of their places.
    pub fn inbox<C: Consumer>(&mut self) -> Inbox<C> {
        let (sender, items) = mpsc::channel();
        let handle = Handle {
            slot: self.slots.len(),
            queue: EventQueue::default(),
            items: sender,
            inputs: self.control.inputs.clone(),
        };
        self.slots.push(None);
        self.settled.push(None);
        Inbox { handle, items }
    }

    /// Adds a consumer at its place.
    pub fn add<C: Consumer>(&mut self, inbox: Inbox<C>, consumer: C) {
        self.put(inbox, consumer, None);
    }

    /// Adds a consumer whose events wait until `first` has settled their objects, as [`Consumer::wait`] says.
    pub fn add_after<C: Consumer, D: Consumer>(
        &mut self,
        inbox: Inbox<C>,
        consumer: C,
        first: &Handle<D>,
    ) {
        let hold = (first.slot, Hold::new(C::wait));
        self.put(inbox, consumer, Some(hold));
    }

    fn put<C: Consumer>(
        &mut self,
        inbox: Inbox<C>,
        consumer: C,
        hold: Option<(usize, Hold<C::Event>)>,
    ) {
        let Inbox { handle, items } = inbox;
        self.slots[handle.slot] = Some(Box::new(Slot {
            consumer,
            items,
            queue: handle.queue,
            hold,
            portion: Portion::new(FEW, EVENTS, EVENTS, STEP_TAKES),
            room: EVENTS,
            absorbed: Duration::ZERO,
        }));
    }

    /// Runs until it is told to stop, or until no sender is left.
    pub fn run(mut self) {
        // Only senders outside the loop count.
        let (nobody, _) = mpsc::channel();
        self.control.inputs = nobody;
        self.consumers().for_each(Run::begin);
        while self.turn() {}
        self.consumers().for_each(Run::stop);
    }

    /// Waits for inputs or for the next due time. `false`: the loop ends.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        let memory = self.memory.due();
        let due = self.consumers().filter_map(|it| it.due(now));
        let due = due.chain(memory).min();
        let first = match due {
            Some(due) => self.inputs.recv_timeout(due.saturating_duration_since(now)),
            None => self.inputs.recv().map_err(RecvTimeoutError::from),
        };
        let first = match first {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        if !self.take_in(first, Instant::now() + INPUTS_TAKE) {
            return false;
        }
        self.step(Instant::now());
        if self.memory.is_due(Instant::now()) {
            give_back();
        }
        if self
            .published
            .is_none_or(|it| it.elapsed() >= PUBLISH_PERIOD)
        {
            self.publish(self.status());
        }
        true
    }

    /// Takes the first input, and of those that wait as many as there is time for: a burst costs one step. `false`: the loop
    /// ends.
    fn take_in(&mut self, mut first: Option<Input>, until: Instant) -> bool {
        for _ in 0..BURST {
            let Some(next) = first.take().or_else(|| self.inputs.try_recv().ok()) else {
                break;
            };
            match next {
                Input::For(slot) => {
                    if self.slots[slot].as_mut().is_some_and(|it| it.take()) {
                        self.settled[slot] = None;
                    }
                }
                Input::Status(reply) => {
                    // The client may have gone away.
                    let status = self.status();
                    self.publish(status.clone());
                    let _ = reply.send(status);
                }
                Input::Stop => return false,
            }
            if Instant::now() > until {
                break;
            }
        }
        true
    }

    fn publish(&mut self, status: StatusAnswer) {
        let published = self.control.published.lock();
        *published.unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.published = Some(Instant::now());
    }

    fn consumers(&mut self) -> impl DoubleEndedIterator<Item = &mut (dyn Run + 'static)> {
        self.slots.iter_mut().flatten().map(AsMut::as_mut)
    }

    fn step(&mut self, now: Instant) {
        // Consumers that wait come first here: an event that they have is or was in the queue of the consumers before
        // them. So nothing counts as settled that the other consumer has not absorbed.
        for (slot, settled) in self.slots.iter_mut().zip(&mut self.settled).rev() {
            if slot.as_mut().is_some_and(|it| it.absorb()) {
                *settled = None;
            }
        }
        for (slot, settled) in self.slots.iter_mut().zip(&mut self.settled) {
            let Some(slot) = slot else { continue };
            self.memory.worked(slot.events(), now);
            *settled = slot.step(now).or(settled.take());
            if let Some(settled) = settled {
                settled.namespaces = slot.namespaces();
            }
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.settle(&self.settled);
        }
    }

    fn status(&self) -> StatusAnswer {
        let head = AgentStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            node: self.node.clone(),
            mode: self.mode.clone(),
            kubeconfig: self.kubeconfig.clone(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            busy: None,
        };
        let sections = self.slots.iter().flatten().map(|it| it.status());
        StatusAnswer::new(head, sections.collect())
    }
}
