//! Files like resolv.conf.

/// What a file like resolv.conf says of name servers and of the search path, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvConf<'a> {
    /// One of each line `nameserver`.
    pub name_servers: Vec<&'a str>,
    /// The last line `search`.
    pub search: Vec<&'a str>,
    /// The last line `domain`, if no line `search` follows it. Resolvers have it as their search path then; kubelet gives
    /// pods the line `search`.
    pub domain: Option<&'a str>,
}

impl<'a> ResolvConf<'a> {
    /// Reads the text. Other lines have no meaning here.
    #[must_use]
    pub fn read(text: &'a str) -> Self {
        let mut file = Self::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => file.name_servers.extend(words.next()),
                Some("search") => {
                    file.search = words.collect();
                    file.domain = None;
                }
                Some("domain") => file.domain = words.next(),
                _ => {}
            }
        }
        file
    }
}
