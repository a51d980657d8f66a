//! `template`.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{DNSClass, Name, RecordType};

use super::{Fallthrough, Pattern};

/// `template CLASS TYPE [ZONES...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Class of the query; [`DNSClass::ANY`]: every class.
    pub class: DNSClass,
    /// Type of the query; [`RecordType::ANY`]: every type.
    pub record_type: RecordType,
    /// Names below these zones: the zones of the directive, else those of the block.
    pub zones: Vec<Name>,
    /// The first that matches the query's name, fully qualified and in lower case. Never empty: CoreDNS's
    /// default is `.*`.
    pub matches: Vec<Pattern>,
    /// Records of the answer section, as in a zone file.
    pub answer: Vec<Text>,
    /// Records of the additional section.
    pub additional: Vec<Text>,
    /// Records of the authority section.
    pub authority: Vec<Text>,
    /// Code of the response. CoreDNS's default: NOERROR.
    pub rcode: ResponseCode,
    /// Extended DNS error (RFC 8914): its code and a text, which may be empty.
    pub ederror: Option<(u16, String)>,
    /// For which names a query that no pattern matches is passed on; others get SERVFAIL.
    pub fallthrough: Fallthrough,
}

/// A text with values of the query, from the part of Go's `text/template` that is supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub(crate) parts: Vec<TextPart>,
}

/// One part of a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPart {
    /// This text.
    Literal(String),
    Value(TextValue),
    /// `parseInt VALUE BASE BITS`: the value read as a number of a base, written in decimal.
    Number {
        /// The value that is parsed.
        value: TextValue,
        /// 2 to 36.
        base: u32,
        /// 1 to 64: more significant bits than this are an error.
        bits: u32,
    },
}

/// A value of the query in a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextValue {
    /// `.Name`: fully qualified, lower case.
    Name,
    /// `.Type`
    Type,
    /// `.Class`
    Class,
    /// `.Zone`: the zone of the template that encloses the name.
    Zone,
    /// `.Remote`: the client's address.
    Remote,
    /// `index .Match N`: group N of the pattern; 0 is all that it matched. Every pattern of the template
    /// has the group.
    Match(usize),
    /// `.Group.NAME`: a named group. Every pattern of the template has it.
    Group(String),
}

impl Text {
    /// To be written one after the other.
    pub fn parts(&self) -> &[TextPart] {
        &self.parts
    }

    /// The text with each value replaced by the result of `value`.
    ///
    /// # Errors
    /// A value that `parseInt` cannot read.
    pub fn render<'a>(
        &self,
        mut value: impl FnMut(&TextValue) -> &'a str,
    ) -> Result<String, String> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                TextPart::Literal(text) => out.push_str(text),
                TextPart::Value(it) => out.push_str(value(it)),
                TextPart::Number {
                    value: it,
                    base,
                    bits,
                } => {
                    let text = value(it);
                    let number = u64::from_str_radix(text, *base).ok();
                    let number = number.filter(|it| u64::BITS - it.leading_zeros() <= *bits);
                    let wrong = || {
                        format!("parseInt: {text:?} is no number of base {base} and {bits} bits")
                    };
                    out.push_str(&number.ok_or_else(wrong)?.to_string());
                }
            }
        }
        Ok(out)
    }
}
