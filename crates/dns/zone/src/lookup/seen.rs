//! What was there before.

use std::collections::HashSet;
use std::hash::Hash;

/// From how many values on a table is faster than looking at each.
const TABLE: usize = 16;

/// The values so far. A few are compared one by one, which needs no hash.
pub(super) struct Seen<T> {
    few: Vec<T>,
    many: HashSet<T>,
}

impl<T: Copy + Eq + Hash> Seen<T> {
    pub(super) fn new() -> Self {
        Self {
            few: Vec::new(),
            many: HashSet::new(),
        }
    }

    /// Whether the value is there for the first time.
    pub(super) fn is_new(&mut self, value: T) -> bool {
        if self.few.len() < TABLE {
            let new = !self.few.contains(&value);
            if new {
                self.few.push(value);
            }
            return new;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.iter().copied());
        }
        self.many.insert(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_new_once() {
        let mut seen = Seen::new();
        for round in 0..2 {
            for value in 0..100 {
                assert_eq!(seen.is_new(value), round == 0, "{value}");
            }
        }
    }
}
