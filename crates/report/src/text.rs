//! The final table for a terminal or a pipe.

use std::io::{self, Write};

use block::Rate;
use stats::RunResult;

use crate::style::Paint;

/// Writes the table.
pub fn write(result: &RunResult, _paint: Paint, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{} IOPS ({})", Rate(result.totals.iops), result.origin.word())
}
