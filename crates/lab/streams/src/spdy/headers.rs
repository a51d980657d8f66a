//! Compressed headers (draft-mbelshe-httpbis-spdy-00, section 2.6.10): one zlib stream for all frames of a direction, with a
//! dictionary that both sides know.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::frame::Malformed;

/// Most bytes of the headers of one frame, decompressed.
const LARGEST: usize = 16 * 1024;

/// The window of the decompressor: a power of two, and no shorter than deflate's.
const WINDOW: usize = 32 * 1024;

/// The dictionary's Adler-32, by which a stream names it.
const DICTIONARY: u32 = 0xe3c6_a7c2;

/// The words of the dictionary that have their length before them.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";

/// The rest of the dictionary.
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,\
    publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// No headers: the head of a zlib stream without a dictionary, a stored block (RFC 1951, section 3.2.4) with the number 0, so
/// that nothing is compressed, and an empty block, at which Go's decompressor gives out what it has.
pub(super) const NO_HEADERS: [u8; 16] = [0x78, 0x01, 0, 4, 0, !4, !0, 0, 0, 0, 0, 0, 0, 0, !0, !0];

fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in WORDS.split_whitespace() {
        let word = word.replace('_', " ");
        bytes.extend((word.len() as u32).to_be_bytes());
        bytes.extend(word.as_bytes());
    }
    bytes.extend(TEXT.as_bytes());
    bytes
}

/// The headers of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Headers(Vec<(String, String)>);

impl Headers {
    /// The value of a header; names are in lower case.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Number of headers, then name and value of each with their lengths.
    fn read(mut block: &[u8]) -> Option<Self> {
        let count = number(&mut block)?;
        let mut all = Vec::new();
        for _ in 0..count {
            let name = text(&mut block)?.to_ascii_lowercase();
            all.push((name, text(&mut block)?));
        }
        block.is_empty().then_some(Self(all))
    }
}

fn number(block: &mut &[u8]) -> Option<usize> {
    let (bytes, rest) = block.split_first_chunk()?;
    *block = rest;
    usize::try_from(u32::from_be_bytes(*bytes)).ok()
}

fn text(block: &mut &[u8]) -> Option<String> {
    let length = number(block)?;
    let (bytes, rest) = block.split_at_checked(length)?;
    *block = rest;
    String::from_utf8(bytes.to_vec()).ok()
}

/// Decompresses the headers of a client.
pub(super) struct Inflate {
    state: Box<DecompressorOxide>,
    /// The last 32 KiB, in a ring.
    window: Vec<u8>,
    at: usize,
    has_begun: bool,
}

impl Inflate {
    pub(super) fn new() -> Self {
        Self {
            state: Box::default(),
            window: vec![0; WINDOW],
            at: 0,
            has_begun: false,
        }
    }

    /// Reads the headers of the next frame.
    pub(super) fn read(&mut self, mut block: &[u8]) -> Result<Headers, Malformed> {
        if !self.has_begun {
            block = self.begin(block).ok_or(Malformed::Compressed)?;
            self.has_begun = true;
        }
        let mut plain = Vec::new();
        loop {
            let (status, read, written) = decompress(
                &mut self.state,
                block,
                &mut self.window,
                self.at,
                TINFL_FLAG_HAS_MORE_INPUT,
            );
            plain.extend(&self.window[self.at..self.at + written]);
            self.at = (self.at + written) % WINDOW;
            block = block.get(read..).unwrap_or_default();
            if plain.len() > LARGEST {
                return Err(Malformed::Headers);
            }
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if block.is_empty() => break,
                _ => return Err(Malformed::Compressed),
            }
        }
        Headers::read(&plain).ok_or(Malformed::Headers)
    }

    /// Reads the head of the zlib stream (RFC 1950, section 2.2). Returns the rest.
    fn begin<'a>(&mut self, block: &'a [u8]) -> Option<&'a [u8]> {
        let (&[method, flags], rest) = block.split_first_chunk()?;
        let is_deflate = method & 0x0f == 8 && u16::from_be_bytes([method, flags]) % 31 == 0;
        if !is_deflate {
            return None;
        }
        if flags & 0x20 == 0 {
            return Some(rest);
        }
        let (id, rest) = rest.split_first_chunk()?;
        let dictionary = dictionary();
        self.window[..dictionary.len()].copy_from_slice(&dictionary);
        self.at = dictionary.len();
        (u32::from_be_bytes(*id) == DICTIONARY).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adler-32 (RFC 1950, section 8.2).
    fn adler(bytes: &[u8]) -> u32 {
        let (a, b) = bytes.iter().fold((1, 0), |(a, b), it| {
            let a = (a + u32::from(*it)) % 65521;
            (a, (b + a) % 65521)
        });
        b << 16 | a
    }

    #[test]
    fn the_dictionary_is_that_of_the_draft() {
        assert_eq!(dictionary().len(), 1423);
        assert_eq!(adler(&dictionary()), DICTIONARY);
    }

    /// What Go's `zlib.NewWriterLevelDict` wrote for the first two streams of `kubectl exec`.
    const OF_GO: [&str; 2] = [
        "78f9e3c6a7c26260606004a7b392a2d4c45c6851c29a0a0a6800000000ffff",
        "c22ac5565c92925f5a02000000ffff",
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        let digits = digits.map(|it| std::str::from_utf8(it).unwrap());
        digits
            .map(|it| u8::from_str_radix(it, 16).unwrap())
            .collect()
    }

    #[test]
    fn headers_of_go_are_read() {
        let mut inflate = Inflate::new();
        for (block, expect) in OF_GO.iter().zip(["error", "stdout"]) {
            let headers = inflate.read(&bytes(block)).unwrap();
            assert_eq!(headers.get("streamtype"), Some(expect));
            assert_eq!(headers.get("port"), None);
        }
        let broken = &bytes(OF_GO[0])[..10];
        assert_eq!(Inflate::new().read(broken), Err(Malformed::Headers));
        let mut other = bytes(OF_GO[0]);
        other[3] ^= 1;
        assert_eq!(Inflate::new().read(&other), Err(Malformed::Compressed));
    }

    #[test]
    fn headers_have_a_limit() {
        let mut block = vec![0x78, 0x01];
        let piece = [b'x'; 8 * 1024];
        for _ in 0..3 {
            let length = (piece.len() as u16).to_le_bytes();
            block.extend([0, length[0], length[1], !length[0], !length[1]]);
            block.extend(piece);
        }
        assert_eq!(Inflate::new().read(&block), Err(Malformed::Headers));
    }
}
