//! `cache`.

use std::time::Duration;

use hickory_proto::rr::Name;

use crate::reader::{Fault, Reader, Scope};
use crate::syntax::Directive;
use crate::values::{self, name, number, one_of, quoted};
use crate::{Cache, CacheLimits, Prefetch, Refresh, ServeStale};

/// CoreDNS's default number of answers: 256 shards of 39.
const CAPACITY: usize = 9984;
/// CoreDNS's least number: 256 shards of 4.
const MIN_CAPACITY: usize = 1024;
/// RFC 2308 section 7.1.
const MAX_SERVFAIL: Duration = Duration::from_secs(300);

const OPTIONS: [&str; 7] = [
    "success",
    "denial",
    "prefetch",
    "serve_stale",
    "servfail",
    "disable",
    "keepttl",
];

/// `cache [TTL] [ZONES...]`
pub(super) fn read(reader: &mut Reader<'_>, plugin: &Directive, scope: &Scope) -> Cache {
    let (ttl, words) = match plugin.args.split_first() {
        Some((first, rest)) if first.text.parse::<i64>().is_ok() => (Some(&first.text), rest),
        _ => (None, &*plugin.args),
    };
    let ttl = ttl.map(|it| seconds(it, 1)).transpose();
    let ttl = reader.or(plugin, ttl, None);
    let limits = |default: u64| CacheLimits {
        capacity: CAPACITY,
        max_ttl: ttl.unwrap_or(Duration::from_secs(default)),
        min_ttl: Duration::from_secs(5),
    };
    let mut cache = Cache {
        zones: reader.zones(plugin, words, scope),
        success: limits(3600),
        denial: limits(1800),
        servfail: Duration::from_secs(5),
        prefetch: None,
        serve_stale: None,
        keep_ttl: false,
        disable_success: Vec::new(),
        disable_denial: Vec::new(),
    };
    reader.options(plugin, &OPTIONS, |_, option| {
        match option.name.text.as_str() {
            "success" => limits_of(option, &mut cache.success)?,
            "denial" => limits_of(option, &mut cache.denial)?,
            "prefetch" => cache.prefetch = prefetch(option)?,
            "serve_stale" => cache.serve_stale = Some(serve_stale(option)?),
            "servfail" => {
                cache.servfail = option.duration()?;
                if cache.servfail > MAX_SERVFAIL {
                    return Err("at most 5m are allowed".into());
                }
            }
            "disable" => disable(option, &mut cache)?,
            "keepttl" => cache.keep_ttl = option.flag()?,
            _ => return Err(Fault::Unknown),
        }
        Ok(())
    });
    cache
}

fn seconds(word: &str, least: u32) -> Result<Duration, String> {
    let seconds = number(word, least..=i32::MAX as u32)?;
    Ok(Duration::from_secs(seconds.into()))
}

/// `success|denial CAPACITY [TTL] [MINTTL]`. What follows is of no importance, as in CoreDNS.
fn limits_of(option: &Directive, limits: &mut CacheLimits) -> Result<(), String> {
    let words = option.some()?;
    limits.capacity = number(&words[0].text, 0..=i32::MAX as usize)?.max(MIN_CAPACITY);
    if let Some(word) = words.get(1) {
        limits.max_ttl = seconds(&word.text, 1)?;
    }
    if let Some(word) = words.get(2) {
        limits.min_ttl = seconds(&word.text, 0)?;
    }
    Ok(())
}

/// `prefetch AMOUNT [[DURATION] [PERCENTAGE%]]`; 0 means none.
fn prefetch(option: &Directive) -> Result<Option<Prefetch>, String> {
    option.some()?;
    let words = option.texts(3)?;
    let prefetch = Prefetch {
        amount: number(words[0], 0..=i32::MAX as u32)?,
        duration: words
            .get(1)
            .map_or(Ok(Duration::from_secs(60)), |it| values::duration(it))?,
        percentage: words.get(2).map_or(Ok(10), |it| {
            let wrong = || format!("{} is no percentage from 10% to 90%", quoted(it));
            let number = it.strip_suffix('%').ok_or_else(wrong)?;
            number
                .parse()
                .ok()
                .filter(|it| (10..=90).contains(it))
                .ok_or_else(wrong)
        })?,
    };
    Ok((prefetch.amount > 0).then_some(prefetch))
}

/// `serve_stale [DURATION] [REFRESH_MODE]`
fn serve_stale(option: &Directive) -> Result<ServeStale, String> {
    const MODES: [(&str, Refresh); 2] = [
        ("immediate", Refresh::Immediate),
        ("verify", Refresh::Verify),
    ];
    let words = option.texts(2)?;
    Ok(ServeStale {
        duration: words
            .first()
            .map_or(Ok(Duration::from_secs(3600)), |it| values::duration(it))?,
        refresh: words
            .get(1)
            .map_or(Ok(Refresh::default()), |it| one_of(it, &MODES))?,
    })
}

/// `disable success|denial [ZONES...]`
fn disable(option: &Directive, cache: &mut Cache) -> Result<(), String> {
    let words = option.some()?;
    let disabled = match words[0].text.as_str() {
        "success" => &mut cache.disable_success,
        "denial" => &mut cache.disable_denial,
        word => return Err(format!("{} is not one of success, denial", quoted(word))),
    };
    *disabled = match &words[1..] {
        [] => vec![Name::root()],
        words => {
            let names = words.iter().map(|it| name(&it.text));
            names.collect::<Result<_, _>>()?
        }
    };
    Ok(())
}
