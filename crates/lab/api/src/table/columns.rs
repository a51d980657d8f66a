//! The columns of each kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{network, node, objects, pod, workload};
use crate::resource::Resource;

/// The columns of a kind, and the function that fills them.
pub(super) struct Kind {
    pub(super) columns: &'static [Column],
    /// The value of each column.
    pub(super) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

pub(super) struct Column {
    name: &'static str,
    /// The values are numbers.
    is_number: bool,
    is_wide: bool,
}

const fn column(name: &'static str) -> Column {
    Column {
        name,
        is_number: false,
        is_wide: false,
    }
}

const fn number(name: &'static str) -> Column {
    Column {
        is_number: true,
        ..column(name)
    }
}

const fn wide(name: &'static str) -> Column {
    Column {
        is_wide: true,
        ..column(name)
    }
}

impl Column {
    pub(super) fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": if self.is_number { "integer" } else { "string" },
            "format": if self.name == "Name" { "name" } else { "" },
            "description": "",
            "priority": i32::from(self.is_wide),
        })
    }
}

macro_rules! kinds {
    ($($kind:literal $cells:path: $($column:expr),*;)*) => {
        fn find(kind: &str) -> Kind {
            match kind {
                $($kind => Kind {
                    columns: const { &[column("Name"), $($column),*] },
                    cells: $cells,
                },)*
                _ => Kind {
                    columns: const { &[column("Name"), column("Age")] },
                    cells: objects::plain,
                },
            }
        }
    };
}

kinds! {
    "Pod" pod::cells: column("Ready"), column("Status"), column("Restarts"), column("Age"),
        wide("IP"), wide("Node"), wide("Nominated Node"), wide("Readiness Gates");
    "Service" network::service: column("Type"), column("Cluster-IP"), column("External-IP"),
        column("Port(s)"), column("Age"), wide("Selector");
    "Node" node::cells: column("Status"), column("Roles"), column("Age"), column("Version"),
        wide("Internal-IP"), wide("External-IP"), wide("OS-Image"), wide("Kernel-Version"),
        wide("Container-Runtime");
    "Namespace" objects::namespace: column("Status"), column("Age");
    "Deployment" workload::deployment: column("Ready"), column("Up-to-date"), column("Available"),
        column("Age"), wide("Containers"), wide("Images"), wide("Selector");
    "ReplicaSet" workload::replica_set: number("Desired"), number("Current"), number("Ready"),
        column("Age"), wide("Containers"), wide("Images"), wide("Selector");
    "StatefulSet" workload::stateful_set: column("Ready"), column("Age"), wide("Containers"),
        wide("Images");
    "DaemonSet" workload::daemon_set: number("Desired"), number("Current"), number("Ready"),
        number("Up-to-date"), number("Available"), column("Node Selector"), column("Age"),
        wide("Containers"), wide("Images"), wide("Selector");
    "ControllerRevision" workload::revision: column("Controller"), number("Revision"),
        column("Age");
    "Endpoints" network::endpoints: column("Endpoints"), column("Age");
    "EndpointSlice" network::slice: column("AddressType"), column("Ports"), column("Endpoints"),
        column("Age");
    "ServiceCIDR" network::cidr: column("CIDRs"), column("Age");
    "IPAddress" network::address: column("ParentRef"), column("Age");
    "ConfigMap" objects::config_map: number("Data"), column("Age");
    "Secret" objects::secret: column("Type"), number("Data"), column("Age");
    "ServiceAccount" objects::service_account: number("Secrets"), column("Age");
}

/// The first column of Events is their time, not their name.
const EVENT: Kind = Kind {
    columns: &[
        column("Last Seen"),
        column("Type"),
        column("Reason"),
        column("Object"),
        wide("Subobject"),
        wide("Source"),
        column("Message"),
        wide("First Seen"),
        wide("Count"),
        Column {
            is_wide: true,
            ..column("Name")
        },
    ],
    cells: objects::event,
};

impl Kind {
    pub(super) fn of(resource: &Resource) -> Self {
        match &*resource.kind {
            "Event" => EVENT,
            kind => find(kind),
        }
    }
}
