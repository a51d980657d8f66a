//! A Markdown file as the checks of the book see it: links, pictures, headings.

use std::collections::BTreeMap;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// What other pages and the book need to know of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Targets of links to other files of the tree and to headings, as written.
    pub(crate) links: Vec<String>,
    /// Targets of pictures, each with its alternative text.
    pub(crate) pictures: Vec<(String, String)>,
    /// The anchor of each heading, as mdBook and GitHub make it.
    pub(crate) anchors: Vec<String>,
}

impl Page {
    /// Reads Markdown with tables, as mdBook and GitHub do.
    pub(crate) fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut seen = BTreeMap::new();
        let mut heading = None;
        let mut picture: Option<(String, String)> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let text = heading.take().unwrap_or_default();
                    page.anchors.push(anchor(&text, &mut seen));
                }
                Event::Start(Tag::Link { dest_url, .. }) if is_relative(&dest_url) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Image { dest_url, .. }) => {
                    picture = Some((dest_url.into_string(), String::new()));
                }
                Event::End(TagEnd::Image) => page.pictures.extend(picture.take()),
                Event::Text(text) | Event::Code(text) => {
                    let alternative = picture.as_mut().map(|(_, alternative)| alternative);
                    let open = [heading.as_mut(), alternative];
                    open.into_iter().flatten().for_each(|it| it.push_str(&text));
                }
                _ => {}
            }
        }
        page
    }
}

fn is_relative(target: &str) -> bool {
    !["http:", "https:", "mailto:"]
        .iter()
        .any(|it| target.starts_with(it))
}

/// The anchor of a heading: of two equal ones the second gets `-1`.
fn anchor(heading: &str, seen: &mut BTreeMap<String, usize>) -> String {
    let kept = heading.trim().chars().filter_map(|it| match it {
        it if it.is_whitespace() => Some('-'),
        it if it.is_alphanumeric() || it == '-' || it == '_' => Some(it),
        _ => None,
    });
    let anchor = kept.collect::<String>().to_lowercase();
    let count = seen.entry(anchor.clone()).or_default();
    *count += 1;
    match *count {
        1 => anchor,
        more => format!("{anchor}-{}", more - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_pictures_and_anchors_are_found() {
        let page = Page::parse(
            "# The `nft` way, *drawn*\n\n[a](b.md#c) <https://x.org> [d][e] ![a pod](pod.svg)\n\n\
             ## End\n## End\n| [t](u.md) |\n|---|\n\n```\n[no](link)\n# no heading\n```\n\n[e]: f/\n",
        );
        assert_eq!(page.links, ["b.md#c", "f/", "u.md"]);
        assert_eq!(page.pictures, [("pod.svg".to_owned(), "a pod".to_owned())]);
        assert_eq!(page.anchors, ["the-nft-way-drawn", "end", "end-1"]);
    }
}
