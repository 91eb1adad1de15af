//! From sections to jobs: defaults are inherited, everything is typed, nothing is judged.

use std::sync::Arc;

use super::COMMAND_LINE;
use super::lines::{Section, Setting};
use super::option;
use super::settings::Settings;
use crate::formats::note::{FormatError, Location, Notes};
use crate::formats::surroundings::Surroundings;

/// A job as it stands in the file.
#[derive(Clone, Debug)]
pub struct FioJob {
    /// Its name.
    pub name: String,
    /// The name of its section: files that it makes are called by it, as with fio.
    pub section: String,
    /// Where its section begins.
    pub at: Location,
    /// Its settings, with the defaults above it filled in.
    pub settings: Settings,
    /// The lines of its own section, for messages that blame one of them.
    lines: Vec<Setting>,
    /// The lines of the defaults above it.
    inherited: Option<Arc<Inherited>>,
}

/// The lines of a section of defaults, and those above it: shared by the jobs that follow.
#[derive(Debug)]
struct Inherited {
    lines: Vec<Setting>,
    above: Option<Arc<Inherited>>,
}

impl FioJob {
    /// The line that sets `key`, or the section where it is a default.
    pub fn line_of(&self, key: &str) -> (&Location, &str) {
        self.setting(key)
            .map_or((&self.at, self.name.as_str()), |setting| (&setting.at, &setting.text))
    }
}

impl FioJob {
    /// Whether a line sets `key`, by any of its names, its own or one of the defaults above it.
    pub fn sets(&self, key: &str) -> bool {
        self.setting(key).is_some()
    }

    fn setting(&self, key: &str) -> Option<&Setting> {
        let sections =
            std::iter::successors(self.inherited.as_deref(), |section| section.above.as_deref());
        let inherited = sections.flat_map(|section| section.lines.iter().rev());
        self.lines.iter().rev().chain(inherited).find(|setting| option::plain(&setting.key) == key)
    }
}

/// All jobs, and what their files set for all of them.
#[derive(Debug, Default)]
pub struct Jobs {
    /// In the order of their sections.
    pub jobs: Vec<FioJob>,
    /// Options of the sections of defaults, as fio names them, and their values.
    pub options: Vec<(String, String)>,
}

/// Reads the jobs of all sections, and the notes on them.
pub fn jobs(
    sections: &[Section],
    surroundings: &Surroundings<'_>,
) -> Result<(Jobs, Notes), FormatError> {
    let mut defaults = Settings::usual();
    let mut inherited: Option<Arc<Inherited>> = None;
    let mut jobs = Jobs::default();
    let mut notes = Notes::default();
    for section in sections {
        let mut settings = defaults.clone();
        settings.notes.clear();
        // The one setting that is nobody's default.
        settings.name = None;
        settings.stonewall |= section.waits;
        take(&section.settings, &mut settings, surroundings)?;
        settings.notes.drain(..).for_each(|note| notes.take(note));
        settings.sizes = settings.lengths.sizes();
        if section.is_global() {
            jobs.options.extend(options(&section.settings));
            let lines = section.settings.clone();
            inherited = Some(Arc::new(Inherited { lines, above: inherited.take() }));
            defaults = settings;
            continue;
        }
        settings.mapped.direct = settings.direct;
        settings.direct &= !settings.mapped.on;
        settings.figures.options = options(&section.settings).collect();
        let name = settings.name.clone().unwrap_or_else(|| section.name.clone());
        let (at, lines) = (section.at.clone(), section.settings.clone());
        let section = section.name.clone();
        jobs.jobs.push(FioJob { name, section, at, settings, lines, inherited: inherited.clone() });
    }
    Ok((jobs, notes))
}

/// Options by their first names, with their values, which may be empty.
fn options(lines: &[Setting]) -> impl Iterator<Item = (String, String)> {
    let option = |line: &Setting| {
        (option::plain(&line.key).to_owned(), line.value.clone().unwrap_or_default())
    };
    lines.iter().map(option)
}

/// Takes the settings of one section: first what decides how numbers are read.
fn take(
    lines: &[Setting],
    settings: &mut Settings,
    surroundings: &Surroundings<'_>,
) -> Result<(), FormatError> {
    // Of a file it is taken first, and of a command line in its order, as with fio.
    let first = |line: &&Setting| line.key == "kb_base" && *line.at.file != *COMMAND_LINE;
    for line in lines.iter().filter(first) {
        option::apply(line, settings, surroundings)?;
    }
    lines.iter().try_for_each(|line| option::apply(line, settings, surroundings))
}
