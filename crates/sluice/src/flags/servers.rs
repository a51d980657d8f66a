//! Flags of the process and its servers.

use super::value::{self, integer, switch, text};
use super::{BOOL, Flag, Heading};
use sluice_config::defaults::{HEALTH_PORT, METRICS_PORT};

const fn flag(name: &'static str, value: &'static str) -> Flag {
    Flag::new(Heading::Health, name, value)
}

pub(super) const FLAGS: &[Flag] = &[
    flag("healthz-bind-address", "IP:PORT")
        .help("Address of the health server, empty for none [default: 0.0.0.0:10256]")
        .fields(&["healthzBindAddress"])
        .set(|c, v| text(&mut c.healthz_bind_address, &value::server(v, HEALTH_PORT))),
    flag("metrics-bind-address", "IP:PORT")
        .help("Address of the metrics server, empty for none [default: 127.0.0.1:10249]")
        .fields(&["metricsBindAddress"])
        .set(|c, v| text(&mut c.metrics_bind_address, &value::server(v, METRICS_PORT))),
    flag("bind-address-hard-fail", BOOL)
        .help("Exit when a server cannot bind its address, instead of trying again")
        .fields(&["bindAddressHardFail"])
        .set(|c, v| switch(&mut c.bind_address_hard_fail, v)),
    flag("profiling", BOOL)
        .help("Serve profiles on the metrics server")
        .fields(&["enableProfiling"])
        .set(|c, v| switch(&mut c.enable_profiling, v)),
    flag("healthz-port", "PORT")
        .help("Deprecated: use --healthz-bind-address; 0 for no health server")
        .set(|c, v| value::port(&mut c.healthz_bind_address, v)),
    flag("metrics-port", "PORT")
        .help("Deprecated: use --metrics-bind-address; 0 for no metrics server")
        .set(|c, v| value::port(&mut c.metrics_bind_address, v)),
    flag("oom-score-adj", "N")
        .help("oom_score_adj of this process, -1000 (the kernel never kills it for memory) to 1000 [default: -999]")
        .fields(&["oomScoreAdj"])
        .set(|c, v| integer(&mut c.oom_score_adj, v)),
];
