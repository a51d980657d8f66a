//! The process and its servers.

use super::value::{self, text, to};
use super::{Flag, Heading};
use sluice_config::defaults::{HEALTH_PORT, METRICS_PORT};

const BASE: Flag = Flag {
    heading: Heading::Health,
    ..Flag::NOTHING
};

/// Each with the field it sets.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "healthz-bind-address",
        value: Some("IP:PORT"),
        help: "Address of the health server, empty for none [default: 0.0.0.0:10256]",
        fields: &["healthzBindAddress"],
        set: |c, v| text(&mut c.healthz_bind_address, &value::server(v, HEALTH_PORT)),
        ..BASE
    },
    Flag {
        name: "metrics-bind-address",
        value: Some("IP:PORT"),
        help: "Address of the metrics server, empty for none [default: 127.0.0.1:10249]",
        fields: &["metricsBindAddress"],
        set: |c, v| text(&mut c.metrics_bind_address, &value::server(v, METRICS_PORT)),
        ..BASE
    },
    Flag {
        name: "bind-address-hard-fail",
        help: "End when a server cannot bind its address, instead of trying again",
        fields: &["bindAddressHardFail"],
        set: |c, v| to(&mut c.bind_address_hard_fail, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "profiling",
        help: "Offer profiles on the metrics server",
        fields: &["enableProfiling"],
        set: |c, v| to(&mut c.enable_profiling, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "healthz-port",
        value: Some("PORT"),
        help: "Deprecated: 0 for no health server",
        set: |c, v| value::port(&mut c.healthz_bind_address, v),
        ..BASE
    },
    Flag {
        name: "metrics-port",
        value: Some("PORT"),
        help: "Deprecated: 0 for no metrics server",
        set: |c, v| value::port(&mut c.metrics_bind_address, v),
        ..BASE
    },
    Flag {
        name: "oom-score-adj",
        value: Some("N"),
        help: "How ready the kernel is to end this process when memory is short, -1000 to 1000 [default: -999]",
        fields: &["oomScoreAdj"],
        set: |c, v| to(&mut c.oom_score_adj, value::integer(v).map(Some)),
        ..BASE
    },
];
