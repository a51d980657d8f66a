//! `errors`, `health`, `ready`, `prometheus`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::reader::{Fault, Reader};
use crate::syntax::{Directive, Token};
use crate::values::{self, one_of, quoted};
use crate::{Consolidate, Errors, Health, LogLevel, Monitor, Ready};

/// The argument ADDRESS of a plugin.
fn address(reader: &mut Reader<'_>, plugin: &Directive, default: SocketAddr) -> SocketAddr {
    let address = plugin
        .optional()
        .and_then(|it| it.map_or(Ok(default), values::listen));
    reader.or(plugin, address, default)
}

fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

pub(super) fn health(reader: &mut Reader<'_>, plugin: &Directive) -> Health {
    let mut health = Health {
        address: address(reader, plugin, everywhere(8080)),
        lameduck: Duration::ZERO,
    };
    reader.option(plugin, "lameduck", |option| {
        health.lameduck = option.duration()?;
        Ok(())
    });
    health
}

pub(super) fn ready(reader: &mut Reader<'_>, plugin: &Directive) -> Ready {
    const MONITORS: [(&str, Monitor); 2] = [
        ("until-ready", Monitor::UntilReady),
        ("continuously", Monitor::Continuously),
    ];
    let mut ready = Ready {
        address: address(reader, plugin, everywhere(8181)),
        monitor: Monitor::default(),
    };
    reader.option(plugin, "monitor", |option| {
        ready.monitor = one_of(option.one()?, &MONITORS)?;
        Ok(())
    });
    ready
}

pub(super) fn prometheus(reader: &mut Reader<'_>, plugin: &Directive) -> SocketAddr {
    let default = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9153);
    reader.no_options(plugin);
    address(reader, plugin, default)
}

pub(super) fn errors(reader: &mut Reader<'_>, plugin: &Directive) -> Errors {
    let mut errors = Errors::default();
    let file = plugin.optional().and_then(|it| match it {
        None | Some("stdout") => Ok(()),
        Some(word) => Err(format!("{} is not supported, only stdout is", quoted(word))),
    });
    reader.or(plugin, file, ());
    reader.options(plugin, &["consolidate", "stacktrace"], |reader, option| {
        match option.name.text.as_str() {
            "stacktrace" => {
                let why =
                    "errors: stacktrace: has no effect: a panic is always logged with its place";
                option.none()?;
                reader.note(&option.name.place, why);
            }
            "consolidate" => errors.consolidate.push(consolidate(&option.args)?),
            _ => return Err(Fault::Unknown),
        }
        Ok(())
    });
    errors
}

/// `consolidate DURATION REGEXP [LEVEL] [show_first]`
fn consolidate(args: &[Token]) -> Result<Consolidate, String> {
    const LEVELS: [(&str, LogLevel); 4] = [
        ("warning", LogLevel::Warning),
        ("error", LogLevel::Error),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
    ];
    let [period, pattern, rest @ ..] = args else {
        return Err("a duration and a regular expression are needed".to_owned());
    };
    let (level, show_first) = match rest {
        [] => (None, false),
        [word] if word.text == "show_first" => (None, true),
        [level] => (Some(level), false),
        [level, word] if word.text == "show_first" => (Some(level), true),
        [_, word, ..] => return Err(format!("unknown argument {}", quoted(&word.text))),
    };
    Ok(Consolidate {
        period: values::duration(&period.text)?,
        pattern: values::pattern(&pattern.text)?,
        level: level.map_or(Ok(LogLevel::Error), |it| one_of(&it.text, &LEVELS))?,
        show_first,
    })
}
