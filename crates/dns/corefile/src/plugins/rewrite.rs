//! `rewrite`.

use std::ops::RangeInclusive;

use hickory_proto::op::ResponseCode;

use crate::reader::Reader;
use crate::syntax::Directive;
use crate::values::{class, number, pattern, quoted, record_type, response_code};
use crate::{
    AnswerRewrite, AnswerRule, NameMatch, NameRewrite, Pattern, Rewrite, RewriteRule, Then,
    TtlRewrite,
};

/// `rewrite [continue|stop] FIELD ...`; the rest may stand in braces.
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive) -> Option<RewriteRule> {
    let mut words = plugin.words();
    if words.len() < 2 {
        for option in &plugin.options {
            words.push(&option.name.text);
            words.extend(option.words());
        }
    } else {
        reader.no_options(plugin);
    }
    reader.or(plugin, rule(&words).map(Some), None)
}

fn rule(words: &[&str]) -> Result<RewriteRule, String> {
    let lower = |it: &&str| it.to_lowercase();
    let (then, words) = match words.first().map(lower).as_deref() {
        Some("continue") => (Then::Continue, &words[1..]),
        Some("stop") => (Then::Stop, &words[1..]),
        _ => (Then::Stop, words),
    };
    let Some((field, words)) = words.split_first() else {
        return Err("the field is missing: name, type, class, ttl or rcode".to_owned());
    };
    let field = field.to_lowercase();
    let rewrite = match field.as_str() {
        "name" => name(words).map(Rewrite::Name),
        "type" => two(words).and_then(|[from, to]| {
            let (from, to) = (record_type(from)?, record_type(to)?);
            Ok(Rewrite::Type { from, to })
        }),
        "class" => two(words).and_then(|[from, to]| {
            let (from, to) = (class(from)?, class(to)?);
            Ok(Rewrite::Class { from, to })
        }),
        "ttl" => ttl(words).map(Rewrite::Ttl),
        "rcode" => rcode(words),
        "answer" => return Err("answer must stand after a name".to_owned()),
        "edns0" => {
            Err("EDNS0 options of queries go to no upstream here: leave the rule out".into())
        }
        "cname" => {
            let why =
                "targets of aliases cannot be replaced here: rewrite the name that is asked for";
            Err(why.to_owned())
        }
        _ => {
            let field = quoted(&field);
            return Err(format!(
                "{field} is not one of name, type, class, ttl, rcode"
            ));
        }
    };
    let rewrite = rewrite.map_err(|why| format!("{field}: {why}"))?;
    Ok(RewriteRule { rewrite, then })
}

fn two<'a>(words: &[&'a str]) -> Result<[&'a str; 2], String> {
    let two = words.try_into();
    two.map_err(|_| "exactly two arguments are needed".to_owned())
}

/// A name as CoreDNS normalises it: lower case, with a dot at its end.
fn normal(word: &str) -> String {
    let mut name = word.to_lowercase();
    if !name.ends_with('.') {
        name.push('.');
    }
    name
}

/// Which names, by a kind of match and its argument.
fn name_match(kind: &str, word: &str) -> Result<NameMatch, String> {
    Ok(match kind.to_lowercase().as_str() {
        "exact" => NameMatch::Exact(normal(word)),
        "prefix" => NameMatch::Prefix(normal(word)),
        "suffix" => NameMatch::Suffix(normal(word)),
        "substring" => NameMatch::Substring(normal(word)),
        "regex" => NameMatch::Regex(pattern(word)?),
        other => {
            let other = quoted(other);
            return Err(format!(
                "{other} is not one of exact, prefix, suffix, substring, regex"
            ));
        }
    })
}

/// `[exact|prefix|suffix|substring|regex] FROM TO [answer ...]`
fn name(words: &[&str]) -> Result<NameRewrite, String> {
    let (kind, from, to, answers) = match words {
        [from, to] => ("exact", *from, *to, words),
        [kind, from, to, answers @ ..] => (*kind, *from, *to, answers),
        _ => return Err("a name and its replacement are needed".to_owned()),
    };
    let answers = if words.len() == 2 { &[] } else { answers };
    let name = name_match(kind, from)?;
    if let NameMatch::Regex(from) = &name {
        groups(from, to)?;
    }
    let mut answer = answer(answers)?;
    answer.auto |= matches!(name, NameMatch::Exact(_));
    Ok(NameRewrite {
        name,
        to: normal(to),
        answer,
    })
}

/// `answer auto`, `answer name FROM TO`, `answer value FROM TO`. The word `answer` may be left out from the
/// second rule on.
fn answer(mut words: &[&str]) -> Result<AnswerRewrite, String> {
    let mut answer = AnswerRewrite::default();
    let mut first = true;
    while let [word, rest @ ..] = words {
        words = match *word {
            "answer" => rest,
            word if first => return Err(format!("{} is not answer", quoted(word))),
            _ => words,
        };
        first = false;
        match words {
            ["auto", rest @ ..] => {
                answer.auto = true;
                words = rest;
            }
            [kind @ ("name" | "value"), from, to, rest @ ..] => {
                let from = pattern(from)?;
                groups(&from, to)?;
                let to = normal(to);
                answer.rules.push(match *kind {
                    "name" => AnswerRule::Name { from, to },
                    _ => AnswerRule::Value { from, to },
                });
                words = rest;
            }
            [kind @ ("name" | "value"), ..] => {
                return Err(format!(
                    "answer {kind}: a pattern and its replacement are needed"
                ));
            }
            [] => return Err("answer: one of auto, name, value is missing".to_owned()),
            [word, ..] => {
                return Err(format!(
                    "answer: {} is not one of auto, name, value",
                    quoted(word)
                ));
            }
        }
    }
    let names = answer
        .rules
        .iter()
        .any(|it| matches!(it, AnswerRule::Name { .. }));
    if answer.auto && names {
        Err("answer auto and answer name exclude each other".to_owned())
    } else {
        Ok(answer)
    }
}

/// Refuses a replacement with more different groups than the pattern has, as CoreDNS does, or with a group
/// that the pattern does not have.
fn groups(from: &Pattern, to: &str) -> Result<(), String> {
    /// CoreDNS looks for groups up to this one.
    const MOST: usize = 100;
    let has = from.captures_len() - 1;
    let used: Vec<usize> = (0..=MOST)
        .filter(|it| to.contains(&format!("{{{it}}}")))
        .collect();
    if used.len() > has || used.last().is_some_and(|it| *it > has) {
        Err(format!(
            "{} uses more groups than the {has} of {}",
            quoted(to),
            quoted(from.as_str())
        ))
    } else {
        Ok(())
    }
}

/// The words with the kind of match in front, which is `exact` where it is left out.
fn with_kind<'a, const N: usize>(words: &[&'a str]) -> Option<[&'a str; N]> {
    let exact = (words.len() + 1 == N).then_some("exact");
    let words: Vec<&str> = exact.into_iter().chain(words.iter().copied()).collect();
    words.try_into().ok()
}

/// `[exact|prefix|suffix|substring|regex] NAME TTL|MIN-MAX`
fn ttl(words: &[&str]) -> Result<TtlRewrite, String> {
    let [kind, name, ttl] = with_kind(words).ok_or("a name and a TTL are needed")?;
    Ok(TtlRewrite {
        name: name_match(kind, name)?,
        ttl: ttl_range(ttl)?,
    })
}

/// `30`, `30-60`, `30-`, `-60`
fn ttl_range(word: &str) -> Result<RangeInclusive<u32>, String> {
    /// The largest TTL (RFC 2181 section 8).
    const MAX: u32 = i32::MAX as u32;
    let bound = |word: &str, default: u32| match word {
        "" => Ok(default),
        _ => number(word, 0..=u32::MAX),
    };
    let (least, most) = match word.split_once('-') {
        Some(("", "")) => return Err("a range needs an end".to_owned()),
        Some((least, most)) => (bound(least, 0)?, bound(most, MAX)?),
        None => {
            let ttl = number(word, 0..=u32::MAX)?;
            (ttl, ttl)
        }
    };
    if least > most {
        Err(format!("the range {} is empty", quoted(word)))
    } else {
        Ok(least..=most)
    }
}

/// `[exact|prefix|suffix|substring|regex] NAME FROM TO`
fn rcode(words: &[&str]) -> Result<Rewrite, String> {
    let words = with_kind(words).ok_or("a name and two response codes are needed")?;
    let [kind, name, from, to] = words;
    let code = |word: &str| match word.parse::<u16>() {
        Ok(number) if number <= 23 => Ok(ResponseCode::from(
            (number >> 4) as u8,
            (number & 0xf) as u8,
        )),
        _ => response_code(word),
    };
    Ok(Rewrite::Rcode {
        name: name_match(kind, name)?,
        from: code(from)?,
        to: code(to)?,
    })
}
