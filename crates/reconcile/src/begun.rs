//! The difference of some owners, written in parts.

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
    /// `None` after the last.
    parts: Option<Box<dyn Parts<B::Key, B::Object>>>,
    /// In the opposite order.
    lost: IntoIter<(B::Key, B::Object)>,
}

/// The objects that only the first of two lists has. Both have the order of their keys.
fn only_in<'a, K: Ord + Clone, O: Clone>(
    all: &'a [(K, O)],
    others: &'a [(K, O)],
) -> impl Iterator<Item = (K, O)> {
    let mut others = others.iter().map(|(key, _)| key).peekable();
    let only = all.iter().filter(move |(key, _)| {
        while others.next_if(|it| *it < key).is_some() {}
        others.next_if(|it| *it == key).is_none()
    });
    only.cloned()
}

impl<B: Backend> Begun<B> {
    /// The difference that these steps make, none of which changes the scene; `None` when the backend writes it at once.
    pub(crate) fn new(backend: &B, scene: &B::Scene, steps: &[Step<B>]) -> Option<Self> {
        let placed = |held: &Option<Held<B>>| {
            let held = held.as_ref();
            held.map(|it| (it.plan.clone(), it.placement.clone()))
        };
        let changes = steps.iter().map(|it| Change {
            old: placed(&it.old),
            new: placed(&it.new),
        });
        let changes: Vec<_> = changes.collect();
        let parts = backend.parts(scene, &changes)?;
        let shared = |held: Option<&Held<B>>| {
            let shared = held.map(|it| backend.render_shared(&it.scene, &it.plan, &it.placement));
            let mut shared = shared.unwrap_or_default();
            shared.sort_by(|(a, _), (b, _)| a.cmp(b));
            shared
        };
        let (mut gained, mut lost) = (Objects::<B>::new(), Objects::<B>::new());
        for step in steps {
            let (old, new) = (shared(step.old.as_ref()), shared(step.new.as_ref()));
            // Of what stays the counts stay, too: an owner may have tens of thousands.
            gained.extend(only_in(&new, &old));
            lost.extend(only_in(&old, &new));
        }
        gained.sort_by(|(a, _), (b, _)| a.cmp(b));
        lost.sort_by(|(a, _), (b, _)| b.cmp(a));
        Some(Self {
            gained: gained.into_iter(),
            parts: Some(parts),
            lost: lost.into_iter(),
        })
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
                Some(part) => {
                    left = left.saturating_sub(part.weight(B::weight));
                    delta.extend(part);
                }
                None => self.parts = None,
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
}
