//! The rules of each data plane as text, whole or object by object.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_config::Mode;
use sluice_iptables::{Accounting, Conntrack};
use sluice_nftables::Counting;
use sluice_plan::Plan;

/// One object of the rules.
#[derive(Debug, Serialize)]
pub(super) struct Rendered {
    /// Its identity, as a person would name it.
    key: String,
    /// Which Service it is for; empty when it is for all, or when the text says it.
    comment: String,
    /// As the program reads it that would load it.
    text: String,
}

/// What a first sync would write.
pub(super) enum Rules {
    Nftables(BTreeMap<sluice_nftables::Key, sluice_nftables::Object>),
    Iptables(Vec<(sluice_iptables::Key, sluice_iptables::Object)>),
    Ipvs(BTreeMap<sluice_ipvs::Key, sluice_ipvs::Object>),
}

impl Rules {
    /// The rules of a plan; `None` in a mode without a data plane.
    pub(super) fn of(mode: Mode, plan: &Plan, counting: Counting, scheduler: &str) -> Option<Self> {
        Some(match mode {
            Mode::Nftables => Self::Nftables(sluice_nftables::render_plan(plan, counting)),
            Mode::Iptables => {
                let (conntrack, accounting) = (Conntrack::default(), Accounting::default());
                Self::Iptables(sluice_iptables::render_plan(plan, conntrack, accounting))
            }
            Mode::Ipvs => Self::Ipvs(sluice_ipvs::render_plan(plan, scheduler)),
            Mode::Ebpf => return None,
        })
    }

    /// What `nft -f` loads; or, in sections that name their program, what `iptables-restore`,
    /// `ipset restore` and `ipvsadm -R` load.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Nftables(objects) => sluice_nftables::text::ruleset(objects),
            Self::Iptables(objects) => sluice_iptables::text::ruleset(objects),
            Self::Ipvs(objects) => sluice_ipvs::text::data_plane(objects),
        }
    }

    /// Each object on its own.
    pub(super) fn objects(&self) -> Vec<Rendered> {
        match self {
            Self::Nftables(objects) => objects.iter().map(nftables).collect(),
            Self::Iptables(objects) => objects.iter().map(iptables).collect(),
            Self::Ipvs(objects) => objects.iter().map(ipvs).collect(),
        }
    }
}

fn nftables((key, object): (&sluice_nftables::Key, &sluice_nftables::Object)) -> Rendered {
    use sluice_nftables::{Object, text};
    let comment = match object {
        Object::Element(it) => it.comment.as_deref(),
        Object::Chain(it) => Some(&*it.comment),
        Object::Sticky(it) => Some(&*it.comment),
        Object::Table | Object::Set(_) | Object::Foreign => None,
    };
    Rendered {
        key: key.to_string(),
        comment: comment.unwrap_or_default().to_owned(),
        text: text::object(key, object),
    }
}

fn iptables((key, object): &(sluice_iptables::Key, sluice_iptables::Object)) -> Rendered {
    use sluice_iptables::{Key, Object};
    let chain = &key.place().chain;
    let text = match (key, object) {
        (Key::Rule(_, rule), _) => format!("-A {chain} {rule}"),
        (_, Object::Present) => format!(":{chain} - [0:0]"),
        (_, Object::Rules(rules)) => {
            let lines = rules.iter().map(|rule| format!("-A {chain} {rule}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    Rendered {
        key: key.to_string(),
        comment: String::new(),
        text,
    }
}

fn ipvs((key, object): (&sluice_ipvs::Key, &sluice_ipvs::Object)) -> Rendered {
    let alone = BTreeMap::from([(key.clone(), object.clone())]);
    let text = sluice_ipvs::text::data_plane(&alone);
    // The first line names the program.
    let text = text.split_once('\n').map_or("", |(_, text)| text);
    Rendered {
        key: key.to_string(),
        comment: String::new(),
        text: text.trim_end().to_owned(),
    }
}
