//! The table of options: a row for each, with its names and its setting, or the reason why it sets
//! nothing.
//!
//! Rows are next to their settings: those of offsets, times and the mix are in
//! [`rows`](super::rows), those that set nothing in [`treated`](super::treated). All facts about an
//! option are in its row: its names, its parser, its form in a file that is
//! [written](super::write), and its line in [`explain`](super::told).

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

/// An option of fio's, or several with the same treatment.
pub(super) struct Row {
    /// Names of each option: first the one in fio's documentation and in messages, then its
    /// aliases, such as `rw|readwrite`.
    pub options: &'static [&'static str],
    /// True if the name without a value sets 1.
    pub alone: bool,
    /// Effect of the option.
    pub does: Does,
    /// Writer of the option's value for a job of ours.
    pub writes: fn(&Written<'_>) -> Word,
    /// Line of the option in `explain`.
    pub tells: Tells,
}

/// The written value of an option, if any: an empty one is a bare name. An error if fio has no
/// option for what a job does.
pub(super) type Word = Result<Option<String>, String>;

/// Line of an option in `explain`, if its job has the option, and its position.
pub(super) enum Tells {
    /// No line: another row has it.
    Nothing,
    /// After the length of a step.
    OfStep(fn(&Step) -> Option<String>),
    /// Among the facts of a group.
    Of(Part, fn(&Group) -> Option<String>),
}

/// A line of a group in `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The load.
    Load,
    /// Control during the run.
    Steered,
    /// Times and CPUs.
    Turn,
    /// Lines of the access specification.
    Lines,
    /// Logs over time.
    Logs,
    /// Figures to show.
    Shown,
}

/// Joins facts of one row.
pub(super) fn joined(facts: impl IntoIterator<Item = String>) -> Option<String> {
    let facts: Vec<String> = facts.into_iter().collect();
    (!facts.is_empty()).then(|| facts.join(" · "))
}

/// Writes the value.
pub(super) fn word(value: impl std::fmt::Display) -> Word {
    Ok(Some(value.to_string()))
}

/// Writes the value if `on`.
pub(super) fn word_if(on: bool, value: impl std::fmt::Display) -> Word {
    Ok(on.then(|| value.to_string()))
}

/// Writes the value if it is present.
pub(super) fn some_word(value: Option<impl std::fmt::Display>) -> Word {
    Ok(value.map(|value| value.to_string()))
}

/// Effect of an option.
pub(super) enum Does {
    /// The option sets something.
    Sets(fn(&mut Settings, &Given<'_>) -> Taken),
    /// The option sets nothing: its allowed values, and its treatment with the reason.
    Leaves(Says, fn(Option<&str>) -> (Treatment, &'static str)),
}

/// Values of an option that sets nothing: typing mistakes are found in it, too.
pub(super) enum Says {
    /// Any value.
    Anything,
    /// 0 or 1.
    Switch,
    /// A size in bytes.
    Size,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// The difference from fio, if any, or the reason why a value is rejected.
pub(super) type Taken = Result<Option<&'static str>, Wrong>;

/// Reason why a value is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The value is invalid for the option: the file cannot be read.
    #[error("{0}")]
    Value(String),
    /// The value is valid for fio and not supported: the rest of the file is still worth reading.
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

/// The value of an option, and the context to read it.
pub(super) struct Given<'a> {
    /// Text of the value; `None` for a name alone.
    pub text: Option<&'a str>,
    /// Meaning of `k`.
    pub kb: KbBase,
    /// Access to files that the value may name.
    pub around: &'a Surroundings<'a>,
}

impl<'a> Given<'a> {
    /// Returns the value; an error if it is missing.
    pub fn text(&self) -> Result<&'a str, String> {
        let text = self.text.filter(|text| !text.is_empty());
        text.ok_or_else(|| "a value is missing".to_owned())
    }

    /// Returns a text that may be empty.
    pub fn name(&self) -> Option<String> {
        self.text.filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Reads 0 or 1.
    pub fn switch(&self) -> Result<bool, String> {
        value::switch(self.text)
    }

    /// Reads 0 or 1, or the name alone.
    pub fn flag(&self) -> Result<bool, String> {
        value::flag(self.text)
    }

    /// Reads a size in bytes.
    pub fn size(&self) -> Result<u64, String> {
        self.kb.size(self.text()?)
    }

    /// Reads one of some words and returns its meaning.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, String> {
        value::one_of(self.text()?, words)
    }

    /// Reads a size or a percentage.
    pub fn amount(&self) -> Result<Amount, String> {
        self.kb.amount(self.text()?)
    }

    /// Reads a size or a percentage, of which 0 means fio's default.
    pub fn some_amount(&self) -> Result<Option<Amount>, String> {
        Ok(Some(self.amount()?).filter(|amount| *amount != Amount::Bytes(0)))
    }

    /// Reads a whole number.
    pub fn number<T: TryFrom<u64>>(&self) -> Result<T, String> {
        value::number(self.text()?)
    }

    /// Reads a whole number of 1 or more.
    pub fn count<T: TryFrom<u64> + PartialEq + Default>(&self) -> Result<T, String> {
        parse::at_least_one(self.text()?)
    }

    /// Reads a percentage.
    pub fn percent(&self) -> Result<f64, String> {
        value::percent(self.text()?)
    }

    /// Reads a whole percentage.
    pub fn whole_percent(&self) -> Result<u32, String> {
        Ok(self.percent()? as u32)
    }

    /// Reads a time in microseconds; seconds without a suffix.
    pub fn seconds(&self) -> Result<u64, String> {
        value::micros(self.text()?, Unit::Seconds)
    }

    /// Reads a time in microseconds; microseconds without a suffix.
    pub fn micros(&self) -> Result<u64, String> {
        value::micros(self.text()?, Unit::Micros)
    }

    /// Reads values for reads, writes and trims over the previous ones.
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

/// A row of an option without differences: its names, and its effect on the settings.
macro_rules! takes {
    ($names:literal, |$settings:ident, $given:ident| $does:expr) => {
        Row::new(&[$names], false, |$settings, $given| {
            $does;
            Ok(None)
        })
    };
}

/// A row that sets one field: its names, the field, and the parser of the value.
macro_rules! sets {
    ($names:literal, $($place:ident).+, |$given:ident| $read:expr) => {
        $crate::formats::fio::option::takes!($names, |s, $given| s.$($place).+ = $read)
    };
}

/// A row of a flag: the option name without a value sets 1.
macro_rules! flag {
    ($names:literal, $($place:ident).+) => {
        Row::new(&[$names], true, |settings, given| {
            settings.$($place).+ = given.flag()?;
            Ok(None)
        })
    };
}

/// A row with a value of 0 or 1.
macro_rules! switch {
    ($names:literal, $($place:ident).+) => {
        sets!($names, $($place).+, |given| given.switch()?)
    };
}

pub(super) use {flag, sets, switch, takes};

impl Row {
    /// Creates a row of an option that sets something.
    pub const fn new(
        options: &'static [&'static str],
        alone: bool,
        take: fn(&mut Settings, &Given<'_>) -> Taken,
    ) -> Row {
        Row { options, alone, does: Does::Sets(take), writes: |_| Ok(None), tells: Tells::Nothing }
    }

    /// Creates a row of options that set nothing.
    pub const fn leaves(
        options: &'static [&'static str],
        alone: bool,
        says: Says,
        treat: fn(Option<&str>) -> (Treatment, &'static str),
    ) -> Row {
        let does = Does::Leaves(says, treat);
        Row { options, alone, does, writes: |_| Ok(None), tells: Tells::Nothing }
    }

    /// Returns the name of the option.
    pub fn name(&self) -> &'static str {
        self.options[0].split('|').next().unwrap_or_default()
    }

    /// Sets the writer of the value.
    pub const fn writes(mut self, writes: fn(&Written<'_>) -> Word) -> Row {
        self.writes = writes;
        self
    }

    /// Sets the line in `explain`.
    pub const fn tells(mut self, part: Part, tells: fn(&Group) -> Option<String>) -> Row {
        self.tells = Tells::Of(part, tells);
        self
    }

    /// Sets the line in `explain` that follows the length of a step.
    pub const fn tells_of_step(mut self, tells: fn(&Step) -> Option<String>) -> Row {
        self.tells = Tells::OfStep(tells);
        self
    }
}

/// Rows grouped by their settings, in the order of `explain`.
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

/// Returns all rows.
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

/// Returns the first name of an option; an unknown one has only its own.
pub(super) fn plain(key: &str) -> &str {
    TABLE.get(key).map_or(key, |(name, _)| name)
}

/// Returns whether an option has this name.
pub fn is_option(name: &str) -> bool {
    TABLE.contains_key(name)
}

/// Returns whether fio reads the bare name of an option as 1.
pub fn stands_alone(name: &str) -> bool {
    TABLE.get(name).is_some_and(|(_, row)| row.alone)
}

/// Returns all options: the names of each, such as `rw|readwrite`, and its effect when it is on:
/// "taken", or the word of a [`Treatment`].
pub fn options() -> impl Iterator<Item = (&'static str, &'static str)> {
    let word = |row: &Row| match row.does {
        Does::Sets(_) => "taken",
        Does::Leaves(_, treat) => treat(Some("1")).0.word(),
    };
    all().flat_map(move |row| row.options.iter().map(move |names| (*names, word(row))))
}

/// Applies one setting to `settings`.
pub fn apply(
    setting: &Setting,
    settings: &mut Settings,
    surroundings: &Surroundings<'_>,
) -> Result<(), FormatError> {
    let note = |treatment, why: &str| Note::new(&setting.at, &setting.text, treatment, why);
    let Some((name, row)) = TABLE.get(setting.key.as_str()) else {
        let near = hint(&setting.key, TABLE.keys().copied());
        let why = format!("unknown fio option{near}");
        settings.notes.push(note(Treatment::Refused, &why));
        return Ok(());
    };
    let mut text = setting.value.as_deref();
    if let Some(cut) = text.and_then(value::cut).filter(|_| *name != "filename") {
        let why = format!(
            "the value is {cut}: as in fio, a number ends at an operator outside parentheses"
        );
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
            // A refused option is named together with all other refused ones.
            if treatment != Treatment::Refused {
                says.check(row.alone, &given).map_err(|why| setting.error(why))?;
            }
            settings.notes.push(note(treatment, why));
            Ok(())
        }
    }
}

/// Applies a value; if it must be a whole number, the part before the decimal point, as in fio.
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
            Ok(Some("as in fio, the number ends at the decimal point"))
        }
        taken => taken,
    }
}

impl Says {
    /// Finds typing mistakes.
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
                    Err(format!("unknown value '{text}': one of {}{near}", words.join(", ")))
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
