//! EndpointSlices.

use std::sync::LazyLock;

use crate::api::{self, Identity};
use crate::convert::{self, Converted, Fault, Interner, Step};
use crate::kind::Kind;
use crate::manifest::{Fields, Form, name_ports, ports_without_number};

use Step::Field;

static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: addressType apiVersion endpoints kind metadata ports
endpoints[]: addresses conditions deprecatedTopology hints hostname nodeName targetRef zone
endpoints[].conditions: ready serving terminating
endpoints[].hints: forNodes forZones
endpoints[].hints.forNodes[]: name
endpoints[].hints.forZones[]: name
endpoints[].targetRef: apiVersion fieldPath kind name namespace resourceVersion uid
ports[]: appProtocol name port protocol",
    )
});

impl Kind for api::EndpointSlice {
    type Model = sluice_model::EndpointSlice;
    const VERSIONS: &'static [&'static str] = &["discovery.k8s.io/v1"];
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";
    const OBJECTS: &'static str = "EndpointSlices";
    const ALSO: &'static [Form] = &[Form::ENDPOINTS];

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        convert::endpoint_slice(self, names)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }

    /// `pkg/apis/discovery/v1/defaults.go`: a name, and a protocol that the conversion knows.
    fn set_defaults(&mut self) {
        name_ports(&mut self.ports);
    }

    fn advice(&self) -> Vec<Fault> {
        let mut found = ports_without_number(&[Field("ports")], &self.ports);
        let service = self.metadata.labels.service_name.as_deref();
        if service.unwrap_or_default().is_empty() {
            let why = "the label kubernetes.io/service-name is missing, so no Service has these \
                       endpoints: write the name of the Service";
            found.push(Fault::at([Field("metadata"), Field("labels")], why));
        }
        found
    }
}
