//! Parsed Iometer configuration, of every version from 1998 to 1.1.0.
//!
//! Sections come in any order and any may be missing. Iometer itself refuses files of its older
//! versions; here they are read.

use super::scan::{Scanner, Text};
use super::specs::specs;
use crate::formats::note::{FormatError, Location, Note, Treatment};

/// Maximum number of workers of a file; Iometer has 128 for each host.
const WORKERS_MAX: usize = 1024;

/// A configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Icf {
    /// Setup of the test.
    pub setup: Setup,
    /// Access specifications.
    pub specs: Vec<Spec>,
    /// Managers with their workers.
    pub managers: Vec<Manager>,
    /// Notes on ignored keys.
    pub notes: Vec<Note>,
}

/// The section TEST SETUP.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Description, one line.
    pub description: String,
    /// Length of each test in seconds; 0 for no end.
    pub run_seconds: u64,
    /// Ramp time in seconds.
    pub ramp_seconds: u64,
    /// Growth of the number of workers.
    pub workers: Cycling,
    /// Growth of the number of targets.
    pub targets: Cycling,
    /// Growth of the number of outstanding I/Os.
    pub depth: Cycling,
    /// Numbers that grow.
    pub test: TestType,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            description: String::new(),
            run_seconds: 0,
            ramp_seconds: 0,
            workers: Cycling::default(),
            targets: Cycling::default(),
            depth: Cycling { end: 32, step: 2, exponential: true, ..Cycling::default() },
            test: TestType::Normal,
        }
    }
}

/// A number that grows from test to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycling {
    /// Value in the first test.
    pub start: u64,
    /// Maximum; outstanding I/Os only.
    pub end: u64,
    /// Increment or factor.
    pub step: u64,
    /// True if `step` is a factor.
    pub exponential: bool,
}

impl Default for Cycling {
    fn default() -> Cycling {
        Cycling { start: 1, end: u64::MAX, step: 1, exponential: false }
    }
}

/// Numbers that grow from test to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestType {
    /// None.
    Normal,
    /// Targets of each worker.
    Targets,
    /// Workers of each manager.
    Workers,
    /// Targets of each manager, worker by worker.
    TargetsParallel,
    /// Targets of all managers, one manager after the other.
    TargetsSerial,
    /// Targets, then workers.
    WorkersAndTargets,
    /// Outstanding I/Os.
    Depth,
    /// Outstanding I/Os, then targets.
    DepthAndTargets,
}

/// Words for test types, in the order of the numbers that old versions wrote.
pub const TEST_TYPES: [(&str, TestType); 8] = [
    ("NORMAL", TestType::Normal),
    ("CYCLE_TARGETS", TestType::Targets),
    ("CYCLE_WORKERS", TestType::Workers),
    ("INCREMENT_TARGETS_PARALLEL", TestType::TargetsParallel),
    ("INCREMENT_TARGETS_SERIAL", TestType::TargetsSerial),
    ("CYCLE_WORKERS_AND_TARGETS", TestType::WorkersAndTargets),
    ("CYCLE_OUTSTANDING_IOS", TestType::Depth),
    ("CYCLE_OUTSTANDING_IOS_AND_TARGETS", TestType::DepthAndTargets),
];

/// An access specification.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Name of the specification.
    pub name: String,
    /// Location in the file.
    pub at: Location,
    /// True if new workers get it by default.
    pub by_default: bool,
    /// True if the file has no names for its specifications: this one is ours.
    pub unnamed: bool,
    /// Lines of the specification.
    pub lines: Vec<SpecLine>,
}

/// One line of an access specification.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecLine {
    /// Text with its location.
    pub text: Text,
    /// I/O size in bytes.
    pub size_bytes: u64,
    /// Share with which the line is drawn, 0 to 100.
    pub share_percent: u32,
    /// Share of reads, 0 to 100.
    pub read_percent: u32,
    /// Share of random I/Os, 0 to 100.
    pub random_percent: u32,
    /// Delay before each burst, in milliseconds.
    pub delay_ms: u64,
    /// Number of I/Os of a burst.
    pub burst: u32,
    /// Alignment of I/Os in bytes; 0 for the sector.
    pub align_bytes: u64,
    /// Bytes of the reply to each I/O; 0 for none.
    pub reply_bytes: u64,
}

/// A host with workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Manager {
    /// Name of the host.
    pub name: String,
    /// Workers of the host.
    pub workers: Vec<Worker>,
}

/// A worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Worker {
    /// Location in the file.
    pub at: Location,
    /// Name of the worker.
    pub name: String,
    /// True for disks; false for a network.
    pub disk: bool,
    /// Queue depth of each target.
    pub outstanding: u32,
    /// Seed of its random choices.
    pub seed: Option<u64>,
    /// Number of sectors in use of each target; 0 for all.
    pub max_sectors: u64,
    /// First sector in use.
    pub start_sector: u64,
    /// Data pattern: 0 repeats a byte, 1 and 2 are random.
    pub data_pattern: u32,
    /// Names of the worker's access specifications, in order.
    pub specs: Vec<Text>,
    /// Names of the worker's targets.
    pub targets: Vec<Text>,
}

/// Reads a configuration called `file`.
pub fn read(file: &str, text: &str) -> Result<Icf, FormatError> {
    let mut scanner = Scanner::new(file, text)?;
    let mut icf = Icf::default();
    while let Some(line) = scanner.outside() {
        match section(&line.text) {
            "test setup" => setup(&mut scanner, &mut icf)?,
            "results display" => results_display(&mut scanner)?,
            "access specifications" => specs(&mut scanner, &mut icf)?,
            "manager list" => managers(&mut scanner, &mut icf)?,
            _ => icf.notes.push(outside(&line)?),
        }
    }
    match icf.specs.is_empty() {
        true => Err(FormatError::new(&scanner.here(), "", "the file has no access specification")),
        false => Ok(icf),
    }
}

/// Returns the name of the section that a line begins, in lower case; empty if the line begins
/// none. The text after the name is ignored.
fn section(line: &str) -> &'static str {
    let Some(key) = line.strip_prefix('\'') else { return "" };
    let name = key.trim_start().to_ascii_lowercase();
    let known = ["test setup", "results display", "access specifications", "manager list"];
    known.into_iter().find(|known| name.starts_with(known)).unwrap_or_default()
}

/// Prefixes of keys that are valid only in a section.
const INNER: [&str; 14] = [
    "end ",
    "test ",
    "run time",
    "ramp up",
    "default ",
    "access specification",
    "size",
    "manager",
    "worker",
    "number of",
    "disk ",
    "queue depth",
    "assigned access",
    "target",
];

/// Returns a note on a line outside of every section, which Iometer does not read. A line that
/// looks like a section or like a part of one is an error: its load would be missing.
fn outside(line: &Text) -> Result<Note, FormatError> {
    let name = line.text.trim_start_matches('\'').trim_start().to_ascii_lowercase();
    if line.text.starts_with('\'') && INNER.iter().any(|inner| name.starts_with(inner)) {
        return Err(line.error("this key is outside its section"));
    }
    if name.contains("===") && !name.starts_with('=') {
        return Err(line.error("not a section of an Iometer configuration"));
    }
    let why = "the line is outside all sections, where Iometer reads nothing";
    Ok(Note::new(&line.at, &line.text, Treatment::Ignored, why))
}

/// Returns the next key in lower case, without blanks after commas, with its text; `None` at the
/// end of the section.
pub(super) fn next(
    scanner: &mut Scanner<'_>,
    end: &str,
) -> Result<Option<(String, Text)>, FormatError> {
    match scanner.key()? {
        None => Err(FormatError::new(&scanner.here(), "", format!("'{end} is missing"))),
        Some(key) => {
            let name = key.text.to_ascii_lowercase().replace(", ", ",");
            Ok((name != end).then_some((name, key)))
        }
    }
}

/// Prefixes of the keys of TEST SETUP.
const SETUP: [&str; 11] = [
    "test description",
    "run time",
    "ramp up time",
    "worker cycling",
    "disk cycling",
    "queue depth cycling",
    "test type",
    "default workers to spawn",
    "default disk workers to spawn",
    "default network workers to spawn",
    "record results",
];

fn setup(scanner: &mut Scanner<'_>, icf: &mut Icf) -> Result<(), FormatError> {
    let setup = &mut icf.setup;
    while let Some((name, key)) = next(scanner, "end test setup")? {
        if !section(&format!("'{name}")).is_empty() {
            // Up to 1998.10.08 this section has no end marker.
            scanner.back();
            break;
        }
        let known = SETUP.iter().any(|known| name.starts_with(known));
        if !known {
            let why = "not a key of any Iometer version";
            icf.notes.push(Note::new(&key.at, &key.text, Treatment::Ignored, why));
            scanner.skip();
            continue;
        }
        if name == "test description" {
            setup.description = scanner.text();
            continue;
        }
        let value = scanner.value()?;
        match name.as_str() {
            "run time" => {
                let part = |index, what| value.number::<u32>(index, what).map(u64::from);
                setup.run_seconds =
                    part(0, "hours")? * 3600 + part(1, "minutes")? * 60 + part(2, "seconds")?;
            }
            name if name.starts_with("ramp up time") => {
                setup.ramp_seconds = value.number::<u32>(0, "the ramp up time")?.into();
            }
            "worker cycling" => setup.workers = cycling(&value, false)?,
            "disk cycling" => setup.targets = cycling(&value, false)?,
            "queue depth cycling" => setup.depth = cycling(&value, true)?,
            "test type" => setup.test = test_type(&value)?,
            // Workers spawned without being listed have no targets; recording is no part of the
            // load.
            _ => {}
        }
    }
    Ok(())
}

fn cycling(value: &Text, has_end: bool) -> Result<Cycling, FormatError> {
    let number = |index, what| value.number::<u32>(index, what).map(u64::from);
    let start = number(0, "the start")?;
    let end = if has_end { number(1, "the end")? } else { u64::MAX };
    let at = 1 + usize::from(has_end);
    let step = number(at, "the step")?;
    let word = value.fields().get(at + 1).copied().unwrap_or("LINEAR").to_ascii_uppercase();
    match word.as_str() {
        "LINEAR" | "0" => Ok(Cycling { start, end, step, exponential: false }),
        "EXPONENTIAL" | "1" => Ok(Cycling { start, end, step, exponential: true }),
        _ => Err(value.error("the step type must be LINEAR or EXPONENTIAL")),
    }
}

fn test_type(value: &Text) -> Result<TestType, FormatError> {
    let word = value.text.to_ascii_uppercase();
    let named = TEST_TYPES.iter().find(|(name, _)| *name == word);
    let numbered = word.parse().ok().and_then(|number: usize| TEST_TYPES.get(number));
    let found = named.or(numbered).map(|(_, test)| *test);
    found.ok_or_else(|| value.error("not an Iometer test type"))
}

/// Skips the display of results, which does not affect the load.
fn results_display(scanner: &mut Scanner<'_>) -> Result<(), FormatError> {
    while next(scanner, "end results display")?.is_some() {
        scanner.values();
    }
    Ok(())
}

fn managers(scanner: &mut Scanner<'_>, icf: &mut Icf) -> Result<(), FormatError> {
    let mut workers = 0;
    while let Some((name, key)) = next(scanner, "end manager list")? {
        match name.as_str() {
            "manager id,manager name" => {
                let value = scanner.value()?;
                let name = value.text.split_once(',').map_or(&*value.text, |(_, name)| name);
                icf.managers.push(Manager { name: name.trim().to_owned(), workers: Vec::new() });
            }
            "manager network address" => drop(scanner.values()),
            "end manager" => {}
            "worker" => {
                workers += 1;
                if workers > WORKERS_MAX {
                    return Err(key.error("more than 1024 workers"));
                }
                let worker = worker(scanner, &mut icf.notes)?;
                let manager = icf.managers.last_mut();
                let manager = manager.ok_or_else(|| key.error("a worker without a manager"))?;
                manager.workers.push(worker);
            }
            _ => return Err(key.error("not a key of the manager list")),
        }
    }
    Ok(())
}

fn worker(scanner: &mut Scanner<'_>, notes: &mut Vec<Note>) -> Result<Worker, FormatError> {
    let name = scanner.value()?;
    let mut worker = Worker {
        at: name.at,
        name: name.text,
        disk: true,
        outstanding: 1,
        seed: None,
        max_sectors: 0,
        start_sector: 0,
        data_pattern: 0,
        specs: Vec::new(),
        targets: Vec::new(),
    };
    while let Some((name, key)) = next(scanner, "end worker")? {
        match name.as_str() {
            "worker type" => worker.disk = scanner.value()?.text.eq_ignore_ascii_case("disk"),
            "assigned access specs" => worker.specs = scanner.values(),
            "target" => worker.targets.push(scanner.value()?),
            "default target settings for worker"
            | "end default target settings for worker"
            | "end assigned access specs"
            | "target assignments"
            | "end target"
            | "end target assignments" => {}
            "target type"
            | "local network interface"
            | "vi outstanding ios"
            | "target manager id,manager name" => drop(scanner.values()),
            name if name.starts_with("number of outstanding ios") => {
                outstanding(&scanner.value()?, &mut worker, notes)?;
            }
            name if name.starts_with("disk maximum size") => {
                let value = scanner.value()?;
                worker.max_sectors = value.number(0, "the maximum size")?;
                worker.start_sector = value.number(1, "the starting sector")?;
                if value.fields().len() > 2 {
                    worker.data_pattern = value.number(2, "the data pattern")?;
                }
            }
            _ => return Err(key.error("not a key of a worker")),
        }
    }
    Ok(worker)
}

/// Reads `16,DISABLED,1[,DISABLED,0]`: outstanding I/Os, connections, and a seed.
fn outstanding(
    value: &Text,
    worker: &mut Worker,
    notes: &mut Vec<Note>,
) -> Result<(), FormatError> {
    worker.outstanding = value.number(0, "the number of outstanding I/Os")?;
    let fields = value.fields();
    let is_on = |index: usize| fields.get(index).is_some_and(|word| is_word(word, "ENABLED"));
    if is_on(1) && worker.disk {
        let why = "the test connection rate, which repeatedly closes and opens a target, is not \
                   supported: set DISABLED";
        notes.push(Note::new(&value.at, &value.text, Treatment::Refused, why));
    }
    worker.seed = if is_on(3) { Some(value.number(4, "the seed")?) } else { None };
    Ok(())
}

fn is_word(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
}
