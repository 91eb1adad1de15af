//! Makes the pictures of the README again, from runs of this machine:
//! `cargo run --package drumfire-tests --example pictures FOLDER`. `DRUMFIRE_BIN` names the
//! program; the page needs Chromium.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Folder, Screen, Terminal, require};

const LIMIT: Duration = Duration::from_secs(300);
const ROWS: u16 = 24;
const COLUMNS: u16 = 80;

fn main() {
    let out = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "docs/pictures".to_owned()));
    let out = std::path::absolute(&out).expect("there is a working folder");
    let Some(drumfire) = Drumfire::find() else { return };
    let work = Folder::new();
    race(&drumfire, work.path(), &out.join("race.svg"));
    report(&drumfire, work.path(), &out);
}

/// Picture of the live view of a race, ten seconds after its start.
fn race(drumfire: &Drumfire, work: &Path, file: &Path) {
    let terminal = Terminal::sized(ROWS, COLUMNS);
    let command = drumfire.command(work, "race --seconds 14 --ramp 1 --out race");
    let mut run = terminal.start(&command);
    // The screen is drawn once the run is prepared.
    run.await_that(LIMIT, |run| run.seen().contains("\x1b[?1049h"));
    let begun = Instant::now();
    run.await_that(LIMIT, |_| begun.elapsed() > Duration::from_secs(11));
    // A picture is complete when no output has come for a moment.
    let last = Cell::new((0, Instant::now()));
    run.await_that(LIMIT, |run| {
        let now = run.seen().len();
        if now != last.get().0 {
            last.set((now, Instant::now()));
        }
        last.get().1.elapsed() > Duration::from_millis(100)
    });
    let mut screen = Screen::new(ROWS.into(), COLUMNS.into());
    screen.write(&run.seen());
    run.finish(LIMIT);
    let about = screen.lines().join(" / ");
    std::fs::write(file, screen.svg("drumfire race, after ten seconds", &about)).expect("a file");
    println!("{}", file.display());
}

/// Picture of the report of a sweep over depth, in its initial state.
fn report(drumfire: &Drumfire, work: &Path, out: &Path) {
    let Some(chromium) = require("chromium") else { return };
    let sweep = "sweep race --axis outstanding=1,2,4,8,16,32 --axis size=512,4k --repeats 3 \
                 --seconds 1 --ramp 0.3 --targets 2 --volumes 2 --out sweep";
    drumfire.run(work, sweep, LIMIT).ok();
    let page = drumfire.run(work, "report sweep --as html", LIMIT).ok().stdout;
    std::fs::write(work.join("page.html"), page).expect("it is our folder");
    for (name, scheme) in [("report-light.png", "1"), ("report-dark.png", "0")] {
        let file = out.join(name);
        let mut command = Command::new(&chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.args(["--hide-scrollbars", "--window-size=1000,705"]);
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--user-data-dir={}", work.join("browser").display()));
        command.arg(format!("--screenshot={}", file.display()));
        command.arg(format!("file://{}", work.join("page.html").display()));
        drumfire_tests::run(&mut command, LIMIT).ok();
        println!("{}", file.display());
    }
}
