//! Pods.

use std::sync::LazyLock;

use crate::api::{self, Identity};
use crate::convert::{self, Converted, Interner};
use crate::kind::Kind;
use crate::manifest::Fields;

/// Containers and volumes are not for DNS, so only the fields beside them are checked.
static FIELDS: LazyLock<Fields> = LazyLock::new(|| {
    Fields::of(
        "
: apiVersion kind metadata spec status
spec: activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks ephemeralContainers evictionResponders hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef
spec.dnsConfig: nameservers options searches
spec.dnsConfig.options[]: name value
status: allocatedResources conditions containerStatuses ephemeralContainerStatuses extendedResourceClaimStatus hostIP hostIPs initContainerStatuses message nodeAllocatableResourceClaimStatuses nominatedNodeName observedGeneration phase podIP podIPs qosClass reason resize resourceClaimStatuses resources startTime volumeHealth
status.podIPs[]: ip",
    )
});

impl Kind for api::Pod {
    type Model = sluice_model::Pod;
    const VERSIONS: &'static [&'static str] = &["v1"];
    const PATH: &'static str = "/api/v1/pods";
    const OBJECTS: &'static str = "Pods";

    fn identity(&self) -> Identity<'_> {
        self.metadata.identity()
    }

    fn convert(&self, names: &mut Interner) -> Converted<Self::Model> {
        convert::pod(self, names)
    }

    fn fields() -> Option<&'static Fields> {
        Some(&FIELDS)
    }
}
