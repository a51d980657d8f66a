//! Whether somebody else changed rules since we looked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluice_model::IpFamily;
use sluice_netlink::legacy_tables::{self, Family, Size};
use sluice_netlink::nftables::Connection;
use sluice_reconcile::BackendError;

use crate::programs::{Programs, RestoreError, Variant};
use crate::rule::Table;
use crate::script::Script;

/// How often legacy tables are asked for their size, at most.
const SHORTEST: Duration = Duration::from_secs(1);
/// At least: kube-proxy looks for its canary that often.
const LONGEST: Duration = Duration::from_secs(30);
/// A look at all rules may take one part in so many of the time.
pub const PARTS: u32 = 50;

/// What the kernel tells of changes. Whoever watches writes through [`Watch::restore`], so that its
/// own changes are known.
#[derive(Debug)]
pub struct Watch(Kind);

#[derive(Debug)]
enum Kind {
    /// nf_tables numbers its rulesets.
    Nft {
        connection: Connection,
        /// The number that we know; zero, which is no generation, when there is none.
        generation: Arc<AtomicU32>,
        own: OwnWrites,
        /// Somebody else wrote while we did.
        crossed: bool,
    },
    /// Legacy tables tell how large they are.
    Legacy {
        /// To ask for the tables of others would have the kernel look for their modules each time.
        families: Vec<IpFamily>,
        sizes: Vec<(IpFamily, Option<Size>)>,
        began: Instant,
        /// How long the last look took.
        cost: Duration,
        generation: Arc<AtomicU32>,
        /// Somebody else wrote before we did.
        crossed: bool,
    },
}

/// Which of nf_tables' generations our last writes made, known before the kernel tells anybody of
/// them. Programs write for us, so their socket tells nothing.
#[derive(Clone, Debug, Default)]
pub struct OwnWrites(Arc<AtomicU64>);

/// What became of the number that was expected after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Exactly,
    /// The kernel had less to do than we thought.
    More,
    /// Somebody else wrote as well.
    Less,
}

impl OwnWrites {
    /// Whether this generation is of our last writes. One that is older than those may be ours
    /// and is not known any more.
    pub fn made(&self, generation: u32) -> bool {
        let (before, after) = self.window();
        generation.wrapping_sub(before).wrapping_sub(1) < after.wrapping_sub(before)
    }

    fn window(&self) -> (u32, u32) {
        let both = self.0.load(Ordering::Acquire).to_be_bytes();
        let [a, b, c, d, e, f, g, h] = both;
        (
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([e, f, g, h]),
        )
    }

    fn set(&self, before: u32, after: u32) {
        let both = (u64::from(before) << u32::BITS) | u64::from(after);
        self.0.store(both, Ordering::Release);
    }

    /// So many commits follow this generation. Returns the last one's.
    fn begin(&self, before: u32, commits: u32) -> u32 {
        let (first, last) = self.window();
        let after = before.wrapping_add(commits);
        // One family's writes follow the other's.
        self.set(if last == before { first } else { before }, after);
        after
    }

    /// So many of the commits were not made.
    fn end(&self, now: u32, unmade: u32) -> Expected {
        let (before, after) = self.window();
        let after = after.wrapping_sub(unmade);
        if now == after {
            self.set(before, after);
            return Expected::Exactly;
        }
        if now.wrapping_sub(before) > after.wrapping_sub(before) {
            return Expected::Less;
        }
        self.set(before, now);
        Expected::More
    }
}

impl Watch {
    /// What there is to watch in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// There is no nf_tables, or we may not use it.
    pub fn of(variant: Variant) -> Result<Self, BackendError> {
        Ok(Self(match variant {
            Variant::Nft => Kind::Nft {
                connection: Connection::open()
                    .map_err(|error| asked("open netlink socket", error))?,
                generation: Arc::default(),
                own: OwnWrites::default(),
                crossed: false,
            },
            Variant::Legacy => Kind::Legacy {
                families: Vec::new(),
                sizes: Vec::new(),
                began: Instant::now(),
                cost: Duration::ZERO,
                crossed: false,
                generation: Arc::default(),
            },
        }))
    }

    /// Tells our own changes from those of others; nothing is known of legacy iptables.
    pub fn own_writes(&self) -> OwnWrites {
        match &self.0 {
            Kind::Nft { own, .. } => own.clone(),
            Kind::Legacy { .. } => OwnWrites::default(),
        }
    }

    /// The number that the namespace's ruleset has as long as nobody but us changed it since
    /// [`begin`](Self::begin), and zero when that is not known: always with legacy iptables. While
    /// we write it is already that of our last commit.
    pub fn generation(&self) -> Arc<AtomicU32> {
        match &self.0 {
            Kind::Nft { generation, .. } | Kind::Legacy { generation, .. } => generation.clone(),
        }
    }

    /// Rules of these families, which are watched from now on, are about to be listed: a change in
    /// between shows.
    ///
    /// # Errors
    ///
    /// The kernel could not be asked.
    pub fn begin(&mut self, served: &[IpFamily]) -> Result<(), BackendError> {
        match &mut self.0 {
            Kind::Nft {
                connection,
                generation,
                ..
            } => {
                let current = current(connection)?;
                generation.store(current, Ordering::Release);
            }
            Kind::Legacy {
                families,
                sizes,
                began,
                ..
            } => {
                *began = Instant::now();
                *families = served.to_vec();
                *sizes = all_sizes(families);
            }
        }
        Ok(())
    }

    /// Rules were listed, of these families in the end.
    pub fn listed(&mut self, served: &[IpFamily]) {
        if let Kind::Legacy {
            families,
            sizes,
            began,
            cost,
            ..
        } = &mut self.0
        {
            *cost = began.elapsed();
            *families = served.to_vec();
            sizes.retain(|(family, _)| served.contains(family));
        }
    }

    /// Has the programs carry out a script, and knows it for our own.
    ///
    /// # Errors
    ///
    /// As [`Programs::restore`].
    pub fn restore(
        &mut self,
        programs: &Programs,
        family: IpFamily,
        script: &Script<'_>,
    ) -> Result<(), RestoreError> {
        // A number that cannot be asked for is unknown, and the kernel is read again sooner.
        let is_expected = self.expect(script);
        let result = programs.restore(family, script);
        if is_expected.is_ok() {
            self.written(script, &result);
        }
        result
    }

    /// This is about to be written.
    fn expect(&mut self, script: &Script<'_>) -> Result<(), BackendError> {
        match &mut self.0 {
            Kind::Nft {
                connection,
                generation,
                own,
                ..
            } => {
                let before = current(connection)?;
                let after = own.begin(before, script.commits_before(usize::MAX));
                let is_known = generation.load(Ordering::Acquire) == before;
                generation.store(if is_known { after } else { 0 }, Ordering::Release);
            }
            // What we write hides what they did.
            Kind::Legacy {
                families,
                sizes,
                crossed,
                ..
            } => {
                *crossed |= !sizes.is_empty() && *sizes != all_sizes(families);
            }
        }
        Ok(())
    }

    /// It was written, or not, or up to a line that was refused.
    fn written(&mut self, script: &Script<'_>, result: &Result<(), RestoreError>) {
        match &mut self.0 {
            Kind::Nft {
                connection,
                generation,
                own,
                crossed,
            } => {
                let now = current(connection).unwrap_or_default();
                let unmade = match result {
                    Err(RestoreError::Refused { line, .. }) => {
                        script.commits_before(usize::MAX) - script.commits_before(*line)
                    }
                    _ => 0,
                };
                let is_as_expected = own.end(now, unmade);
                let is_known = generation.load(Ordering::Acquire) != 0;
                let is_known = is_known && is_as_expected == Expected::Exactly;
                generation.store(if is_known { now } else { 0 }, Ordering::Release);
                *crossed |= is_as_expected == Expected::Less;
            }
            Kind::Legacy {
                families, sizes, ..
            } => *sizes = all_sizes(families),
        }
    }

    /// Whether it is certain that nobody else changed anything.
    pub fn is_undisturbed(&mut self) -> bool {
        match &mut self.0 {
            Kind::Nft {
                connection,
                generation,
                ..
            } => {
                let known = generation.load(Ordering::Acquire);
                known != 0 && current(connection).is_ok_and(|it| it == known)
            }
            // A rule can be replaced by another of its size.
            Kind::Legacy { .. } => false,
        }
    }

    /// Legacy tables cannot tell of changes, so they are asked. Returns when to ask again; `None`
    /// where the kernel tells.
    ///
    /// # Errors
    ///
    /// Somebody else changed rules: they are to be listed again.
    pub fn upkeep(&mut self) -> Result<Option<Duration>, BackendError> {
        let (families, sizes, cost, crossed) = match &mut self.0 {
            Kind::Legacy {
                families,
                sizes,
                cost,
                crossed,
                ..
            } => (families, sizes, cost, crossed),
            Kind::Nft { crossed, .. } => {
                return match std::mem::take(crossed) {
                    true => Err(disturbed("somebody else changed rules while we did")),
                    false => Ok(None),
                };
            }
        };
        let now = all_sizes(families);
        // Before the first look there is nothing to compare with.
        if std::mem::take(crossed) || !sizes.is_empty() && *sizes != now {
            *sizes = Vec::new();
            return Err(disturbed("somebody else changed legacy tables"));
        }
        Ok(Some((*cost * PARTS).clamp(SHORTEST, LONGEST)))
    }
}

fn disturbed(what: &str) -> BackendError {
    BackendError {
        operation: "watch rules".into(),
        reason: what.into(),
        source: None,
    }
}

fn current(connection: &mut Connection) -> Result<u32, BackendError> {
    let generation = connection.generation();
    let generation = generation.map_err(|error| asked("read ruleset generation", error))?;
    Ok(generation.id)
}

/// Of every table of these families in which we have something.
fn all_sizes(families: &[IpFamily]) -> Vec<(IpFamily, Option<Size>)> {
    let sizes = families.iter().flat_map(|&of| {
        let family = match of {
            IpFamily::V4 => Family::Ipv4,
            IpFamily::V6 => Family::Ipv6,
        };
        Table::ALL.map(|table| (of, legacy_tables::size(family, table.as_str()).ok()))
    });
    sizes.collect()
}

fn asked(operation: &str, error: impl std::error::Error + Send + Sync + 'static) -> BackendError {
    BackendError {
        operation: operation.into(),
        reason: error.to_string(),
        source: Some(Box::new(error)),
    }
}

#[cfg(test)]
mod tests {
    use sluice_lab::{Netns, require_netns};

    use super::*;

    /// A machine without IPv6 has no such tables, and none are made by asking for them.
    #[test]
    fn legacy_tables_of_a_family_that_is_not_served_are_left_alone() {
        require_netns!();
        Netns::new("watch").unwrap().run(|| {
            let made = || {
                ["ip", "ip6"].map(|it| {
                    let path = format!("/proc/thread-self/net/{it}_tables_names");
                    std::fs::read_to_string(path).unwrap_or_default()
                })
            };
            let mut watch = Watch::of(Variant::Legacy).unwrap();
            watch.begin(&[IpFamily::V4]).unwrap();
            watch.upkeep().unwrap();
            let [v4, v6] = made();
            assert!(v4.contains("filter"), "{v4}");
            assert_eq!(v6, "");
        });
    }

    #[test]
    fn generations_of_our_own_writes_are_known() {
        let own = OwnWrites::default();
        assert!(!own.made(0) && !own.made(1));
        assert_eq!(own.begin(7, 2), 9);
        let made = |own: &OwnWrites| (6..13).filter(|it| own.made(*it)).collect::<Vec<_>>();
        assert_eq!(made(&own), [8, 9]);
        assert_eq!(own.end(9, 0), Expected::Exactly);
        // The other family.
        assert_eq!(own.begin(9, 3), 12);
        assert_eq!(
            own.end(11, 0),
            Expected::More,
            "one commit had nothing to do"
        );
        assert_eq!(made(&own), [8, 9, 10, 11]);
        assert_eq!(own.begin(12, 0), 12);
        assert_eq!(made(&own), [0; 0]);
        own.begin(u32::MAX, 2);
        assert!(own.made(0) && own.made(1) && !own.made(2));
        assert_eq!(own.end(2, 0), Expected::Less);
        // The second of three commits was refused.
        own.begin(20, 3);
        assert_eq!(own.end(21, 2), Expected::Exactly);
        assert!(own.made(21) && !own.made(22));
        // The first was, and somebody else wrote.
        own.begin(30, 2);
        assert_eq!(own.end(31, 2), Expected::Less);
    }
}
