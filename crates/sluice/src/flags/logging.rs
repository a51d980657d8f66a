//! Flags of the log.

use super::value::{duration, switch, text, verbosity, vmodule};
use super::{BOOL, Flag, Heading};

const fn flag(name: &'static str, value: &'static str) -> Flag {
    Flag::new(Heading::Logging, name, value)
}

pub(super) const FLAGS: &[Flag] = &[
    flag("v", "LEVEL")
        .short('v')
        .help("How much to log: 0 what changed, 4 details, 6 everything [default: 0]")
        .fields(&["logging.verbosity"])
        .set(|c, v| verbosity(&mut c.logging.verbosity, v)),
    flag("logging-format", "FORMAT")
        .alias("log-format")
        .help("How to log: text or json [default: text]")
        .fields(&["logging.format"])
        .set(|c, v| text(&mut c.logging.format, v)),
    flag("vmodule", "PATTERN=LEVEL,..")
        .help("No effect: levels of kube-proxy's source files")
        .fields(&["logging.vmodule"])
        .set(|c, v| vmodule(&mut c.logging.vmodule, v)),
    flag("log-flush-frequency", "TIME")
        .help("No effect: Sluice logs without a buffer")
        .fields(&["logging.flushFrequency"])
        .set(|c, v| duration(&mut c.logging.flush_frequency, v)),
    flag("log-text-split-stream", BOOL)
        .help("No effect: Sluice logs to stderr")
        .fields(&["logging.options.text.splitStream"])
        .set(|c, v| switch(&mut c.logging.options.text.split_stream, v)),
    flag("log-text-info-buffer-size", "SIZE")
        .help("No effect: Sluice logs without a buffer")
        .fields(&["logging.options.text.infoBufferSize"])
        .set(|c, v| text(&mut c.logging.options.text.info_buffer_size, v)),
    flag("log-json-split-stream", BOOL)
        .help("No effect: Sluice logs to stderr")
        .fields(&["logging.options.json.splitStream"])
        .set(|c, v| switch(&mut c.logging.options.json.split_stream, v)),
    flag("log-json-info-buffer-size", "SIZE")
        .help("No effect: Sluice logs without a buffer")
        .fields(&["logging.options.json.infoBufferSize"])
        .set(|c, v| text(&mut c.logging.options.json.info_buffer_size, v)),
];
