//! Help, completions and manual pages: each command has them, they fit on the terminal, and shells
//! and `man` understand them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Terminal, require, run};

const LIMIT: Duration = Duration::from_secs(300);

/// All commands, by the names of their manual pages: `volume create`.
fn commands(drumfire: &Drumfire, folder: &Folder) -> Vec<String> {
    drumfire.run(folder.path(), "man --out pages", LIMIT).ok();
    let files = std::fs::read_dir(folder.path().join("pages")).unwrap();
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        let name = file.unwrap().file_name().into_string().unwrap();
        let page = name.strip_suffix(".1").expect("a page of section 1");
        page.trim_start_matches("drumfire").replace('-', " ").trim().to_owned()
    };
    let mut commands: Vec<String> = files.map(name).collect();
    commands.sort();
    commands
}

/// Runs a command on a terminal of this width; returns its exit code, and its output without
/// colours.
pub fn typed(command: &Command, columns: u16) -> (Option<i32>, String) {
    let terminal = Terminal::sized(24, columns);
    let mut program = terminal.start(command);
    let code = program.finish(LIMIT);
    (code, plain(&program.seen()))
}

/// A text without control sequences. A full screen and its content are left out: only text that
/// remains on the terminal counts.
fn plain(text: &str) -> String {
    let text = text.rsplit("\x1b[?1049l").next().unwrap_or(text);
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => {
                let _ = letters.by_ref().skip(1).find(|letter| ('@'..='~').contains(letter));
            }
            '\r' => {}
            // Bold characters of man pages are written twice, one over the other.
            '\x08' => _ = plain.pop(),
            letter => plain.push(letter),
        }
    }
    plain
}

/// Fails unless all lines fit: the terminal would split a word. Words without blanks, such as
/// paths, may be longer than a line.
pub fn fits(what: &str, text: &str, columns: u16) {
    for line in text.lines() {
        let is_one_word = !line.trim().contains(' ');
        let width = line.chars().count();
        assert!(width <= usize::from(columns) || is_one_word, "{what}, {columns}: {line}\n{text}");
    }
}

#[test]
fn every_help_fits_on_its_terminal() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let commands = commands(&drumfire, &folder);
    assert!(commands.len() > 30 && commands.contains(&"volume create".to_owned()), "{commands:?}");
    for columns in [60, 80, 120] {
        for name in &commands {
            for flag in ["-h", "--help"] {
                let args = format!("{name} {flag}");
                let call = drumfire.command(folder.path(), args.trim());
                let (code, text) = typed(&call, columns);
                assert_eq!(code, Some(0), "{args}: {text}");
                assert!(text.contains("Examples:") && text.contains("  drumfire "), "{text}");
                fits(&args, &text, columns);
                let rows = text.lines().count();
                assert!(flag != "-h" || columns < 80 || rows <= 24, "{args}: {rows} rows");
            }
        }
    }
}

/// Help goes to standard output, which `| less` reads.
#[test]
fn a_program_without_a_command_says_what_it_can_do() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let alone = run(&mut Command::new(drumfire.path()), LIMIT);
    let asked = drumfire.run(folder.path(), "-h", LIMIT);
    assert_eq!((alone.code, asked.code), (Some(0), Some(0)), "{alone:?}");
    assert_eq!(alone.stdout, asked.stdout);
    assert!(alone.stderr.is_empty() && asked.stderr.is_empty(), "{alone:?}");
    assert!(alone.stdout.contains("Read results:") && alone.stdout.contains("serve, attach"));
    for name in ["volume", "catalogue", "scenario", "plan", "audit"] {
        let ended = drumfire.run(folder.path(), name, LIMIT);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{name}");
        assert!(ended.stdout.contains("Examples:"), "{name}: {}", ended.stdout);
    }
}

/// A debug build has no commit; whoever reports a fault of another one names it.
#[test]
fn the_version_has_a_commit_and_its_date() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for flag in ["--version", "-V"] {
        let said = drumfire.run(folder.path(), flag, LIMIT).ok().stdout;
        let version = concat!("drumfire ", env!("CARGO_PKG_VERSION"));
        let rest = said.strip_prefix(version).and_then(|rest| rest.strip_suffix('\n'));
        let rest = rest.unwrap_or_else(|| panic!("{said}"));
        let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
        let Some((hash, date)) = commit.and_then(|commit| commit.split_once(' ')) else {
            assert_eq!(rest, "", "{said}");
            continue;
        };
        let hash = hash.strip_suffix("-dirty").unwrap_or(hash);
        assert!(hash.len() == 12 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{said}");
        assert!(date.len() == 10 && date.split('-').count() == 3, "{said}");
    }
}

/// A call with these variables on a terminal.
fn with(variables: &[&str], command: &Command) -> Option<Command> {
    let mut call = Command::new(require("env")?);
    call.args(variables).arg(command.get_program()).args(command.get_args());
    call.current_dir(command.get_current_dir().expect("it has a folder"));
    Some(call)
}

#[test]
fn escapes_stay_where_they_are_understood() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let quick = "--seconds 0.2 --ramp 0 --no-ceiling";
    let calls = [
        "--help".to_owned(),
        "rnu".to_owned(),
        format!("sweep null:1g --axis size=4k,8k --repeats 1 {quick}"),
        "plan --drive x25-m".to_owned(),
    ];
    for args in calls.iter().chain([&format!("run null:1g {quick}")]) {
        let call = drumfire.command(folder.path(), args);
        let Some(dumb) = with(&["TERM=dumb"], &call) else { return };
        let terminal = Terminal::sized(24, 80);
        let mut program = terminal.start(&dumb);
        program.finish(LIMIT);
        assert!(!program.seen().contains('\x1b'), "TERM=dumb {args}: {:?}", program.seen());
        let piped = drumfire.run(folder.path(), args, LIMIT);
        assert!(!format!("{}{}", piped.stdout, piped.stderr).contains('\x1b'), "{piped:?}");
    }
    for args in &calls {
        let call = drumfire.command(folder.path(), args);
        let Some(without) = with(&["NO_COLOR=1"], &call) else { return };
        let terminal = Terminal::sized(24, 80);
        let mut program = terminal.start(&without);
        program.finish(LIMIT);
        let seen = program.seen();
        let drawn = seen.split("\x1b[?1049h").next().unwrap_or_default();
        assert!(!drawn.contains('\x1b'), "NO_COLOR {args}: {seen:?}");
    }
    let colored = Terminal::sized(24, 80);
    let mut program = colored.start(&drumfire.command(folder.path(), "--help"));
    program.finish(LIMIT);
    assert!(program.seen().contains("\x1b["), "help has headings: {}", program.seen());
}

/// The completions that a shell finds, by a script that ends in printing them.
fn completed(shell: &Path, folder: &Folder, script: &str) -> Vec<String> {
    let mut command = Command::new(shell);
    if shell.ends_with("bash") {
        command.arg("--norc");
    }
    let ended = run(command.args(["-c", script]).current_dir(folder.path()), LIMIT).ok();
    ended.stdout.split_whitespace().map(str::to_owned).collect()
}

fn script_of(shell: &str) -> Option<(Drumfire, Folder, Finished)> {
    let (drumfire, folder) = (Drumfire::find()?, Folder::new());
    let script = drumfire.run(folder.path(), &format!("completions {shell}"), LIMIT).ok();
    folder.file("completions", script.stdout.as_bytes());
    Some((drumfire, folder, script))
}

#[test]
fn bash_completes_commands_options_and_values() {
    let (Some(bash), Some((_, folder, _))) = (require("bash"), script_of("bash")) else { return };
    let complete = |words: &str| {
        let last = words.split(' ').count() - 1;
        let script = format!(
            "source ./completions; COMP_WORDS=({words}); COMP_CWORD={last}; COMP_LINE='{words}'; \
             _drumfire drumfire \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{}]}}\"; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            last - 1
        );
        completed(&bash, &folder, &script)
    };
    assert_eq!(complete("drumfire ra"), ["race"]);
    assert_eq!(complete("drumfire volume cre"), ["create"]);
    assert_eq!(complete("drumfire run --outst"), ["--outstanding"]);
    assert_eq!(complete("drumfire race --protocol nv"), ["nvme-tcp"]);
}

#[test]
fn zsh_takes_its_completions() {
    let (Some(zsh), Some((_, folder, script))) = (require("zsh"), script_of("zsh")) else { return };
    assert!(script.stdout.starts_with("#compdef drumfire"), "{}", script.stdout);
    let load = "autoload -U compinit && compinit -D -u && source ./completions && \
                print ${_comps[drumfire]}";
    assert_eq!(completed(&zsh, &folder, load), ["_drumfire"]);
}

#[test]
fn fish_completes_commands_and_values() {
    let (Some(fish), Some((_, folder, _))) = (require("fish"), script_of("fish")) else { return };
    let complete = |line: &str| {
        let script = format!("source ./completions; complete -C '{line}' | string split -f1 \\t");
        completed(&fish, &folder, &script)
    };
    assert_eq!(complete("drumfire ra"), ["race"]);
    assert_eq!(complete("drumfire race --protocol nv"), ["nvme-tcp"]);
}

#[test]
fn man_reads_every_page_without_a_warning() {
    let (Some(drumfire), Some(groff)) = (Drumfire::find(), require("groff")) else { return };
    let folder = Folder::new();
    for name in commands(&drumfire, &folder) {
        let page = format!("pages/{}.1", format!("drumfire {name}").trim().replace(' ', "-"));
        let mut command = Command::new(&groff);
        command.args(["-man", "-Tutf8", "-ww", "-rLL=80n", "-P-cbou", &page]);
        let shown = run(command.current_dir(folder.path()), LIMIT).ok();
        assert_eq!(shown.stderr, "", "{name}");
        let (name_at, examples, synopsis) = (
            shown.stdout.find("NAME"),
            shown.stdout.find("EXAMPLES"),
            shown.stdout.find("SYNOPSIS"),
        );
        assert!(name_at < examples && examples < synopsis, "{name}: {}", shown.stdout);
    }
}

/// On a terminal the page is shown; in a pipe is its source.
#[test]
fn a_page_is_shown_on_a_terminal() {
    let (Some(drumfire), Some(_)) = (Drumfire::find(), require("man")) else { return };
    let folder = Folder::new();
    let piped = drumfire.run(folder.path(), "man volume create", LIMIT).ok();
    assert!(piped.stdout.contains(".TH drumfire-volume-create 1"), "{}", piped.stdout);
    let call = drumfire.command(folder.path(), "man run");
    let Some(call) = with(&["MANPAGER=cat", "PAGER=cat"], &call) else { return };
    let (code, text) = typed(&call, 80);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("drumfire run") && !text.contains(".SH"), "{text}");
    fits("man run", &text, 80);
    // Without the program `man` the help has the same content.
    let Some(call) = with(&["PATH=/nowhere"], &drumfire.command(folder.path(), "man run")) else {
        return;
    };
    let (code, text) = typed(&call, 80);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Queue depth of each worker"), "{text}");
}
