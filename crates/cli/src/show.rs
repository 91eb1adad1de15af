//! Views and the final word, the same for everything that drives.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::Result;
use report::Paint;
use stats::live::Live;
use stats::{RunResult, Tool};

use crate::args::{Color, Drive};
use crate::folder;

/// The view while it runs: a full screen on a terminal, lines otherwise, nothing beside JSON.
pub fn view(drive: &Drive, color: Color) -> Box<dyn Live> {
    if drive.json {
        return Box::new(report::Silent);
    }
    if io::stdout().is_terminal() && io::stdin().is_terminal() {
        match report::FullScreen::open(paint(color)) {
            Ok(screen) => return Box::new(screen),
            Err(error) => eprintln!("drumfire: no full screen: {error}"),
        }
    }
    Box::new(report::Lines::new(io::stderr()))
}

/// Prints the results of several steps as one document.
pub fn print_steps(results: &[RunResult]) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &serde_json::json!({ "steps": results }))?;
    writeln!(out)?;
    Ok(())
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
    result.tool = Tool {
        name: "drumfire".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git: option_env!("DRUMFIRE_GIT").map(str::to_owned),
    };
    result.job.name = name.to_owned();
    let kept = folder::write(folder, result);
    if let Some(partial) = &result.partial {
        eprintln!("drumfire: partial result: {partial}");
    }
    if !print {
        return kept;
    }
    let mut out = io::stdout().lock();
    let printed = if drive.json {
        report::json::write(result, &mut out)
    } else {
        report::text::write(result, paint(color), &mut out)
            .and_then(|()| writeln!(out, "\nkept in {}", folder.display()))
    };
    match printed.and_then(|()| out.flush()) {
        // Whoever read us has enough: that is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => kept,
        Err(error) => Err(error.into()),
        Ok(()) => kept,
    }
}

fn paint(color: Color) -> Paint {
    let choice = match color {
        Color::Auto => report::Color::Auto,
        Color::Always => report::Color::Always,
        Color::Never => report::Color::Never,
    };
    choice.paint(io::stdout().is_terminal(), |name| std::env::var(name).ok())
}
