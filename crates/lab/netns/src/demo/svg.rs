//! A recording as one SVG file: each frame is a group of text lines, and CSS shows one at a time.
//!
//! Browsers and GitHub run CSS animations of SVG images, but no scripts. The picture has its own
//! dark background, so it can be read on a light and on a dark page. Who asks for less motion
//! (`prefers-reduced-motion`) sees the last frame. Chromium no longer keeps spaces for `xml:space`, other
//! programs know nothing else, so both are there.

use std::fmt::Write as _;
use std::time::Duration;

use super::screen::WIDTH;

/// The content of the screen, and how long it was shown.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// The first line is the heading.
    pub(super) lines: Vec<String>,
    pub(super) time: Duration,
}

/// Width of a character and height of a line, in pixels.
const CHARACTER: f64 = 8.4;
const LINE: usize = 19;
const MARGIN: usize = 16;

/// The recording as an SVG document.
pub(super) fn document(frames: &[Frame]) -> String {
    let rows = frames.iter().map(|it| it.lines.len()).max().unwrap_or(0);
    let total: f64 = frames.iter().map(|it| it.time.as_secs_f64()).sum();
    let columns = f64::from(u16::try_from(WIDTH).expect("a terminal is narrow"));
    let width = columns * CHARACTER + 32.0;
    let height = rows * LINE + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" \
         width=\"{width:.0}\" height=\"{height}\" xml:space=\"preserve\" role=\"img\">\n\
         <title>sluice lab demo</title>\n<style>\n\
         text{{white-space:pre;font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;\
         fill:#c9d1d9}}\n.h{{font-weight:bold;fill:#fff}}\n.b{{fill:#3fb950}}\n\
         .f{{visibility:hidden;animation:{total:.2}s step-end infinite}}\n"
    );
    let mut before = 0.0;
    for (number, frame) in frames.iter().enumerate() {
        let (from, to) = (before, before + frame.time.as_secs_f64());
        let percent = |time: f64| time / total.max(f64::MIN_POSITIVE) * 100.0;
        writeln!(
            svg,
            "@keyframes k{number}{{{:.3}%{{visibility:visible}}{:.3}%{{visibility:hidden}}}}\
             #f{number}{{animation-name:k{number}}}",
            percent(from),
            percent(to)
        )
        .expect(INFALLIBLE);
        before = to;
    }
    let last = frames.len().saturating_sub(1);
    writeln!(
        svg,
        "@media(prefers-reduced-motion:reduce){{.f{{animation:none}}#f{last}{{visibility:visible}}}}\n\
         </style>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\" stroke=\"#30363d\"/>"
    )
    .expect(INFALLIBLE);
    for (number, frame) in frames.iter().enumerate() {
        writeln!(svg, "<g class=\"f\" id=\"f{number}\">").expect(INFALLIBLE);
        for (row, line) in frame.lines.iter().enumerate() {
            text(&mut svg, row, line);
        }
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

const INFALLIBLE: &str = "writing to a string cannot fail";

/// One line. `textLength` gives each character the same width in any font.
fn text(svg: &mut String, row: usize, line: &str) {
    let shown = line.trim_start();
    if shown.is_empty() {
        return;
    }
    let pixels = |characters: usize| {
        f64::from(u16::try_from(characters).expect("a line is short")) * CHARACTER
    };
    let length = shown.chars().count();
    let x = 16.0 + pixels(line.chars().count() - length);
    let y = MARGIN + row * LINE + 14;
    let class = if row == 0 { " class=\"h\"" } else { "" };
    write!(
        svg,
        "<text{class} x=\"{x:.1}\" y=\"{y}\" textLength=\"{:.1}\">",
        pixels(length)
    )
    .expect(INFALLIBLE);
    let is_bar = |it: char| ('\u{2588}'..='\u{258f}').contains(&it);
    let mut in_bar = false;
    for character in shown.chars() {
        if is_bar(character) != in_bar {
            in_bar = !in_bar;
            svg.push_str(if in_bar {
                "<tspan class=\"b\">"
            } else {
                "</tspan>"
            });
        }
        match character {
            '<' => svg.push_str("&lt;"),
            '>' => svg.push_str("&gt;"),
            '&' => svg.push_str("&amp;"),
            // XML has no other control characters than tab and line feeds, which no line has.
            other if other.is_control() => svg.push('\u{fffd}'),
            other => svg.push(other),
        }
    }
    svg.push_str(if in_bar {
        "</tspan></text>\n"
    } else {
        "</text>\n"
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_bars_are_coloured() {
        let mut svg = String::new();
        text(&mut svg, 1, "  a<b>&\x1b  ██▌  5%");
        assert_eq!(
            svg,
            "<text x=\"32.8\" y=\"49\" textLength=\"126.0\">a&lt;b&gt;&amp;\u{fffd}  \
             <tspan class=\"b\">██▌</tspan>  5%</text>\n"
        );
    }

    #[test]
    fn frames_follow_each_other() {
        let frame = |text: &str, seconds| Frame {
            lines: vec![text.to_owned(), String::new()],
            time: Duration::from_secs(seconds),
        };
        let svg = document(&[frame("one", 1), frame("two", 3)]);
        for part in [
            "@keyframes k0{0.000%{visibility:visible}25.000%{visibility:hidden}}",
            "@keyframes k1{25.000%{visibility:visible}100.000%{visibility:hidden}}",
            "animation:4.00s step-end infinite",
            "#f1{visibility:visible}",
            "<text class=\"h\" x=\"16.0\" y=\"30\" textLength=\"25.2\">two</text>",
        ] {
            assert!(svg.contains(part), "{part} is not in\n{svg}");
        }
    }
}
