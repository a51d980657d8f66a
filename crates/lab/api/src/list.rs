//! LIST: whole or in pages, of the present or of an earlier version.

use std::ops::Bound;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::answer::Pieces;
use crate::history::{Forgotten, State};
use crate::object::{Key, Object};
use crate::query::{Match, Query};
use crate::resource::Resource;
use crate::status::Status;

/// Bytes that a chunk of the body gathers before it is sent.
const PIECE: usize = 256 * 1024;

/// One page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The version of the list.
    pub revision: u64,
    /// Sorted by namespace and name.
    pub items: Vec<Arc<Object>>,
    /// The continue token of the next page; `None` on the last page.
    pub resume: Option<String>,
    /// The number of objects on later pages; `None` when a selector is given.
    pub remaining: Option<usize>,
}

/// A continue token: the version of the first page and the last key sent.
struct Token {
    /// The version of the first page; `None` when the list goes on with the present version and is
    /// not consistent.
    revision: Option<u64>,
    after: Key,
}

impl Token {
    fn encode(&self) -> String {
        let revision = self.revision.map_or(-1, |it| it as i64);
        let start = format!("{}/{}", self.after.namespace, self.after.name);
        let token = json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start});
        BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let bad = || Status::bad_request("continue key is not valid");
        let token = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
        let token: Value = serde_json::from_slice(&token).map_err(|_| bad())?;
        let start = token["start"].as_str().ok_or_else(bad)?;
        let (namespace, name) = start.split_once('/').ok_or_else(bad)?;
        let revision = token["rv"].as_i64().ok_or_else(bad)?;
        Ok(Self {
            revision: u64::try_from(revision).ok(),
            after: Key::new(namespace, name),
        })
    }
}

/// Selects the objects of a page. A page has at most `most` objects, whatever limit the client asks
/// for.
///
/// The meaning of version, match and limit is the table of "Resource versions" in the API concepts
/// of Kubernetes.
///
/// # Errors
///
/// The parameters contradict each other, or the version is too old or in the future.
pub fn choose(
    state: &State,
    resource: &Resource,
    query: &Query,
    most: Option<usize>,
) -> Result<Page, Status> {
    query.check_list()?;
    let token = query.resume.as_deref().map(Token::decode).transpose()?;
    if token.is_some() && query.version.is_some_and(|it| it != 0) {
        let why = "specifying resource version is not allowed when using continue";
        return Err(Status::bad_request(why));
    }
    let revision = revision(state, query, token.as_ref())?;
    let old = |_: Forgotten| expired(token.as_ref());
    let objects = state.collection(resource).at(revision).map_err(old)?;
    let start = token.map_or(Bound::Unbounded, |it| Bound::Excluded(it.after));
    let matching = objects.range((start, Bound::Unbounded)).map(|(_, it)| it);
    let mut matching = matching.filter(|it| query.filter.matches(it));
    let asked = match (query.limit, query.version) {
        // The watch cache answers for version 0, and it has no pages.
        (0, _) | (_, Some(0)) => usize::MAX,
        (limit, _) => limit,
    };
    let limit = asked.min(most.unwrap_or(usize::MAX));
    let items: Vec<_> = matching.by_ref().take(limit).cloned().collect();
    let left = matching.count();
    let last = items.last().filter(|_| left > 0);
    let resume = last.map(|it| {
        let after = it.key.clone();
        let revision = Some(revision);
        Token { revision, after }.encode()
    });
    Ok(Page {
        revision,
        items,
        resume,
        remaining: (left > 0 && !query.filter.has_selector()).then_some(left),
    })
}

/// The version of the list.
fn revision(state: &State, query: &Query, token: Option<&Token>) -> Result<u64, Status> {
    let current = state.revision;
    if let Some(token) = token {
        return Ok(token.revision.unwrap_or(current));
    }
    let Some(wanted) = query.version.filter(|it| *it != 0) else {
        return Ok(current);
    };
    if wanted > current {
        return Err(Status::too_large_version(wanted, current));
    }
    let exact = match &query.version_match {
        Some(it) => *it == Match::Exact,
        // The rule of clients before resourceVersionMatch existed.
        None => query.limit > 0,
    };
    Ok(if exact { wanted } else { current })
}

/// kube-apiserver's words (`pkg/storage/etcd3/errors.go`).
const INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a \
                            new list without the continue parameter, or use the continue token in this response to \
                            retrieve the remainder of the results. Continuing with the provided token results in an \
                            inconsistent list - objects that were created, modified, or deleted between the time the \
                            first chunk was returned and now may show up in the list.";

fn expired(token: Option<&Token>) -> Status {
    match token {
        Some(token) => {
            let rest = Token {
                revision: None,
                after: token.after.clone(),
            };
            Status::expired(INCONSISTENT).resume_with(rest.encode())
        }
        None => Status::expired("The resourceVersion for the provided list is too old."),
    }
}

impl Page {
    /// The JSON before the first item.
    pub fn head(&self, resource: &Resource) -> String {
        let metadata = self.metadata();
        format!(
            r#"{}"metadata":{metadata},"items":"#,
            resource.opening_of_list()
        )
    }

    /// `ListMeta`.
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.resume {
            metadata["continue"] = token.clone().into();
        }
        if let Some(left) = self.remaining {
            metadata["remainingItemCount"] = left.into();
        }
        metadata
    }

    /// The body as chunks, written while it is sent.
    pub fn body(self, resource: &Arc<Resource>) -> Pieces {
        let resource = resource.clone();
        let mut head = self.head(&resource).into_bytes();
        head.push(b'[');
        let mut items = self.items.into_iter().enumerate();
        let mut piece = Some(head);
        stream::iter(std::iter::from_fn(move || {
            let mut bytes = piece.take()?;
            for (index, item) in items.by_ref() {
                if index > 0 {
                    bytes.push(b',');
                }
                bytes.extend_from_slice(&item.item(&resource));
                if bytes.len() >= PIECE {
                    piece = Some(Vec::with_capacity(PIECE + item.bare.len()));
                    return Some(bytes.into());
                }
            }
            bytes.extend_from_slice(b"]}\n");
            Some(Bytes::from(bytes))
        }))
        .boxed()
    }
}
