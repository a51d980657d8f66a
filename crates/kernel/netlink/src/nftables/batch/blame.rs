//! From the kernel's answer back to the caller's object.

use crate::attr::{Attrs, HEADER};
use crate::message::{Answer, Messages, NETFILTER_HEADER};

use super::super::uapi;
use super::{Batch, Record, Tags};

impl Batch {
    /// The tags that an error is about: one when the kernel pointed at it, all of a message when
    /// it did not, none when it is about the transaction.
    pub(crate) fn blamed(&self, answer: &Answer) -> Vec<u32> {
        let index = usize::try_from(answer.sequence)
            .ok()
            .and_then(|it| it.checked_sub(1));
        let Some(record) = index.and_then(|it| self.records.get(it)) else {
            return Vec::new();
        };
        match &record.tags {
            Tags::One(tag) => vec![*tag],
            Tags::Elements(range) => {
                let tags = self.element_tags.get(range.clone()).unwrap_or_default();
                match answer
                    .offset
                    .and_then(|it| self.element_at(record, it))
                    .and_then(|it| tags.get(it))
                {
                    Some(tag) => vec![*tag],
                    None => tags.to_vec(),
                }
            }
        }
    }

    /// The index of the element within its message that holds the byte at `offset`.
    fn element_at(&self, record: &Record, offset: u32) -> Option<usize> {
        let offset = usize::try_from(offset).ok()?;
        let message = Messages::new(self.writer.as_bytes().get(record.start..)?).next()?;
        let attrs = message.attrs();
        let end = NETFILTER_HEADER + attrs.remaining();
        let (list_start, list) =
            positions(attrs, end).find(|it| it.1.kind == uapi::NFTA_SET_ELEM_LIST_ELEMENTS)?;
        // The list itself is blamed when the message as a whole is wrong.
        let first = list_start + HEADER;
        let mut elements = positions(list.nested(), first + list.value.len());
        elements.position(|(start, element)| {
            (start..start + HEADER + element.value.len()).contains(&offset)
        })
    }
}

/// Attributes with the offset of their headers; `end` is the offset after the last one.
fn positions(
    mut attrs: Attrs<'_>,
    end: usize,
) -> impl Iterator<Item = (usize, crate::attr::Attr<'_>)> {
    std::iter::from_fn(move || {
        let start = end - attrs.remaining();
        attrs.next().map(|it| (start, it))
    })
}
