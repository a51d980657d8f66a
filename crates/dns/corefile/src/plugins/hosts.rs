//! `hosts`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::reader::{Fault, Reader, Scope};
use crate::syntax::Directive;
use crate::values::{name, number, quoted};
use crate::{Fallthrough, Hosts, HostsEntry};

const OPTIONS: [&str; 4] = ["fallthrough", "ttl", "no_reverse", "reload"];

/// `hosts [FILE [ZONES...]]`
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive, scope: &Scope) -> Hosts {
    let (file, words) = match plugin.args.split_first() {
        Some((file, words)) => (scope.path(&file.text), words),
        None => (PathBuf::from("/etc/hosts"), &*plugin.args),
    };
    let mut hosts = Hosts {
        file,
        zones: reader.zones(plugin, words, scope),
        inline: Vec::new(),
        fallthrough: Fallthrough::default(),
        ttl: 3600,
        reverse: true,
        reload: Some(Duration::from_secs(5)),
    };
    reader.options(plugin, &OPTIONS, |_, option| {
        match option.name.text.as_str() {
            "fallthrough" => hosts.fallthrough = option.fallthrough()?,
            "ttl" => hosts.ttl = number(option.one()?, 1..=65535)?,
            "no_reverse" => hosts.reverse = !option.flag()?,
            "reload" => hosts.reload = Some(option.duration()?).filter(|it| !it.is_zero()),
            address => {
                let address = without_zone(address).ok_or(Fault::Unknown)?;
                if !hosts.fallthrough.zones.is_empty() {
                    let why = "lines with addresses must stand before fallthrough";
                    return Err(why.into());
                }
                hosts.inline.push(entry(address, option)?);
            }
        }
        Ok(())
    });
    hosts
}

/// An address, without the zone of one of the link, as CoreDNS reads it (`parseIP` in `plugin/hosts/hostsfile.go`).
fn without_zone(word: &str) -> Option<IpAddr> {
    word.split('%').next()?.parse().ok()
}

fn entry(address: IpAddr, option: &Directive) -> Result<HostsEntry, String> {
    let names = option.some()?.iter().map(|it| name(&it.text));
    Ok(HostsEntry {
        address,
        names: names.collect::<Result<_, _>>()?,
    })
}

impl HostsEntry {
    /// Reads one line of a hosts file; `None` for a line without address and name, such as a comment.
    ///
    /// # Errors
    /// The first word is no address, or a name is no domain name.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(address) = words.next() else {
            return Ok(None);
        };
        let names = words.map(name).collect::<Result<Vec<_>, _>>()?;
        let address = without_zone(address);
        let address =
            address.ok_or_else(|| format!("{} begins with no address", quoted(line.trim())))?;
        Ok((!names.is_empty()).then_some(Self { address, names }))
    }
}
