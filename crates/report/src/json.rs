//! The result document itself.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use stats::RunResult;

/// Writes the document, indented, with a line feed at its end.
pub fn write(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    write_value(result, out)
}

/// Writes anything so.
pub fn write_value(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, ListsInLine::default()))?;
    writeln!(out)
}

/// Objects over several lines, lists in one: histograms have long lists of numbers.
#[derive(Default)]
struct ListsInLine(PrettyFormatter<'static>);

impl Formatter for ListsInLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

/// Reads a document back. Unknown names are ignored, so newer documents of the same layout pass.
pub fn read(text: &[u8]) -> serde_json::Result<RunResult> {
    serde_json::from_slice(text)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    #[test]
    fn one_document_that_can_be_read_back() {
        let mut out = Vec::new();
        write(&sample::race(), &mut out).unwrap();
        assert!(out.ends_with(b"}\n"));
        assert_eq!(read(&out).unwrap(), sample::race());
        let newer = String::from_utf8(out).unwrap().replacen('{', "{\"new\": 1,", 1);
        assert_eq!(read(newer.as_bytes()).unwrap(), sample::race());
        assert!(read(b"{}").is_err());
    }
}
