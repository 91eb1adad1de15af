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
