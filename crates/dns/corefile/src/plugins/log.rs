//! `log`.

use hickory_proto::rr::Name;

use crate::reader::Reader;
use crate::syntax::Directive;
use crate::values::{self, one_of};
use crate::{LogClass, LogField, LogPart, LogRule};

/// The format of CoreDNS without FORMAT, and of `{common}`.
const COMMON: &str = "{remote}:{port} - {>id} \"{type} {class} {name} {proto} {size} {>do} {>bufsize}\" {rcode} {>rflags} {rsize} {duration}";

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
    let (format, mut classes) = (format(&text), Vec::new());
    reader.option(plugin, "class", |option| {
        for word in option.some()? {
            classes.extend(one_of(&word.text, &CLASSES)?);
        }
        Ok(())
    });
    if classes.is_empty() {
        classes.extend(LogClass::ALL);
    }
    let rule = |zone| LogRule {
        zone,
        format: format.clone(),
        classes: classes.clone(),
    };
    zones.into_iter().map(rule).collect()
}

const CLASSES: [(&str, &[LogClass]); 4] = [
    ("all", &LogClass::ALL),
    ("success", &[LogClass::Success]),
    ("denial", &[LogClass::Denial]),
    ("error", &[LogClass::Error]),
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
fn format(text: &str) -> Vec<LogPart> {
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
    parts
}
