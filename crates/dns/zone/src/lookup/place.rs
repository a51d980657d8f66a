//! What the labels of a name say.

use crate::origin::{Label, Missing};

/// Which thing of the cluster a name is about, by its labels below the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    /// The zone, its `svc` or its `pod`.
    Above,
    /// `namespace.svc`.
    Services(&'a [u8]),
    /// `namespace.pod`.
    Pods(&'a [u8]),
    /// `a-b-c-d.namespace.pod`. One or two labels more change nothing.
    Pod {
        namespace: &'a [u8],
        address: &'a [u8],
    },
    /// `service.namespace.svc`, or something below it.
    Service {
        namespace: &'a [u8],
        service: &'a [u8],
        part: Part<'a>,
    },
    /// Nothing can have this name.
    Nowhere(Missing<'a>),
}

/// Which part of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// All endpoints with these ports.
    Ports(Ports<'a>),
    /// `endpoint.service`: the endpoints of this name.
    Endpoint(&'a [u8]),
}

/// `_port._protocol`. An empty part stands for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ports<'a> {
    pub(super) port: &'a [u8],
    pub(super) protocol: &'a [u8],
}

impl Ports<'_> {
    pub(super) fn is_all(&self) -> bool {
        self.port.is_empty() && self.protocol.is_empty()
    }

    pub(super) fn has(&self, port: &str, protocol: &str) -> bool {
        let is = |asked: &[u8], own: &str| {
            asked.is_empty() || asked.eq_ignore_ascii_case(own.as_bytes())
        };
        is(self.port, port) && is(self.protocol, protocol)
    }
}

impl<'a> Subject<'a> {
    /// Of the labels of a name below its zone, the closest to the zone first.
    pub(super) fn of(mut labels: impl Iterator<Item = &'a [u8]>) -> Self {
        let Some(kind) = labels.next() else {
            return Self::Above;
        };
        let is_pod = kind.eq_ignore_ascii_case(b"pod");
        if !is_pod && !kind.eq_ignore_ascii_case(b"svc") {
            return Self::Nowhere(Missing::NeitherServiceNorPod(Label(kind)));
        }
        let Some(namespace) = labels.next() else {
            return Self::Above;
        };
        let Some(own) = labels.next() else {
            return if is_pod {
                Self::Pods(namespace)
            } else {
                Self::Services(namespace)
            };
        };
        let below = (labels.next(), labels.next(), labels.next());
        if below.2.is_some() {
            return Self::Nowhere(Missing::TooManyLabels);
        }
        if is_pod {
            return Self::Pod {
                namespace,
                address: own,
            };
        }
        let part = match below {
            (None, ..) => Part::Ports(Ports::default()),
            (Some(endpoint), None, _) => Part::Endpoint(endpoint),
            (Some(protocol), Some(port), _) => Part::Ports(Ports {
                port: without_underscore(port),
                protocol: without_underscore(protocol),
            }),
        };
        Self::Service {
            namespace,
            service: own,
            part,
        }
    }
}

/// CoreDNS takes `web.tcp` for `_web._tcp`, and `_` for any.
fn without_underscore(label: &[u8]) -> &[u8] {
    label.strip_prefix(b"_").unwrap_or(label)
}

/// A label in lower case.
pub(super) struct Lower {
    text: [u8; 63],
    length: usize,
}

impl Lower {
    pub(super) fn new(label: &[u8]) -> Self {
        let mut text = [0; 63];
        let length = label.len().min(text.len());
        text[..length].copy_from_slice(&label[..length]);
        text[..length].make_ascii_lowercase();
        Self { text, length }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Empty, which no object is called, when the label is no text.
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}
