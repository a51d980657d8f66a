//! Packet scenarios: what a data plane must do with packets, the same list for every backend.
//!
//! A [`Scenario`] is data: settings of the proxy, states of the cluster as Kubernetes manifests,
//! and checks such as "`cli-a` connects to `web:80/tcp`, and `web-1` or `web-3` answers".
//! [`run_all`] builds clusters, programs node-a and sends packets. [`run_on_plan`] looks up the same
//! checks in the plan, without packets and privileges.
//!
//! ```text
//! steps ─▶ manifests ─▶ sluice-source ─▶ Planner ─▶ Plan ─▶ Reconciler<B> ─▶ kernel of node-a
//!   │                                                │                            ▲
//!   └▶ checks ─── flows (World) ──▶ Plan::lookup ◀───┘            probes ─────────┘
//! ```
//!
//! A backend's test file is one line: `sluice_scenarios::for_each_scenario!(make);`. Sluice runs on
//! node-a only, so every packet goes through node-a: from its pods, from itself, from the
//! external `client` (whose routes to virtual IPs lead there), and from node-b to its NodePorts.

mod check;
mod drive;
mod flush;
pub mod golden;
pub mod live;
mod manifest;
mod objects;
mod packets;
mod plan;
mod prober;
mod suite;
mod testbed;
mod world;

mod affinity;
mod changes;
mod cluster_ip;
mod conflicts;
mod endpoints;
mod families;
mod load_balancer;
mod masquerade;
mod node_port;
mod policy_external;
mod policy_internal;
mod ports;
mod topology;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use sluice_plan::settings::Settings;

pub use check::{Check, Expect, Seen, Then};
pub use drive::Drive;
pub use objects::wants;
pub use plan::run_on_plan;
pub use suite::{beginning_with, part, part_without, run_all};

use manifest::ServiceYaml;
use sluice_lab::Attach;

/// Steps on a cluster, and what packets must do after them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// `topic::name`, unique; the name of its test.
    pub name: &'static str,
    /// What it shows, in one sentence for a reader who learns Kubernetes Services.
    pub about: &'static str,
    /// Settings of the proxy on node-a.
    pub settings: Settings,
    /// How pods are connected to their nodes.
    pub attach: Attach,
    /// Addresses of node-a beside its own.
    pub node_addresses: Vec<IpAddr>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a scenario.
#[derive(Clone, Debug)]
pub enum Step {
    /// Replaces all objects of the cluster by those of this Kubernetes manifest.
    Apply(String),
    /// Sends packets and compares the results.
    Check(Check),
    /// A client opens a TCP connection in each family of the target; the connection must stay open
    /// through all later steps.
    Hold {
        /// The client.
        from: &'static str,
        /// The target; see [`Check::to`].
        to: &'static str,
    },
    /// The proxy restarts without any memory of its rules, and must change none of them.
    Restart,
}

impl Scenario {
    /// A scenario with kube-proxy's defaults and without steps; [`all`] sets its name.
    fn about(about: &'static str) -> Self {
        Self {
            name: "",
            about,
            settings: Settings::for_node(world::NODE_A),
            attach: Attach::Routed,
            node_addresses: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// Changes the settings of the proxy.
    fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Connects pods through a bridge.
    fn bridged(mut self) -> Self {
        self.attach = Attach::Bridged;
        self
    }

    /// Adds the addresses of `host` to node-a.
    fn node_address(mut self, host: &str) -> Self {
        self.node_addresses.extend(world::addresses(host));
        self
    }

    /// Replaces all objects by the nodes, the ServiceCIDR and these Services with their slices.
    fn apply<const N: usize>(self, services: [ServiceYaml; N]) -> Self {
        self.apply_text(&manifest::cluster(services))
    }

    /// Replaces all objects by those of these manifests.
    fn apply_text(mut self, manifests: &str) -> Self {
        self.steps.push(Step::Apply(manifests.to_owned()));
        self
    }

    fn check(mut self, from: &'static str, to: &'static str, expect: Expect) -> Self {
        self.steps.push(Step::Check(Check { from, to, expect }));
        self
    }

    fn hold(mut self, from: &'static str, to: &'static str) -> Self {
        self.steps.push(Step::Hold { from, to });
        self
    }

    fn restart(mut self) -> Self {
        self.steps.push(Step::Restart);
        self
    }
}

/// Every scenario, by topic.
pub fn all() -> Vec<Scenario> {
    crate::for_each_scenario!(@list all)
}

/// Makes tests that each run many scenarios in one virtual machine, for data planes and protocols
/// that many kernels lack. `make` opens the backend, as for [`run_all`].
///
/// ```text
/// sluice_scenarios::scenarios_in_vm! { make;
///     first_half: "uml", part(0, 2);
///     sctp_6_12: "6.12", beginning_with(&["ports::sctp"]);
/// }
/// ```
///
/// With `SLUICE_SCENARIO=hairpin` only scenarios with `hairpin` in their name run.
#[macro_export]
macro_rules! scenarios_in_vm {
    ($make:ident; $($test:ident: $kernel:literal, $list:ident($($argument:expr),*);)+) => {
        /// Scenarios in a virtual machine.
        mod vm_scenarios {
            $(#[test]
            fn $test() {
                // Without the name of the program.
                let module = module_path!().split_once("::").map_or("", |it| it.1);
                let name = format!("{module}::{}", stringify!($test));
                ::sluice_lab::require_vm!($kernel, &name);
                ::sluice_lab::require_netns!();
                $crate::run_all(&$crate::$list($($argument),*), super::$make);
            })+
        }
    };
}

/// Makes one `#[test]` per topic, which runs all scenarios of the topic: `for_each_scenario!(make)`
/// with a function `make` that opens the backend, as for [`run_all`].
///
/// Scenarios of a topic share clusters. With a cluster and a process of its own, a scenario needs
/// three times as much CPU.
///
/// `SLUICE_SCENARIO=hairpin` runs only those with `hairpin` in their name.
#[macro_export]
macro_rules! for_each_scenario {
    ($make:ident) => {
        $crate::for_each_scenario!(@list tests $make);
    };
    (@list $($how:tt)*) => {
        $crate::for_each_scenario! { @$($how)*;
            cluster_ip {
                spreads_over_every_endpoint spreads_udp through_a_bridge single_endpoint
                external_client hairpin hairpin_alone hairpin_without_node_name
                hairpin_through_a_bridge
                refused_without_slices refused_with_empty_slices undefined_port unallocated
                outside_the_service_cidr without_a_service_cidr two_service_cidrs pods_directly
                large_pool host_network_endpoint endpoint_outside_the_cluster many_services
            }
            masquerade {
                no_client_without_a_detector cluster_cidr only_the_first_cidr_counts
                cidr_of_one_family node_cidr node_cidr_without_a_node bridge interface_prefix
                all_clients all_clients_despite_a_detector hairpin_with_a_detector another_mark
            }
            endpoints {
                not_ready none_ready ready_by_default terminating_beside_ready only_terminating
                terminating_beside_starting only_dying published_though_not_ready
                duplicates_across_slices terminating_duplicate slices_of_both_nodes
                headless_slices headless_service external_name of_another_proxy
            }
            ports {
                two_ports one_number_two_protocols one_node_port_two_protocols
                one_name_two_numbers one_port_without_endpoints ports_on_different_pods
                same_number_on_both_sides sctp sctp_with_everything
            }
            families {
                other_endpoints_per_family ipv6_without_endpoints ipv4_without_endpoints only_ipv4
                only_ipv6 ipv6_first
            }
            node_port {
                from_everywhere through_a_bridge hairpin only_the_primary_address
                addresses_within_a_range range_that_covers_other_machines any_address
                zero_length_range range_of_one_family never_loopback of_another_node
                not_on_the_cluster_ip refused_without_endpoints without_a_node_object
                without_any_address host_network_endpoint two_services
            }
            load_balancer {
                status_address proxy_mode hairpin other_ports refused_without_endpoints
                external_ips external_ip_hairpin address_bound_to_the_node ranges_admit_a_client
                ranges_admit_pods ranges_admit_the_node several_ranges
                ranges_and_the_address_as_source ranges_without_the_node ranges_of_one_family
                range_for_everyone ranges_guard_only_the_load_balancer ranges_without_endpoints
                ranges_of_one_service
                bound_address_without_endpoints
            }
            policy_internal {
                stays_on_the_node dropped_when_all_are_elsewhere refused_when_there_are_none
                dropped_while_the_local_one_starts refused_without_serving_endpoints
                external_traffic_goes_anywhere local_and_remote_fall_back_apart hairpin
                undefined_port connections_survive
            }
            policy_external {
                keeps_the_source keeps_the_source_through_a_bridge cluster_ip_goes_anywhere
                node_goes_anywhere pods_go_anywhere unknown_pods_are_far
                dropped_without_a_local_endpoint refused_without_any_endpoint
                local_terminating_fallback terminating_beside_a_ready_local
                only_terminating_elsewhere both_policies hairpin with_source_ranges
                external_ip_of_a_cluster_ip_service
                node_with_the_address connections_survive
            }
            affinity {
                a_client_stays a_client_stays_with_one_of_twenty added_endpoints_move_no_client
                each_client_its_own forgotten_after_the_timeout another_endpoint_removed
                own_endpoint_removed own_endpoint_not_ready shared_by_all_addresses
                ports_are_independent with_local_policies a_client_may_stay_with_itself
                switched_on_and_off timeout_changed without_endpoints
                refreshed_by_each_connection without_a_local_endpoint
            }
            topology {
                same_zone hints_are_not_locations several_zones node_beats_zone
                node_hints_for_others one_without_hint none_for_us unready_without_hint
                unready_with_our_hint fallback_ignores_hints external_traffic
                local_policy_ignores_hints node_changes_zone
            }
            conflicts {
                the_older_wins else_the_first_by_name a_date_beats_none the_loser_takes_over
                the_later_arrival_may_be_senior external_ip external_ip_cannot_take_a_cluster_ip
                shared_cluster_ip virtual_ip_before_node_port
                virtual_ip_before_local_node_port
            }
            changes {
                pool_grows_and_shrinks every_member_leaves_once endpoint_replaced
                rolling_update_by_conditions large_pool_comes_and_goes service_deleted
                slices_before_the_service type_changed node_port_changed node_port_handed_over
                port_changed target_port_changed cluster_ip_changed addresses_added_later
                source_ranges_changed policies_changed local_endpoint_comes_and_goes
                service_cidr_added node_address_changed connections_survive
                everything_replaced_at_once
                shared_endpoint slice_moves_to_another_service restart restart_then_deleted
                restart_with_affinity
            }
        }
    };
    (@all; $($topic:ident { $($name:ident)* })*) => {
        vec![$($(Scenario {
            name: concat!(stringify!($topic), "::", stringify!($name)),
            ..$topic::$name()
        },)*)*]
    };
    (@tests $make:ident; $($topic:ident { $($name:ident)* })*) => {
        $(#[test]
        fn $topic() {
            ::sluice_lab::require_netns!();
            let scenarios = $crate::beginning_with(&[concat!(stringify!($topic), "::")]);
            $crate::run_all(&scenarios, $make);
        })*
    };
}
