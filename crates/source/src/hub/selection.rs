//! Which objects of a kind are wanted.

use std::sync::Arc;

use sluice_model::{NamespacedName, Selector};

use crate::known::Known;
use crate::manifest::Form;
use crate::object::Object;

/// Which objects of a kind are wanted; by default all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only objects with these labels.
    pub labels: Selector,
    /// Only objects with these fields.
    pub fields: Vec<FieldTest>,
    /// The field conditions only save work: a server that does not know a field (status 400) is asked without them.
    pub are_fields_optional: bool,
    /// Only objects in these namespaces; empty: in all. The server sends only one namespace or all, so with several
    /// the objects of all others are read and dropped.
    pub namespaces: Vec<Arc<str>>,
    /// Only objects of these names; empty: all. Objects with other names are read and dropped.
    pub names: Vec<Arc<str>>,
    /// Every cluster has such an object, so an empty list is not believed at once even at the start.
    pub is_never_empty: bool,
}

/// A condition on a field of an object, as in a `fieldSelector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTest {
    /// The path: `spec.nodeName`.
    pub path: &'static str,
    /// Whether the field has the value, or has not.
    pub is_equal: bool,
    pub value: Arc<str>,
}

impl FieldTest {
    /// The field has this value.
    pub fn equal(path: &'static str, value: impl Into<Arc<str>>) -> Self {
        Self {
            path,
            is_equal: true,
            value: value.into(),
        }
    }

    /// The field has another value, or none.
    pub fn unequal(path: &'static str, value: impl Into<Arc<str>>) -> Self {
        Self {
            is_equal: false,
            ..Self::equal(path, value)
        }
    }
}

impl Selection {
    /// The Pods that have not ended, of one node or of all.
    #[must_use]
    pub fn of_pods(node: Option<&Arc<str>>) -> Self {
        let of_node = node.map(|it| FieldTest::equal("spec.nodeName", it.clone()));
        let live = ["Succeeded", "Failed"].map(|it| FieldTest::unequal("status.phase", it));
        Self {
            fields: of_node.into_iter().chain(live).collect(),
            ..Self::default()
        }
    }

    /// `labelSelector` of a request.
    pub(crate) fn label_selector(&self) -> Option<String> {
        (!self.labels.is_empty()).then(|| self.labels.as_str().to_owned())
    }

    /// `fieldSelector` of a request.
    pub(crate) fn field_selector(&self) -> Option<String> {
        let test = |it: &FieldTest| {
            let FieldTest { path, value, .. } = it;
            let operator = if it.is_equal { "=" } else { "!=" };
            format!("{path}{operator}{value}")
        };
        let mut tests: Vec<String> = self.fields.iter().map(test).collect();
        if let [one] = &*self.names {
            tests.push(format!("metadata.name={one}"));
        }
        (!tests.is_empty()).then(|| tests.join(","))
    }

    /// Where the objects of a kind are listed: all, or those of the one namespace.
    pub(crate) fn path(&self, kind: &Known) -> String {
        let Known {
            version, plural, ..
        } = kind;
        let root = if version.contains('/') { "apis" } else { "api" };
        match &*self.namespaces {
            [namespace] => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
            _ => format!("/{root}/{version}/{plural}"),
        }
    }

    /// Whether an object counts that the server has sent.
    pub(crate) fn has_name(&self, name: &NamespacedName) -> bool {
        let is_among = |wanted: &[Arc<str>], it| wanted.is_empty() || wanted.contains(it);
        is_among(&self.namespaces, &name.namespace) && is_among(&self.names, &name.name)
    }

    /// Drops the field conditions if they are optional. Returns whether there is one condition less now.
    pub(crate) fn drop_fields(&mut self) -> bool {
        self.are_fields_optional && !std::mem::take(&mut self.fields).is_empty()
    }

    /// Whether an object of a manifest is wanted, as far as its model can say.
    pub(crate) fn has(&self, object: &Object) -> bool {
        let is_field = |it: &FieldTest| {
            let field = object.field(it.path);
            field.is_none_or(|field| (field == &*it.value) == it.is_equal)
        };
        self.has_name(&object.reference().name)
            && self.fields.iter().all(is_field)
            && (object.labels()).is_none_or(|it| self.labels.selects(|key| it.get(key)))
    }

    /// Whether the selection may leave out objects of a manifest.
    pub(crate) fn is_narrow(&self) -> bool {
        !(self.labels.is_empty()
            && self.fields.is_empty()
            && self.namespaces.is_empty()
            && self.names.is_empty())
    }
}

/// A kind and a selection of its objects.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) known: &'static Known,
    pub(crate) selection: Selection,
}

impl PartialEq for Topic {
    fn eq(&self, other: &Self) -> bool {
        self.known.form.kind() == other.known.form.kind() && self.selection == other.selection
    }
}

/// All topics that some consumer wants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Topics(pub(crate) Vec<Topic>);

impl Topics {
    /// The forms of the kinds in manifests.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &'static Form> {
        self.0.iter().flat_map(|it| it.known.forms())
    }

    /// The names of the kinds.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|it| it.known.form.kind())
    }

    /// Whether a topic has the object.
    pub(crate) fn select(&self, object: &Object) -> bool {
        let kind = object.kind().name;
        let mut own = self.0.iter().filter(|it| it.known.form.kind() == kind);
        own.any(|it| it.selection.has(object))
    }
}
