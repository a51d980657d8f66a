//! Server blocks: their keys, and which blocks exclude each other.

use std::collections::BTreeMap;

use crate::plugins;
use crate::reader::Reader;
use crate::syntax::{self, RawBlock, Token};
use crate::values::{self, quoted};
use crate::{BindTarget, Corefile, Key, Location, Problem, ServerBlock, Sources};

/// Schemes of keys whose servers are not here.
const OTHER_SCHEMES: [&str; 5] = ["tls://", "https://", "https3://", "grpc://", "quic://"];

/// Reads a Corefile. `file` is its path: problems name it, and imports are relative to its folder.
/// `default_port` is the port of keys without one.
///
/// # Errors
/// All problems, by file and line.
pub fn read(
    file: &str,
    text: &str,
    default_port: u16,
    sources: &dyn Sources,
) -> Result<Corefile, Vec<Problem>> {
    let parsed = syntax::parse(file, text, sources).map_err(|problem| vec![problem])?;
    let mut reader = Reader {
        sources,
        problems: Vec::new(),
        notes: parsed.notes,
        files: parsed.files,
    };
    let blocks: Vec<ServerBlock> = parsed
        .blocks
        .iter()
        .map(|raw| block(&mut reader, raw, default_port))
        .collect();
    overlaps(&mut reader, &blocks);
    if blocks.is_empty() {
        let (file, line) = (file.into(), 1);
        reader.problem(&Location { file, line }, "no server block");
    }
    if reader.problems.is_empty() {
        return Ok(Corefile {
            blocks,
            notes: reader.notes,
            files: reader.files,
        });
    }
    reader.problems.sort_by(|a, b| a.place.cmp(&b.place));
    reader.problems.dedup();
    Err(reader.problems)
}

fn block(reader: &mut Reader<'_>, raw: &RawBlock, default_port: u16) -> ServerBlock {
    let mut keys = Vec::new();
    for token in &raw.keys {
        match self::keys(token, default_port) {
            Ok(more) => keys.extend(more),
            Err(why) => reader.problem(&token.place, why),
        }
    }
    let zones = keys.iter().map(|it: &Key| it.zone.clone()).collect();
    ServerBlock {
        place: raw.keys[0].place.clone(),
        plugins: plugins::read(reader, raw, zones),
        keys,
    }
}

/// The keys that one word stands for: a network may have several reverse zones.
fn keys(token: &Token, default_port: u16) -> Result<Vec<Key>, String> {
    let word = token.text.as_str();
    if let Some(scheme) = OTHER_SCHEMES.iter().find(|it| word.starts_with(**it)) {
        return Err(format!(
            "{}: servers with {scheme} are not supported, only DNS over UDP and TCP",
            quoted(word)
        ));
    }
    let (zones, port) = values::key(word.strip_prefix("dns://").unwrap_or(word))?;
    let port = port.unwrap_or(default_port);
    let keys = zones.into_iter().map(|zone| Key { zone, port });
    Ok(keys.collect())
}

/// Refuses a zone that two blocks serve on the same port and address. Without `bind` a block listens on all
/// addresses, so it excludes every other block of the same zone and port.
fn overlaps(reader: &mut Reader<'_>, blocks: &[ServerBlock]) {
    let mut taken: BTreeMap<String, Vec<(Option<&BindTarget>, &Location)>> = BTreeMap::new();
    for block in blocks {
        let targets = match block.plugins.bind.targets.as_slice() {
            [] => vec![None],
            targets => targets.iter().map(Some).collect(),
        };
        for key in &block.keys {
            let others = taken.entry(key.to_string()).or_default();
            for target in &targets {
                let same = |other: Option<&BindTarget>| match (target, other) {
                    (Some(target), Some(other)) => *target == other,
                    _ => true,
                };
                if let Some((_, first)) = others.iter().find(|(other, _)| same(*other)) {
                    let message = format!("cannot serve {key}: it is already defined at {first}");
                    reader.problem(&block.place, message);
                }
                others.push((*target, &block.place));
            }
        }
    }
}
