//! Assertions about any text read as a Corefile, for the fuzzer and the tests.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use sluice_corefile::{Corefile, Sources, read};

/// Each file and variable says the same. A Corefile that imports imports this, again and again.
struct Echo<'a>(&'a str);

impl Sources for Echo<'_> {
    fn read(&self, path: &Path) -> io::Result<String> {
        if path.ends_with("resolv.conf") {
            Ok("nameserver 10.0.0.1\nsearch example.org\n".to_owned())
        } else {
            Ok(self.0.chars().take(200).collect())
        }
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        Ok(vec!["a.conf".to_owned(), "b".to_owned()])
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name.len() < 3).then(|| self.0.chars().take(20).collect())
    }
}

/// Reads the text as a Corefile.
///
/// # Panics
/// When a message has more than one line, when a note stands twice, when a second reading differs, or when
/// a value is out of its range.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let result = read("Corefile", &text, 53, &Echo(&text));
    match &result {
        Ok(corefile) => {
            valid(corefile);
            let notes: BTreeSet<&str> = corefile.notes.iter().map(|it| &*it.message).collect();
            assert_eq!(notes.len(), corefile.notes.len());
            corefile
                .notes
                .iter()
                .for_each(|it| one_line(&it.to_string()));
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            problems.iter().for_each(|it| one_line(&it.to_string()));
        }
    }
    assert_eq!(result, read("Corefile", &text, 53, &Echo(&text)));
}

fn one_line(message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
}

fn valid(corefile: &Corefile) {
    assert!(!corefile.blocks.is_empty());
    for block in &corefile.blocks {
        assert!(!block.keys.is_empty());
        assert!(block.keys.iter().all(|it| it.zone.is_fqdn()));
        let plugins = &block.plugins;
        for forward in &plugins.forward {
            assert!((1..=15).contains(&forward.to.len()));
        }
        if let Some(cache) = &plugins.cache {
            assert!(cache.success.capacity >= 1024 && cache.denial.capacity >= 1024);
            assert!(!cache.success.max_ttl.is_zero() && cache.servfail.as_secs() <= 300);
        }
        if let Some(kubernetes) = &plugins.kubernetes {
            assert!(kubernetes.ttl <= 3600 && !kubernetes.zones.is_empty());
        }
        for template in &plugins.template {
            assert!(!template.matches.is_empty());
            let texts = template.answer.iter().chain(&template.additional);
            for text in texts.chain(&template.authority) {
                // An error of `parseInt` is an answer.
                let _ = text.render(|_| "7f");
            }
        }
    }
}
