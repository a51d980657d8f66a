//! `template`.

use hickory_proto::op::ResponseCode;

use super::text;
use crate::reader::{Fault, Reader, Scope};
use crate::syntax::Directive;
use crate::values::{class, number, pattern, record_type, response_code};
use crate::{Fallthrough, Template, Text};

const OPTIONS: [&str; 7] = [
    "match",
    "answer",
    "additional",
    "authority",
    "rcode",
    "ederror",
    "fallthrough",
];

/// `template CLASS TYPE [ZONES...]`
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive, scope: &Scope) -> Option<Template> {
    let question = match &*plugin.args {
        [class, record_type, ..] => self::class(&class.text)
            .and_then(|class| Ok((class, self::record_type(&record_type.text)?))),
        _ => Err("a class and a type are needed".to_owned()),
    };
    let (class, record_type) = reader.or(plugin, question.map(Some), None)?;
    let mut template = Template {
        class,
        record_type,
        zones: reader.zones(plugin, &plugin.args[2..], scope),
        matches: Vec::new(),
        answer: Vec::new(),
        additional: Vec::new(),
        authority: Vec::new(),
        rcode: ResponseCode::NoError,
        ederror: None,
        fallthrough: Fallthrough::default(),
    };
    reader.options(plugin, &OPTIONS, |reader, option| {
        self::option(reader, option, &mut template)
    });
    if template.matches.is_empty() {
        template.matches.extend(pattern(".*"));
    }
    let silent = template.answer.is_empty() && template.authority.is_empty();
    let broken = plugin
        .options
        .iter()
        .any(|it| matches!(&*it.name.text, "answer" | "authority" | "rcode"));
    if silent && template.rcode == ResponseCode::NoError && !broken {
        let place = &plugin.name.place;
        reader.problem(
            place,
            "template: one of answer, authority, rcode is missing",
        );
    }
    groups(reader, plugin, &template);
    Some(template)
}

fn option(
    reader: &mut Reader<'_>,
    option: &Directive,
    template: &mut Template,
) -> Result<(), Fault> {
    let texts = || -> Result<Vec<Text>, String> {
        option
            .some()?
            .iter()
            .map(|it| text::parse(&it.text))
            .collect()
    };
    match option.name.text.as_str() {
        "match" => {
            let patterns = option.some()?.iter().map(|it| pattern(&it.text));
            template
                .matches
                .extend(patterns.collect::<Result<Vec<_>, _>>()?);
        }
        "answer" => template.answer.extend(texts()?),
        "additional" => template.additional.extend(texts()?),
        "authority" => template.authority.extend(texts()?),
        "rcode" => template.rcode = response_code(option.one()?)?,
        "ederror" => {
            option.some()?;
            let words = option.texts(2)?;
            let code = number(words[0], 0..=u16::MAX)?;
            template.ederror = Some((code, words.get(1).copied().unwrap_or_default().to_owned()));
        }
        "fallthrough" => template.fallthrough = option.fallthrough()?,
        "upstream" => {
            let why = "template: upstream: has no effect, as in CoreDNS";
            reader.note(&option.name.place, why);
        }
        _ => return Err(Fault::Unknown),
    }
    Ok(())
}

/// Refuses texts with groups that a pattern does not have: CoreDNS answers SERVFAIL then.
fn groups(reader: &mut Reader<'_>, plugin: &Directive, template: &Template) {
    let texts = template
        .answer
        .iter()
        .chain(&template.additional)
        .chain(&template.authority);
    for value in texts.flat_map(text::values) {
        for pattern in &template.matches {
            if let Err(why) = text::has(pattern, value) {
                reader.problem(&plugin.name.place, format!("template: {why}"));
            }
        }
    }
}
