//! The meaning of a Corefile as plain data, one type for each plugin.

mod answers;
mod block;
mod cache;
mod forward;
mod hosts;
mod kubernetes;
mod observe;
mod pattern;
mod rewrite;
mod template;

pub use answers::{AclAction, AclRule, Autopath, Chaos, LoadBalance, SearchPath};
pub use block::{Bind, BindTarget, Corefile, Fallthrough, Key, Plugins, Reload, ServerBlock};
pub use cache::{Cache, CacheLimits, Prefetch, Refresh, ServeStale};
pub use forward::{
    ClientCertificate, Forward, ForwardProtocol, ForwardTls, HealthCheck, Policy, Upstream,
    UpstreamTransport,
};
pub use hosts::{Hosts, HostsEntry};
pub use kubernetes::{ApiTls, Kubeconfig, Kubernetes, Pods};
pub use observe::{
    Consolidate, Errors, Health, LogClass, LogField, LogLevel, LogPart, LogRule, Monitor, Ready,
};
pub use pattern::Pattern;
pub use rewrite::{
    AnswerRewrite, AnswerRule, NameMatch, NameRewrite, Rewrite, RewriteRule, Then, TtlRewrite,
};
pub use template::{Template, Text, TextPart, TextValue};
