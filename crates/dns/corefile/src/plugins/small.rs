//! Plugins with few options.

use std::time::Duration;

use hickory_proto::rr::Name;

use crate::reader::{Fault, Reader, Scope, zones};
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
    let words: Vec<&str> = plugin.args.iter().map(|it| it.text.as_str()).collect();
    words.join(" ")
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
    reader.options(plugin, &["except"], |_, option| {
        match option.name.text.as_str() {
            "except" => bind.except.extend(targets(option)?),
            _ => return Err(Fault::Unknown),
        }
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
    reader.options(plugin, &["prefer"], |_, option| {
        match option.name.text.as_str() {
            "prefer" => {
                let networks = option.args.iter().map(|it| values::network(&it.text));
                loadbalance
                    .prefer
                    .extend(networks.collect::<Result<Vec<_>, _>>()?);
            }
            _ => return Err(Fault::Unknown),
        }
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
    let Some((last, words)) = plugin.args.split_last() else {
        let why = Err("the file like resolv.conf, or @kubernetes, is missing".to_owned());
        reader.or(plugin, why, ());
        return None;
    };
    let search = match last.text.as_str() {
        "@kubernetes" => SearchPath::Kubernetes,
        word if word.starts_with('@') => {
            let why = Err(format!(
                "{} is not supported, only @kubernetes is",
                quoted(word)
            ));
            reader.or(plugin, why, ());
            return None;
        }
        word => {
            let text = reader.read(word.as_ref());
            let names = text.and_then(|it| search_names(&it));
            SearchPath::Names(reader.or(plugin, names, Vec::new()))
        }
    };
    let zones = match words {
        [] => scope.zones.clone(),
        _ => reader.or(plugin, zones(words), Vec::new()),
    };
    Some(Autopath { zones, search })
}

/// The search path of a file like resolv.conf.
fn search_names(text: &str) -> Result<Vec<Name>, String> {
    let file = ResolvConf::read(text);
    let words = file.domain.map_or(file.search, |it| vec![it]);
    words.into_iter().map(values::name).collect()
}
