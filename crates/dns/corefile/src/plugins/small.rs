//! Plugins with few options.

use std::time::Duration;

use hickory_proto::rr::Name;

use crate::reader::{Reader, Scope};
use crate::syntax::Directive;
use crate::values::{self, number, quoted};
use crate::{Autopath, Bind, Chaos, LoadBalance, Reload, ResolvConf, SearchPath};

/// A plugin that has neither arguments nor options.
pub(super) fn flag(reader: &mut Reader<'_>, plugin: &Directive) -> bool {
    reader.no_options(plugin);
    reader.or(plugin, plugin.none(), ());
    true
}

/// `root PATH`, which is applied to the paths of other plugins.
pub(super) fn root(reader: &mut Reader<'_>, plugin: &Directive) {
    reader.no_options(plugin);
    reader.or(plugin, plugin.one().map(|_| ()), ());
}

pub(super) fn reload(reader: &mut Reader<'_>, plugin: &Directive) -> Option<Reload> {
    const MIN_INTERVAL: Duration = Duration::from_secs(2);
    const MIN_JITTER: Duration = Duration::from_secs(1);
    reader.no_options(plugin);
    let read = |at: usize, default: u64, least: Duration| {
        let words = plugin.texts(2)?;
        let value = words
            .get(at)
            .map_or(Ok(Duration::from_secs(default)), |it| values::duration(it))?;
        if value < least {
            Err(format!("{value:?} is less than {least:?}"))
        } else {
            Ok(value)
        }
    };
    let interval = reader.or(plugin, read(0, 30, MIN_INTERVAL).map(Some), None)?;
    let jitter = reader.or(plugin, read(1, 15, MIN_JITTER).map(Some), None)?;
    Some(Reload {
        interval,
        jitter: jitter.min(interval / 2),
    })
}

pub(super) fn nsid(reader: &mut Reader<'_>, plugin: &Directive) -> String {
    reader.no_options(plugin);
    plugin.words().join(" ")
}

pub(super) fn bufsize(reader: &mut Reader<'_>, plugin: &Directive) -> u16 {
    const DEFAULT: u16 = 1232;
    reader.no_options(plugin);
    let size = plugin
        .optional()
        .and_then(|it| it.map_or(Ok(DEFAULT), |it| number(it, 512..=4096)));
    reader.or(plugin, size, DEFAULT)
}

/// `bind` adds to what earlier ones of the block say.
pub(super) fn bind(reader: &mut Reader<'_>, plugin: &Directive, bind: &mut Bind) {
    let targets = |from: &Directive| -> Result<Vec<_>, String> {
        from.some()?
            .iter()
            .map(|it| values::bind_target(&it.text))
            .collect()
    };
    let named = targets(plugin);
    bind.targets.extend(reader.or(plugin, named, Vec::new()));
    reader.option(plugin, "except", |option| {
        bind.except.extend(targets(option)?);
        Ok(())
    });
}

pub(super) fn chaos(reader: &mut Reader<'_>, plugin: &Directive) -> Chaos {
    /// Bytes of one text in a TXT record.
    const MAX_TEXT: usize = 255;
    reader.no_options(plugin);
    let mut words = plugin.args.iter().map(|it| {
        let end = it.text.floor_char_boundary(MAX_TEXT);
        it.text[..end].to_owned()
    });
    let version = words.next();
    let mut authors: Vec<String> = words.collect();
    authors.sort();
    authors.dedup();
    Chaos { version, authors }
}

pub(super) fn loadbalance(reader: &mut Reader<'_>, plugin: &Directive) -> LoadBalance {
    let mut loadbalance = LoadBalance::default();
    match plugin.args.first().map(|it| it.text.as_str()) {
        Some("weighted") => {
            let place = &plugin.name.place;
            reader.problem(
                place,
                "loadbalance: the policy weighted is not here: round_robin gives all addresses the same share",
            );
            return loadbalance;
        }
        Some(word) if word != "round_robin" => {
            let why = Err(format!(
                "unknown policy {}: only round_robin is supported",
                quoted(word)
            ));
            reader.or(plugin, why, ());
        }
        _ => reader.or(plugin, plugin.optional().map(|_| ()), ()),
    }
    reader.option(plugin, "prefer", |option| {
        let networks = option.args.iter().map(|it| values::network(&it.text));
        let networks: Result<Vec<_>, _> = networks.collect();
        loadbalance.prefer.extend(networks?);
        Ok(())
    });
    loadbalance
}

pub(super) fn autopath(
    reader: &mut Reader<'_>,
    plugin: &Directive,
    scope: &Scope,
) -> Option<Autopath> {
    reader.no_options(plugin);
    let last = plugin
        .args
        .split_last()
        .ok_or_else(|| "the file like resolv.conf, or @kubernetes, is missing".to_owned());
    let (last, words) = reader.or(plugin, last.map(Some), None)?;
    let search = match last.text.as_str() {
        "@kubernetes" => SearchPath::Kubernetes,
        word if word.starts_with('@') => {
            let why = format!("{} is not supported, only @kubernetes is", quoted(word));
            return reader.or(plugin, Err(why), None);
        }
        word => {
            let text = reader.read(word.as_ref());
            let names = text.and_then(|it| search_names(&it));
            SearchPath::Names(reader.or(plugin, names, Vec::new()))
        }
    };
    let zones = reader.zones(plugin, words, scope);
    Some(Autopath { zones, search })
}

/// The search path of a file like resolv.conf.
fn search_names(text: &str) -> Result<Vec<Name>, String> {
    let file = ResolvConf::read(text);
    let words = file.domain.map_or(file.search, |it| vec![it]);
    words.into_iter().map(values::name).collect()
}
