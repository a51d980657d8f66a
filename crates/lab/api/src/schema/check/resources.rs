//! Quantities of resources: of containers, quotas and limit ranges.

use std::cmp::Ordering;

use serde_json::{Map, Value};
use sluice_controller::{Format, Quantity};

use super::Checker;

/// Where a resource is named: this decides which names are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known {
    Container,
    /// All containers of a pod together.
    Pod,
    Quota,
    /// In a limit range of storage.
    Any,
}

const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// `standardQuotaResources` in `pkg/apis/core/helper/helpers.go`.
const OF_QUOTAS: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

/// Quantities of a limit range: the first must not be more than the second; the third field is wrong otherwise.
const ORDER: [[&str; 3]; 6] = [
    ["min", "max", "min"],
    ["min", "defaultRequest", "defaultRequest"],
    ["defaultRequest", "max", "defaultRequest"],
    ["defaultRequest", "default", "defaultRequest"],
    ["min", "default", "default"],
    ["default", "max", "default"],
];

impl Known {
    /// Why a name is refused; empty for a good one.
    fn problem(self, name: &str) -> &'static str {
        let is_huge = name.starts_with("hugepages-");
        match self {
            Self::Container if !is_huge && !OF_CONTAINERS.contains(&name) => {
                "must be a standard resource for containers"
            }
            Self::Quota
                if !is_huge
                    && !name.starts_with("requests.hugepages-")
                    && !OF_QUOTAS.contains(&name) =>
            {
                "must be a standard resource for quota"
            }
            _ => "",
        }
    }

    /// Whether the quantity of a resource without a domain is a whole number (`integerResources`).
    fn is_counted(self, name: &str) -> bool {
        matches!(self, Self::Quota)
            && OF_QUOTAS.contains(&name)
            && !name.contains(['.', '-'])
            && !OF_CONTAINERS.contains(&name)
    }
}

impl Checker {
    /// Names and quantities of resources (`validateResourceName`, `ValidateResourceQuantityValue`).
    pub(super) fn quantities(&mut self, path: &str, map: &Map<String, Value>, known: Known) {
        for (name, given) in map {
            let Some(quantity) = quantity(given) else {
                continue;
            };
            let field = format!("{path}[{name}]");
            let mut wrong = Format::Qualified.problems(name);
            if !name.contains('/') {
                if !is_standard(name) {
                    wrong.push("must be a standard resource type or fully qualified".into());
                }
                let why = known.problem(name);
                if !why.is_empty() {
                    wrong.push(why.into());
                }
            }
            if wrong.is_empty() && matches!(known, Known::Pod) && !is_of_pods(name) {
                let all = "supported values: \"cpu\", \"hugepages-\", \"memory\"";
                self.push(&field, format!("Unsupported value: {name:?}: {all}"));
            }
            for why in wrong {
                self.push(&field, format!("Invalid value: {name:?}: {why}"));
            }
            for (is_wrong, why) in [
                (quantity.is_negative(), "must be greater than or equal to 0"),
                (
                    !quantity.is_whole() && (name.contains('/') || known.is_counted(name)),
                    "must be an integer",
                ),
            ] {
                if is_wrong {
                    self.push(&field, format!("Invalid value: {given}: {why}"));
                }
            }
        }
    }

    /// Requests and limits of a container or a pod (`ValidateContainerResourceRequirements`, `validatePodResourceRequirements`).
    pub(super) fn resources(&mut self, path: &str, value: &Value, known: Known) {
        for part in ["limits", "requests"] {
            if let Some(map) = value[part].as_object() {
                self.quantities(&format!("{path}.{part}"), map, known);
            }
        }
        for (name, given) in value["requests"].as_object().into_iter().flatten() {
            let is_known = OF_CONTAINERS.contains(&&**name);
            let limit = &value["limits"][name];
            let order = quantity(given).zip(quantity(limit));
            let how = match order.and_then(|(given, limit)| given.partial_cmp(&limit)) {
                None if !is_known && limit.is_null() => {
                    self.push(
                        &format!("{path}.limits"),
                        "Required value: Limit must be set for non overcommitable resources",
                    );
                    continue;
                }
                None | Some(Ordering::Equal) => continue,
                Some(Ordering::Less) if is_known => continue,
                Some(_) if is_known => "less than or equal to",
                Some(_) => "equal to",
            };
            let limit = limit.as_str().unwrap_or_default();
            let why = format!("must be {how} {name} limit of {limit}");
            self.push(
                &format!("{path}.requests"),
                format!("Invalid value: {given}: {why}"),
            );
        }
        let has = |name: &str| {
            ["limits", "requests"]
                .iter()
                .any(|it| !value[it][name].is_null())
        };
        let names = ["limits", "requests"].into_iter();
        let mut names = names.flat_map(|it| value[it].as_object().into_iter().flatten());
        if names.any(|(it, _)| it.starts_with("hugepages-")) && !has("cpu") && !has("memory") {
            self.push(path, "Forbidden: HugePages require cpu or memory");
        }
    }

    /// A limit of a limit range (`ValidateLimitRange`).
    pub(super) fn limits(&mut self, path: &str, limit: &Value) {
        let known = match limit["type"].as_str() {
            Some("Pod" | "Container") => Known::Container,
            _ => Known::Any,
        };
        for part in [
            "max",
            "min",
            "default",
            "defaultRequest",
            "maxLimitRequestRatio",
        ] {
            if let Some(map) = limit[part].as_object() {
                self.quantities(&format!("{path}.{part}"), map, known);
            }
        }
        for [low, high, wrong] in ORDER {
            let names = match (low, high) {
                ("defaultRequest", "default") => ["default request value", "default limit value"],
                _ => [low, high].map(|it| match it {
                    "min" => "min value",
                    "max" => "max value",
                    "default" => "default value",
                    _ => "default request value",
                }),
            };
            for (name, given) in limit[low].as_object().into_iter().flatten() {
                let most = quantity(&limit[high][name]);
                let Some((least, most)) = quantity(given).zip(most).filter(|(a, b)| a > b) else {
                    continue;
                };
                // Kubernetes shows the minimum here.
                let shown = match (low, high) {
                    ("min", "default") => given,
                    _ => &limit[wrong][name],
                };
                let why = format!("{} {least} is greater than {} {most}", names[0], names[1]);
                self.push(
                    &format!("{path}.{wrong}[{name}]"),
                    format!("Invalid value: {shown}: {why}"),
                );
            }
        }
    }
}

/// Whether any list of resources may have the name (`standardResources` in `pkg/apis/core/helper/helpers.go`).
fn is_standard(name: &str) -> bool {
    name.starts_with("hugepages-") || name == "storage" || OF_QUOTAS.contains(&name)
}

/// `supportedPodLevelResources` in `component-helpers/resource/helpers.go`.
fn is_of_pods(name: &str) -> bool {
    name.starts_with("hugepages-") || ["cpu", "memory"].contains(&name)
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}
