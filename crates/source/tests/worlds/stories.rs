//! Changes of objects, and the state that a source must derive.

use serde_json::{Value, json};

use crate::support::{
    cidr_object, namespace_object, node_object, pod_object, service_object, slice_object,
};
use crate::worlds::world::World;

/// One change.
pub(crate) struct Step {
    action: Action,
    /// The objects after the change.
    pub(crate) objects: &'static str,
    /// The number of origins with problems after the change.
    pub(crate) problems: usize,
    /// The keys of the Delete events of the change.
    pub(crate) deleted: &'static [&'static str],
}

enum Action {
    Put(fn() -> Value),
    Delete(fn() -> Value),
}

impl Step {
    pub(crate) fn done_to(&self, world: &mut impl World) {
        match self.action {
            Action::Put(object) => world.put(&object()),
            Action::Delete(object) => world.delete(&object()),
        }
    }
}

const fn put(object: fn() -> Value, objects: &'static str) -> Step {
    Step {
        action: Action::Put(object),
        objects,
        problems: 0,
        deleted: &[],
    }
}

const fn bad(object: fn() -> Value, objects: &'static str) -> Step {
    Step {
        problems: 1,
        ..put(object, objects)
    }
}

const fn delete(
    object: fn() -> Value,
    objects: &'static str,
    deleted: &'static [&'static str],
) -> Step {
    Step {
        action: Action::Delete(object),
        objects,
        problems: 0,
        deleted,
    }
}

/// An object with one field changed.
fn with(mut object: Value, path: &str, value: Value) -> Value {
    *object.pointer_mut(path).expect("the field is there") = value;
    object
}

const BASE: &str = "Node n1; Service default/kubernetes:443";
const WEB: &str = "Node n1; Service default/kubernetes:443; Service default/web:80";

/// Name and steps.
pub(crate) const STORIES: &[(&str, &[Step])] = &[
    (
        "a Service comes, changes and goes",
        &[
            put(|| service_object("web", 80), WEB),
            put(
                || service_object("web", 81),
                "Node n1; Service default/kubernetes:443; Service default/web:81",
            ),
            delete(|| service_object("web", 81), BASE, &["Service default/web"]),
        ],
    ),
    (
        "one of each kind",
        &[
            put(
                || service_object("shop/web", 80),
                "Node n1; Service default/kubernetes:443; Service shop/web:80",
            ),
            put(
                || slice_object("shop/web-1", "web", "10.1.0.1"),
                "EndpointSlice shop/web-1 10.1.0.1; Node n1; Service default/kubernetes:443; Service shop/web:80",
            ),
            put(
                || cidr_object("kubernetes", "10.96.0.0/12"),
                "EndpointSlice shop/web-1 10.1.0.1; Node n1; Service default/kubernetes:443; Service shop/web:80; ServiceCIDR kubernetes",
            ),
            put(
                || slice_object("shop/web-1", "web", "10.1.0.2"),
                "EndpointSlice shop/web-1 10.1.0.2; Node n1; Service default/kubernetes:443; Service shop/web:80; ServiceCIDR kubernetes",
            ),
            delete(
                || slice_object("shop/web-1", "web", "10.1.0.2"),
                "Node n1; Service default/kubernetes:443; Service shop/web:80; ServiceCIDR kubernetes",
                &["EndpointSlice shop/web-1"],
            ),
        ],
    ),
    (
        "an object that cannot be used keeps its last good version",
        &[
            put(|| service_object("web", 80), WEB),
            bad(
                || {
                    with(
                        service_object("web", 81),
                        "/spec/clusterIP",
                        json!("10.96.0"),
                    )
                },
                WEB,
            ),
            bad(
                || with(service_object("web", 81), "/spec/ports", json!("all")),
                WEB,
            ),
            bad(
                || {
                    with(
                        service_object("web", 81),
                        "/spec/ports/0/port",
                        json!(70_000),
                    )
                },
                WEB,
            ),
            put(
                || service_object("web", 82),
                "Node n1; Service default/kubernetes:443; Service default/web:82",
            ),
            bad(
                || with(service_object("web", 83), "/spec/ports", json!({})),
                "Node n1; Service default/kubernetes:443; Service default/web:82",
            ),
            delete(|| service_object("web", 83), BASE, &["Service default/web"]),
        ],
    ),
    (
        "an object that was never good is only a problem",
        &[
            bad(
                || with(service_object("web", 81), "/spec/ports", json!("all")),
                BASE,
            ),
            put(|| service_object("web", 80), WEB),
        ],
    ),
    (
        "a Namespace comes and goes",
        &[
            put(
                || namespace_object("shop"),
                "Namespace shop; Node n1; Service default/kubernetes:443",
            ),
            put(
                || {
                    with(
                        namespace_object("shop"),
                        "/status/phase",
                        json!("Terminating"),
                    )
                },
                "Namespace shop; Node n1; Service default/kubernetes:443",
            ),
            delete(|| namespace_object("shop"), BASE, &["Namespace shop"]),
        ],
    ),
    (
        "only the Pods of the node count",
        &[
            put(
                || pod_object("shop/web-0", "n1", "10.1.0.1"),
                "Node n1; Pod shop/web-0; Service default/kubernetes:443",
            ),
            put(
                || pod_object("shop/web-1", "n2", "10.1.0.2"),
                "Node n1; Pod shop/web-0; Service default/kubernetes:443",
            ),
            bad(
                || {
                    with(
                        pod_object("shop/web-0", "n1", "10.1.0.1"),
                        "/spec/dnsPolicy",
                        json!("first"),
                    )
                },
                "Node n1; Pod shop/web-0; Service default/kubernetes:443",
            ),
            put(
                || pod_object("shop/web-0", "n1", "10.1.0.3"),
                "Node n1; Pod shop/web-0; Service default/kubernetes:443",
            ),
            delete(
                || pod_object("shop/web-0", "n1", "10.1.0.3"),
                BASE,
                &["Pod shop/web-0"],
            ),
        ],
    ),
    (
        "the Node changes and goes",
        &[
            put(
                || {
                    with(
                        node_object("n1", "10.0.0.2"),
                        "/status/addresses/0/type",
                        json!("ExternalIP"),
                    )
                },
                BASE,
            ),
            delete(
                || node_object("n1", ""),
                "Service default/kubernetes:443",
                &["Node n1"],
            ),
            put(|| node_object("n1", "10.0.0.3"), BASE),
        ],
    ),
];
