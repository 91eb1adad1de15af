//! Writer of a job of ours as a fio job file, as far as fio has options for it, which the rows
//! determine.
//!
//! The caller reads the written file again: only what cannot be written is refused here.

mod volumes;

use std::fmt::{Display, Write};

use super::laid_out;
use super::option::{self, Row};
use crate::formats::reading::Storage;
use crate::spec::{Access, Content, Group, JobSpec, Line, Step, Verify};

pub(super) use volumes::Way;

/// A group of a job of ours, in which rows find their values.
pub(super) struct Written<'a> {
    pub step: &'a Step,
    pub group: &'a Group,
    /// True if the group waits for all previous ones.
    pub waits: bool,
    /// Number of files that one clone goes through: sizes, queue depths and rates are those of all
    /// files.
    pub files: u64,
    /// Names of the files.
    pub names: Vec<String>,
    /// Access method of the files.
    pub way: Way,
    /// True if the files use the page cache.
    pub cached: bool,
    /// Operations; `None` if a trace determines them.
    pub mix: Option<Mix<'a>>,
}

impl<'a> Written<'a> {
    /// Creates a group without volumes.
    pub fn of(step: &'a Step, group: &'a Group) -> Written<'a> {
        let (names, way, mix) = (Vec::new(), Way::default(), None);
        Written { step, group, waits: false, files: 1, names, way, cached: false, mix }
    }

    pub fn access(&self) -> &'a Access {
        &self.group.workload.access
    }

    pub fn content(&self) -> &'a Content {
        &self.group.workload.content
    }

    pub fn verify(&self) -> Option<Verify> {
        self.group.workload.verify
    }

    /// Returns whether the group ends by itself.
    pub fn ends(&self) -> bool {
        self.group.workload.limit_bytes.is_some() || self.access().trace.is_some()
    }
}

/// Operations, with the I/O sizes of each direction.
pub(super) struct Mix<'a> {
    /// Value of fio's `rw`, without `rand`.
    pub word: &'static str,
    pub read_percent: f64,
    pub random: bool,
    /// Lines of each direction, or those of both.
    pub parts: Vec<Vec<&'a Line>>,
}

impl<'a> Mix<'a> {
    fn of(access: &'a Access) -> Result<Mix<'a>, String> {
        let lines = &access.lines;
        let first = lines.first().ok_or("the access specification has no lines")?;
        let is_trim = |line: &Line| line.trim_percent == 100.0;
        if !lines.iter().all(is_trim) && lines.iter().any(|line| line.trim_percent > 0.0) {
            return Err("fio cannot mix trims with other operations".to_owned());
        }
        let same_mix = lines.iter().all(|line| line.read_percent == first.read_percent);
        let apart = lines.iter().all(|line| [0.0, 100.0].contains(&line.read_percent));
        let (parts, read_percent): (Vec<Vec<&Line>>, f64) = match (same_mix, apart) {
            (true, _) => (vec![lines.iter().collect()], first.read_percent),
            (false, true) => {
                let reads = |line: &&Line| line.read_percent == 100.0;
                let (reads, writes): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(reads);
                let share = reads.iter().map(|line| line.share_percent).sum();
                (vec![reads, writes], share)
            }
            _ => return Err("fio has one read/write mix for all block sizes".to_owned()),
        };
        let word = match read_percent {
            _ if is_trim(first) => "trim",
            100.0 => "read",
            0.0 if access.trims_first => "trimwrite",
            _ if access.trims_first => return Err("fio cannot mix trims and reads".to_owned()),
            0.0 => "write",
            _ => "rw",
        };
        let random = lines.iter().any(|line| line.random_percent > 0.0);
        Ok(Mix { word, read_percent, random, parts })
    }

    /// Returns whether each direction has one I/O size.
    pub fn is_single(&self) -> bool {
        self.parts.iter().all(|part| part.len() == 1)
    }
}

/// Writes a job as a fio job file. `storage` returns the storage of a URI as fio describes it.
pub fn write(job: &JobSpec, storage: &dyn Fn(&str) -> Option<Storage>) -> Result<String, String> {
    let mut text = format!("[global]\nrandseed={}\n", job.seed);
    laid_out::write(&mut text, &job.laid_out)?;
    let mut number = 0;
    for (index, step) in job.steps.iter().enumerate() {
        for (place, group) in step.groups.iter().enumerate() {
            number += 1;
            let waits = index > 0 && place == 0;
            let written = Written { waits, ..Written::of(step, group) };
            section(&mut text, number, written, storage)?;
        }
    }
    Ok(text)
}

fn section(
    text: &mut String,
    number: usize,
    mut written: Written<'_>,
    storage: &dyn Fn(&str) -> Option<Storage>,
) -> Result<(), String> {
    let group = written.group;
    let fits =
        |name: &str| !name.contains(['\n', '[', ']', ';', '#']) && !name.starts_with("global");
    let _ = match group.name.as_str() {
        name if !name.is_empty() && fits(name) => writeln!(text, "\n[{name}]"),
        _ => writeln!(text, "\n[job{number}]"),
    };
    if group.stripes.is_some() {
        return Err(
            "volumes that one worker uses in turn cannot be written as a fio job".to_owned()
        );
    }
    volumes::find(&mut written, storage)?;
    let access = written.access();
    if access.trace.is_none() {
        written.mix = Some(Mix::of(access)?);
        unknown(access)?;
    }
    rows(text, option::all(), &written)
}

/// Writes the options of rows.
pub(super) fn rows<'a>(
    text: &mut String,
    rows: impl IntoIterator<Item = &'a Row>,
    written: &Written<'_>,
) -> Result<(), String> {
    for row in rows {
        match (row.writes)(written)? {
            Some(value) if value.is_empty() => text.push_str(&format!("{}\n", row.name())),
            Some(value) => set(text, row.name(), value),
            None => {}
        }
    }
    Ok(())
}

/// Refuses features that have no fio option.
fn unknown(access: &Access) -> Result<(), String> {
    let all = |same: &dyn Fn(&Line) -> bool| access.lines.iter().all(same);
    let fua = access.lines.first().map_or(0.0, |line| line.fua_percent);
    for (what, fits) in [
        ("a share of flushes", all(&|line| line.flush_percent == 0.0)),
        ("a share of zeroes", all(&|line| line.zero_percent == 0.0)),
        ("replies", all(&|line| line.reply_bytes == 0)),
        ("delays from the start of an I/O", all(&|line| line.delay_us == 0)),
        (
            "a mix of durable and other writes",
            all(&|line| line.fua_percent == fua && [0.0, 100.0].contains(&line.fua_percent)),
        ),
    ] {
        if !fits {
            return Err(format!("fio does not support {what}"));
        }
    }
    Ok(())
}

pub(super) fn set(text: &mut String, key: &str, value: impl Display) {
    let _ = writeln!(text, "{key}={value}");
}

/// Formats values of directions.
pub(super) fn each(values: &[impl Display]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Returns a share as in fio: in whole percent.
pub(super) fn whole(percent: f64, what: &str) -> Result<u32, String> {
    let near = percent.round();
    match (percent - near).abs() < 1e-6 && (0.0..=100.0).contains(&near) {
        true => Ok(near as u32),
        false => Err(format!("{what} is {percent} %: fio accepts whole percent only")),
    }
}
