//! Objects as text: what `iptables-restore --noflush` and `ip6tables-restore --noflush` load into a
//! kernel that has none of them.

use std::fmt::Write;

use sluice_model::IpFamily;
use sluice_reconcile::Delta;

use crate::object::{Key, Object};
use crate::script::{Present, scripts};

/// The input of both programs, each part under a comment with the program.
pub fn ruleset(objects: &[(Key, Object)]) -> String {
    let mut text = String::new();
    for (family, part) in script(objects) {
        let program = match family {
            IpFamily::V4 => "iptables-restore",
            IpFamily::V6 => "ip6tables-restore",
        };
        writeln!(text, "# {family}: {program} --noflush\n{part}").expect("a String takes all text");
    }
    text
}

/// The scripts by family, IPv4 first.
pub fn script(objects: &[(Key, Object)]) -> Vec<(IpFamily, String)> {
    let delta = Delta {
        add: objects.to_vec(),
        ..Delta::default()
    };
    let present = Present::default();
    let scripts = scripts(&delta, &present, usize::MAX).into_iter();
    scripts.map(|(family, it)| (family, it.text())).collect()
}
