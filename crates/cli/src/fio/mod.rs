//! `drumfire fio`: fio's command line and output.

mod line;

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use block::Text;
use clap::{Args as Flags, Parser};
use job::formats::fio::{COMMAND_LINE, Source};
use job::formats::{Note, Reading, Treatment, read_old_text};
use job::spec::{JobSpec, Step};
use load::{Asked, Prepared, Recheck, Stop};
use os::Folder;
use report::Painted;
use report::fio::Include;
use rustix::process::{Pid, Signal, kill_process_group};
use stats::{Class, RunResult, WorkerResult};

use self::line::{About, Form, Line};
use crate::args::{self, Color, Command, Drive};
use crate::bench::{self, Allowed, Bench};
use crate::exit::{Exit, UsageError, of_file};
use crate::folder::Place;
use crate::layout::Manner;
use crate::{asked, folder, foreign, help, hosts, layout, logs, output, recheck, signal};

/// `drumfire fio`.
#[derive(Flags, Debug)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// fio's options, job options and job files.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FIO'S ARGUMENTS")]
    pub words: Vec<String>,
}

const HELP: &str = "\
drumfire fio [options] [job options] <job files>
  As in fio, options before the first --name apply to all jobs; each --name begins one.
  - is stdin.
  --output=FILE           write the result there
  --output-format=LIST    normal, terse, json, json+; --minimal is terse
  --terse-version=N       3, 4 or 5
  --section=NAME          run only these sections of job files; can be repeated
  --readonly              refuse jobs that write
  --parse-only            read the jobs, run nothing
  --showcmd               print the jobs as command lines
  --cmdhelp[=OPTION]      support of job options: taken, ignored, differs, refused
  --enghelp[=ENGINE]      list the engines
  --destroy=PATH          overwrite a device that holds data; files are overwritten as by fio
  --version, --help
Differences from fio are printed on stderr; a job that needs an unsupported option is refused.
";

/// Longest job from stdin, in bytes.
const STDIN_MAX: u64 = 1 << 24;

/// fio's exit code after a signal.
const INTERRUPTED: u8 = 128;

/// Runs the command line like fio.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    let line = Line::parse(&args.words)?;
    match &line.about {
        Some(About::Version) => {
            output::print_line(format_args!("fio-3.33 (drumfire {})", env!("CARGO_PKG_VERSION")))?;
            return Ok(Exit::Good);
        }
        Some(About::Help) => {
            let page = help::page("fio").map_or(&[][..], |page| page.examples);
            let examples = page.iter().map(|(_, line)| format!("  {line}"));
            let examples = std::iter::once("Examples:".to_owned()).chain(examples);
            let rest = std::iter::once("").chain(HELP.lines()).map(str::to_owned);
            output::print(&examples.chain(rest).collect())?;
            return Ok(Exit::Good);
        }
        Some(About::Engines(name)) => {
            output::print(&engines(name.as_deref())?)?;
            return Ok(Exit::Good);
        }
        Some(About::Options(name)) => {
            output::print(&options(name.as_deref())?)?;
            return Ok(Exit::Good);
        }
        None => {}
    }
    for ignored in &line.ignored {
        output::note(format_args!("drumfire: {ignored} is ignored"));
    }
    let stdin = |file: &str| file == "-" || file == "/dev/stdin";
    if let Some(file) = line.files.iter().find(|file| !stdin(file) && !Path::new(file).exists()) {
        output::note(format_args!("drumfire: unable to open '{file}' job file"));
        return Ok(Exit::Jobs(1));
    }
    let texts = texts(&line)?;
    if line.show {
        texts.iter().try_for_each(|(_, text)| output::file(as_commands(text).as_bytes()))?;
        return Ok(Exit::Good);
    }
    let (job, cores) = read(&line, &texts)?;
    if line.parse_only {
        return Ok(Exit::Good);
    }
    run(&job, cores, &line, color)
}

/// Lists the I/O engines, or only the one of this name.
fn engines(name: Option<&str>) -> Result<Text> {
    let mut all = job::formats::fio::engines();
    match name {
        None => {
            let mut text = Text::from("Available IO engines:\n");
            for engine in all {
                // fio prints a tab before each.
                text.append(&Text::from("\t"));
                text.line(engine);
            }
            Ok(text)
        }
        Some(name) if all.any(|engine| engine == name) => Ok([name].into_iter().collect()),
        Some(name) => Err(UsageError(format!("fio: the engine {name} is not supported")).into()),
    }
}

/// Support for one option or for all: its names and a word.
fn options(name: Option<&str>) -> Result<Text> {
    let named = |names: &str| name.is_none_or(|name| names.split('|').any(|one| one == name));
    let mut lines: Vec<String> = job::formats::fio::options()
        .filter(|(names, _)| named(names))
        .map(|(names, word)| format!("{:<40}: {word}", names.replace('|', ", ")))
        .collect();
    lines.sort_unstable();
    match lines.is_empty() {
        true => Err(UsageError(format!("fio: unknown option {}", name.unwrap_or_default())).into()),
        false => Ok(lines.into_iter().collect()),
    }
}

/// Names and texts of all sources of jobs: the command line, then the files.
fn texts(line: &Line) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    if !line.jobs.is_empty() {
        texts.push((COMMAND_LINE.to_owned(), line.jobs.clone()));
    }
    for file in &line.files {
        let text = match file.as_str() {
            "-" | "/dev/stdin" => {
                let mut text = String::new();
                std::io::stdin().take(STDIN_MAX).read_to_string(&mut text).context("stdin")?;
                text
            }
            _ => {
                let is_comment = |line: &str| line.trim_start().starts_with(['#', ';']);
                let text = read_old_text(Path::new(file), is_comment);
                text.map_err(|error| of_file(file, error))?
            }
        };
        texts.push((file.clone(), text));
    }
    match texts.is_empty() {
        true => Err(UsageError("fio: no jobs: name a job file or --name=JOB".to_owned()).into()),
        false => Ok(texts),
    }
}

/// The jobs of a text as command lines, as fio prints them.
fn as_commands(text: &str) -> String {
    let mut commands = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => {
                let name = if name.starts_with("global") { "global" } else { name };
                let begin = if commands.is_empty() { "fio" } else { "" };
                commands += &format!("{begin} --name={name}");
            }
            None if line.is_empty() => {}
            None => commands += &format!(" --{line}"),
        }
    }
    commands.push('\n');
    commands
}

/// The job, and its CPUs.
fn read(line: &Line, texts: &[(String, String)]) -> Result<(JobSpec, Vec<usize>)> {
    // Jobs of a second file wait for those of the first one, as with fio.
    let first = usize::from(!line.jobs.is_empty());
    let files = texts.iter().enumerate();
    let files = files.map(|(at, (name, text))| Source { name, text, waits: at > first });
    let files: Vec<Source<'_>> = files.collect();
    let Reading { job, notes, cores } = foreign::read_fio(&files, &line.sections)?;
    let Some(job) = job else {
        let refused = |note: &&Note| note.treatment == Treatment::Refused;
        let reasons: Vec<String> = notes.iter().filter(refused).map(Note::reason).collect();
        return Err(UsageError(format!("fio: {}", reasons.join("; "))).into());
    };
    notes.iter().for_each(|note| output::note(format_args!("drumfire: {note}")));
    let name = if job.name.is_empty() { "fio".to_owned() } else { job.name };
    let job = JobSpec { command: asked::command(), name, ..job };
    job.check().map_err(|error| UsageError(error.to_string()))?;
    let mut groups = job.steps.iter().flat_map(|step| &step.groups);
    if line.read_only && groups.any(|group| group.workload.writes()) {
        return Err(UsageError("fio: --readonly is given and a job writes".to_owned()).into());
    }
    Ok((job, cores))
}

/// Runs the job and prints output like fio's.
fn run(job: &JobSpec, cores: Vec<usize>, line: &Line, color: Color) -> Result<Exit> {
    // fio overwrites files without confirmation. Devices must be named.
    let destroy: Vec<String> = line.destroy.iter().cloned().chain([String::new()]).collect();
    let layout = Some(Manner::FioAnew);
    let mut allowed = Allowed { cores, destroy, layout, ..Allowed::default() };
    // Other ranks lay out their own files.
    let here = &hosts::files_here(job)?;
    let stop = Stop::default();
    signal::stop_on_signal(&stop)?;
    let missing = layout::missing(here, Manner::FioAnew);
    if let Some(path) = missing.keys().next().filter(|_| line.read_only) {
        let name = path.display();
        output::note(format_args!(
            "drumfire: {name} would be laid out first, which --readonly \
            forbids"
        ));
        return Ok(Exit::Jobs(1));
    }
    layout::has_room(here, Manner::FioAnew)?;
    layout::folders(here, Manner::FioAnew)?;
    let Some(made) = layout::make(here, Manner::FioAnew, &allowed.destroy, &stop)? else {
        return Ok(Exit::Interrupted);
    };
    allowed.destroy.extend(made.iter().map(|path| path.display().to_string()));
    if job.steps.is_empty() {
        return Ok(Exit::Good);
    }
    let kept = Kept::new()?;
    // The output is the only result.
    let _measuring = signal::Measuring::begin();
    let (results, exit) = results(job, allowed, &kept.0, color)?;
    // fio's exit code is the number of its jobs that failed.
    let failed = u8::try_from(report::fio::failed(&results)).unwrap_or(u8::MAX);
    let exit = match exit {
        Exit::Good => exit,
        Exit::Interrupted => Exit::Jobs(INTERRUPTED),
        _ => Exit::Jobs(failed.max(1)),
    };
    // fio's output formats have no field for this verdict.
    for result in results.iter().filter(|result| result.class == Class::Invalid) {
        output::note(format_args!("drumfire: {}", report::reason::verdict(result)));
    }
    let forms = if line.forms.is_empty() { &[Form::Normal] } else { &line.forms[..] };
    let rendered = forms.iter().map(|form| rendered(*form, line.terse_version, &results));
    let rendered = rendered.collect::<Result<Vec<Rendered>>>()?;
    match &line.output {
        Some(path) => {
            let bytes: Vec<&[u8]> = rendered.iter().map(Rendered::bytes).collect();
            folder::write_file(path, |out| Ok(out.write_all(&bytes.concat())?))?;
        }
        None => rendered.iter().try_for_each(Rendered::print)?,
    }
    Ok(exit)
}

/// A form of fio's.
enum Rendered {
    Text(Painted),
    Json(String),
}

impl Rendered {
    fn bytes(&self) -> &[u8] {
        match self {
            Rendered::Text(text) => text.as_str().as_bytes(),
            Rendered::Json(text) => text.as_bytes(),
        }
    }

    fn print(&self) -> Result<()> {
        match self {
            Rendered::Text(text) => output::painted(text),
            Rendered::Json(text) => output::json(text),
        }
    }
}

fn rendered(form: Form, terse_version: u32, results: &[RunResult]) -> Result<Rendered> {
    let json = |plus| {
        let mut text = Vec::new();
        report::fio::write(results, Include { plus, ..Include::default() }, &mut text)?;
        Ok(Rendered::Json(String::from_utf8(text)?))
    };
    match form {
        Form::Terse => Ok(Rendered::Text(report::fio::terse(results, terse_version))),
        Form::Normal => Ok(Rendered::Text(report::fio::normal(results))),
        Form::Json => json(false),
        Form::JsonPlus => json(true),
    }
}

/// Runs each step.
fn results(
    job: &JobSpec,
    allowed: Allowed,
    folder: &Path,
    color: Color,
) -> Result<(Vec<RunResult>, Exit)> {
    let drive = silent();
    let mut bench = Bench::new(allowed, job.steps.iter());
    bench.check(job)?;
    bench.logged = true;
    logs::check(job)?;
    let steps = job.steps.iter().map(|step| bench.prepare(job, step));
    let steps = steps.collect::<Result<Vec<_>>>()?;
    logs::name_those_outside(job);
    logs::begin(job)?;
    signal::stop_on_signal(&bench.stop)?;
    let (mut results, mut right) = (Vec::new(), true);
    for (index, ready) in steps.into_iter().enumerate() {
        if bench.stop.asked() > 0 {
            break;
        }
        execute(job, &job.steps[index], ("prerun", &bench.stop))?;
        if bench.stop.asked() > 0 {
            break;
        }
        let folder = folder.join(format!("step-{}", index + 1));
        let unread = ready.run.spec.workers.iter().any(|worker| worker.workload.is_unread());
        results.push(bench::one(ready, &Place::of(&folder), &drive, color, false, None)?);
        if unread && bench.stop.asked() == 0 {
            let run = bench.prepare(job, &job.steps[index])?.run;
            right &= verified(&run, &folder, results.last_mut().expect("it was pushed"))?;
        }
        execute(job, &job.steps[index], ("postrun", &bench.stop))?;
    }
    layout::unlink(&hosts::files_here(job)?);
    let interrupted = bench.stop.asked() > 0;
    let exits = results.iter().map(|result| Exit::of_result(result, interrupted, false));
    let exit = exits.reduce(Exit::worse).unwrap_or(Exit::Interrupted);
    Ok((results, if right { exit } else { Exit::worse(exit, Exit::Mismatch) }))
}

/// Runs `exec_prerun` or `exec_postrun` of the jobs of a step, and reports this before; their
/// output goes to a file, as with fio. A running command is ended if the user requests a stop.
fn execute(job: &JobSpec, step: &Step, (when, stop): (&str, &Stop)) -> Result<()> {
    let option = format!("exec_{when}");
    let mut before = "";
    for group in &step.groups {
        let mut options = group.figures.options.iter().rev().chain(job.options.iter().rev());
        let Some((_, command)) = options.find(|(name, _)| *name == option) else { continue };
        if std::mem::replace(&mut before, &group.name) == group.name {
            continue;
        }
        let kept = format!("{}.{when}.txt", group.name);
        let file = os::new_file(Path::new(&kept));
        let file = file.with_context(|| format!("cannot write {kept}"))?;
        output::note(format_args!("drumfire: {}: running {option}: {command}", group.name));
        let mut command_of = Program::new("/bin/sh");
        // A separate process group, so that the command's children end with it.
        fleet::forget_launcher(&mut command_of);
        command_of.arg("-c").arg(command).stdin(Stdio::null()).stdout(file).process_group(0);
        let child = command_of.spawn()?;
        let Some(status) = ended(child, stop)? else { return Ok(()) };
        let goes_on = when == "postrun" || status.success();
        ensure!(goes_on, "{}: {option}={command}: {status}", group.name);
    }
    Ok(())
}

/// Exit status of a command; `None` if the user requested a stop before.
fn ended(mut child: Child, stop: &Stop) -> Result<Option<ExitStatus>> {
    const LOOK: Duration = Duration::from_millis(10);
    /// Number of polls between the request to end and the kill.
    const LOOKS: u32 = 50;
    let mut asked = 0;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((asked == 0).then_some(status));
        }
        if stop.asked() > 0 {
            asked += 1;
            let signal = if asked == 1 { Some(Signal::TERM) } else { None };
            let signal = signal.or((asked == LOOKS).then_some(Signal::KILL));
            // The child may have ended by now.
            let _ = signal.map(|signal| kill_process_group(Pid::from_child(&child), signal));
        }
        std::thread::sleep(LOOK);
    }
}

/// Verifies the data that a step wrote, and counts these reads among the step's reads as fio does.
/// Returns whether all data match. The latency of each read is unknown.
fn verified(run: &Prepared, folder: &Path, result: &mut RunResult) -> Result<bool> {
    let clock = os::Clock::get();
    let begun = clock.now();
    let found = recheck::compared(run, folder, Asked::Unread)?;
    let seconds = clock.now().since(begun).as_secs_f64().max(1e-9);
    let right = found.iter().all(Recheck::is_right);
    for volume in &found {
        let bytes = volume.compared * volume.block_bytes;
        let of_volume = |worker: &&mut WorkerResult| worker.volume == volume.uri;
        let written: u64 = result.workers.iter_mut().filter(of_volume).map(|w| w.write.bytes).sum();
        for worker in result.workers.iter_mut().filter(of_volume) {
            // Each worker reads its written data again, by I/Os of the same size.
            let share = worker.write.bytes as f64 / written.max(1) as f64;
            let read = bytes as f64 * share;
            let ios = read * worker.write.ios as f64 / worker.write.bytes.max(1) as f64;
            worker.read.bytes += read as u64;
            worker.read.ios += ios.round() as u64;
            worker.read.iops += ios / seconds;
            worker.read.bytes_per_second += read / seconds;
            worker.ios += ios.round() as u64;
            result.totals.iops += ios / seconds;
        }
    }
    load::judge_read_back(run, &found, result);
    Ok(right)
}

/// Flags without a live view and without a ceiling run.
fn silent() -> Drive {
    let words = ["drumfire", "run", "null:1m", "--json", "--no-ceiling"];
    let parsed = args::Args::parse_from(words);
    let Command::Run(run) = parsed.command else { unreachable!("it says run") };
    run.drive
}

/// Temporary folder for files of the run; removed when the program ends.
struct Kept(PathBuf);

impl Kept {
    fn new() -> Result<Kept> {
        // The random name cannot exist already, and only this user may write to the folder.
        let (parent, name) = (std::env::temp_dir(), format!("drumfire-fio-{:016x}", os::random()));
        let path = parent.join(&name);
        Folder::open_trusted(&parent)
            .and_then(|parent| parent.create_folder(Path::new(&name), 0o700))
            .with_context(|| format!("cannot create the folder {}", path.display()))?;
        Ok(Kept(path))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
