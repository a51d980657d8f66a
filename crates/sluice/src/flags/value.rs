//! Values as kube-proxy's flags take them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use sluice_config::defaults::with_port;
use sluice_config::{GoDuration, KubeProxyConfiguration, Mode, VmoduleItem};
use sluice_yaml::quoted;

/// Any text will do; the field says what it may be.
pub(super) fn text(field: &mut String, text: &str) -> Result<(), String> {
    text.clone_into(field);
    Ok(())
}

/// Sets the field, if the value could be read.
pub(super) fn to<T>(field: &mut T, value: Result<T, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

/// `--hostname-override`: nothing leaves the field.
pub(super) fn name(config: &mut KubeProxyConfiguration, text: &str) -> Result<(), String> {
    match text {
        "" => Ok(()),
        given => self::text(&mut config.hostname_override, given),
    }
}

fn is_nftables(config: &KubeProxyConfiguration) -> bool {
    config.mode == Mode::Nftables.name()
}

/// Flags know no sections: they set the one of the mode.
pub(super) fn masquerade_all(config: &mut KubeProxyConfiguration) -> &mut bool {
    match is_nftables(config) {
        true => &mut config.nftables.masquerade_all,
        false => &mut config.iptables.masquerade_all,
    }
}

pub(super) fn masquerade_bit(config: &mut KubeProxyConfiguration) -> &mut Option<i32> {
    match is_nftables(config) {
        true => &mut config.nftables.masquerade_bit,
        false => &mut config.iptables.masquerade_bit,
    }
}

pub(super) fn sync_period(config: &mut KubeProxyConfiguration) -> &mut GoDuration {
    match is_nftables(config) {
        true => &mut config.nftables.sync_period,
        false => &mut config.iptables.sync_period,
    }
}

pub(super) fn min_sync_period(config: &mut KubeProxyConfiguration) -> &mut GoDuration {
    match is_nftables(config) {
        true => &mut config.nftables.min_sync_period,
        false => &mut config.iptables.min_sync_period,
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

/// A whole number, in the notations of `strconv.ParseInt` with base 0 that people use.
pub(super) fn integer(text: &str) -> Result<i32, String> {
    let trimmed = text.trim();
    let hex = trimmed.strip_prefix("0x");
    let number = hex.map_or_else(|| trimmed.parse(), |it| i32::from_str_radix(it, 16));
    number.map_err(|_| format!("{} is no whole number of 32 bits", quoted(text)))
}

/// `-v`.
pub(super) fn verbosity(text: &str) -> Result<u32, String> {
    let number = text.trim().parse();
    number.map_err(|_| format!("{} is no whole number from 0", quoted(text)))
}

/// A number with a fraction.
pub(super) fn number(text: &str) -> Result<f32, String> {
    let number = text.trim().parse().ok().filter(|it: &f32| it.is_finite());
    number.ok_or_else(|| format!("{} is no number", quoted(text)))
}

/// A time as Go writes it; whether it may be negative is for the field to say.
pub(super) fn duration(text: &str) -> Result<GoDuration, String> {
    text.parse()
}

/// An address with or without a port, or nothing for no server.
pub(super) fn server(text: &str, port: u16) -> String {
    with_port(text.trim(), port)
}

/// `--healthz-port`: 0 for no server; an address that has a port keeps it.
pub(super) fn port(address: &mut String, text: &str) -> Result<(), String> {
    match text.trim().parse::<u16>() {
        Ok(0) => address.clear(),
        Ok(port) => *address = with_port(address, port),
        Err(_) => return Err(format!("{} is no port", quoted(text))),
    }
    Ok(())
}

/// The node's address; nothing is the default.
pub(super) fn address(text: &str) -> String {
    match text.trim() {
        "" => "0.0.0.0".to_owned(),
        text => match text.parse::<IpAddr>() {
            Ok(ip) => ip.to_string(),
            Err(_) => text.to_owned(),
        },
    }
}

/// More words for a list; nothing is an empty list.
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
pub(super) fn vmodule(text: &str) -> Result<Vec<VmoduleItem>, String> {
    let pairs = text.split(',').filter(|it| !it.is_empty());
    let item = |pair: &str| {
        let Some((pattern, level)) = pair.split_once('=') else {
            return Err(format!("{} is not PATTERN=LEVEL", quoted(pair)));
        };
        Ok(VmoduleItem {
            file_pattern: pattern.to_owned(),
            verbosity: verbosity(level)?,
        })
    };
    pairs.map(item).collect()
}
