//! Views and the final word, the same for everything that drives.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use block::Nanos;
use os::Clock;
use report::{JsonLines, Paint};
use stats::live::{About, Action, Live, Snapshot};
use stats::{RunResult, Tool};

use crate::args::{Color, Drive};
use crate::exit::UsageError;
use crate::{folder, output};

/// Refuses what wants stdout twice.
pub fn check(drive: &Drive) -> Result<(), UsageError> {
    if drive.json && lines_on_stdout(drive) {
        let why = "--json and --json-lines - both want stdout: name a file for the lines";
        return Err(UsageError(why.to_owned()));
    }
    Ok(())
}

/// The view while it runs, and JSON Lines beside it if they are wanted.
pub fn view(drive: &Drive, color: Color) -> Result<Box<dyn Live>> {
    let Some(path) = &drive.json_lines else { return Ok(view_alone(drive, color)) };
    let out: Box<dyn Write> = match path.to_str() {
        Some("-") => Box::new(io::stdout()),
        // The steps of a job follow each other in one file.
        _ => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Box::new(file.with_context(|| format!("cannot write {}", path.display()))?)
        }
    };
    Ok(Box::new(Beside { view: view_alone(drive, color), lines: JsonLines::new(out) }))
}

/// A view, and JSON Lines of the same.
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

    fn end(&mut self) {
        self.lines.end();
        self.view.end();
    }
}

/// Whether stdout belongs to the JSON Lines.
fn lines_on_stdout(drive: &Drive) -> bool {
    drive.json_lines.as_ref().is_some_and(|path| path.as_os_str() == "-")
}

/// A full screen on a terminal that can draw, lines otherwise, nothing beside JSON.
fn view_alone(drive: &Drive, color: Color) -> Box<dyn Live> {
    if drive.json {
        return Box::new(report::Silent);
    }
    let draws = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if is_terminal && draws && !lines_on_stdout(drive) {
        match report::FullScreen::open(paint(color)) {
            Ok(screen) => return Box::new(screen),
            Err(error) => output::note(format_args!("drumfire: no full screen: {error}")),
        }
    }
    Box::new(report::Lines::new(io::stderr()))
}

/// Prints the results of several steps as one document.
pub fn print_steps(results: &[RunResult]) -> Result<()> {
    let document = serde_json::json!({ "steps": results });
    output::write(|out| report::json::write_value(&document, out))
}

/// This program.
pub fn tool() -> Tool {
    Tool {
        name: "drumfire".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git: option_env!("DRUMFIRE_GIT").map(str::to_owned),
    }
}

/// A view of a run that keeps what was measured so far in its folder: whatever kills the program,
/// at most a tenth of it or a second is lost, and `report` reads the rest.
pub struct Keeping<'a> {
    view: Box<dyn Live>,
    folder: &'a Path,
    name: &'a str,
    clock: Clock,
    begin: Nanos,
    next: Nanos,
}

/// A result is made and written for at most one part in so many of the time.
const KEEPING_SHARE: u64 = 50;

impl<'a> Keeping<'a> {
    /// A run called `name` in `folder`.
    pub fn new(view: Box<dyn Live>, folder: &'a Path, name: &'a str) -> Keeping<'a> {
        let clock = Clock::get();
        let now = clock.now();
        Keeping { view, folder, name, clock, begin: now, next: now }
    }
}

impl Live for Keeping<'_> {
    fn start(&mut self, about: &About) {
        self.view.start(about);
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.view.update(snapshot)
    }

    fn poll(&mut self) -> Action {
        self.view.poll()
    }

    fn wants_result(&mut self) -> bool {
        self.clock.now() >= self.next
    }

    fn keep(&mut self, mut result: RunResult) {
        let before = self.clock.now();
        result.tool = tool();
        result.job.name = self.name.to_owned();
        // A disk that is full says so at the end, where it can be told.
        let _ = folder::write_draft(self.folder, &result);
        let now = self.clock.now();
        let took = now.since(before).0 * KEEPING_SHARE;
        self.next = now + Nanos(took.max(now.since(self.begin).0 / 10));
    }

    fn end(&mut self) {
        self.view.end();
    }
}

/// Keeps the result in its folder, then prints it if that is wanted now.
pub fn finish(
    result: &mut RunResult,
    folder: &Path,
    drive: &Drive,
    color: Color,
    name: &str,
    print: bool,
) -> Result<()> {
    result.tool = tool();
    result.job.name = name.to_owned();
    let kept = folder::write(folder, result);
    if let Some(partial) = &result.partial {
        output::note(format_args!("drumfire: partial result: {partial}"));
    }
    if !print || lines_on_stdout(drive) {
        return kept;
    }
    let printed = output::write(|out| match drive.json {
        true => report::json::write(result, out),
        false => {
            report::text::write(result, paint(color), out)?;
            match kept {
                Ok(()) => writeln!(out, "\nkept in {}", folder.display()),
                Err(_) => Ok(()),
            }
        }
    });
    printed.and(kept)
}

/// Colour for stdout.
pub fn paint(color: Color) -> Paint {
    let choice = match color {
        Color::Auto => report::Color::Auto,
        Color::Always => report::Color::Always,
        Color::Never => report::Color::Never,
    };
    choice.paint(io::stdout().is_terminal(), |name| std::env::var(name).ok())
}
