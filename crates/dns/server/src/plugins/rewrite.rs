//! `rewrite`: alters questions on the way in, responses on the way out.

mod names;
mod response;

use hickory_proto::rr::Name;
use sluice_corefile::{NameMatch, NameRewrite, Rewrite, RewriteRule, Then};
use sluice_upstream::Question as Asked;

use names::{matches, renamed};
pub(crate) use response::Undo;

/// A question as the next plugins see it.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) asked: Asked,
    /// The changes of the response, in their order.
    pub(crate) undo: Vec<Undo>,
}

/// Applies the rules that fit. `None` when there is none.
///
/// # Errors
/// A rule makes a name that is none.
pub(crate) fn rewrite(rules: &[RewriteRule], asked: &Asked) -> Result<Option<Rewritten>, String> {
    let mut rewritten = Rewritten {
        asked: asked.clone(),
        undo: Vec::new(),
    };
    let mut is_changed = false;
    for rule in rules {
        if !apply(&rule.rewrite, &mut rewritten)? {
            continue;
        }
        is_changed = true;
        if rule.then == Then::Stop {
            break;
        }
    }
    // The last change of a name is undone first.
    rewritten.undo.reverse();
    Ok(is_changed.then_some(rewritten))
}

/// Whether the rule fitted.
fn apply(rule: &Rewrite, rewritten: &mut Rewritten) -> Result<bool, String> {
    let query = &mut rewritten.asked.query;
    match rule {
        Rewrite::Name(rule) => return apply_name(rule, rewritten),
        Rewrite::Type { from, to } if query.query_type == *from => query.query_type = *to,
        Rewrite::Class { from, to } if query.query_class == *from => query.query_class = *to,
        Rewrite::Ttl(rule) if matches(&rule.name, &text(&query.name)) => {
            rewritten.undo.push(Undo::Ttl(rule.ttl.clone()));
        }
        Rewrite::Rcode { name, from, to } if matches(name, &text(&query.name)) => {
            let (from, to) = (*from, *to);
            rewritten.undo.push(Undo::Code { from, to });
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn apply_name(rule: &NameRewrite, rewritten: &mut Rewritten) -> Result<bool, String> {
    let query = &mut rewritten.asked.query;
    let Some(new) = renamed(rule, &text(&query.name)) else {
        return Ok(false);
    };
    let new = absolute(&new)?;
    let original = std::mem::replace(&mut query.name, new.clone());
    // In the order in which `undo` is reversed: the rules of the answer come after `auto`.
    if !rule.answer.rules.is_empty() {
        rewritten.undo.push(Undo::Rules(rule.answer.rules.clone()));
    }
    if rule.answer.auto {
        rewritten.undo.push(match &rule.name {
            NameMatch::Suffix(old) => Undo::Suffix {
                from: rule.to.clone(),
                to: old.clone(),
            },
            _ => Undo::Below {
                from: new,
                to: original,
            },
        });
    }
    Ok(true)
}

/// A name as rules see it: lower case, fully qualified.
fn text(name: &Name) -> String {
    name.to_lowercase().to_ascii()
}

fn absolute(text: &str) -> Result<Name, String> {
    let name = Name::from_ascii(text);
    let mut name = name.map_err(|error| format!("rewrite to {text:?}: {error}"))?;
    name.set_fqdn(true);
    Ok(name)
}
