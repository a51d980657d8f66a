//! How much to do at once, so that it takes about as long as it should: a pure function of what the last times took.

use std::time::Duration;

/// How much is done at once, counted in whatever is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    limit: usize,
    smallest: usize,
    largest: usize,
    takes: Duration,
}

impl Portion {
    /// A portion that should take this long; `first` while nothing was done yet.
    pub const fn new(smallest: usize, first: usize, largest: usize, takes: Duration) -> Self {
        Self {
            limit: first,
            smallest,
            largest,
            takes,
        }
    }

    /// How much to do now, at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// So much took this long: the next portions become smaller or larger.
    pub fn took(&mut self, done: usize, time: Duration) {
        // Of little nothing is to be learned.
        if done < self.limit / 2 {
            return;
        }
        let fits = done as f64 * self.takes.as_secs_f64() / time.as_secs_f64().max(0.001);
        // What was slow once may have had to wait for a processor.
        let fits = (fits as usize).clamp(self.limit / 2, self.limit * 2);
        self.limit = fits.clamp(self.smallest, self.largest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOULD: Duration = Duration::from_millis(30);

    #[test]
    fn a_portion_follows_what_the_last_one_took() {
        let mut portion = Portion::new(10, 100, 400, SHOULD);
        let mut after = |done, times: u32| {
            portion.took(done, SHOULD * times / 10);
            portion.limit()
        };
        assert_eq!(after(100, 10), 100);
        assert_eq!(after(100, 8), 125);
        assert_eq!(after(125, 20), 62);
        // At most half or twice as much, and little tells nothing.
        assert_eq!(after(62, 1000), 31);
        assert_eq!(after(14, 1), 31);
        assert_eq!(after(31, 1000), 15);
        assert_eq!(after(15, 1000), 10);
        for (done, larger) in [
            (10, 20),
            (20, 40),
            (40, 80),
            (80, 160),
            (160, 320),
            (320, 400),
        ] {
            assert_eq!(after(done, 0), larger);
        }
        assert_eq!(after(400, 0), 400);
    }
}
