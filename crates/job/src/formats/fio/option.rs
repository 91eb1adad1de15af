//! The table of options: a row for each, with its names, what it sets, or why it sets nothing.
//!
//! Rows stand where the settings are that they set: those of places, times and the mix in
//! [`rows`](super::rows), in [`treated`](super::treated) those that set nothing. All that is known
//! of an option is its row: its names, how it is read, how it stands in a file that is
//! [written](super::write), and what [`explain`](super::told) says of it.

use std::collections::HashMap;
use std::sync::LazyLock;

use block::hint;

use super::lines::Setting;
use super::settings::Settings;
use super::treated;
use super::value::{self, Amount, KbBase, Triple, Unit, set_each};
use super::write::Written;
use super::{calls, control, data, figures, logs, parse, rates, remote, replay, rows, zones};
use crate::formats::note::{FormatError, Note, Treatment};
use crate::formats::surroundings::Surroundings;
use crate::spec::{Group, Step};

/// An option of fio's, or several that are treated alike.
pub(super) struct Row {
    /// Of each option its name in fio's documents and in messages, then its other names, as
    /// `rw|readwrite`.
    pub options: &'static [&'static str],
    /// The name alone says 1.
    pub alone: bool,
    /// What becomes of it.
    pub does: Does,
    /// Its value in a file that says a job of ours.
    pub writes: fn(&Written<'_>) -> Word,
    /// What `explain` says of it.
    pub tells: Tells,
}

/// The value of an option as it is written, if it is: an empty one is a bare name. Or why fio has
/// no word for what a job does.
pub(super) type Word = Result<Option<String>, String>;

/// What `explain` says of an option, if its job has it, and where.
pub(super) enum Tells {
    /// Another row says it.
    Nothing,
    /// Behind the length of a step.
    OfStep(fn(&Step) -> Option<String>),
    /// Among the facts of a group.
    Of(Part, fn(&Group) -> Option<String>),
}

/// A line of what `explain` says of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What it does.
    Load,
    /// What steers it while it runs.
    Steered,
    /// When and where.
    Turn,
    /// Its kinds of I/O.
    Lines,
    /// What is written of it over time.
    Logs,
    /// What is shown of it.
    Shown,
}

/// Facts of one row as one.
pub(super) fn joined(facts: impl IntoIterator<Item = String>) -> Option<String> {
    let facts: Vec<String> = facts.into_iter().collect();
    (!facts.is_empty()).then(|| facts.join(" · "))
}

/// Written as it stands.
pub(super) fn word(value: impl std::fmt::Display) -> Word {
    Ok(Some(value.to_string()))
}

/// Written if that is so.
pub(super) fn word_if(on: bool, value: impl std::fmt::Display) -> Word {
    Ok(on.then(|| value.to_string()))
}

/// Written if it is there.
pub(super) fn some_word(value: Option<impl std::fmt::Display>) -> Word {
    Ok(value.map(|value| value.to_string()))
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

    /// What one of some words means.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, String> {
        value::one_of(self.text()?, words)
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

/// A row of an option that is taken as it stands: its names, and what it does to the settings.
macro_rules! takes {
    ($names:literal, |$settings:ident, $given:ident| $does:expr) => {
        Row::new(&[$names], false, |$settings, $given| {
            $does;
            Ok(None)
        })
    };
}

/// One that sets one thing: its names, what, and the value that is read.
macro_rules! sets {
    ($names:literal, $($place:ident).+, |$given:ident| $read:expr) => {
        $crate::formats::fio::option::takes!($names, |s, $given| s.$($place).+ = $read)
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

pub(super) use {flag, sets, switch, takes};

impl Row {
    /// An option that sets something.
    pub const fn new(
        options: &'static [&'static str],
        alone: bool,
        take: fn(&mut Settings, &Given<'_>) -> Taken,
    ) -> Row {
        Row { options, alone, does: Does::Sets(take), writes: |_| Ok(None), tells: Tells::Nothing }
    }

    /// Options that set nothing.
    pub const fn leaves(
        options: &'static [&'static str],
        alone: bool,
        says: Says,
        treat: fn(Option<&str>) -> (Treatment, &'static str),
    ) -> Row {
        let does = Does::Leaves(says, treat);
        Row { options, alone, does, writes: |_| Ok(None), tells: Tells::Nothing }
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.options[0].split('|').next().unwrap_or_default()
    }

    /// How it is written.
    pub const fn writes(mut self, writes: fn(&Written<'_>) -> Word) -> Row {
        self.writes = writes;
        self
    }

    /// What `explain` says of it.
    pub const fn tells(mut self, part: Part, tells: fn(&Group) -> Option<String>) -> Row {
        self.tells = Tells::Of(part, tells);
        self
    }

    /// What `explain` says of it behind the length of a step.
    pub const fn tells_of_step(mut self, tells: fn(&Step) -> Option<String>) -> Row {
        self.tells = Tells::OfStep(tells);
        self
    }
}

/// Rows beside the settings that they set, in the order in which `explain` tells them.
const GROUPS: [&[Row]; 13] = [
    rates::ROWS,
    rows::volumes::ROWS,
    replay::ROWS,
    rows::mix::ROWS,
    zones::ROWS,
    data::ROWS,
    rows::turn::ROWS,
    control::ROWS,
    logs::ROWS,
    figures::ROWS,
    remote::ROWS,
    calls::ROWS,
    treated::ROWS,
];

/// All rows.
pub(super) fn all() -> impl Iterator<Item = &'static Row> {
    GROUPS.into_iter().flatten()
}

/// All names, each with the first name of its option, and its row.
static TABLE: LazyLock<HashMap<&'static str, (&'static str, &'static Row)>> = LazyLock::new(|| {
    let options = all().flat_map(|row| row.options.iter().map(move |option| (*option, row)));
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

/// Whether an option has this name.
pub fn is_option(name: &str) -> bool {
    TABLE.contains_key(name)
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
    all().flat_map(move |row| row.options.iter().map(move |names| (*names, word(row))))
}

/// Takes one setting into `settings`.
pub fn apply(
    setting: &Setting,
    settings: &mut Settings,
    surroundings: &Surroundings<'_>,
) -> Result<(), FormatError> {
    let note = |treatment, why: &str| Note::new(&setting.at, &setting.text, treatment, why);
    let Some((name, row)) = TABLE.get(setting.key.as_str()) else {
        let near = hint(&setting.key, TABLE.keys().copied());
        let why = format!("not an option of fio that is known here{near}");
        settings.notes.push(note(Treatment::Refused, &why));
        return Ok(());
    };
    let mut text = setting.value.as_deref();
    if let Some(cut) = text.and_then(value::cut).filter(|_| *name != "filename") {
        let why = format!("as with fio the number ends at the sign: {cut}");
        settings.notes.push(note(Treatment::Differs, &why));
        text = Some(cut);
    }
    if let Some((one, why)) = text.and_then(|text| value::one_of_several(name, text)) {
        settings.notes.push(note(Treatment::Differs, why));
        text = Some(one);
    }
    let given = Given { text, kb: settings.kb_base, around: surroundings };
    match &row.does {
        Does::Sets(take) => match whole(*take, settings, &given) {
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

/// Takes a value; of one that must be whole, as fio does, what stands before the point.
fn whole(
    take: fn(&mut Settings, &Given<'_>) -> Taken,
    settings: &mut Settings,
    given: &Given<'_>,
) -> Taken {
    match take(settings, given) {
        Err(Wrong::Value(why)) => {
            let Some(text) = given.text.and_then(value::before_point) else {
                return Err(Wrong::Value(why));
            };
            take(settings, &Given { text: Some(text), ..*given })?;
            Ok(Some("as with fio the number ends at the point"))
        }
        taken => taken,
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
                text => {
                    let near = hint(text, words.iter().copied());
                    Err(format!("'{text}' is none of {}{near}", words.join(", ")))
                }
            },
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_name_has_one_row() {
        let options = all().flat_map(|row| row.options);
        let names = options.map(|option| option.split('|').count());
        assert_eq!(names.sum::<usize>(), TABLE.len(), "a name stands in two rows");
        assert_eq!((plain("blocksize"), plain("bs"), plain("no such")), ("bs", "bs", "no such"));
        assert!(stands_alone("time_based") && !stands_alone("direct") && !stands_alone("x"));
    }
}
