//! The result document itself.

use std::io::{self, Write};

use stats::RunResult;

/// Writes the document, indented, with a line feed at its end.
pub fn write(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, result)?;
    writeln!(out)
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
