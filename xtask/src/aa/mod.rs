//! Comparisons whose truth is known, on this host as it is: `cargo xtask aa`.
//!
//! Each pair is a whole `drumfire compare --run` with the defaults of its users: once of a job and
//! the same job, where nothing may be called changed, and once of the job and one that does a fifth
//! less, where that must be found. Both are done on memory and on a file, one after the other, so
//! that a part of the pairs has as many of each kind. A finished pair is a line in `pairs.jsonl`; a
//! later call continues after it.

mod tally;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::process::{self, Show};
use crate::say::say;
use tally::Kind;

/// Settings of all pairs of a folder. They are its first line.
#[derive(Clone, Debug, PartialEq)]
struct Settings {
    seconds: f64,
    rounds: u32,
    control: u32,
    /// Length and time of change of the program: another program is another experiment.
    program: [u64; 2],
}

/// Options of the comparison.
struct Options {
    pairs: usize,
    out: PathBuf,
    program: PathBuf,
    seconds: f64,
    rounds: u32,
    control: u32,
}

/// Pairs of each kind, unless stated otherwise.
const PAIRS: usize = 200;
/// Time limit of a pair.
const LIMIT: Duration = Duration::from_secs(30 * 60);
const FILE_BYTES: u64 = 64 << 20;

/// The planted change: the worker pauses for 2 of each 10 ms. So it does a fifth less, whatever the
/// volume takes for an I/O. Another I/O size or an emulated drive would change the rate by an
/// amount that nobody knows beforehand.
const PLANTED: &str = "[steps.groups.workload.think]\nafter_us = 8000\npause_us = 2000\n";

/// Measures the pairs that are missing, and counts all. True if the bars hold.
pub fn main(args: &[String]) -> Result<bool> {
    let options = Options::parse(args)?;
    let settings = options.settings()?;
    fs::create_dir_all(&options.out)?;
    let log = options.out.join("pairs.jsonl");
    let mut done = resume(&log, &settings)?;
    let jobs = Jobs::write(&options.out, &settings)?;
    for number in 0..options.pairs {
        for kind in Kind::ALL {
            if done.iter().any(|row| tally::is_of(row, number, kind)) {
                continue;
            }
            let row = measure(&options, &jobs, number, kind)?;
            append(&log, &row)?;
            say!("{}", tally::words(&row));
            done.push(row);
        }
    }
    let (text, holds) = tally::sum(&done);
    say!("{text}");
    Ok(holds)
}

impl Options {
    fn parse(args: &[String]) -> Result<Options> {
        let release = crate::target_folder().join("release/drumfire");
        let out = crate::target_folder().join("aa");
        let (rounds, control, seconds) = (6, 3, 1.0);
        let mut options = Options { pairs: PAIRS, out, program: release, seconds, rounds, control };
        let mut rest = args.iter();
        while let Some(name) = rest.next() {
            let value = rest.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--pairs" => options.pairs = value.parse()?,
                "--out" => options.out = PathBuf::from(value),
                "--drumfire" => options.program = fs::canonicalize(value)?,
                "--seconds" => options.seconds = value.parse()?,
                "--rounds" => options.rounds = value.parse()?,
                "--control" => options.control = value.parse()?,
                _ => bail!("aa has no option {name}"),
            }
        }
        ensure!(options.seconds > 0.0, "--seconds is above 0");
        let missing = "cargo build --release --package drumfire makes it";
        ensure!(options.program.is_file(), "no {}: {missing}", options.program.display());
        Ok(options)
    }

    fn settings(&self) -> Result<Settings> {
        let found = fs::metadata(&self.program)?;
        let changed = found.modified()?.duration_since(std::time::UNIX_EPOCH)?.as_secs();
        let (seconds, rounds, control) = (self.seconds, self.rounds, self.control);
        Ok(Settings { seconds, rounds, control, program: [found.len(), changed] })
    }
}

impl Settings {
    fn row(&self) -> Value {
        let Settings { seconds, rounds, control, program } = self;
        json!({
            "seconds": seconds,
            "rounds": rounds,
            "control": control,
            "program_bytes": program[0],
            "program_changed": program[1],
        })
    }
}

/// Rows of finished pairs. A last line that a crash has torn is cut off.
fn resume(log: &Path, settings: &Settings) -> Result<Vec<Value>> {
    let text = match fs::read_to_string(log) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        fs::OpenOptions::new().write(true).open(log)?.set_len(whole as u64)?;
    }
    let mut rows = text[..whole].lines().map(serde_json::from_str::<Value>);
    match rows.next() {
        None => append(log, &settings.row())?,
        Some(first) => ensure!(
            first? == settings.row(),
            "{} was begun with other settings or another program: choose another --out",
            log.display()
        ),
    }
    rows.collect::<Result<_, _>>().with_context(|| log.display().to_string())
}

fn append(log: &Path, row: &Value) -> Result<()> {
    let mut file = fs::OpenOptions::new().create(true).append(true).open(log)?;
    file.write_all(format!("{row}\n").as_bytes())?;
    Ok(())
}

/// Job files of both sides, by volume.
struct Jobs {
    folder: PathBuf,
}

impl Jobs {
    fn write(folder: &Path, settings: &Settings) -> Result<Jobs> {
        let folder = fs::canonicalize(folder)?;
        let data = folder.join("data");
        if fs::metadata(&data).map_or(0, |found| found.len()) != FILE_BYTES {
            // A hole would be an invalid result.
            let mut state = 1;
            let words = std::iter::repeat_with(|| block::splitmix(&mut state).to_le_bytes());
            let bytes: Vec<u8> = words.take(FILE_BYTES as usize / 8).flatten().collect();
            fs::write(&data, bytes)?;
            fs::File::open(&data)?.sync_all()?;
        }
        let jobs = Jobs { folder };
        let seconds = settings.seconds;
        for volume in ["ram", "file"] {
            let uri = match volume {
                "ram" => format!("ram:{FILE_BYTES}"),
                _ => format!("file:{}", data.display()),
            };
            for planted in [false, true] {
                let think = if planted { PLANTED } else { "" };
                let text = format!(
                    "[[steps]]\nseconds = {seconds}\nramp_seconds = 0.2\n\
                     [[steps.groups]]\nvolumes = ['{uri}']\n\
                     [steps.groups.workload]\noutstanding = 8\n{think}\
                     [[steps.groups.workload.access.lines]]\nsize_bytes = 4096\n"
                );
                fs::write(jobs.path(volume, planted), text)?;
            }
        }
        Ok(jobs)
    }

    fn path(&self, volume: &str, planted: bool) -> PathBuf {
        self.folder.join(format!("{volume}{}.toml", if planted { "-planted" } else { "" }))
    }
}

/// Measures a pair.
fn measure(options: &Options, jobs: &Jobs, number: usize, kind: Kind) -> Result<Value> {
    let folder = jobs.folder.join("pair");
    if folder.exists() {
        // The rest of an earlier call that was interrupted.
        fs::remove_dir_all(&folder)?;
    }
    let side = |planted| {
        let job = jobs.path(kind.volume, planted);
        format!("{} --no-ceiling --no-cold-reads", job.display())
    };
    let mut command = Command::new(&options.program);
    command.arg("compare").arg("--run").arg(side(false)).arg(side(kind.planted));
    command.args(["--rounds", &options.rounds.to_string()]);
    command.args(["--control", &options.control.to_string(), "--json", "--out"]).arg(&folder);
    let outcome = process::run(&mut command, LIMIT, Show::Nothing)?;
    let row = tally::row(number, kind, &outcome.stdout, outcome.took);
    let row = row.with_context(|| format!("{}: {}", outcome.ending(), outcome.stderr))?;
    fs::remove_dir_all(&folder)?;
    Ok(row)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_torn_line_is_cut_off_and_other_settings_are_refused() {
        let folder = std::env::temp_dir().join(format!("drumfire-aa-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let log = folder.join("pairs.jsonl");
        let settings = Settings { seconds: 1.0, rounds: 6, control: 3, program: [7, 9] };
        assert_eq!(resume(&log, &settings).unwrap(), Vec::<Value>::new());
        append(&log, &json!({ "pair": 0 })).unwrap();
        let whole = fs::read_to_string(&log).unwrap();
        fs::write(&log, format!("{whole}{{\"pair\": 1, \"vol")).unwrap();
        assert_eq!(resume(&log, &settings).unwrap(), [json!({ "pair": 0 })]);
        assert_eq!(fs::read_to_string(&log).unwrap(), whole);
        let other = Settings { rounds: 5, ..settings };
        assert!(resume(&log, &other).unwrap_err().to_string().contains("other settings"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
