//! The upgrade of a request.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, StatusCode};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The protocols that an SPDY client offers, one in each header.
const OFFERED: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The protocols that the server has, in a refusal.
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// SPDY inside a WebSocket. With all other protocols of a WebSocket, the request names the ports.
pub(crate) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// What a key of a WebSocket is hashed with (RFC 6455, section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What the streams are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// exec and attach.
    Program,
    /// port-forward.
    Ports,
}

impl Purpose {
    /// The protocols over WebSocket, the best first. Without a name a client gets channels with binary messages.
    fn over_websocket(self) -> &'static [&'static str] {
        match self {
            Self::Program => &[
                "v5.channel.k8s.io",
                "v4.channel.k8s.io",
                "v4.base64.channel.k8s.io",
                "channel.k8s.io",
                "base64.channel.k8s.io",
            ],
            Self::Ports => &[TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io"],
        }
    }

    /// The protocols over SPDY, the best first.
    fn over_spdy(self) -> &'static [&'static str] {
        match self {
            Self::Program => &[
                "v4.channel.k8s.io",
                "v3.channel.k8s.io",
                "v2.channel.k8s.io",
                "channel.k8s.io",
            ],
            Self::Ports => &["portforward.k8s.io"],
        }
    }
}

/// How the streams travel, and the name of the protocol; empty when the client names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    WebSocket(&'static str),
    Spdy(&'static str),
}

impl Transport {
    /// Whether the request names the ports that are forwarded; else the client does, for each connection.
    #[must_use]
    pub fn asks_for_ports(self) -> bool {
        matches!(self, Self::WebSocket(protocol) if protocol != TUNNEL)
    }
}

/// An upgrade that is accepted: 101 with these headers.
#[derive(Debug)]
pub struct Upgrade {
    pub headers: HeaderMap,
    pub transport: Transport,
}

/// Why a request is no upgrade.
#[derive(Debug)]
pub struct Refusal {
    pub code: StatusCode,
    pub why: String,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    fn new(code: StatusCode, why: impl Into<String>) -> Self {
        Self {
            code,
            why: why.into(),
            headers: Vec::new(),
        }
    }
}

/// Chooses a protocol for a request with these headers.
///
/// # Errors
///
/// The request is no upgrade, or the client offers no protocol that the server has.
pub fn negotiate(headers: &HeaderMap, purpose: Purpose) -> Result<Upgrade, Refusal> {
    let wants = |name: HeaderName, word: &str| {
        let words = headers.get_all(name).into_iter();
        let mut words = words.filter_map(|it| it.to_str().ok());
        words.any(|it| it.split(',').any(|it| it.trim().eq_ignore_ascii_case(word)))
    };
    if !wants(CONNECTION, "upgrade") {
        let why = "Upgrade request required";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, why));
    }
    if wants(UPGRADE, "websocket") {
        websocket(headers, purpose)
    } else if wants(UPGRADE, "SPDY/3.1") {
        spdy(headers, purpose)
    } else {
        let why = "unable to upgrade: the server has websocket and SPDY/3.1";
        Err(Refusal::new(StatusCode::BAD_REQUEST, why))
    }
}

fn websocket(headers: &HeaderMap, purpose: Purpose) -> Result<Upgrade, Refusal> {
    if headers.get(SEC_WEBSOCKET_VERSION) != Some(&HeaderValue::from_static("13")) {
        let why = "the version of the WebSocket is not 13";
        let mut refusal = Refusal::new(StatusCode::UPGRADE_REQUIRED, why);
        let version = HeaderValue::from_static("13");
        refusal.headers.push((SEC_WEBSOCKET_VERSION, version));
        return Err(refusal);
    }
    let Some(key) = headers.get(SEC_WEBSOCKET_KEY) else {
        let why = "Sec-WebSocket-Key is missing";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, why));
    };
    let offered = listed(headers, &SEC_WEBSOCKET_PROTOCOL);
    let protocol = choose(&offered, purpose.over_websocket())
        .or_else(|| offered.is_empty().then_some(""))
        .ok_or_else(|| {
            let known = purpose.over_websocket().join(", ");
            let why = format!("unable to upgrade: the server has the subprotocols {known}");
            Refusal::new(StatusCode::BAD_REQUEST, why)
        })?;
    let mut answer = HeaderMap::new();
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    if !protocol.is_empty() {
        answer.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    if let Ok(accept) = accept(key.as_bytes()).parse() {
        answer.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    Ok(upgrade(answer, Transport::WebSocket(protocol)))
}

fn spdy(headers: &HeaderMap, purpose: Purpose) -> Result<Upgrade, Refusal> {
    let offered = listed(headers, &OFFERED);
    let known = purpose.over_spdy();
    let protocol = match choose(&offered, known) {
        Some(it) => it,
        None if offered.is_empty() && purpose == Purpose::Program => "",
        None => {
            let why = format!(
                "unable to upgrade: unable to negotiate protocol: client supports {offered:?}, server supports {known:?}"
            );
            let mut refusal = Refusal::new(StatusCode::FORBIDDEN, why);
            for it in known {
                let value = HeaderValue::from_static(it);
                refusal.headers.push((ACCEPTED, value));
            }
            return Err(refusal);
        }
    };
    let mut answer = HeaderMap::new();
    answer.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    if !protocol.is_empty() {
        answer.insert(OFFERED, HeaderValue::from_static(protocol));
    }
    Ok(upgrade(answer, Transport::Spdy(protocol)))
}

fn upgrade(mut headers: HeaderMap, transport: Transport) -> Upgrade {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    Upgrade { headers, transport }
}

/// The values of a header, in several lines or with commas.
fn listed<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter_map(|it| it.to_str().ok());
    let words = lines.flat_map(|it| it.split(',')).map(str::trim);
    words.filter(|it| !it.is_empty()).collect()
}

/// The first protocol of the client that the server has, too.
fn choose(offered: &[&str], known: &'static [&'static str]) -> Option<&'static str> {
    let mut offered = offered.iter();
    offered.find_map(|it| known.iter().find(|known| *known == it).copied())
}

/// The answer to a key (RFC 6455, section 4.2.2).
fn accept(key: &[u8]) -> String {
    let text = [key, GUID.as_bytes()].concat();
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut all = HeaderMap::new();
        for (name, value) in lines {
            all.append(*name, HeaderValue::from_static(value));
        }
        all
    }

    #[test]
    fn a_protocol_is_chosen() {
        use Purpose::{Ports, Program};
        let websocket = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
        let protocol = "sec-websocket-protocol";
        let version = "x-stream-protocol-version";
        let with = |base: &[(&'static str, &'static str)],
                    more: &[(&'static str, &'static str)]| {
            headers(&[base, more].concat())
        };
        for (headers, purpose, expect) in [
            (
                with(&websocket, &[(protocol, "v5.channel.k8s.io")]),
                Program,
                "WebSocket(\"v5.channel.k8s.io\")",
            ),
            (
                with(&websocket, &[(protocol, "v9, v4.channel.k8s.io")]),
                Program,
                "WebSocket(\"v4.channel.k8s.io\")",
            ),
            (with(&websocket, &[]), Program, "WebSocket(\"\")"),
            (with(&websocket, &[(protocol, "v9")]), Program, "400"),
            (with(&websocket, &[]), Ports, "WebSocket(\"\")"),
            (
                with(&websocket, &[(protocol, "v4.base64.channel.k8s.io")]),
                Ports,
                "WebSocket(\"v4.base64.channel.k8s.io\")",
            ),
            (
                with(&websocket, &[(protocol, "channel.k8s.io")]),
                Ports,
                "400",
            ),
            (
                with(&websocket, &[(protocol, "SPDY/3.1+portforward.k8s.io")]),
                Ports,
                "WebSocket(\"SPDY/3.1+portforward.k8s.io\")",
            ),
            (with(&websocket[..3], &[]), Program, "400"),
            (with(&websocket[..2], &[]), Program, "426"),
            (
                with(
                    &spdy,
                    &[(version, "v4.channel.k8s.io"), (version, "channel.k8s.io")],
                ),
                Program,
                "Spdy(\"v4.channel.k8s.io\")",
            ),
            (with(&spdy, &[]), Program, "Spdy(\"\")"),
            (with(&spdy, &[(version, "v9")]), Program, "403"),
            (
                with(&spdy, &[(version, "portforward.k8s.io")]),
                Ports,
                "Spdy(\"portforward.k8s.io\")",
            ),
            (headers(&[("upgrade", "websocket")]), Program, "400"),
            (with(&spdy[..1], &[("upgrade", "h2c")]), Program, "400"),
        ] {
            let chosen = match negotiate(&headers, purpose) {
                Ok(it) => format!("{:?}", it.transport),
                Err(it) => it.code.as_u16().to_string(),
            };
            assert_eq!(chosen, expect, "{headers:?}");
        }
    }

    #[test]
    fn a_key_is_answered_as_the_rfc_says() {
        // The example of RFC 6455, section 1.3.
        assert_eq!(
            accept(b"dGhlIHNhbXBsZSBub25jZQ=="),
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }
}
