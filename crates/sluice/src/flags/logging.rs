//! The log.

use super::value::{self, text, to};
use super::{Flag, Heading};

const BASE: Flag = Flag {
    heading: Heading::Logging,
    ..Flag::NOTHING
};

/// Each with the field it sets.
pub(super) const FLAGS: &[Flag] = &[
    Flag {
        name: "v",
        short: Some('v'),
        value: Some("LEVEL"),
        help: "How much to log: 0 what changed, 4 details, 6 everything [default: 0]",
        fields: &["logging.verbosity"],
        set: |c, v| to(&mut c.logging.verbosity, value::verbosity(v)),
        ..BASE
    },
    Flag {
        name: "logging-format",
        alias: "log-format",
        value: Some("FORMAT"),
        help: "How to log: text or json [default: text]",
        fields: &["logging.format"],
        set: |c, v| text(&mut c.logging.format, v),
        ..BASE
    },
    Flag {
        name: "vmodule",
        value: Some("PATTERN=LEVEL,.."),
        help: "No effect: levels of kube-proxy's source files",
        fields: &["logging.vmodule"],
        set: |c, v| to(&mut c.logging.vmodule, value::vmodule(v)),
        ..BASE
    },
    Flag {
        name: "log-flush-frequency",
        value: Some("TIME"),
        help: "No effect: Sluice logs without a buffer",
        fields: &["logging.flushFrequency"],
        set: |c, v| to(&mut c.logging.flush_frequency, value::duration(v)),
        ..BASE
    },
    Flag {
        name: "log-text-split-stream",
        help: "No effect: Sluice logs to stderr",
        fields: &["logging.options.text.splitStream"],
        set: |c, v| to(&mut c.logging.options.text.split_stream, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "log-text-info-buffer-size",
        value: Some("SIZE"),
        help: "No effect: Sluice logs without a buffer",
        fields: &["logging.options.text.infoBufferSize"],
        set: |c, v| text(&mut c.logging.options.text.info_buffer_size, v),
        ..BASE
    },
    Flag {
        name: "log-json-split-stream",
        help: "No effect: Sluice logs to stderr",
        fields: &["logging.options.json.splitStream"],
        set: |c, v| to(&mut c.logging.options.json.split_stream, value::boolean(v)),
        ..BASE
    },
    Flag {
        name: "log-json-info-buffer-size",
        value: Some("SIZE"),
        help: "No effect: Sluice logs without a buffer",
        fields: &["logging.options.json.infoBufferSize"],
        set: |c, v| text(&mut c.logging.options.json.info_buffer_size, v),
        ..BASE
    },
];
