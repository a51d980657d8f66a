//! Which form of the objects a client wants: header `Accept`.

use crate::status::Status;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The objects.
    Plain,
    /// A `Table` of `meta.k8s.io/v1`, which kubectl prints as it is.
    Table(Include),
}

/// Parameter `includeObject`: what of the object goes with each row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// `metadata`.
    Metadata,
    /// All of it.
    Object,
}

impl Format {
    /// The first form of `accept` that can be had.
    ///
    /// # Errors
    ///
    /// 406: nothing but JSON can be had.
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
    /// Reads the parameter; anything unknown is the default.
    pub fn of(parameter: Option<&str>) -> Self {
        match parameter {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}
