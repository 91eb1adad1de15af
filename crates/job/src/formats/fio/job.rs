//! Conversion of sections to jobs: defaults are inherited, all values are typed, nothing is judged.

use std::sync::Arc;

use super::COMMAND_LINE;
use super::lines::{Section, Setting};
use super::option;
use super::settings::Settings;
use crate::formats::note::{FormatError, Location, Notes};
use crate::formats::surroundings::Surroundings;

/// A job as in the file.
#[derive(Clone, Debug)]
pub struct FioJob {
    /// Name of the job.
    pub name: String,
    /// Name of the job's section: files that the job creates are named after it, as in fio.
    pub section: String,
    /// Location of the section.
    pub at: Location,
    /// Settings, including the inherited defaults.
    pub settings: Settings,
    /// Lines of the job's section, for messages about one of them.
    lines: Vec<Setting>,
    /// Lines of the defaults above the job.
    inherited: Option<Arc<Inherited>>,
}

/// Lines of a section of defaults, and those above it: shared by the jobs that follow.
#[derive(Debug)]
struct Inherited {
    lines: Vec<Setting>,
    above: Option<Arc<Inherited>>,
}

impl FioJob {
    /// Returns the line that sets `key`, or the section if the value is a default.
    pub fn line_of(&self, key: &str) -> (&Location, &str) {
        self.setting(key)
            .map_or((&self.at, self.name.as_str()), |setting| (&setting.at, &setting.text))
    }
}

impl FioJob {
    /// Returns whether a line sets `key`, by any of its names, in the job's section or in the
    /// defaults above it.
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

/// All jobs, and the options that their files set for all of them.
#[derive(Debug, Default)]
pub struct Jobs {
    /// Jobs in the order of their sections.
    pub jobs: Vec<FioJob>,
    /// Options of the sections of defaults, by fio's names, with their values.
    pub options: Vec<(String, String)>,
}

/// Reads the jobs of all sections, with notes on them.
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
        // The name is the only setting that is never inherited.
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

/// Returns options by their first names, with their values, which may be empty.
fn options(lines: &[Setting]) -> impl Iterator<Item = (String, String)> {
    let option = |line: &Setting| {
        (option::plain(&line.key).to_owned(), line.value.clone().unwrap_or_default())
    };
    lines.iter().map(option)
}

/// Applies the settings of one section: first those that determine how numbers are read.
fn take(
    lines: &[Setting],
    settings: &mut Settings,
    surroundings: &Surroundings<'_>,
) -> Result<(), FormatError> {
    // `kb_base` applies first in a file, and in order on a command line, as in fio.
    let first = |line: &&Setting| line.key == "kb_base" && *line.at.file != *COMMAND_LINE;
    for line in lines.iter().filter(first) {
        option::apply(line, settings, surroundings)?;
    }
    lines.iter().try_for_each(|line| option::apply(line, settings, surroundings))
}
