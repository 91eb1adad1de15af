//! Text for a terminal, with parts from outside: names and addresses that a peer sends, messages of
//! the kernel, file names, contents of documents.
//!
//! Such parts may contain characters that control a terminal (escape sequences), forge lines or
//! change the direction of the text that follows. A [`Text`] accepts no such character except the
//! line feed that ends a line; the printing functions of the program accept nothing else. Documents
//! and files have the original bytes.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// The character that replaces one that is not shown.
const DOT: char = '·';

/// Whether a character is not to be shown on a terminal: a control character (C0, DEL, C1), one
/// that ends a line or a paragraph, one that turns the direction of text (UAX #9), or an invisible
/// tag.
pub fn steers(letter: char) -> bool {
    letter.is_control() || STEERING.iter().any(|range| range.contains(&letter))
}

/// Marks and overrides of direction, ends of lines and paragraphs, annotations, tags.
const STEERING: [RangeInclusive<char>; 7] = [
    '\u{061c}'..='\u{061c}',
    '\u{200e}'..='\u{200f}',
    '\u{2028}'..='\u{2029}',
    '\u{202a}'..='\u{202e}',
    '\u{2066}'..='\u{206f}',
    '\u{fff9}'..='\u{fffb}',
    '\u{e0000}'..='\u{e007f}',
];

/// A part of a line: each character that [`steers`] becomes a dot, line feeds and tabs, too.
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(steers) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.chars().map(|c| if steers(c) { DOT } else { c }).collect()),
    }
}

/// Lines of text for a terminal. They are written by `writeln!`, a call for each line, and parts of
/// lines by `write!`, which has to end with a word of the program: a line feed anywhere except at
/// the end of a call is from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// No text yet.
    pub fn new() -> Text {
        Text::default()
    }

    /// Adds a line.
    pub fn line(&mut self, line: impl Display) {
        self.0.push_str(&printable(&line.to_string()));
        self.0.push('\n');
    }

    /// Adds lines, or a part of a line: by `write!` and `writeln!`.
    ///
    /// # Errors
    ///
    /// Errors of the values that are formatted.
    pub fn write_fmt(&mut self, words: fmt::Arguments) -> fmt::Result {
        let mut text = String::new();
        fmt::write(&mut text, words)?;
        let (text, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (&*text, ""),
        };
        self.0.push_str(&printable(text));
        self.0.push_str(end);
        Ok(())
    }

    /// Adds another text.
    pub fn append(&mut self, other: &Text) {
        self.0.push_str(&other.0);
    }

    /// The text's characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The program's own words.
impl From<&'static str> for Text {
    fn from(own: &'static str) -> Text {
        Text(own.to_owned())
    }
}

impl<D: Display> FromIterator<D> for Text {
    /// A line for each item.
    fn from_iter<I: IntoIterator<Item = D>>(lines: I) -> Text {
        let mut text = Text::new();
        lines.into_iter().for_each(|line| text.line(line));
        text
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    const ODD: &str =
        "\u{1b}]0;x\u{7}\u{1b}[2Jred\nforged\u{9b}31m\u{7f}\u{202e}\u{2066}\u{200f}\r";

    #[test]
    fn what_steers_a_terminal_becomes_dots() {
        assert_eq!(printable(ODD), "·]0;x··[2Jred·forged·31m·····");
        assert_eq!(printable("Grüße 世界 🦀 · ≥"), "Grüße 世界 🦀 · ≥");
        let steering = (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| steers(*c)).count();
        // Control characters, those that turn, ends of lines, annotations, tags.
        assert_eq!(steering, 65 + 18 + 2 + 3 + 128);
    }

    #[test]
    fn a_line_of_the_program_cannot_be_forged() {
        let name = "a\nforged: 0 damaged";
        let mut text = Text::new();
        writeln!(text, "{name}: {} damaged", 3).unwrap();
        writeln!(text).unwrap();
        write!(text, "{name:>4}, ").unwrap();
        writeln!(text, "{name}").unwrap();
        text.line(name);
        text.append(&[name, "b"].into_iter().collect());
        text.append(&Text::from("own\nlines\n"));
        let dotted = "a·forged: 0 damaged";
        let wanted = format!(
            "{dotted}: 3 damaged\n\n{dotted}, {dotted}\n{dotted}\n{dotted}\nb\nown\nlines\n"
        );
        assert_eq!(text.as_str(), wanted);
    }

    proptest! {
        #[test]
        fn no_text_steers(
            parts in proptest::collection::vec(".*|[\\x00-\\x1f\u{80}-\u{9f}]*", 0..5),
        ) {
            let mut text = Text::new();
            for part in &parts {
                writeln!(text, "{part}").unwrap();
            }
            let lines = text.as_str().strip_suffix('\n').unwrap_or_default();
            prop_assert_eq!(lines.split('\n').count(), parts.len().max(1));
            prop_assert!(lines.split('\n').all(|line| !line.contains(steers)));
        }
    }
}
