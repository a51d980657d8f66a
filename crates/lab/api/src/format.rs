//! The form of objects in an answer: header `Accept`.

use crate::status::Status;

/// The form of the objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The objects themselves.
    Plain,
    /// A `Table` of `meta.k8s.io/v1`, whose cells kubectl prints as they are.
    Table(Include),
}

/// Parameter `includeObject`: the part of the object that each row of a table carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

impl Format {
    /// The first form of `accept` that is supported.
    ///
    /// # Errors
    ///
    /// 406: only JSON is supported.
    pub fn of(accept: Option<&str>, include: Include) -> Result<Self, Status> {
        let accept = accept.unwrap_or("*/*");
        let found = accept.split(',').find_map(|wanted| {
            let mut parts = wanted.split(';').map(str::trim);
            if !["*/*", "application/*", "application/json"].contains(&parts.next()?) {
                return None;
            }
            match parts.find_map(|it| it.strip_prefix("as=")) {
                None => Some(Self::Plain),
                Some("Table") => Some(Self::Table(include)),
                Some(_) => None,
            }
        });
        found.ok_or_else(Status::not_acceptable)
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
