//! Renderings for a terminal: text with our colours, and no control sequences from input.

use std::io;

use block::{printable, steers};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{json, style};

/// A rendering with colours. No character in it steers a terminal but the colours and the line
/// feeds of this crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Painted(String);

impl Painted {
    /// Sanitizes the output of a function of this crate for a [`printable_of`] document.
    pub(crate) fn of(written: Vec<u8>) -> Painted {
        let text = String::from_utf8_lossy(&written);
        let mut painted = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some(at) = rest.find(|letter| steers(letter) && letter != '\n') {
            let (before, steering) = rest.split_at(at);
            painted.push_str(before);
            let colour = style::colour_at(steering).unwrap_or_default();
            let letter = steering.chars().next().map_or(0, char::len_utf8);
            painted.push_str(if colour.is_empty() { "·" } else { colour });
            rest = &steering[colour.len().max(letter)..];
        }
        painted.push_str(rest);
        Painted(painted)
    }

    /// The text's characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Copies a document with every text in it [`printable`]: names, addresses and evidence from
/// outside cannot control the terminal, in whatever field. A document that cannot be read back is
/// returned unchanged.
pub fn printable_of<T: Serialize + DeserializeOwned + Clone>(document: &T) -> T {
    through_text(document).unwrap_or_else(|_| document.clone())
}

/// The document with printable texts. Reading JSON text and reading [`Value`]s would both have to
/// be compiled for each type; documents are text elsewhere.
fn through_text<T: Serialize + DeserializeOwned>(document: &T) -> io::Result<T> {
    let (mut raw, mut text) = (Vec::new(), Vec::new());
    json::write_value(document, &mut raw)?;
    let mut value = serde_json::from_slice(&raw)?;
    make_printable(&mut value);
    json::write_value(&value, &mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn make_printable(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(steers) => *text = printable(text).into_owned(),
        Value::Array(all) => all.iter_mut().for_each(make_printable),
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains(steers)) {
                let old = std::mem::take(fields);
                let named = |(name, value): (String, Value)| (printable(&name).into_owned(), value);
                fields.extend(old.into_iter().map(named));
            }
            fields.values_mut().for_each(make_printable);
        }
        _ => {}
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;
    use crate::style::Paint;

    #[test]
    fn colours_stay_and_nothing_else_that_steers() {
        let text = format!("{}\n\x1b[2J\x1b[31mx\x1b]0;y\x07\u{9b}1m", Paint::COLOR.red("a\rb"));
        let painted = Painted::of(text.into_bytes());
        assert_eq!(painted.as_str(), "\x1b[31ma·b\x1b[0m\n·[2J\x1b[31mx·]0;y··1m");
    }

    /// Puts an odd text into every string of a document.
    fn poison(value: &mut Value) {
        match value {
            Value::String(text) => *text += "\x1b[2J\nforged: 1\u{202e}",
            Value::Array(all) => all.iter_mut().for_each(poison),
            Value::Object(fields) => fields.values_mut().for_each(poison),
            _ => {}
        }
    }

    #[test]
    fn every_text_of_a_document_is_printable() {
        let mut value = serde_json::to_value(sample::counted().job).unwrap();
        poison(&mut value);
        let job: stats::Job = serde_json::from_value(value).unwrap();
        let shown = serde_json::to_string(&printable_of(&job)).unwrap();
        assert!(shown.contains("·[2J·forged: 1·") && !shown.contains("\\n"), "{shown}");
    }

    #[test]
    fn a_document_without_odd_texts_is_the_same() {
        let result = sample::counted();
        assert_eq!(printable_of(&result), result);
    }
}
