//! `log`.

use hickory_proto::rr::Name;

use crate::reader::{Fault, Reader};
use crate::syntax::Directive;
use crate::values::{self, one_of};
use crate::{LogClasses, LogField, LogFormat, LogPart, LogRule};

/// The format of CoreDNS without FORMAT, and of `{common}`.
const COMMON: &str = "{remote}:{port} - {>id} \"{type} {class} {name} {proto} {size} {>do} {>bufsize}\" {rcode} {>rflags} {rsize} {duration}";

const ALL: LogClasses = LogClasses {
    success: true,
    denial: true,
    error: true,
};
const NONE: LogClasses = LogClasses {
    success: false,
    denial: false,
    error: false,
};

/// `log [NAMES...] [FORMAT]`: one rule for each name. A format has a `{`, and a name before it.
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive) -> Vec<LogRule> {
    let (names, text) = match plugin.args.split_last() {
        Some((last, names)) if !names.is_empty() && last.text.contains('{') => {
            (names, last.text.as_str())
        }
        _ => (&*plugin.args, COMMON),
    };
    let zones = names.iter().map(|it| values::name(&it.text)).collect();
    let mut zones = reader.or(plugin, zones, Vec::new());
    if zones.is_empty() {
        zones.push(Name::root());
    }
    let text = text.replace("{common}", COMMON);
    let text = text.replace("{combined}", &format!("{COMMON} \"{{>opcode}}\""));
    let (format, mut classes) = (format(&text), None);
    reader.options(plugin, &["class"], |_, option| {
        match option.name.text.as_str() {
            "class" => {
                for word in option.some()? {
                    let (class, all) = (classes.unwrap_or(NONE), one_of(&word.text, &CLASSES)?);
                    classes = Some(LogClasses {
                        success: class.success || all.success,
                        denial: class.denial || all.denial,
                        error: class.error || all.error,
                    });
                }
            }
            _ => return Err(Fault::Unknown),
        }
        Ok(())
    });
    let rule = |zone| LogRule {
        zone,
        format: format.clone(),
        classes: classes.unwrap_or(ALL),
    };
    zones.into_iter().map(rule).collect()
}

const CLASSES: [(&str, LogClasses); 4] = [
    ("all", ALL),
    (
        "success",
        LogClasses {
            success: true,
            ..NONE
        },
    ),
    (
        "denial",
        LogClasses {
            denial: true,
            ..NONE
        },
    ),
    (
        "error",
        LogClasses {
            error: true,
            ..NONE
        },
    ),
];

const FIELDS: [(&str, LogField); 16] = [
    ("{type}", LogField::Type),
    ("{name}", LogField::Name),
    ("{class}", LogField::Class),
    ("{proto}", LogField::Protocol),
    ("{remote}", LogField::Remote),
    ("{local}", LogField::Local),
    ("{size}", LogField::QuerySize),
    ("{port}", LogField::Port),
    ("{duration}", LogField::Duration),
    ("{rcode}", LogField::ResponseCode),
    ("{rsize}", LogField::ResponseSize),
    ("{>rflags}", LogField::ResponseFlags),
    ("{>bufsize}", LogField::BufferSize),
    ("{>do}", LogField::DnssecOk),
    ("{>id}", LogField::Id),
    ("{>opcode}", LogField::Opcode),
];

/// Splits a format. What is no placeholder is text; metadata, `{/label}`, is not known here: `-`.
fn format(text: &str) -> LogFormat {
    let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some(c) = rest.chars().next() {
        let field = FIELDS.iter().find(|(name, _)| rest.starts_with(name));
        if let Some((name, field)) = field {
            if !literal.is_empty() {
                parts.push(LogPart::Literal(std::mem::take(&mut literal)));
            }
            parts.push(LogPart::Field(*field));
            rest = &rest[name.len()..];
        } else if let Some((_, after)) = rest.strip_prefix("{/").and_then(|it| it.split_once('}')) {
            literal.push('-');
            rest = after;
        } else {
            literal.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    if !literal.is_empty() {
        parts.push(LogPart::Literal(literal));
    }
    LogFormat { parts }
}
