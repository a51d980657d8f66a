//! Values as kube-proxy's flags take them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use sluice_config::defaults::with_port;
use sluice_config::{GoDuration, Mode, VmoduleItem};
use sluice_yaml::quoted;

fn store<T, F: From<T>>(field: &mut F, value: Result<T, String>) -> Result<(), String> {
    *field = value?.into();
    Ok(())
}

/// Any text; validation of the configuration refuses wrong ones.
pub(super) fn text(field: &mut String, text: &str) -> Result<(), String> {
    text.clone_into(field);
    Ok(())
}

/// `--hostname-override`: an empty text leaves the field as it is.
pub(super) fn non_empty(field: &mut String, text: &str) -> Result<(), String> {
    if !text.is_empty() {
        text.clone_into(field);
    }
    Ok(())
}

/// Chooses the configuration section that a flag of no section sets: the one of the mode.
pub(super) fn of_mode<T>(mode: &str, nftables: T, iptables: T) -> T {
    if mode == Mode::Nftables.name() {
        nftables
    } else {
        iptables
    }
}

/// What `strconv.ParseBool` reads.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{} is not true or false", quoted(text))),
    }
}

pub(super) fn switch<F: From<bool>>(field: &mut F, text: &str) -> Result<(), String> {
    store(field, boolean(text))
}

/// A whole number, decimal or hexadecimal with `0x`, as `strconv.ParseInt` reads with base 0.
pub(super) fn integer<F: From<i32>>(field: &mut F, text: &str) -> Result<(), String> {
    let trimmed = text.trim();
    let hex = trimmed.strip_prefix("0x");
    let number = hex.map_or_else(|| trimmed.parse(), |it| i32::from_str_radix(it, 16));
    let wrong = |_| format!("{} is no whole number of 32 bits", quoted(text));
    store(field, number.map_err(wrong))
}

fn parse_verbosity(text: &str) -> Result<u32, String> {
    let number = text.trim().parse();
    number.map_err(|_| format!("{} is no whole number from 0", quoted(text)))
}

/// `-v`: a level from 0.
pub(super) fn verbosity(field: &mut u32, text: &str) -> Result<(), String> {
    store(field, parse_verbosity(text))
}

/// A finite number with a fraction.
pub(super) fn number(field: &mut f32, text: &str) -> Result<(), String> {
    let number = text.trim().parse().ok().filter(|it: &f32| it.is_finite());
    store(
        field,
        number.ok_or_else(|| format!("{} is no number", quoted(text))),
    )
}

/// A duration as Go writes it; validation of the configuration refuses negative ones.
pub(super) fn duration<F: From<GoDuration>>(field: &mut F, text: &str) -> Result<(), String> {
    store(field, text.parse())
}

/// An address with or without a port; empty for no server.
pub(super) fn server(text: &str, port: u16) -> String {
    with_port(text.trim(), port)
}

/// `--healthz-port`: 0 for no server. An address that has a port keeps it.
pub(super) fn port(address: &mut String, text: &str) -> Result<(), String> {
    match text.trim().parse::<u16>() {
        Ok(0) => address.clear(),
        Ok(port) => *address = with_port(address, port),
        Err(_) => return Err(format!("{} is no port", quoted(text))),
    }
    Ok(())
}

/// The node's address; empty for the default.
pub(super) fn address(text: &str) -> String {
    match text.trim() {
        "" => "0.0.0.0".to_owned(),
        text => match text.parse::<IpAddr>() {
            Ok(ip) => ip.to_string(),
            Err(_) => text.to_owned(),
        },
    }
}

/// Appends comma-separated words to a list; an empty text makes the list empty, not unset.
pub(super) fn list(list: &mut Option<Vec<String>>, text: &str) -> Result<(), String> {
    let words = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    list.get_or_insert_default()
        .extend(words.map(str::to_owned));
    Ok(())
}

/// `A=true,B=false`.
pub(super) fn gates(gates: &mut BTreeMap<String, bool>, text: &str) -> Result<(), String> {
    for pair in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(format!("{} is not NAME=true or NAME=false", quoted(pair)));
        };
        gates.insert(name.trim().to_owned(), boolean(value.trim())?);
    }
    Ok(())
}

/// `pattern=2,other=4`.
pub(super) fn vmodule(field: &mut Vec<VmoduleItem>, text: &str) -> Result<(), String> {
    let pairs = text.split(',').filter(|it| !it.is_empty());
    let item = |pair: &str| {
        let Some((pattern, level)) = pair.split_once('=') else {
            return Err(format!("{} is not PATTERN=LEVEL", quoted(pair)));
        };
        Ok(VmoduleItem {
            file_pattern: pattern.to_owned(),
            verbosity: parse_verbosity(level)?,
        })
    };
    store(field, pairs.map(item).collect::<Result<Vec<_>, _>>())
}

/// Ports as `30000-32767`.
pub(crate) fn port_range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let range = text.split_once('-').and_then(|(first, last)| {
        let range: (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (0 < range.0 && range.0 <= range.1).then_some(range.0..=range.1)
    });
    range.ok_or_else(|| format!("{} is no range such as 30000-32767", quoted(text)))
}
