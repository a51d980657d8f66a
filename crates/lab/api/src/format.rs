//! The form of objects in an answer: header `Accept`.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::resource::Resource;
use crate::status::Status;
use crate::table;

/// The form of the objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The objects themselves.
    Plain,
    /// A `Table` of `meta.k8s.io/v1`, whose cells kubectl prints as they are.
    Table(Include),
    /// A table without the definitions of its columns: every one of a watch but the first.
    Rows(Include),
    /// `PartialObjectMetadata` of `meta.k8s.io/v1`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

/// Parameter `includeObject`: the part of the object that each row of a table carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

impl Format {
    /// The form that the client prefers of those that are served
    /// (`k8s.io/apiserver/pkg/endpoints/handlers/negotiation`).
    ///
    /// # Errors
    ///
    /// 406: none is served.
    pub fn of(accept: Option<&str>, include: Include) -> Result<Self, Status> {
        let first = clauses(accept, include).next();
        let all = "application/json, application/yaml";
        Ok(first.ok_or_else(|| only(all))?.0)
    }

    /// As [`of`](Self::of), for one object.
    ///
    /// # Errors
    ///
    /// 406: none is served, or the object would have to be a list.
    pub(crate) fn of_object(
        accept: Option<&str>,
        include: Include,
        resource: &Resource,
    ) -> Result<Self, Status> {
        match Self::of(accept, include)? {
            Self::MetadataList => Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                resource.kind
            ))),
            other => Ok(other),
        }
    }

    /// As [`of`](Self::of), for a list.
    ///
    /// # Errors
    ///
    /// 406: none is served, or the list would have to be one object.
    pub(crate) fn of_list(
        accept: Option<&str>,
        include: Include,
        resource: &Resource,
    ) -> Result<Self, Status> {
        match Self::of(accept, include)? {
            Self::Metadata => Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({}List)",
                resource.kind
            ))),
            other => Ok(other),
        }
    }

    /// As [`of`](Self::of), for a watch, which is JSON only and has no lists.
    ///
    /// # Errors
    ///
    /// 406.
    pub(crate) fn of_watch(accept: Option<&str>, include: Include) -> Result<Self, Status> {
        let mut clauses = clauses(accept, include).filter(|it| it.1 == Encoding::Json);
        match clauses.next() {
            None => Err(only("application/json;stream=watch")),
            Some((Self::MetadataList, _)) => Ok(Self::Plain),
            Some((format, _)) => Ok(format),
        }
    }

    /// The form of later events of a watch.
    pub(crate) fn later(self) -> Self {
        match self {
            Self::Table(include) => Self::Rows(include),
            other => other,
        }
    }

    /// An object in this form, or what stands for it in a list of this form.
    pub(crate) fn object(self, resource: &Resource, object: &Arc<Value>) -> Arc<Value> {
        match self {
            Self::Plain => resource.show(object.clone()),
            Self::Metadata | Self::MetadataList => metadata(object).into(),
            Self::Table(include) => table::of_object(resource, object, include).into(),
            Self::Rows(include) => {
                let mut table = table::of_object(resource, object, include);
                table["columnDefinitions"] = Value::Null;
                table.into()
            }
        }
    }
}

fn only(accepted: &str) -> Status {
    let message = format!("only the following media types are accepted: {accepted}");
    Status::not_acceptable(message)
}

/// The `PartialObjectMetadata` of an object.
pub(crate) fn metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

impl Encoding {
    /// How the client wants an answer, whatever its form.
    pub(crate) fn of(accept: Option<&str>) -> Self {
        let first = clauses(accept, Include::None).next();
        first.map_or(Self::Json, |it| it.1)
    }
}

impl Include {
    /// Reads the parameter; an unknown value means the default.
    pub fn of(parameter: Option<&str>) -> Self {
        match parameter {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// The clauses of the header that can be served, the preferred first: by `q`, then in their order.
fn clauses(accept: Option<&str>, include: Include) -> impl Iterator<Item = (Format, Encoding)> {
    let accept = accept.filter(|it| !it.trim().is_empty()).unwrap_or("*/*");
    let mut clauses: Vec<_> = accept.split(',').map(clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    let served: Vec<_> = clauses.iter().filter_map(|it| it.served(include)).collect();
    served.into_iter()
}

/// `application/json;as=Table;g=meta.k8s.io;v=v1;q=0.5`.
#[derive(Default)]
struct Clause<'a> {
    media_type: &'a str,
    kind: &'a str,
    group: &'a str,
    version: &'a str,
    stream: &'a str,
    quality: f64,
}

fn clause(text: &str) -> Clause<'_> {
    let mut parts = text.split(';').map(str::trim);
    let mut clause = Clause {
        media_type: parts.next().unwrap_or_default(),
        quality: 1.0,
        ..Clause::default()
    };
    for (name, value) in parts.filter_map(|it| it.split_once('=')) {
        match name {
            "as" => clause.kind = value,
            "g" => clause.group = value,
            "v" => clause.version = value,
            "stream" => clause.stream = value,
            "q" => clause.quality = value.parse().unwrap_or(1.0),
            _ => {}
        }
    }
    clause
}

impl Clause<'_> {
    fn served(&self, include: Include) -> Option<(Format, Encoding)> {
        let encoding = match self.media_type {
            "*/*" | "application/*" | "application/json" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            _ => return None,
        };
        if !["", "watch"].contains(&self.stream) {
            return None;
        }
        let format = match (self.group, self.version, self.kind) {
            ("", "", "") => Format::Plain,
            ("meta.k8s.io", "v1", "Table") => Format::Table(include),
            ("meta.k8s.io", "v1", "PartialObjectMetadata") => Format::Metadata,
            ("meta.k8s.io", "v1", "PartialObjectMetadataList") => Format::MetadataList,
            _ => return None,
        };
        Some((format, encoding))
    }
}

#[cfg(test)]
mod tests;
