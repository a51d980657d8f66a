//! A picture as elements of SVG with their places, and as text of an SVG file.

use std::fmt::{self, Write as _};

use serde::Serialize;

/// The colours of drawings, by the variables of the web page's style sheet.
pub const STYLE: &str = include_str!("drawing/style.css");

/// The variables in a file of its own; the web page has the same.
const COLOURS: &str = include_str!("drawing/colours.css");

/// The width of a letter of [`Font::Mono`] in pixels: that of the widest of the usual fonts, so that a text stays in its box.
const MONO: f64 = 7.25;

/// A picture. Lengths are pixels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drawing {
    pub width: u32,
    pub height: u32,
    pub title: String,
    /// The content of the drawing as text, for screen readers.
    pub description: String,
    /// The elements, those below first.
    pub elements: Vec<Element>,
}

/// An element of SVG without children.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Element {
    /// `rect`, `path` or `text`.
    pub tag: &'static str,
    /// Names and values.
    pub attributes: Vec<(&'static str, String)>,
    pub text: String,
}

/// A font of [`STYLE`], which says how wide a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Font {
    /// For names.
    Bold,
    /// For addresses.
    Mono,
    /// For all else.
    Small,
}

impl Font {
    fn class(self) -> &'static str {
        match self {
            Self::Bold => "name",
            Self::Mono => "mono",
            Self::Small => "small",
        }
    }

    /// The most that a text is wide, in pixels.
    pub(crate) fn width(self, text: &str) -> u32 {
        let letters = text.chars().map(|it| match self {
            Self::Bold => 13.5 * em(it),
            Self::Mono => MONO,
            // Of the same family, and not bold.
            Self::Small => 12.0 * 0.9 * em(it),
        });
        letters.sum::<f64>().ceil() as u32
    }
}

/// The width of a letter in bold, in parts of the font's size: the most in its group in DejaVu Sans, the widest of the usual
/// fonts.
fn em(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | '/' => 0.39,
        'f' | 't' | 'I' | 'J' | '-' | '(' | ')' | '[' | ']' | '•' | '·' => 0.48,
        'r' | ':' | ';' | '!' => 0.5,
        'a' | 'c' | 'e' | 'k' | 'o' | 's' | 'v' | 'x'..='z' => 0.69,
        'b' | 'd' | 'g' | 'h' | 'n' | 'p' | 'q' | 'u' | '0'..='9' => 0.72,
        'A'..='L' | 'N'..='V' | 'X'..='Z' => 0.86,
        _ => 1.11,
    }
}

/// A rectangle of a drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rectangle {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Rectangle {
    pub(crate) fn right(self) -> u32 {
        self.x + self.width
    }

    pub(crate) fn middle(self) -> u32 {
        self.y + self.height / 2
    }
}

/// Elements that are being put together.
#[derive(Debug, Default)]
pub(crate) struct Canvas(pub(crate) Vec<Element>);

impl Canvas {
    /// A box with round corners.
    pub(crate) fn rect(&mut self, class: &str, at: Rectangle) {
        self.rounded(("class", class.to_owned()), at, 8);
    }

    /// A filled bar, in the colour of a variable of the style sheet.
    pub(crate) fn bar(&mut self, colour: &str, at: Rectangle) {
        let style = format!("fill: var({colour}); stroke: none");
        self.rounded(("style", style), at, 2);
    }

    fn rounded(&mut self, look: (&'static str, String), at: Rectangle, radius: u32) {
        let numbers = [
            ("x", at.x),
            ("y", at.y),
            ("width", at.width),
            ("height", at.height),
            ("rx", radius),
        ];
        let numbers = numbers.map(|(name, it)| (name, it.to_string()));
        let attributes = [look].into_iter().chain(numbers).collect();
        self.push("rect", attributes, String::new());
    }

    /// A text from `x` on, of at most `width`: the middle of a longer one is left out.
    pub(crate) fn text(&mut self, font: Font, (x, y): (u32, u32), width: u32, text: &str) {
        self.word(font.class(), (x, y), "start", cut(text, font, width));
    }

    /// A name from `x` on, and a word that ends at `right` in a colour: `good`, `warn`, `bad` or `share`. The name leaves
    /// room for the word, which may be empty.
    pub(crate) fn name(
        &mut self,
        name: &str,
        (x, y): (u32, u32),
        right: u32,
        (colour, word): (&str, &str),
    ) {
        let font = match colour {
            "share" => Font::Bold,
            _ => Font::Small,
        };
        let taken = match word {
            "" => 0,
            word => font.width(word) + 6,
        };
        self.text(Font::Bold, (x, y), (right - x).saturating_sub(taken), name);
        if !word.is_empty() {
            self.word(
                &format!("small {colour}"),
                (right, y),
                "end",
                word.to_owned(),
            );
        }
    }

    fn word(&mut self, class: &str, (x, y): (u32, u32), anchor: &str, text: String) {
        let mut attributes = vec![
            ("class", class.to_owned()),
            ("x", x.to_string()),
            ("y", y.to_string()),
        ];
        if anchor != "start" {
            attributes.push(("text-anchor", anchor.to_owned()));
        }
        self.push("text", attributes, text);
    }

    /// An arrow to the right. `share` makes it thicker.
    pub(crate) fn arrow(&mut self, class: &str, from: (u32, u32), to: (u32, u32), share: f64) {
        let (head, middle) = (to.0.saturating_sub(7), (from.0 + to.0) / 2);
        let line = format!(
            "M{} {}C{middle} {} {middle} {} {head} {}",
            from.0, from.1, from.1, to.1, to.1
        );
        let attributes = vec![
            ("class", format!("edge {class}")),
            ("stroke-width", format!("{:.1}", 1.5 + 4.0 * share)),
            ("d", line),
        ];
        self.push("path", attributes, String::new());
        let head = format!("M{head} {}l8 5l-8 5z", to.1.saturating_sub(5));
        self.push(
            "path",
            vec![("class", format!("head {class}")), ("d", head)],
            String::new(),
        );
    }

    /// A straight arrow of this length to below.
    pub(crate) fn arrow_down(&mut self, (x, y): (u32, u32), length: u32) {
        let head = y + length - 7;
        let line = vec![
            ("class", "edge ".to_owned()),
            ("stroke-width", "1.5".to_owned()),
            ("d", format!("M{x} {y}V{head}")),
        ];
        self.push("path", line, String::new());
        let head = format!("M{} {head}l5 7l5-7z", x.saturating_sub(5));
        let head = vec![("class", "head ".to_owned()), ("d", head)];
        self.push("path", head, String::new());
    }

    fn push(&mut self, tag: &'static str, attributes: Vec<(&'static str, String)>, text: String) {
        self.0.push(Element {
            tag,
            attributes,
            text,
        });
    }
}

/// A text in lines that fit into a width. A word that is longer than a line has its middle left out.
pub(crate) fn wrapped(text: &str, font: Font, width: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = cut(word, font, width);
        let longer = lines.last().map(|it| format!("{it} {word}"));
        match (lines.last_mut(), longer) {
            (Some(line), Some(longer)) if font.width(&longer) <= width => *line = longer,
            _ => lines.push(word),
        }
    }
    lines
}

/// A text without its middle, if it is too long: both ends of a name tell most.
fn cut(text: &str, font: Font, width: u32) -> String {
    if font.width(text) <= width {
        return text.to_owned();
    }
    let count = text.chars().count();
    let mut halves = (1..=count / 2).rev().map(|half| {
        let start: String = text.chars().take(half).collect();
        let end: String = text.chars().skip(count - half).collect();
        format!("{start}…{end}")
    });
    let fits = |it: &String| font.width(it) <= width;
    halves.find(fits).unwrap_or_else(|| "…".to_owned())
}

/// An SVG file.
impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = (self.width, self.height);
        writeln!(
            f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawing\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title description\">"
        )?;
        writeln!(f, "<title id=\"title\">{}</title>", escaped(&self.title))?;
        let description = escaped(&self.description);
        writeln!(f, "<desc id=\"description\">{description}</desc>")?;
        writeln!(f, "<style>\n{COLOURS}{STYLE}</style>")?;
        let ground = "<rect class=\"ground\" width=\"100%\" height=\"100%\" rx=\"8\"/>";
        writeln!(f, "{ground}")?;
        for it in &self.elements {
            let mut attributes = String::new();
            for (name, value) in &it.attributes {
                write!(attributes, " {name}=\"{}\"", escaped(value))?;
            }
            if it.text.is_empty() {
                writeln!(f, "<{}{attributes}/>", it.tag)?
            } else {
                writeln!(f, "<{0}{attributes}>{1}</{0}>", it.tag, escaped(&it.text))?
            }
        }
        writeln!(f, "</svg>")
    }
}

/// Text of others as text of XML. Control characters, which XML does not have, are left out.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for it in text.chars().filter(|it| !it.is_control()) {
        match it {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
