//! Plugins that tell what the server does: logs, metrics, health.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::rr::Name;

use super::Pattern;

/// `errors`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Rules that make many alike errors one line, first match wins.
    pub consolidate: Vec<Consolidate>,
}

/// `consolidate DURATION REGEXP [LEVEL] [show_first]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consolidate {
    /// Errors of this time are one line.
    pub period: Duration,
    /// The errors that match.
    pub pattern: Pattern,
    /// Level of the line. CoreDNS's default: error.
    pub level: LogLevel,
    /// The first error of each period is logged in full too.
    pub show_first: bool,
}

/// The level of a line in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `warning`
    Warning,
    /// `error`
    #[default]
    Error,
}

/// One name of `log [NAMES...] [FORMAT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRule {
    /// Names below this zone are logged.
    pub zone: Name,
    /// The line of a query: parts to be written one after the other.
    pub format: Vec<LogPart>,
    /// The responses that are logged.
    pub classes: Vec<LogClass>,
}

/// A class of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogClass {
    /// Answers, and referrals.
    Success,
    /// NXDOMAIN and NODATA.
    Denial,
    /// SERVFAIL, NOTIMP, REFUSED, and everything that is neither success nor denial.
    Error,
}

impl LogClass {
    /// CoreDNS's default: `all`.
    pub const ALL: [Self; 3] = [Self::Success, Self::Denial, Self::Error];
}

/// One part of the line of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPart {
    /// This text.
    Literal(String),
    /// A value of the query or its response.
    Field(LogField),
}

/// A value in a line of the log; `-` stands for one that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogField {
    /// `{type}`: the type of the query.
    Type,
    /// `{name}`: the name of the query, as asked.
    Name,
    /// `{class}`: the class of the query.
    Class,
    /// `{proto}`: `udp` or `tcp`.
    Protocol,
    /// `{remote}`: the client's address, an IPv6 address in brackets.
    Remote,
    /// `{local}`: the server's address, an IPv6 address in brackets.
    Local,
    /// `{size}`: bytes of the query.
    QuerySize,
    /// `{port}`: the client's port.
    Port,
    /// `{duration}`: time to the response, in seconds: `0.000123456s`.
    Duration,
    /// `{rcode}`: the response code.
    ResponseCode,
    /// `{rsize}`: bytes of the response before compression.
    ResponseSize,
    /// `{>rflags}`: flags of the response, as `qr,aa,rd`.
    ResponseFlags,
    /// `{>bufsize}`: EDNS0 buffer size of the query, 512 without EDNS0.
    BufferSize,
    /// `{>do}`: whether the query has the flag DO.
    DnssecOk,
    /// `{>id}`: the id of the query.
    Id,
    /// `{>opcode}`: the opcode of the query.
    Opcode,
}

/// `health [ADDRESS]`: GET /health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Where it listens; an unspecified address means all addresses. CoreDNS's default: port 8080 of all.
    pub address: SocketAddr,
    /// After the signal to stop: /health says so, queries are still answered for this time. Default: 0.
    pub lameduck: Duration,
}

/// `ready [ADDRESS]`: GET /ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Where it listens; an unspecified address means all addresses. CoreDNS's default: port 8181 of all.
    pub address: SocketAddr,
    /// Whether a plugin that was ready is asked again.
    pub monitor: Monitor,
}

/// `monitor until-ready|continuously`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Monitor {
    /// A plugin that was ready once stays ready.
    #[default]
    UntilReady,
    /// Each request asks each plugin.
    Continuously,
}
