//! The difference of some owners, written in parts.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::vec::IntoIter;

use crate::Delta;
use crate::backend::{Backend, Change, Objects, Parts};
use crate::stage::{Held, SharedCounts, Step};

/// The difference of some owners, not all of which is written: shared objects that are new, what is not shared, shared objects
/// that are needed no more. Others may need the same ones, so each is counted when it is written.
#[derive(Debug)]
pub(crate) struct Begun<B: Backend> {
    /// In the order of their keys, of which later ones may depend on earlier ones.
    gained: IntoIter<(B::Key, B::Object)>,
    /// How many owners more or less will render the shared objects that are among the parts.
    counts: SharedCounts<B::Key>,
    /// `None` after the last.
    parts: Option<Box<dyn Parts<B::Key, B::Object>>>,
    /// In the opposite order.
    lost: IntoIter<(B::Key, B::Object)>,
}

impl<B: Backend> Begun<B> {
    /// The difference that these steps make, in parts of about `limit` objects; `None` when the backend writes it at once.
    pub(crate) fn new(backend: &B, steps: &[Step<B>], limit: usize) -> Option<Self> {
        let placed = |held: &Option<Held<B>>| {
            let held = held.as_ref();
            held.map(|it| (it.plan.clone(), it.placement.clone()))
        };
        let changes = steps.iter().map(|it| Change {
            old: placed(&it.old),
            new: placed(&it.new),
        });
        let changes: Vec<_> = changes.collect();
        if let Some(parts) = backend.parts(&changes) {
            let shared = |held: Option<&Held<B>>| {
                let shared =
                    held.map(|it| backend.render_shared(&it.scene, &it.plan, &it.placement));
                shared.unwrap_or_default()
            };
            let gained = steps.iter().flat_map(|it| shared(it.new.as_ref()));
            let lost = steps.iter().flat_map(|it| shared(it.old.as_ref()));
            return Some(Self::of(gained.collect(), parts, lost.collect()));
        }
        (B::DIVIDES && limit < usize::MAX).then(|| {
            let rendered = |held: Option<&Held<B>>| {
                let objects = held.map(|it| backend.render(&it.scene, &it.plan, &it.placement));
                objects.unwrap_or_default()
            };
            let old: Objects<B> = steps
                .iter()
                .flat_map(|it| rendered(it.old.as_ref()))
                .collect();
            let mut new: Objects<B> = steps
                .iter()
                .flat_map(|it| rendered(it.new.as_ref()))
                .collect();
            let mut counts = SharedCounts::new();
            for (objects, change) in [(&old, -1), (&new, 1)] {
                let shared = objects.iter().filter(|(key, _)| B::is_shared(key));
                shared.for_each(|(key, _)| *counts.entry(key.clone()).or_default() += change);
            }
            let mut seen = BTreeSet::new();
            new.retain(|(key, _)| !B::is_shared(key) || seen.insert(key.clone()));
            let delta = Delta::between(old.into_iter().collect(), new);
            let parts = Box::new(Divided(B::divide(delta, limit)));
            Self {
                counts,
                ..Self::of(Vec::new(), parts, Vec::new())
            }
        })
    }

    fn of(
        mut gained: Objects<B>,
        parts: Box<dyn Parts<B::Key, B::Object>>,
        mut lost: Objects<B>,
    ) -> Self {
        gained.sort_by(|(a, _), (b, _)| a.cmp(b));
        lost.sort_by(|(a, _), (b, _)| b.cmp(a));
        Self {
            gained: gained.into_iter(),
            counts: SharedCounts::new(),
            parts: Some(parts),
            lost: lost.into_iter(),
        }
    }

    /// Whether everything was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.parts.is_none() && self.gained.len() + self.lost.len() == 0
    }

    /// Takes the next part, of about `limit` objects; an empty one only at the end.
    pub(crate) fn next(
        &mut self,
        counts: &mut SharedCounts<B::Key>,
        limit: usize,
    ) -> Delta<B::Key, B::Object> {
        let mut delta = Delta::default();
        let mut left = limit;
        while left > 0
            && let Some((key, object)) = self.gained.next()
        {
            let count = counts.entry(key.clone()).or_default();
            *count += 1;
            if *count == 1 {
                left = left.saturating_sub(B::weight(&object));
                delta.add.push((key, object));
            }
        }
        while left > 0
            && let Some(parts) = &mut self.parts
        {
            match parts.next(left) {
                Some(mut part) => {
                    self.count(&mut part, counts);
                    left = left.saturating_sub(part.weight(B::weight));
                    delta.extend(part);
                }
                None => {
                    self.parts = None;
                    // Of those that are there before and after.
                    for (key, change) in std::mem::take(&mut self.counts) {
                        *counts.entry(key).or_default() += change;
                    }
                }
            }
        }
        while left > 0
            && let Some((key, _)) = self.lost.next()
        {
            let count = counts.entry(key.clone()).or_default();
            *count -= 1;
            if *count <= 0 {
                counts.remove(&key);
                left -= 1;
                delta.delete.push(key);
            }
        }
        delta
    }

    /// Leaves out shared objects that are there already, or that others need.
    fn count(&mut self, part: &mut Delta<B::Key, B::Object>, counts: &mut SharedCounts<B::Key>) {
        if self.counts.is_empty() {
            return;
        }
        let mut changed = |key: &B::Key| {
            let change = self.counts.remove(key)?;
            let count = counts.get(key).copied().unwrap_or_default() + change;
            match count {
                0 => counts.remove(key),
                _ => counts.insert(key.clone(), count),
            };
            Some((count, change))
        };
        part.add
            .retain(|(key, _)| changed(key).is_none_or(|(count, change)| count == change));
        part.delete
            .retain(|key| changed(key).is_none_or(|(count, _)| count <= 0));
    }
}

/// What [`Backend::divide`] has divided.
#[derive(Debug)]
struct Divided<K, O>(VecDeque<Delta<K, O>>);

impl<K: fmt::Debug + Send, O: fmt::Debug + Send> Parts<K, O> for Divided<K, O> {
    fn next(&mut self, _: usize) -> Option<Delta<K, O>> {
        self.0.pop_front()
    }
}
