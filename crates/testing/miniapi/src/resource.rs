//! The kinds of objects the server keeps.

/// One collection of the Kubernetes API.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    /// Whether clients may write it. Everything else is written by the test.
    pub(crate) writable: bool,
    /// Fields that `fieldSelector` knows beside `metadata.name` and `metadata.namespace`.
    pub(crate) fields: &'static [&'static str],
    /// What an empty object of this kind carries beside `metadata`: bookmarks are such objects.
    pub(crate) blank: &'static str,
}

/// Every collection.
pub(crate) static RESOURCES: [Resource; 8] = [
    Resource {
        fields: &["spec.clusterIP", "spec.type"],
        blank: r#""spec":{},"status":{"loadBalancer":{}}"#,
        ..read_only("", "services", "Service", true)
    },
    Resource {
        blank: r#""spec":{},"status":{}"#,
        fields: &["spec.unschedulable"],
        ..read_only("", "nodes", "Node", false)
    },
    Resource {
        blank: r#""spec":{},"status":{}"#,
        fields: &["status.phase"],
        ..read_only("", "namespaces", "Namespace", false)
    },
    Resource {
        blank: r#""spec":{},"status":{}"#,
        fields: &["spec.nodeName", "status.phase"],
        ..read_only("", "pods", "Pod", true)
    },
    Resource {
        blank: r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null"#,
        fields: &["type", "reason", "involvedObject.name"],
        writable: true,
        ..read_only("", "events", "Event", true)
    },
    Resource {
        blank: r#""addressType":"","endpoints":null,"ports":null"#,
        ..read_only("discovery.k8s.io", "endpointslices", "EndpointSlice", true)
    },
    Resource {
        blank: r#""spec":{},"status":{}"#,
        ..read_only("networking.k8s.io", "servicecidrs", "ServiceCIDR", false)
    },
    Resource {
        blank: r#""eventTime":null,"regarding":{}"#,
        fields: &["type", "reason", "regarding.name"],
        writable: true,
        ..read_only("events.k8s.io", "events", "Event", true)
    },
];

const fn read_only(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
) -> Resource {
    Resource {
        group,
        version: "v1",
        plural,
        kind,
        namespaced,
        writable: false,
        fields: &[],
        blank: "",
    }
}

impl Resource {
    /// Identity among all collections.
    pub(crate) fn id(&self) -> (&'static str, &'static str) {
        (self.group, self.plural)
    }

    /// The `apiVersion` of its objects.
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// As error messages name it: `endpointslices.discovery.k8s.io`.
    pub(crate) fn full_name(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The start of an object's JSON, up to its first own field.
    pub(crate) fn opening(&self, suffix: &str) -> String {
        format!(
            r#"{{"kind":"{}{suffix}","apiVersion":"{}","#,
            self.kind,
            self.api_version()
        )
    }
}

/// The collection that objects of `kind` belong to.
pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|it| it.kind == kind && it.api_version() == api_version)
}

/// The collection of a path.
pub(crate) fn of_path(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES
        .iter()
        .find(|it| it.group == group && it.version == version && it.plural == plural)
}
