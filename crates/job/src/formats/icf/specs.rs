//! The section ACCESS SPECIFICATIONS of an Iometer configuration.

use super::file::{Icf, Spec, SpecLine, next};
use super::scan::{Scanner, Text};
use crate::formats::note::{FormatError, Note, Treatment};

/// Maximum number of access specifications of a file; Iometer includes some thirty.
const SPECS_MAX: usize = 1024;

/// Name of Iometer's built-in specification in which a worker does nothing.
const IDLE: &str = "idle";

/// Returns whether this is the name of the specification that does nothing.
pub fn is_idle(name: &str) -> bool {
    name.eq_ignore_ascii_case(IDLE)
}

/// Returns whether two names mean the same specification.
pub fn is_same(a: &str, b: &str) -> bool {
    a.to_lowercase() == b.to_lowercase()
}

/// Reads the section.
pub fn specs(scanner: &mut Scanner<'_>, icf: &mut Icf) -> Result<(), FormatError> {
    // Specification that the next lines belong to; the oldest versions have no names.
    let mut named: Option<usize> = None;
    while let Some((name, key)) = next(scanner, "end access specifications")? {
        match name.as_str() {
            "access specification name,default assignment" | "access specification name" => {
                named = Some(begin(scanner.value()?, icf)?);
            }
            name if name.starts_with("size") => {
                for text in scanner.values() {
                    let line = spec_line(text, &mut icf.notes)?;
                    match named {
                        Some(index) => icf.specs[index].lines.push(line),
                        None => unnamed(line, icf)?,
                    }
                }
            }
            _ => return Err(key.error("not a key of an access specification")),
        }
    }
    // The idle specification does nothing, whatever a file defines for it.
    icf.specs.retain(|spec| !is_idle(&spec.name));
    Ok(())
}

/// Begins the specification that a line `name,default assignment` names. As in Iometer, it replaces
/// a previous one of the same name.
fn begin(value: Text, icf: &mut Icf) -> Result<usize, FormatError> {
    let (name, assigned) = value.text.rsplit_once(',').unwrap_or((&value.text, ""));
    let assigned = assigned.trim().to_ascii_uppercase();
    // Up to 1998 the assignments were numbers.
    let by_default = matches!(assigned.as_str(), "ALL" | "DISK" | "1" | "2");
    let name = name.trim().to_owned();
    let spec = Spec { name, at: value.at.clone(), by_default, unnamed: false, lines: Vec::new() };
    let known = icf.specs.iter().position(|known| is_same(&known.name, &spec.name));
    if let Some(index) = known {
        let old = std::mem::replace(&mut icf.specs[index], spec);
        let why = format!("defined again in line {}: the last definition applies", value.at.line);
        icf.notes.push(Note::new(&old.at, &old.name, Treatment::Ignored, why));
        return Ok(index);
    }
    if icf.specs.len() == SPECS_MAX {
        return Err(value.error("more than 1024 access specifications"));
    }
    icf.specs.push(spec);
    Ok(icf.specs.len() - 1)
}

/// Adds a line of a version without names. Lines that sum up to 100 percent are one specification,
/// with the name that Iometer would derive from its first line.
fn unnamed(line: SpecLine, icf: &mut Icf) -> Result<(), FormatError> {
    let open = icf
        .specs
        .last_mut()
        .filter(|spec| spec.lines.iter().map(|line| line.share_percent).sum::<u32>() < 100);
    if let Some(spec) = open {
        spec.lines.push(line);
        return Ok(());
    }
    if icf.specs.len() == SPECS_MAX {
        return Err(line.text.error("more than 1024 access specifications"));
    }
    let random = if line.random_percent > 0 { "random" } else { "sequential" };
    let size = block::print_size(line.size_bytes).to_uppercase();
    let name = format!("{size} {random} {}% reads", line.read_percent);
    let (at, lines) = (line.text.at.clone(), vec![line]);
    icf.specs.push(Spec { name, at, by_default: true, unnamed: true, lines });
    Ok(())
}

fn spec_line(text: Text, notes: &mut Vec<Note>) -> Result<SpecLine, FormatError> {
    let fields = text.fields();
    if fields.len() < 6 {
        let why = "a line needs size, % of size, % reads, % random, delay, burst[, align, reply]";
        return Err(text.error(why));
    }
    let percent = |index, what| match text.number::<u32>(index, what)? {
        percent @ 0..=100 => Ok(percent),
        percent => Err(text.error(format!("{what} is {percent}, above 100 percent"))),
    };
    let or_zero = |index, what| match fields.get(index) {
        Some(_) => text.number(index, what),
        None => Ok(0),
    };
    let size_bytes = match fields[0].parse() {
        Ok(bytes) => bytes,
        Err(_) => {
            let size = block::parse_size(fields[0]);
            let bytes = size.map_err(|error| text.error(error.to_string()))?;
            let why = format!("read as {bytes} bytes; Iometer stops reading at the letter");
            notes.push(Note::new(&text.at, &text.text, Treatment::Differs, why));
            bytes
        }
    };
    Ok(SpecLine {
        size_bytes,
        share_percent: percent(1, "% of size")?,
        read_percent: percent(2, "% reads")?,
        random_percent: percent(3, "% random")?,
        delay_ms: text.number(4, "the delay")?,
        burst: text.number(5, "the burst")?,
        align_bytes: or_zero(6, "the alignment")?,
        reply_bytes: or_zero(7, "the reply")?,
        text: text.clone(),
    })
}
