//! Patterns of interface names.

/// Patterns such as `eth*` and `!docker0`: a name is matched if one of the patterns without `!` matches it, or
/// there is none, and no pattern with `!` does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    wanted: Vec<String>,
    excluded: Vec<String>,
}

impl Patterns {
    /// Every name.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// No name.
    #[must_use]
    pub fn none() -> Self {
        Self {
            wanted: Vec::new(),
            excluded: vec!["*".to_owned()],
        }
    }

    /// These patterns; `*` stands for any characters.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all = Self::default();
        for pattern in patterns {
            match pattern.strip_prefix('!') {
                Some(excluded) => all.excluded.push(excluded.to_owned()),
                None => all.wanted.push(pattern.to_owned()),
            }
        }
        all
    }

    /// Whether a name is matched.
    #[must_use]
    pub fn match_name(&self, name: &str) -> bool {
        let any = |patterns: &[String]| {
            patterns
                .iter()
                .any(|it| fits(it.as_bytes(), name.as_bytes()))
        };
        (self.wanted.is_empty() || any(&self.wanted)) && !any(&self.excluded)
    }
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        (Some((wanted, pattern)), Some((found, name))) => wanted == found && fits(pattern, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Patterns;

    #[test]
    fn names_are_matched() {
        let cases: [(&[&str], &str, bool); 7] = [
            (&[], "eth0", true),
            (&["eth*"], "eth0", true),
            (&["eth*"], "veth0", false),
            (&["*eth*", "!veth1"], "veth1", false),
            (&["!docker*"], "eth0", true),
            (&["!docker*"], "docker0", false),
            (&["cali*", "ens3"], "ens3", true),
        ];
        for (patterns, name, expected) in cases {
            let all = Patterns::new(patterns.iter().copied());
            assert_eq!(all.match_name(name), expected, "{patterns:?} {name}");
        }
        assert!(!Patterns::none().match_name("eth0"));
    }
}
