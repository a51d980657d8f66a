//! `rewrite`.

use std::ops::RangeInclusive;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, RecordType};

use super::Pattern;

/// `rewrite [continue|stop] FIELD ...`. Rules are tried in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteRule {
    pub rewrite: Rewrite,
    /// What happens after a match.
    pub then: Then,
}

/// After a rule that fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// Stop at this rule.
    #[default]
    Stop,
    /// Go on with the next rule.
    Continue,
}

/// The change of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// The name of the query.
    Name(NameRewrite),
    /// The type of the query.
    Type {
        /// Queries of this type,
        from: RecordType,
        /// become queries of this one.
        to: RecordType,
    },
    /// The class of the query.
    Class {
        /// Queries of this class,
        from: DNSClass,
        /// become queries of this one.
        to: DNSClass,
    },
    /// The TTLs of the response.
    Ttl(TtlRewrite),
    /// The code of the response.
    Rcode {
        name: NameMatch,
        /// Responses with this code,
        from: ResponseCode,
        /// The new response code.
        to: ResponseCode,
    },
}

/// `name [exact|prefix|suffix|substring|regex] FROM TO [answer ...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameRewrite {
    pub name: NameMatch,
    /// What replaces the whole name (`exact`, `regex`), its prefix, its suffix, or the part. Lower case;
    /// `{0}`, `{1}`... stand for groups of a `regex`.
    pub to: String,
    /// How names in the response are rewritten.
    pub answer: AnswerRewrite,
}

/// The names that a rule matches. Names are compared in lower case, fully qualified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// This name.
    Exact(String),
    /// Names that begin with this text.
    Prefix(String),
    /// Names that end with this text.
    Suffix(String),
    /// Names that contain this text.
    Substring(String),
    /// Names that the pattern matches, anywhere.
    Regex(Pattern),
}

/// What is done to the names in the response of a rewritten query. The question section always becomes
/// what the client asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerRewrite {
    /// The rewritten name, and names below it, become the original one, in owners and in data; for `suffix`
    /// every name with the new suffix gets the old one. `exact` always does it, others with `answer auto`.
    pub auto: bool,
    /// Done after `auto`, in order.
    pub rules: Vec<AnswerRule>,
}

/// One `answer name FROM TO` or `answer value FROM TO`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerRule {
    /// The owner of records.
    Name {
        /// The owner names that match.
        from: Pattern,
        /// The replacement, with `{1}` for groups.
        to: String,
    },
    /// The name in the data of CNAME, DNAME, MX, NAPTR, NS, PTR, SOA and SRV records.
    Value {
        /// The names that match.
        from: Pattern,
        /// The replacement, with `{1}` for groups.
        to: String,
    },
}

/// `ttl [exact|prefix|suffix|substring|regex] NAME TTL|MIN-MAX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TtlRewrite {
    pub name: NameMatch,
    /// TTLs outside of this range are set to its nearer end. Seconds.
    pub ttl: RangeInclusive<u32>,
}
