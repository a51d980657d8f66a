//! `acl`.

use ipnet::IpNet;

use crate::reader::{Fault, Reader, Scope};
use crate::syntax::Directive;
use crate::values::{self, quoted};
use crate::{AclAction, AclRule};

const ACTIONS: [(&str, AclAction); 4] = [
    ("allow", AclAction::Allow),
    ("block", AclAction::Block),
    ("filter", AclAction::Filter),
    ("drop", AclAction::Drop),
];

/// `acl [ZONES...] { ACTION [type TYPE...] [net SOURCE...] [file FILE...] }`
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive, scope: &Scope) -> Vec<AclRule> {
    let zones = reader.zones(plugin, &plugin.args, scope);
    let mut rules = Vec::new();
    reader.options(plugin, &ACTIONS.map(|(name, _)| name), |reader, option| {
        let name = option.name.text.to_lowercase();
        let action = ACTIONS
            .iter()
            .find(|(it, _)| *it == name)
            .ok_or(Fault::Unknown)?;
        let mut rule = AclRule {
            zones: zones.clone(),
            action: action.1,
            types: Vec::new(),
            networks: Vec::new(),
        };
        sections(reader, option, scope, &mut rule)?;
        rules.push(rule);
        Ok(())
    });
    rules
}

/// The sections of a rule: a word that says which, and its values. `*` in a section is every value.
fn sections(
    reader: &mut Reader<'_>,
    option: &Directive,
    scope: &Scope,
    rule: &mut AclRule,
) -> Result<(), String> {
    let is_section = |word: &str| matches!(word, "type" | "net" | "file");
    let words = option.words();
    let (mut every_type, mut every_client, mut rest) = (false, false, &*words);
    while let [section, after @ ..] = rest {
        let section = section.to_lowercase();
        let end = after.iter().position(|it| is_section(&it.to_lowercase()));
        let (values, next) = after.split_at(end.unwrap_or(after.len()));
        if !is_section(&section) {
            return Err(format!(
                "{} is not one of type, net, file",
                quoted(&section)
            ));
        }
        if values.is_empty() {
            return Err(format!("{section}: an argument is missing"));
        }
        let star = values.contains(&"*");
        match section.as_str() {
            "type" if star => every_type = true,
            "net" if star => every_client = true,
            "type" => {
                let types = values.iter().map(|it| values::record_type(it));
                rule.types.extend(types.collect::<Result<Vec<_>, _>>()?);
            }
            "net" => rule.networks.extend(networks(values)?),
            _ => {
                for file in values {
                    let text = reader.read(&scope.path(file))?;
                    let lines = text
                        .lines()
                        .map(|it| it.split('#').next().unwrap_or_default().trim());
                    let lines: Vec<&str> = lines.filter(|it| !it.is_empty()).collect();
                    every_client |= lines.contains(&"*");
                    rule.networks.extend(networks(&lines)?);
                }
            }
        }
        rest = next;
    }
    if every_type {
        rule.types.clear();
    }
    if every_client {
        rule.networks.clear();
    }
    Ok(())
}

fn networks(words: &[&str]) -> Result<Vec<IpNet>, String> {
    let named = words.iter().filter(|it| **it != "*");
    named.map(|it| values::network(it)).collect()
}
