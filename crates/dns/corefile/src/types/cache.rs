//! `cache`.

use std::time::Duration;

use hickory_proto::rr::Name;

/// `cache [TTL] [ZONES...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Names below these zones are kept: the zones of the directive, else those of the block.
    pub zones: Vec<Name>,
    /// Answers with records.
    pub success: CacheLimits,
    /// NXDOMAIN and NODATA.
    pub denial: CacheLimits,
    /// How long SERVFAIL is kept: at most 5 min, 0 means not at all. CoreDNS's default: 5 s.
    pub servfail: Duration,
    /// Popular answers are asked for again before they expire; `None`: not.
    pub prefetch: Option<Prefetch>,
    /// Expired answers are still given; `None`: not.
    pub serve_stale: Option<ServeStale>,
    /// Answers keep the TTL that they came with: it does not count down.
    pub keep_ttl: bool,
    /// Positive answers below these zones are not kept.
    pub disable_success: Vec<Name>,
    /// Negative answers below these zones are not kept.
    pub disable_denial: Vec<Name>,
}

/// Bounds of one part of the cache: `success CAPACITY [TTL] [MINTTL]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Answers at most: CoreDNS's default and least number are 9984 and 1024.
    pub capacity: usize,
    /// An answer is kept for at most this time: at least 1 s. CoreDNS's default is 1 h for answers with
    /// records and 30 min for denials.
    pub max_ttl: Duration,
    /// An answer is kept for at least this time; CoreDNS's default is 5 s.
    pub min_ttl: Duration,
}

/// `prefetch AMOUNT [[DURATION] [PERCENTAGE%]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    /// Queries that make a name popular, at least 1.
    pub amount: u32,
    /// Queries that are further apart than this do not count. CoreDNS's default: 1 min.
    pub duration: Duration,
    /// Asks again below this share of the original TTL: 10 to 90 percent, CoreDNS's default 10.
    pub percentage: u8,
}

/// `serve_stale [DURATION] [REFRESH_MODE]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeStale {
    /// How long after its end an answer is still given, with TTL 0. CoreDNS's default: 1 h.
    pub duration: Duration,
    /// When the upstream is asked again.
    pub refresh: Refresh,
}

/// When an expired answer is renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refresh {
    /// The client gets the expired answer at once, the upstream is asked afterwards.
    #[default]
    Immediate,
    /// The upstream is asked first; the client gets the expired answer if that fails.
    Verify,
}
