//! An error as text.

use std::error::Error;
use std::iter;

/// An error, and after it the cause of each one before.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |it: &&'a (dyn Error + 'static)| {
        (**it).source()
    })
}

/// An error and its causes in one line. A cause that the message already contains is left out.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_of(error, |it| it)
}

/// The same as [`chain`], with only the part of each message that `shown` leaves.
#[must_use]
pub fn chain_of(error: &(dyn Error + 'static), shown: impl Fn(&str) -> &str) -> String {
    let mut text = String::new();
    for error in causes(error) {
        let message = error.to_string();
        let message = shown(&message);
        if text.is_empty() {
            message.clone_into(&mut text);
        } else if !text.contains(message) {
            text = format!("{text}: {message}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Layer>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|it| it as _)
        }
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (first, rest) = texts.split_first().expect("a text");
        Layer(first, (!rest.is_empty()).then(|| Box::new(layers(rest))))
    }

    #[test]
    fn each_cause_is_said_once() {
        for (texts, line) in [
            (&["write rules"][..], "write rules"),
            (&["write rules", "no room"], "write rules: no room"),
            (&["write rules: no room", "no room"], "write rules: no room"),
            (&["", "no room", ""], "no room"),
        ] {
            assert_eq!(chain(&layers(texts)), line);
        }
    }

    #[test]
    fn only_what_may_be_shown_is_said() {
        let error = layers(&["read config\ntoken: abc", "bad line\nabc"]);
        let line = chain_of(&error, |it| it.lines().next().unwrap_or_default());
        assert_eq!(line, "read config: bad line");
    }
}
