//! Views and final output, shared by all driving commands.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result};
use block::{Nanos, Text, printable, steers};
use os::Clock;
use report::{JsonLines, Paint};
use stats::live::{About, Action, Live, Snapshot};
use stats::{Failure, RunResult, Tool};

use crate::args::{Color, Drive};
use crate::exit::UsageError;
use crate::folder::{Folder, Place};
use crate::part::Signed;
use crate::{folder, hosts, output, signal};

/// Refuses two documents on stdout, and thresholds that no run can have.
pub fn check(drive: &Drive) -> Result<(), UsageError> {
    drive.asked.check()?;
    if drive.json && lines_on_stdout(drive) {
        let why = "--json and --json-lines - both use stdout: name a file for the lines";
        return Err(UsageError(why.to_owned()));
    }
    Ok(())
}

/// Live view of the run, with JSON Lines in addition if requested. Lines that could not be written
/// are counted in `lost`.
pub fn view(drive: &Drive, color: Color, lost: &Lost) -> Result<Box<dyn Live>> {
    let Some(path) = &drive.json_lines else { return Ok(view_alone(drive, color)) };
    let out: Box<dyn Write> = match path.to_str() {
        Some("-") => Box::new(LinesOut { out: io::stdout(), shown: true, lost: lost.clone() }),
        // Steps of a job are appended to one file.
        _ => {
            let file = os::append_to(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            Box::new(LinesOut { out: file, shown: false, lost: lost.clone() })
        }
    };
    Ok(Box::new(Beside { view: view_alone(drive, color), lines: JsonLines::new(out) }))
}

/// JSON Lines that could not be written: how many, and why the first.
#[derive(Clone, Debug, Default)]
pub struct Lost(Rc<RefCell<Option<(u64, io::Error)>>>);

impl Lost {
    /// Fails if any line could not be written. Called at the end: a lost line ends no run.
    pub fn check(&self, drive: &Drive) -> Result<()> {
        let (Some((count, error)), Some(path)) = (self.0.take(), &drive.json_lines) else {
            return Ok(());
        };
        let path = path.display();
        Err(error).with_context(|| format!("--json-lines {path}: {count} lines are missing"))
    }

    fn note(&self, error: io::Error) {
        let mut lost = self.0.borrow_mut();
        *lost = match lost.take() {
            Some((count, first)) => Some((count + 1, first)),
            None => Some((1, error)),
        };
    }
}

/// Output for JSON Lines, one line per write.
struct LinesOut<W> {
    out: W,
    /// Output may be a terminal.
    shown: bool,
    lost: Lost,
}

impl<W: Write + AsFd> Write for LinesOut<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let file = self.out.as_fd().try_clone_to_owned().map(File::from);
        let file = file.ok().filter(|file| file.metadata().is_ok_and(|of| of.is_file()));
        let before = file.as_ref().and_then(|file| file.metadata().ok()).map(|of| of.len());
        let escaped = self.shown.then(|| output::escaped(&String::from_utf8_lossy(line)));
        let bytes = escaped.as_ref().map_or(line, |text| text.as_bytes());
        if let Err(error) = self.out.write_all(bytes).and_then(|()| self.out.flush()) {
            if let (Some(file), Some(before)) = (file, before) {
                // A partial line would corrupt the next one.
                let _ = file.set_len(before);
            }
            if !output::is_unread(&error, &self.out) {
                self.lost.note(error);
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A view, and JSON Lines of the same content.
struct Beside {
    view: Box<dyn Live>,
    lines: JsonLines<Box<dyn Write>>,
}

impl Live for Beside {
    fn start(&mut self, about: &About) {
        self.lines.start(about);
        self.view.start(about);
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.lines.update(snapshot);
        self.view.update(snapshot)
    }

    fn poll(&mut self) -> Action {
        self.view.poll()
    }

    fn failed(&mut self, failures: &[Failure]) {
        self.lines.failed(failures);
        self.view.failed(failures);
    }

    fn end(&mut self) {
        self.lines.end();
        self.view.end();
    }

    fn finished(&mut self, result: &RunResult) {
        self.lines.finished(result);
        self.view.finished(result);
    }
}

/// Whether stdout belongs to the JSON Lines.
fn lines_on_stdout(drive: &Drive) -> bool {
    drive.json_lines.as_ref().is_some_and(|path| path.as_os_str() == "-")
}

/// A view that gets only printable text: names of jobs, targets and volumes are untrusted.
struct Printable(Box<dyn Live>);

impl Live for Printable {
    fn inner(&mut self) -> Option<&mut dyn Live> {
        Some(&mut *self.0)
    }

    fn start(&mut self, about: &About) {
        self.0.start(&About { job: report::printable_of(&about.job), ..about.clone() });
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        if snapshot.targets.iter().all(|target| !target.name.contains(steers)) {
            return self.0.update(snapshot);
        }
        let mut snapshot = snapshot.clone();
        for target in &mut snapshot.targets {
            target.name = printable(&target.name).into_owned();
        }
        self.0.update(&snapshot)
    }
}

/// A full screen on a capable terminal, lines otherwise, nothing with `--json`.
fn view_alone(drive: &Drive, color: Color) -> Box<dyn Live> {
    if drive.json {
        return Box::new(report::Silent);
    }
    let draws = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let is_terminal =
        io::stdout().is_terminal() && io::stdin().is_terminal() && io::stderr().is_terminal();
    if is_terminal && draws && !lines_on_stdout(drive) {
        match report::FullScreen::open(paint(color), signal::heed) {
            Ok(screen) => return Box::new(Printable(Box::new(screen))),
            Err(error) => output::note(format_args!("drumfire: no full-screen view: {error}")),
        }
    }
    Box::new(Printable(Box::new(report::Lines::new(io::stderr()))))
}

/// Prints the results of several steps as one document.
pub fn print_steps(results: &[RunResult]) -> Result<()> {
    let document = serde_json::json!({ "steps": results });
    output::document(&document)
}

/// Returns name and version of this program.
pub fn tool() -> Tool {
    Tool {
        name: "drumfire".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git: option_env!("DRUMFIRE_GIT").map(str::to_owned),
    }
}

/// A view of a run that saves the results so far in its folder. If the program is killed, at most a
/// tenth of the run is lost, or the time that [`FIRST`] and [`KEEPING_SHARE`] define; `report`
/// reads the rest.
pub struct Keeping<'a> {
    view: Box<dyn Live>,
    folder: &'a Path,
    name: &'a str,
    /// The run is one of several hosts'.
    signed: Option<Signed>,
    clock: Clock,
    drafts: Drafts,
}

/// Schedule of draft results during a run.
struct Drafts {
    /// Time before the first one.
    first: Nanos,
    /// Times of the first and the last request for a draft.
    begin: Option<Nanos>,
    asked: Nanos,
    next: Nanos,
}

/// Time before the first draft: making a result takes 2 ms with one worker and 80 ms with 200, on a
/// core that is measured.
const FIRST: Nanos = Nanos::from_secs(5);
/// Time before the first draft of a run of many hosts: a launcher that lost one kills all.
const FIRST_OF_MANY: Nanos = Nanos::from_secs(1);
/// Drafts use at most 1/500 of the run time.
const KEEPING_SHARE: u64 = 500;

impl<'a> Keeping<'a> {
    /// A run called `name` in `folder`.
    pub fn new(
        view: Box<dyn Live>,
        folder: &'a Path,
        name: &'a str,
        signed: Option<Signed>,
    ) -> Keeping<'a> {
        let drafts = Drafts::new(if hosts::ranks().is_some() { FIRST_OF_MANY } else { FIRST });
        Keeping { view, folder, name, signed, clock: Clock::get(), drafts }
    }
}

impl Drafts {
    fn new(first: Nanos) -> Drafts {
        Drafts { first, begin: None, asked: Nanos(0), next: Nanos(0) }
    }

    /// Whether a draft is due now.
    fn are_due(&mut self, now: Nanos) -> bool {
        self.asked = now;
        now >= self.next.max(*self.begin.get_or_insert(now) + self.first)
    }

    /// Schedules the next draft after one was made and written.
    fn wrote(&mut self, now: Nanos) {
        let took = now.since(self.asked).0 * KEEPING_SHARE;
        let tenth = now.since(self.begin.unwrap_or(now)).0 / 10;
        self.next = now + Nanos(took.max(tenth));
    }
}

impl Live for Keeping<'_> {
    fn inner(&mut self) -> Option<&mut dyn Live> {
        Some(&mut *self.view)
    }

    fn wants_result(&mut self) -> bool {
        self.drafts.are_due(self.clock.now())
    }

    fn keep(&mut self, mut result: RunResult) {
        result.tool = tool();
        result.job.name = self.name.to_owned();
        self.view.judged(&result);
        // A full disk is reported at the end, when a message can be shown.
        let _ = folder::write_draft(self.folder, &result);
        self.signed.iter().for_each(|signed| signed.keep_draft(&mut result));
        self.drafts.wrote(self.clock.now());
    }
}

/// Minimum seconds of measurement for which an interrupted result may replace an old one. A user
/// who mistypes a run and stops it at once needs the old result.
const WORTH_S: f64 = 1.0;

/// Whether results may replace old ones: something was measured, and all results are complete
/// unless the user stopped the run. Results of a target that died or of a job with no successful
/// I/O may not: an exit code and a line report this, and the old result stays valid.
pub fn are_successful<'a>(mut results: impl Iterator<Item = &'a RunResult> + Clone) -> bool {
    let is_whole = |result: &RunResult| result.partial.is_none() && result.totals.ios > 0;
    let is_worth = |result: &RunResult| result.totals.ios > 0 && result.totals.seconds >= WORTH_S;
    match signal::is_asked() {
        true => results.any(|result| is_whole(result) || is_worth(result)),
        false => results.clone().next().is_some() && results.all(is_whole),
    }
}

/// Saves the result in its place, then prints it if requested.
pub fn finish(
    result: &mut RunResult,
    place: &Place,
    drive: &Drive,
    color: Color,
    name: &str,
    print: bool,
) -> Result<()> {
    result.tool = tool();
    result.job.name = name.to_owned();
    let print = print && !lines_on_stdout(drive);
    let writing = signal::Writing::begin();
    let kept = folder::write(&place.now, result);
    if kept.is_err() {
        keep_elsewhere(result, &place.now, print);
    }
    drop(writing);
    if let Some(partial) = &result.partial {
        output::note(format_args!("drumfire: partial result: {partial}"));
    }
    if let Some(failed) = report::failures::line(result) {
        output::note(format_args!("drumfire: {failed}"));
    }
    if !print {
        return kept;
    }
    let printed = match drive.json {
        true => print_json(result),
        false => output::painted(&report::text::painted(result, paint(color))),
    };
    if !drive.json {
        // Steps of one job are saved together; a line at the end reports if they are not.
        let is_home = are_successful(std::iter::once(&*result));
        let folder = if is_home { &place.home } else { &place.now };
        let last = if kept.is_ok() { kept_in(folder) } else { Text::new() };
        output::end(&report::text::closing(result, paint(color)), &last)?;
    }
    printed.and(kept)
}

/// Last lines of a command: the folder of its result.
pub fn kept_in(folder: &Path) -> Text {
    ["".to_owned(), format!("saved in {}", folder.display())].iter().collect()
}

/// Prints a result as its document.
pub fn print_json(result: &RunResult) -> Result<()> {
    let mut text = Vec::new();
    report::json::write(result, &mut text)?;
    output::json(&String::from_utf8(text)?)
}

/// Saves a result whose folder is not writable in another folder, and reports the path. If no
/// folder is writable, the printed output is the only copy; it is printed here unless `printed`
/// already.
fn keep_elsewhere(result: &RunResult, folder: &Path, printed: bool) {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state"));
    let places = [Some(std::env::temp_dir()), state, home];
    // The random name cannot exist already.
    let name = format!("drumfire-{}-{:016x}", result.started.replace(':', "-"), os::random());
    for place in places.into_iter().flatten() {
        let place = place.join(&name);
        if Folder::at(&place).is_ok_and(|elsewhere| folder::write(&elsewhere, result).is_ok()) {
            let (folder, place) = (folder.display(), place.display());
            output::note(format_args!(
                "drumfire: cannot write to {folder}: the result is in {place}"
            ));
            return;
        }
    }
    let folder = folder.display();
    output::note(format_args!(
        "drumfire: cannot write the result to {folder} or another folder: this output is the only \
        copy"
    ));
    if !printed {
        output::notes(&report::text::painted(result, Paint::PLAIN).as_str().lines().collect());
    }
}

/// Colour for stdout.
pub fn paint(color: Color) -> Paint {
    paint_of(color, io::stdout().is_terminal())
}

/// Colour for stderr.
pub fn paint_of_errors(color: Color) -> Paint {
    paint_of(color, io::stderr().is_terminal())
}

fn paint_of(color: Color, is_terminal: bool) -> Paint {
    let choice = match color {
        Color::Auto => report::Color::Auto,
        Color::Always => report::Color::Always,
        Color::Never => report::Color::Never,
    };
    choice.paint(is_terminal, |name| std::env::var(name).ok())
}

#[cfg(test)]
mod test {
    use super::*;

    /// Seconds at which drafts are made, with a request each second and this duration of each
    /// draft.
    fn made_at(seconds: u64, takes: Nanos) -> Vec<u64> {
        let mut drafts = Drafts::new(FIRST);
        let mut made = Vec::new();
        for second in 1..=seconds {
            let now = Nanos::from_secs(second);
            if drafts.are_due(now) {
                made.push(second);
                drafts.wrote(now + takes);
            }
        }
        made
    }

    #[test]
    fn results_are_made_rarely_and_more_rarely_where_they_take_long() {
        assert!(made_at(5, Nanos(0)).is_empty());
        assert_eq!(made_at(10, Nanos(0)), [6, 7, 8, 9, 10]);
        let hour = made_at(3600, Nanos::from_millis(2));
        assert!(hour.len() < 70, "{}", hour.len());
        assert!(hour.windows(2).all(|pair| pair[1] - pair[0] <= pair[0] / 10 + 2), "{hour:?}");
        assert_eq!(made_at(60, Nanos::from_millis(10)), [6, 12, 18, 24, 30, 36, 42, 48, 54, 60]);
        assert_eq!(made_at(60, Nanos::from_millis(80)), [6, 47]);
    }
}
