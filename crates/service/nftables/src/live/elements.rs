//! Reads the elements of a set with one of several keys.

use std::collections::BTreeMap;

use sluice_netlink::RequestError;
use sluice_netlink::request::uninterrupted;
use sluice_nft::{Connection, DataRef, ElementRef, Kernel, Scope, Set, SetData, SetFlags, Verdict};

use super::words;

/// The data of an element.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// The element is a member of a set.
    None,
    /// The data of an element of a verdict map.
    Verdict(Verdict),
    /// The data of an element of another map.
    Value(Vec<u8>),
}

/// An element that the packet finds.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) data: Data,
    /// Key, data and comment.
    pub(super) text: String,
    pub(super) packets: Option<u64>,
}

/// The elements that these keys find.
pub(super) fn find(
    connection: &mut Connection,
    scope: Scope<'_>,
    set: &Set,
    keys: impl IntoIterator<Item = Vec<u8>>,
) -> Result<BTreeMap<Vec<u8>, Found>, RequestError> {
    let mut found = BTreeMap::new();
    let keys: Vec<Vec<u8>> = keys.into_iter().collect();
    if !set.flags.contains(SetFlags::INTERVAL) {
        connection.find_elements(scope, &set.name, &keys, |it| {
            found.insert(it.key.to_vec(), read(set, &it));
        })?;
        return Ok(found);
    }
    for key in keys {
        let mut element = None;
        uninterrupted(|| {
            connection.find_elements(scope, &set.name, &[&key], |it| {
                element = Some(read(set, &it));
            })
        })?;
        found.extend(element.map(|it| (key, it)));
    }
    Ok(found)
}

fn read(set: &Set, element: &ElementRef<'_>) -> Found {
    let mut text = words::value(set.key_type, element.key);
    let data = match (element.data, set.data) {
        (Some(DataRef::Verdict(it)), _) => {
            text += &format!(" : {}", it);
            Data::Verdict(it.to_owned())
        }
        (Some(DataRef::Value(it)), Some(SetData::Value { type_id, .. })) => {
            text += &format!(" : {}", words::value(type_id, it));
            Data::Value(it.to_vec())
        }
        _ => Data::None,
    };
    if let Some(comment) = element.comment {
        text += &format!(" ({comment})");
    }
    Found {
        data,
        text,
        packets: element.packets,
    }
}
