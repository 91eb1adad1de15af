//! Rows as comma-separated values (RFC 4180): a header, a line for each row, quotes for texts that
//! need them, and an empty field for an unknown value. Lines end in a line feed alone.

use std::io::{self, Write};

use super::{Column, Value};

/// Writes the header.
pub fn head(columns: &[Column], out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = columns.iter().map(|column| &column.name[..]).collect();
    writeln!(out, "{}", names.join(","))
}

/// Writes a line for each row.
pub fn write(rows: &[Vec<Value>], out: &mut impl Write) -> io::Result<()> {
    for row in rows {
        let mut gap = "";
        for value in row {
            out.write_all(gap.as_bytes())?;
            field(value, out)?;
            gap = ",";
        }
        writeln!(out)?;
    }
    Ok(())
}

fn field(value: &Value, out: &mut impl Write) -> io::Result<()> {
    match value {
        Value::None => Ok(()),
        Value::Whole(number) => write!(out, "{number}"),
        Value::Real(number) => write!(out, "{number}"),
        Value::Text(text) => {
            // Rows may be printed on a terminal.
            let text = block::printable(text);
            match text.contains(['"', ',']) {
                true => write!(out, "\"{}\"", text.replace('"', "\"\"")),
                false => write!(out, "{text}"),
            }
        }
    }
}
