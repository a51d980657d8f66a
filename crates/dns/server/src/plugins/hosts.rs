//! `hosts`: addresses of names, from a file and from the Corefile.

mod table;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, ErrorKind, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::rdata::{A, AAAA, PTR};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use sluice_corefile::Hosts as Config;
use sluice_upstream::Question as Asked;

use crate::metrics::Plugin;
use crate::request::Reply;
use table::Table;

/// Most bytes of a file that are read: some 100,000 lines.
const MOST_BYTES: u64 = 8 << 20;

/// One `hosts` of a server block.
#[derive(Debug)]
pub(crate) struct Hosts {
    config: Config,
    inline: Table,
    file: RwLock<File>,
}

#[derive(Debug, Default)]
struct File {
    table: Arc<Table>,
    /// Hash of the text that the table was made of; `None` without one.
    text: Option<u64>,
}

impl Hosts {
    /// Reads the file for the first time. It need not exist.
    pub(crate) fn new(config: &Config) -> Self {
        let hosts = Self {
            inline: Table::of(&config.inline, &config.zones),
            file: RwLock::default(),
            config: config.clone(),
        };
        hosts.refresh();
        hosts
    }

    /// Time between two calls of [`Self::refresh`]; `None`: it is not called again.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.config.reload
    }

    /// Reads the file again. Returns whether its text is another one: modification time and size may be the same. A
    /// file that is gone or cannot be read keeps the last entries.
    pub(crate) fn refresh(&self) -> bool {
        let text = match read(&self.config.file) {
            Ok(text) => text,
            Err(error) => {
                if let Some(error) = error {
                    tracing::warn!(%error, "the last entries stay");
                }
                return false;
            }
        };
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = Some(hasher.finish());
        if self
            .file
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .text
            == hash
        {
            return false;
        }
        let table = Arc::new(Table::parse(&text, &self.config.zones));
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        *file = File { table, text: hash };
        true
    }

    /// Number of names with an address.
    pub(crate) fn entries(&self) -> usize {
        self.inline.len() + self.table().len()
    }

    /// Answers from the entries. `None`: the next plugin is asked.
    pub(crate) fn answer(&self, asked: &Asked) -> Option<Reply> {
        let query = &asked.query;
        let is_ours = self.config.zones.iter().any(|it| it.zone_of(&query.name));
        if !is_ours && query.query_type != RecordType::PTR {
            return None;
        }
        let name = query.name.to_lowercase();
        let file = self.table();
        let tables = [&*file, &self.inline];
        let record = |data| Record::from_rdata(query.name.clone(), self.config.ttl, data);
        if query.query_type == RecordType::PTR {
            return self.reverse(&name, &tables, record);
        }
        let mut addresses = tables.iter().flat_map(|it| it.addresses(&name)).peekable();
        let data = |ip: &IpAddr| match (query.query_type, *ip) {
            (RecordType::A, IpAddr::V4(ip)) => Some(RData::A(A(ip))),
            (RecordType::AAAA, IpAddr::V6(ip)) => Some(RData::AAAA(AAAA(ip))),
            _ => None,
        };
        if addresses.peek().is_some() {
            let records = addresses.filter_map(data).map(record).collect();
            Some(Reply::authoritative(records, Plugin::Hosts))
        } else if self.config.fallthrough.includes(&name) {
            None
        } else {
            // NXDOMAIN needs an SOA record, which a hosts file does not have.
            Some(Reply::empty(ResponseCode::ServFail, Plugin::Hosts))
        }
    }

    /// `None` without a name: other names of the reverse zone are other plugins', as in CoreDNS.
    fn reverse(
        &self,
        name: &Name,
        tables: &[&Table],
        record: impl Fn(RData) -> Record,
    ) -> Option<Reply> {
        let address = name.parse_arpa_name().ok();
        let address = address.filter(|it| it.prefix_len() == it.max_prefix_len());
        let names = address.filter(|_| self.config.reverse).map(|it| it.addr());
        let names = names
            .into_iter()
            .flat_map(|ip| tables.iter().flat_map(move |it| it.names(ip)));
        let records: Vec<_> = names
            .map(|it| record(RData::PTR(PTR(it.clone()))))
            .collect();
        (!records.is_empty()).then(|| Reply::authoritative(records, Plugin::Hosts))
    }

    fn table(&self) -> Arc<Table> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        file.table.clone()
    }
}

/// The text of a hosts file of at most [`MOST_BYTES`]. A pipe would wait for a writer.
///
/// # Errors
/// Why it cannot be read, in one line; `None` when there is no such file.
fn read(path: &Path) -> Result<String, Option<String>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path);
    let read = file.and_then(|it| {
        let kind = it.metadata()?.file_type();
        if !(kind.is_dir() || kind.is_file()) {
            return Err(io::Error::other("it is a pipe or a device"));
        }
        it.take(MOST_BYTES + 1).read_to_end(&mut bytes)
    });
    let why = match read {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(None),
        Err(error) => error.to_string(),
        Ok(_) if bytes.len() as u64 > MOST_BYTES => format!("more than {MOST_BYTES} bytes"),
        Ok(_) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
    };
    Err(Some(format!("read hosts file {}: {why}", path.display())))
}

#[cfg(test)]
mod tests {
    use sluice_corefile::Fallthrough;

    use super::*;

    /// Linux before 6.13 counts file times in ticks of up to 10 ms.
    #[test]
    fn versions_of_one_size_and_time_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        let hosts = Hosts::new(&Config {
            file: file.clone(),
            zones: vec![Name::root()],
            inline: Vec::new(),
            fallthrough: Fallthrough::default(),
            ttl: 3_600,
            reverse: true,
            reload: None,
        });
        for (text, is_new) in [
            ("192.0.2.1 a.test\n", true),
            ("192.0.2.2 a.test\n", true),
            ("192.0.2.2 a.test\n", false),
        ] {
            std::fs::write(&file, text).unwrap();
            let written = std::fs::File::open(&file).unwrap();
            written.set_modified(std::time::UNIX_EPOCH).unwrap();
            assert_eq!(hosts.refresh(), is_new, "{text}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(!hosts.refresh());
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("hosts");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [&fifo, Path::new("/dev/zero")] {
            let why = read(path).unwrap_err().unwrap();
            assert!(why.ends_with("it is a pipe or a device"), "{why}");
        }
    }
}
