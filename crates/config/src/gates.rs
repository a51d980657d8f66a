//! Feature gates.
//!
//! kube-proxy refuses a gate that it does not know. Here one that is not known is a warning: no
//! gate changes what Sluice does, so a wrong name cannot harm, and a list of all gates of
//! Kubernetes would be wrong after the next release.

/// Gates of Kubernetes 1.36 that kube-proxy looks at. What they guard, Sluice does or has no use
/// for.
const KNOWN: [&str; 19] = [
    "AllAlpha",
    "AllBeta",
    "ComponentFlagz",
    "ComponentSLIs",
    "ComponentStatusz",
    "ContextualLogging",
    "InformerResourceVersion",
    "KubeProxyDrainingTerminatingNodes",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
    "MultiCIDRServiceAllocator",
    "NFTablesProxyMode",
    "NativeHistograms",
    "PreferSameTrafficDistribution",
    "ServiceTrafficDistribution",
    "StrictIPCIDRValidation",
    "TopologyAwareHints",
    "WatchListClient",
    "WinDSR",
];

/// Whether kube-proxy of 1.36 looks at this gate.
pub(crate) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}
