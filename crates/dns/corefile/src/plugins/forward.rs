//! `forward`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::Name;

use crate::reader::{Fault, Reader, Scope, zones};
use crate::syntax::{Directive, Token};
use crate::values::{self, host_port, ip_with_interface, number, one_of, quoted, response_code};
use crate::{
    ClientCertificate, Forward, ForwardProtocol, ForwardTls, HealthCheck, Policy, ResolvConf,
    Upstream, UpstreamTransport,
};

/// CoreDNS's bound on upstreams of one plugin.
const MAX_UPSTREAMS: usize = 15;
const OPTIONS: [&str; 17] = [
    "except",
    "force_tcp",
    "prefer_udp",
    "expire",
    "max_age",
    "max_idle_conns",
    "max_fails",
    "max_connect_attempts",
    "tls",
    "tls_servername",
    "policy",
    "health_check",
    "max_concurrent",
    "next",
    "next_on_nodata",
    "failfast_all_unhealthy_upstreams",
    "failover",
];
const POLICIES: [(&str, Policy); 3] = [
    ("random", Policy::Random),
    ("round_robin", Policy::RoundRobin),
    ("sequential", Policy::Sequential),
];

/// `forward FROM TO...`; `None` when FROM or TO are missing or wrong.
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive, scope: &Scope) -> Option<Forward> {
    let upstreams = match plugin.args.split_first() {
        Some((from, to)) if !to.is_empty() => {
            upstreams(reader, to).and_then(|to| Ok((self::from(from)?, to)))
        }
        _ => Err("a zone and at least one upstream are needed".to_owned()),
    };
    let upstreams = reader.or(plugin, upstreams.map(Some), None);
    let ((from, more), to) = upstreams.unwrap_or(((Name::root(), false), Vec::new()));
    if more {
        let why =
            format!("forward: the network has several reverse zones, only {from} is forwarded");
        reader.note(&plugin.name.place, why);
    }
    let mut forward = Forward {
        from,
        to,
        expire: Duration::from_secs(10),
        max_fails: 2,
        ..Forward::default()
    };
    let mut server_name = None;
    reader.options(plugin, &OPTIONS, |_, option| {
        match option.name.text.as_str() {
            "tls_servername" => server_name = Some(option.one()?.to_owned()),
            _ => match connections(option, scope, &mut forward) {
                Err(Fault::Unknown) => choice(option, &mut forward)?,
                read => read?,
            },
        }
        Ok(())
    });
    if let Some(name) = server_name {
        reader.or(plugin, name_servers(&mut forward.to, &name), ());
    }
    (!forward.to.is_empty()).then_some(forward)
}

/// The zone, and whether there are more that CoreDNS leaves out.
fn from(word: &Token) -> Result<(Name, bool), String> {
    let zones = values::zones(&word.text)?;
    Ok((zones[0].clone(), zones.len() > 1))
}

/// Options about connections to upstreams.
fn connections(option: &Directive, scope: &Scope, forward: &mut Forward) -> Result<(), Fault> {
    let bound = || number(option.one()?, 0..=i32::MAX as usize).map(NonZeroUsize::new);
    match option.name.text.as_str() {
        "expire" => forward.expire = option.duration()?,
        "max_age" => forward.max_age = Some(option.duration()?).filter(|it| !it.is_zero()),
        "max_idle_conns" => forward.max_idle_conns = bound()?,
        "max_concurrent" => forward.max_concurrent = bound()?,
        "max_connect_attempts" => {
            forward.max_connect_attempts = number(option.one()?, 0..=u32::MAX)?
        }
        "tls" => {
            let client = |certificate: &str, key: &str| ClientCertificate {
                certificate: scope.path(certificate),
                key: scope.path(key),
            };
            let words = option.texts(3)?;
            let (client, authority) = match words.as_slice() {
                [authority] => (None, Some(authority)),
                [certificate, key] => (Some(client(certificate, key)), None),
                [certificate, key, authority] => (Some(client(certificate, key)), Some(authority)),
                _ => (None, None),
            };
            let authority = authority.map(|it| scope.path(it));
            forward.tls = ForwardTls { authority, client };
        }
        // With both, CoreDNS uses TCP.
        "force_tcp" => {
            option.none()?;
            forward.protocol = ForwardProtocol::Tcp;
        }
        "prefer_udp" => {
            option.none()?;
            if forward.protocol == ForwardProtocol::AsAsked {
                forward.protocol = ForwardProtocol::PreferUdp;
            }
        }
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

/// Options about which upstream is asked, and whether.
fn choice(option: &Directive, forward: &mut Forward) -> Result<(), Fault> {
    let codes = || -> Result<Vec<ResponseCode>, String> {
        let words = option.some()?.iter();
        words.map(|it| response_code(&it.text)).collect()
    };
    match option.name.text.as_str() {
        "except" => forward.except.extend(zones(option.some()?)?),
        "max_fails" => forward.max_fails = number(option.one()?, 0..=u32::MAX)?,
        "policy" => forward.policy = one_of(option.one()?, &POLICIES)?,
        "health_check" => forward.health_check = health_check(option)?,
        "next" => forward.next.extend(codes()?),
        "next_on_nodata" => forward.next_on_nodata = option.flag()?,
        "failfast_all_unhealthy_upstreams" => {
            forward.failfast_all_unhealthy_upstreams = option.flag()?;
        }
        "failover" => {
            let codes = codes()?;
            if codes.contains(&ResponseCode::NoError) {
                return Err("NOERROR is no failure".into());
            }
            forward.failover.extend(codes);
        }
        name @ ("doh_method" | "resolver") => {
            let why = format!("the option {name} of CoreDNS is not supported: leave it out");
            return Err(why.into());
        }
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

/// `health_check DURATION [no_rec] [domain FQDN]`
fn health_check(option: &Directive) -> Result<HealthCheck, String> {
    let mut check = HealthCheck {
        interval: values::duration(&option.some()?[0].text)?,
        ..HealthCheck::default()
    };
    let mut words = option.args[1..].iter();
    while let Some(word) = words.next() {
        match word.text.as_str() {
            "no_rec" => check.recursion_desired = false,
            "domain" => {
                let domain = words.next().ok_or("domain: a name is missing")?;
                check.domain = values::name(&domain.text)?;
            }
            other => return Err(format!("{} is not one of no_rec, domain", quoted(other))),
        }
    }
    Ok(check)
}

/// The upstreams of all words; a word that is no address is a file like resolv.conf.
fn upstreams(reader: &mut Reader<'_>, words: &[Token]) -> Result<Vec<Upstream>, String> {
    let mut upstreams = Vec::new();
    for word in words {
        match upstream(&word.text)? {
            Some(upstream) => upstreams.push(upstream),
            None => upstreams.extend(name_servers_of(reader, &word.text)?),
        }
    }
    match upstreams.len() {
        0 => Err("no name server in the files".to_owned()),
        1..=MAX_UPSTREAMS => Ok(upstreams),
        many => Err(format!(
            "{many} upstreams, at most {MAX_UPSTREAMS} are allowed"
        )),
    }
}

/// An address with a port, or without; `None` when the word is no address.
fn upstream(word: &str) -> Result<Option<Upstream>, String> {
    let (scheme, rest) = word.split_once("://").unwrap_or(("dns", word));
    let tls = match scheme {
        "dns" => false,
        "tls" => true,
        _ => {
            return Err(format!(
                "{}: only dns:// and tls:// are supported",
                quoted(word)
            ));
        }
    };
    let port = if tls { 853 } else { 53 };
    let (host, port) = match host_port(rest) {
        Some((host, port)) => (
            host,
            port.parse::<u16>()
                .map_err(|_| format!("{}: wrong port", quoted(word))),
        ),
        None => (rest, Ok(port)),
    };
    let Some((address, suffix)) = ip_with_interface(host) else {
        return Ok(None);
    };
    let suffix = suffix.map(str::to_owned);
    let (interface, transport) = if tls {
        let server_name = suffix;
        (None, UpstreamTransport::Tls { server_name })
    } else {
        (suffix, UpstreamTransport::Dns)
    };
    Ok(Some(Upstream {
        address: SocketAddr::new(address, port?),
        interface,
        transport,
    }))
}

/// The name servers of a file like resolv.conf.
fn name_servers_of(reader: &mut Reader<'_>, word: &str) -> Result<Vec<Upstream>, String> {
    let path = word.split_once("://").map_or(word, |(_, path)| path);
    let text = reader.read(path.as_ref());
    let text = text.map_err(|why| format!("no address and no file: {why}"))?;
    let server = |word: &str| {
        let wrong = || format!("{}: {} is no address", quoted(path), quoted(word));
        let (address, interface) = ip_with_interface(word).ok_or_else(wrong)?;
        Ok(Upstream {
            address: SocketAddr::new(address, 53),
            interface: interface.map(str::to_owned),
            transport: UpstreamTransport::Dns,
        })
    };
    let servers = ResolvConf::read(&text).name_servers;
    servers.into_iter().map(server).collect()
}

/// Applies `tls_servername`. A name at an upstream and one for all exclude each other.
fn name_servers(upstreams: &mut [Upstream], name: &str) -> Result<(), String> {
    for upstream in upstreams {
        if let UpstreamTransport::Tls { server_name } = &mut upstream.transport {
            match server_name {
                Some(own) => {
                    let (address, own, name) = (upstream.address, quoted(own), quoted(name));
                    return Err(format!(
                        "tls_servername is {name}, and {address} has {own} of its own"
                    ));
                }
                None => *server_name = Some(name.to_owned()),
            }
        }
    }
    Ok(())
}
