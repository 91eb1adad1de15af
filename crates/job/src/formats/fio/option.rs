//! The table of options: a row for each, with its names, what it sets, or why it sets nothing.
//!
//! Rows stand where the settings are that they set: here those of places, times and the mix, in
//! [`treated`](super::treated) those that set nothing. What a command line, a job file, messages
//! and fio's documents know of an option is its row.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::lines::Setting;
use super::settings::Settings;
use super::treated;
use super::value::{self, Amount, KbBase, Triple, Unit, set_each};
use super::{control, data, figures, logs, parse, remote, replay, zones};
use crate::formats::note::{FormatError, Note, Treatment};
use crate::formats::surroundings::Surroundings;

/// An option of fio's, or several that are treated alike.
pub(super) struct Row {
    /// Of each option its name in fio's documents and in messages, then its other names, as
    /// `rw|readwrite`.
    pub options: &'static [&'static str],
    /// The name alone says 1.
    pub alone: bool,
    /// What becomes of it.
    pub does: Does,
}

/// What becomes of an option.
pub(super) enum Does {
    /// It sets something.
    Sets(fn(&mut Settings, &Given<'_>) -> Taken),
    /// It sets nothing: what it may say, and how that is treated, why.
    Leaves(Says, fn(Option<&str>) -> (Treatment, &'static str)),
}

/// What an option that sets nothing may say: a slip of the pen is found there, too.
pub(super) enum Says {
    /// Anything.
    Anything,
    /// 0 or 1.
    Switch,
    /// A size in bytes.
    Size,
    /// One of some words.
    OneOf(&'static [&'static str]),
}

/// What differs from fio, if anything does, or why a value is not taken.
pub(super) type Taken = Result<Option<&'static str>, Wrong>;

/// Why a value is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It is none of the option's: the file cannot be read.
    #[error("{0}")]
    Value(String),
    /// It is right for fio and not built here: the rest of the file is worth reading all the same.
    #[error("{0}")]
    Unsupported(String),
}

impl From<String> for Wrong {
    fn from(why: String) -> Wrong {
        Wrong::Value(why)
    }
}

impl From<&str> for Wrong {
    fn from(why: &str) -> Wrong {
        Wrong::Value(why.to_owned())
    }
}

/// The value of an option, and what it is read with.
pub(super) struct Given<'a> {
    /// As it stands; `None` for a name alone.
    pub text: Option<&'a str>,
    /// What `k` means.
    pub kb: KbBase,
    /// Files that it may name.
    pub around: &'a Surroundings<'a>,
}

impl<'a> Given<'a> {
    /// The value, where there must be one.
    pub fn text(&self) -> Result<&'a str, String> {
        let text = self.text.filter(|text| !text.is_empty());
        text.ok_or_else(|| "a value is missing".to_owned())
    }

    /// A text that may be left empty.
    pub fn name(&self) -> Option<String> {
        self.text.filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// 0 or 1.
    pub fn switch(&self) -> Result<bool, String> {
        value::switch(self.text)
    }

    /// 0 or 1, or the name alone.
    pub fn flag(&self) -> Result<bool, String> {
        value::flag(self.text)
    }

    /// A size in bytes.
    pub fn size(&self) -> Result<u64, String> {
        self.kb.size(self.text()?)
    }

    /// A size or a share.
    pub fn amount(&self) -> Result<Amount, String> {
        self.kb.amount(self.text()?)
    }

    /// A size or a share, where 0 says what fio has where nothing is said.
    pub fn some_amount(&self) -> Result<Option<Amount>, String> {
        Ok(Some(self.amount()?).filter(|amount| *amount != Amount::Bytes(0)))
    }

    /// A whole number.
    pub fn number<T: TryFrom<u64>>(&self) -> Result<T, String> {
        value::number(self.text()?)
    }

    /// A whole number of 1 or more.
    pub fn count<T: TryFrom<u64> + PartialEq + Default>(&self) -> Result<T, String> {
        parse::at_least_one(self.text()?)
    }

    /// A share of 100.
    pub fn percent(&self) -> Result<f64, String> {
        value::percent(self.text()?)
    }

    /// A share of 100, as a whole number.
    pub fn whole_percent(&self) -> Result<u32, String> {
        Ok(self.percent()? as u32)
    }

    /// A time in microseconds, of seconds without a suffix.
    pub fn seconds(&self) -> Result<u64, String> {
        value::micros(self.text()?, Unit::Seconds)
    }

    /// A time in microseconds.
    pub fn micros(&self) -> Result<u64, String> {
        value::micros(self.text()?, Unit::Micros)
    }

    /// Values for reads, writes and trims, beside those of before.
    pub fn each<T: Clone>(
        &self,
        before: &Triple<T>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Triple<T>, String> {
        let mut values = before.clone();
        set_each(self.text()?, &mut values, read)?;
        Ok(values)
    }
}

/// A row of an option that sets one thing: its names, what, and the value that is read.
macro_rules! sets {
    ($names:literal, $($place:ident).+, |$given:ident| $read:expr) => {
        Row::new(&[$names], false, |settings, $given| {
            settings.$($place).+ = $read;
            Ok(None)
        })
    };
}

/// One whose name alone says 1.
macro_rules! flag {
    ($names:literal, $($place:ident).+) => {
        Row::new(&[$names], true, |settings, given| {
            settings.$($place).+ = given.flag()?;
            Ok(None)
        })
    };
}

/// One that is 0 or 1.
macro_rules! switch {
    ($names:literal, $($place:ident).+) => {
        sets!($names, $($place).+, |given| given.switch()?)
    };
}

pub(super) use {flag, sets, switch};

impl Row {
    /// An option that sets something.
    pub const fn new(
        options: &'static [&'static str],
        alone: bool,
        take: fn(&mut Settings, &Given<'_>) -> Taken,
    ) -> Row {
        Row { options, alone, does: Does::Sets(take) }
    }

    /// Options that set nothing.
    pub const fn leaves(
        options: &'static [&'static str],
        alone: bool,
        says: Says,
        treat: fn(Option<&str>) -> (Treatment, &'static str),
    ) -> Row {
        Row { options, alone, does: Does::Leaves(says, treat) }
    }
}

/// Rows beside the settings that they set.
const GROUPS: [&[Row]; 9] = [
    ROWS,
    control::ROWS,
    data::ROWS,
    figures::ROWS,
    logs::ROWS,
    remote::ROWS,
    replay::ROWS,
    treated::ROWS,
    zones::ROWS,
];

/// All names, each with the first name of its option, and its row.
static TABLE: LazyLock<HashMap<&'static str, (&'static str, &'static Row)>> = LazyLock::new(|| {
    let rows = GROUPS.into_iter().flatten();
    let options = rows.flat_map(|row| row.options.iter().map(move |option| (*option, row)));
    let named = |(option, row): (&'static str, &'static Row)| {
        let first = option.split('|').next().unwrap_or(option);
        option.split('|').map(move |name| (name, (first, row)))
    };
    options.flat_map(named).collect()
});

/// The first of the names of an option; an unknown one has only its own.
pub(super) fn plain(key: &str) -> &str {
    TABLE.get(key).map_or(key, |(name, _)| name)
}

/// Whether fio takes the bare name of an option for 1.
pub fn stands_alone(name: &str) -> bool {
    TABLE.get(name).is_some_and(|(_, row)| row.alone)
}

/// All options: the names of each, as `rw|readwrite`, and what becomes of it when it is on: taken,
/// or the word of a [`Treatment`].
pub fn options() -> impl Iterator<Item = (&'static str, &'static str)> {
    let word = |row: &Row| match row.does {
        Does::Sets(_) => "taken",
        Does::Leaves(_, treat) => treat(Some("1")).0.word(),
    };
    let rows = GROUPS.into_iter().flatten();
    rows.flat_map(move |row| row.options.iter().map(move |names| (*names, word(row))))
}

/// Takes one setting into `settings`.
pub fn apply(
    setting: &Setting,
    settings: &mut Settings,
    surroundings: &Surroundings<'_>,
) -> Result<(), FormatError> {
    let note = |treatment, why: &str| Note::new(&setting.at, &setting.text, treatment, why);
    let Some((name, row)) = TABLE.get(setting.key.as_str()) else {
        let why = "not an option of fio that is known here";
        settings.notes.push(note(Treatment::Refused, why));
        return Ok(());
    };
    let mut text = setting.value.as_deref();
    if let Some(cut) = text.and_then(value::cut).filter(|_| *name != "filename") {
        let why = format!("as with fio the number ends at the sign: {cut}");
        settings.notes.push(note(Treatment::Differs, &why));
        text = Some(cut);
    }
    let given = Given { text, kb: settings.kb_base, around: surroundings };
    match &row.does {
        Does::Sets(take) => match take(settings, &given) {
            Ok(differs) => {
                settings.notes.extend(differs.map(|why| note(Treatment::Differs, why)));
                Ok(())
            }
            Err(Wrong::Unsupported(why)) => {
                settings.notes.push(note(Treatment::Refused, &why));
                Ok(())
            }
            Err(Wrong::Value(why)) => Err(setting.error(why)),
        },
        Does::Leaves(says, treat) => {
            let (treatment, why) = treat(text);
            // What is refused anyway is named with all else that is.
            if treatment != Treatment::Refused {
                says.check(row.alone, &given).map_err(|why| setting.error(why))?;
            }
            settings.notes.push(note(treatment, why));
            Ok(())
        }
    }
}

impl Says {
    /// Finds a slip of the pen.
    fn check(&self, alone: bool, given: &Given<'_>) -> Result<(), String> {
        match self {
            Says::Anything | Says::Switch if alone => given.flag().map(|_| ()),
            Says::Anything => given.text().map(|_| ()),
            Says::Switch => given.switch().map(|_| ()),
            Says::Size => given.size().map(|_| ()),
            Says::OneOf(words) => match given.text.unwrap_or_default() {
                text if words.contains(&text) => Ok(()),
                text => Err(format!("'{text}' is none of {}", words.join(", "))),
            },
        }
    }
}

/// What is done, where, with how many in flight, how long, how fast, and in which order.
const ROWS: &[Row] = &[
    sets!("rw|readwrite", mix, |v| parse::mix(v.text()?, v.kb)?),
    sets!("rwmixread", read_percent, |v| v.percent()?),
    sets!("rwmixwrite", read_percent, |v| 100.0 - v.percent()?),
    Row::new(&["percentage_random"], false, |s, v| {
        s.random_percent = v.each(&s.random_percent, value::percent)?;
        Ok(None)
    }),
    Row::new(&["percentage_sequential"], false, |_, _| {
        Err("fio takes it no longer: say what is random, percentage_random=25".into())
    }),
    Row::new(&["bs|blocksize"], false, |s, v| {
        parse::block_sizes(v.text()?, &mut s.lengths.fixed, v.kb)?;
        Ok(None)
    }),
    Row::new(&["bsrange|blocksize_range"], false, |s, v| {
        parse::size_ranges(v.text()?, &mut s.lengths.ranges, v.kb)?;
        Ok(None)
    }),
    Row::new(&["bssplit"], false, |s, v| {
        parse::size_splits(v.text()?, &mut s.lengths.splits, v.kb)?;
        Ok(None)
    }),
    Row::new(&["ba|blockalign"], false, |s, v| {
        let read = |text: &str| parse::not_zero(v.kb.size(text)?).map(Some);
        s.align_bytes = v.each(&s.align_bytes, read)?;
        Ok(None)
    }),
    flag!("bs_unaligned|blocksize_unaligned", unaligned),
    switch!("bs_is_seq_rand", sizes_by_order),
    sets!("rw_sequencer", run_stays, |v| parse::run_stays(v.text()?)?),
    sets!("random_distribution", distribution, |v| parse::distribution(v.text()?, v.kb)?),
    flag!("norandommap", no_random_map),
    sets!("randseed", seed, |v| Some(v.number()?)),
    sets!("iodepth", depth, |v| v.count()?),
    sets!("iodepth_low", depth_low, |v| v.number()?),
    Row::new(&["ioengine"], false, |s, v| {
        s.mapped.on = v.text == Some("mmap");
        s.engine = parse::engine(v.text()?)?;
        Ok(v.text.and_then(parse::other_manner))
    }),
    flag!("hipri", hipri),
    flag!("sqthread_poll", sqthread_poll),
    sets!("filename", files, |v| parse::files(v.text()?)?),
    sets!("nrfiles|nr_files", nr_files, |v| v.count()?),
    sets!("openfiles", open_files, |v| Some(v.count()?)),
    sets!("file_service_type", service, |v| parse::service(v.text()?)?),
    sets!("filename_format", name_format, |v| Some(v.text()?.to_owned())),
    sets!("directory", directory, |v| Some(v.text()?.to_owned())),
    switch!("direct", direct),
    sets!("buffered", direct, |v| !v.switch()?),
    switch!("invalidate", invalidate),
    switch!("create_only", before.only_made),
    switch!("pre_read", before.read),
    sets!("fadvise_hint", hint, |v| parse::hint(v.text)?),
    sets!("size", size, |v| v.some_amount()?),
    switch!("fill_device|fill_fs", fill),
    Row::new(&["filesize"], false, |s, v| {
        s.file_size = Some(parse::file_size(v.text()?, v.kb)?);
        let why = "all files have the mean of the range; fio draws the size of each";
        Ok(v.text()?.contains('-').then_some(why))
    }),
    sets!("io_size|io_limit", io_size, |v| v.some_amount()?),
    sets!("offset|fileoffset", offset, |v| v.amount()?),
    sets!("offset_increment", offset_increment, |v| v.amount()?),
    switch!("file_append", appends),
    sets!("offset_align", offset_align, |v| v.size()?),
    sets!("loops", loops, |v| parse::loops(v.text()?)?),
    sets!("numjobs", clones, |v| v.count()?),
    sets!("cpus_allowed", seats.cpus, |v| parse::processors(v.text()?)?),
    sets!("cpumask", seats.cpus, |v| parse::processor_mask(v.text()?)?),
    sets!("numa_cpu_nodes", seats.nodes, |v| parse::processors(v.text()?)?),
    sets!("runtime|timeout", runtime_us, |v| Some(v.seconds()?).filter(|us| *us > 0)),
    flag!("time_based", time_based),
    sets!("ramp_time", ramp_us, |v| v.seconds()?),
    sets!("steadystate|ss", steady.criterion, |v| Some(parse::steady(v.text()?, v.kb)?)),
    sets!("steadystate_duration|ss_dur", steady.duration_us, |v| v.seconds()?),
    sets!("steadystate_ramp_time|ss_ramp", steady.ramp_us, |v| v.seconds()?),
    sets!("steadystate_check_interval|ss_interval", steady.interval_us, |v| Some(v.seconds()?)),
    sets!("startdelay", delay_us, |v| parse::delay(v.text()?)?),
    sets!("wait_for", wait_for, |v| Some(v.text()?.to_owned())),
    flag!("exitall", exit_all),
    sets!("number_ios", most_ios, |v| Some(v.number()?).filter(|ios| *ios > 0)),
    Row::new(&["rate"], false, |s, v| {
        s.rate_bytes = v.each(&s.rate_bytes, |text| v.kb.size(text))?;
        Ok(None)
    }),
    Row::new(&["rate_iops"], false, |s, v| {
        s.rate_ios = v.each(&s.rate_ios, |text| v.kb.size(text))?;
        Ok(None)
    }),
    sets!("rate_process", poisson, |v| parse::is_poisson(v.text()?)?),
    Row::new(&["fsync"], false, |s, v| {
        s.figures.flushes = true;
        s.flush_every = v.number()?;
        Ok(None)
    }),
    Row::new(&["fdatasync"], false, |s, v| {
        s.figures.flushes = false;
        s.flush_every = v.number()?;
        Ok(None)
    }),
    sets!("sync", durable, |v| parse::durable(v.text()?)?),
    switch!("end_fsync", end_flush),
    switch!("fsync_on_close", end_flush),
    sets!("name", name, |v| Some(v.text()?.to_owned())),
    sets!("description", figures.description, |v| v.text()?.to_owned()),
    // Taken first, before all others; here it is only known.
    Row::new(&["kb_base"], false, |_, _| Ok(None)),
    flag!("stonewall|wait_for_previous", stonewall),
    flag!("group_reporting", grouped),
    flag!("new_group", figures.begins),
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_name_has_one_row() {
        let options = GROUPS.into_iter().flatten().flat_map(|row| row.options);
        let names = options.map(|option| option.split('|').count());
        assert_eq!(names.sum::<usize>(), TABLE.len(), "a name stands in two rows");
        assert_eq!((plain("blocksize"), plain("bs"), plain("no such")), ("bs", "bs", "no such"));
        assert!(stands_alone("time_based") && !stands_alone("direct") && !stands_alone("x"));
    }
}
