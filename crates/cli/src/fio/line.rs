//! fio's command line: its options for jobs become the text of a job file.
//!
//! Options before the first `--name` apply to all jobs, as with fio, including those of files
//! unless the file overrides them; each `--name` starts a job. A long option may have one dash or
//! two, and its value follows `=` or is the next argument.

use std::path::PathBuf;

use crate::exit::UsageError;

/// Parsed arguments of `drumfire fio`.
#[derive(Debug, Default, PartialEq)]
pub struct Line {
    /// Jobs of the command line, as a job file.
    pub jobs: String,
    /// Job files; `-` is stdin.
    pub files: Vec<String>,
    /// File for the result; stdout by default.
    pub output: Option<PathBuf>,
    /// Output formats, in fio's order; if empty, the normal one.
    pub forms: Vec<Form>,
    /// The version of the terse form.
    pub terse_version: u32,
    /// Requested sections of job files; all if empty.
    pub sections: Vec<String>,
    /// Whether the jobs are printed as command lines and not run.
    pub show: bool,
    /// Whether the jobs are parsed and not run.
    pub parse_only: bool,
    /// Jobs that write are refused.
    pub read_only: bool,
    /// Volumes that hold data and may be overwritten: not an option of fio, which overwrites
    /// without confirmation.
    pub destroy: Vec<String>,
    /// Information request instead of a run.
    pub about: Option<About>,
    /// Options without effect here, each reported once.
    pub ignored: Vec<String>,
}

/// A form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// For scripts, a line for each job.
    Terse,
    /// Text for people.
    Normal,
    /// JSON.
    Json,
    /// JSON with histograms.
    JsonPlus,
}

/// Questions of users and scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// `--version`.
    Version,
    /// `--help`.
    Help,
    /// `--cmdhelp`: support for an option, or for all.
    Options(Option<String>),
    /// `--enghelp`: the engines, or whether one is supported.
    Engines(Option<String>),
}

/// Options of fio itself about its display or its memory, without effect here.
const IGNORED: [&str; 12] = [
    "alloc-size",
    "append-terse",
    "aux-path",
    "bandwidth-log",
    "debug",
    "eta",
    "eta-interval",
    "eta-newline",
    "idle-prof",
    "inflate-log",
    "max-jobs",
    "status-interval",
];

/// Options of fio that are supported.
const DONE: [&str; 13] = [
    "cmdhelp",
    "enghelp",
    "help",
    "minimal",
    "output",
    "output-format",
    "parse-only",
    "readonly",
    "section",
    "showcmd",
    "terse-version",
    "version",
    "warnings-fatal",
];

/// Options of fio itself that ask for something which is not done.
const REFUSED: [(&str, &str); 10] = [
    ("client", "driving several hosts is not supported"),
    ("cpuclock-test", "`drumfire doctor` checks the clock"),
    ("crctest", "side processes are not supported"),
    ("daemonize", "driving several hosts is not supported"),
    ("merge-blktrace-only", "merging traces is not supported"),
    ("remote-config", "driving several hosts is not supported"),
    ("server", "driving several hosts is not supported"),
    ("trigger", "starting programs is not supported"),
    ("trigger-file", "starting programs is not supported"),
    ("trigger-timeout", "starting programs is not supported"),
];

impl Line {
    /// Parses the arguments of `drumfire fio`.
    ///
    /// # Errors
    ///
    /// An argument is not an option, has no value, or is not supported.
    pub fn parse(words: &[String]) -> Result<Line, UsageError> {
        let mut line = Line { terse_version: 3, ..Line::default() };
        let mut words = words.iter().peekable();
        let mut only_files = false;
        while let Some(word) = words.next() {
            let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
            let Some(option) = option.filter(|option| !only_files && !option.is_empty()) else {
                if word == "--" {
                    only_files = true;
                } else {
                    line.files.push(word.clone());
                }
                continue;
            };
            let (name, given) = match option.split_once('=') {
                Some((name, value)) => (whole(name), Some(value.to_owned())),
                None => (whole(option), None),
            };
            match name {
                "cmdhelp" => line.about = Some(About::Options(given)),
                "enghelp" => line.about = Some(About::Engines(given)),
                _ => line.take(name, given, &mut words)?,
            }
        }
        Ok(line)
    }

    /// Handles an option; its value may be the next word.
    fn take<'a>(
        &mut self,
        name: &str,
        given: Option<String>,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), UsageError> {
        let mut value = || match &given {
            Some(value) => Ok(value.clone()),
            None => words
                .next()
                .cloned()
                .ok_or_else(|| UsageError(format!("fio: --{name} needs a value: --{name}=VALUE"))),
        };
        if self.own(name, &mut value)? {
            return Ok(());
        }
        // A word that is no option has no value, and is refused by name.
        let known = name == "name" || job::formats::fio::is_option(name);
        let value = match !known || job::formats::fio::stands_alone(name) {
            true => given,
            false => Some(value()?),
        };
        self.of_job(name, value)
    }

    /// Handles an option of fio itself; false if it is one of a job.
    fn own(
        &mut self,
        name: &str,
        value: &mut dyn FnMut() -> Result<String, UsageError>,
    ) -> Result<bool, UsageError> {
        match name {
            "output" => self.output = Some(value()?.into()),
            "output-format" => self.forms = forms(&value()?)?,
            "minimal" => self.forms = vec![Form::Terse],
            "terse-version" => self.terse_version = terse_version(&value()?)?,
            "section" => self.sections.push(value()?),
            "showcmd" => self.show = true,
            "parse-only" => self.parse_only = true,
            "readonly" => self.read_only = true,
            "destroy" => self.destroy.push(value()?),
            "version" | "v" => self.about = Some(About::Version),
            "help" | "h" => self.about = Some(About::Help),
            "warnings-fatal" => {}
            _ if IGNORED.contains(&name) => {
                // Options without a value.
                if !matches!(name, "append-terse" | "bandwidth-log") {
                    value()?;
                }
                if !name.starts_with("eta") {
                    self.ignored.push(format!("--{name}"));
                }
            }
            _ => match REFUSED.iter().find(|(refused, _)| *refused == name) {
                Some((_, why)) => return Err(UsageError(format!("fio: --{name}: {why}"))),
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    /// Takes an option of a job.
    fn of_job(&mut self, name: &str, value: Option<String>) -> Result<(), UsageError> {
        if let Some(value) = value.as_deref().filter(|value| value.contains(['\n', '\r'])) {
            return Err(UsageError(format!("fio: --{name}: a line break in {value:?}")));
        }
        if name == "name" {
            let name = value.unwrap_or_default();
            self.jobs += &format!("[{name}]\nname={name}\n");
            return Ok(());
        }
        if self.jobs.is_empty() {
            self.jobs += "[global]\n";
        }
        match value {
            Some(value) => self.jobs += &format!("{name}={value}\n"),
            None => self.jobs += &format!("{name}\n"),
        }
        Ok(())
    }
}

/// Full name of an option: as with fio, a unique prefix suffices.
fn whole(name: &str) -> &str {
    let own = DONE.into_iter().chain(IGNORED).chain(REFUSED.map(|(refused, _)| refused));
    let of_jobs = job::formats::fio::options().flat_map(|(names, _)| names.split('|'));
    let begun: Vec<&str> = own.chain(of_jobs).filter(|all| all.starts_with(name)).collect();
    match begun[..] {
        [all] if name.len() > 1 => all,
        _ => name,
    }
}

fn forms(text: &str) -> Result<Vec<Form>, UsageError> {
    let form = |word: &str| match word {
        "normal" => Ok(Form::Normal),
        "json" => Ok(Form::Json),
        "json+" => Ok(Form::JsonPlus),
        "terse" => Ok(Form::Terse),
        _ => Err(UsageError(format!("fio: --output-format={word}: normal, terse, json or json+"))),
    };
    let mut forms = text.split(',').map(form).collect::<Result<Vec<_>, _>>()?;
    forms.sort_unstable();
    forms.dedup();
    Ok(forms)
}

fn terse_version(text: &str) -> Result<u32, UsageError> {
    let version = text.parse().ok().filter(|version| (3..=5).contains(version));
    version.ok_or_else(|| UsageError(format!("fio: --terse-version={text}: 3, 4 or 5")))
}

#[cfg(test)]
mod test {
    use super::*;

    fn parse(line: &str) -> Result<Line, UsageError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Line::parse(&words)
    }

    #[test]
    fn jobs_begin_with_their_names_and_what_stands_before_holds_for_all() {
        let line = parse(
            "--bs=4k -direct 1 --time_based --name=a --rw randread --group_reporting --name b \
             --rw=write",
        );
        let text = "[global]\nbs=4k\ndirect=1\ntime_based\n[a]\nname=a\nrw=randread\n\
                    group_reporting\n[b]\nname=b\nrw=write\n";
        assert_eq!(line.unwrap().jobs, text);
    }

    #[test]
    fn files_and_options_of_fio_itself_may_stand_anywhere() {
        let line = parse("a.fio --size=1m --output-format=json,normal - --section=x --output o");
        let line = line.unwrap();
        assert_eq!(line.files, ["a.fio", "-"]);
        assert_eq!((&*line.jobs, &line.sections[..]), ("[global]\nsize=1m\n", &["x".into()][..]));
        assert_eq!(line.forms, [Form::Normal, Form::Json]);
        assert_eq!(parse("--minimal --terse-version=4").unwrap().forms, [Form::Terse]);
        assert_eq!(line.output, Some("o".into()));
        assert_eq!(parse("-- --odd").unwrap().files, ["--odd"]);
        assert_eq!(parse("--eta=never --max-jobs=9 x").unwrap().ignored, ["--max-jobs"]);
        let of = |line| parse(line).unwrap().about;
        assert_eq!(of("--cmdhelp"), Some(About::Options(None)));
        assert_eq!(of("--enghelp=null"), Some(About::Engines(Some("null".to_owned()))));
        assert_eq!(
            parse("--name=a --bogus --rw=read").unwrap().jobs,
            "[a]\nname=a\nbogus\nrw=read\n"
        );
        assert_eq!(of("--cmdhelp=rw"), Some(About::Options(Some("rw".to_owned()))));
        let only = parse("--parse-only --showcmd --readonly -v").unwrap();
        assert!(only.parse_only && only.show && only.read_only);
        assert_eq!(only.about, Some(About::Version));
    }

    #[test]
    fn the_beginning_of_a_name_does() {
        let line = parse("--numjob=2 --loop 3 --output-f=json --name=a --group_rep").unwrap();
        assert_eq!(line.jobs, "[global]\nnumjobs=2\nloops=3\n[a]\nname=a\ngroup_reporting\n");
        assert_eq!(line.forms, [Form::Json]);
        // Full names that are prefixes of others, and ambiguous prefixes.
        let line = parse("--name=a --rate=1m --bs=4k --iodep=3").unwrap();
        assert_eq!(line.jobs, "[a]\nname=a\nrate=1m\nbs=4k\niodep=3\n");
    }

    #[test]
    fn what_is_not_done_is_refused() {
        for (line, part) in [
            ("--name", "--name needs a value"),
            ("--output-format=xml", "normal, terse, json or json+"),
            ("--terse-version=2", "3, 4 or 5"),
            ("--client=host", "several hosts"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
        let broken = Line::parse(&["--bs=4k\nrw=write".to_owned()]).unwrap_err();
        assert!(broken.to_string().contains("line break"));
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(words in proptest::collection::vec("-{0,3}[a-z=+,_-]{0,14}", 0..8)) {
            let _ = Line::parse(&words);
        }
    }
}
