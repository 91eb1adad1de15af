//! Pages compared with the program: the tutorial and the guide to load run completely, other pages
//! by their first block; the lists of fio's options equal the program's output.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, free_port, run};

const LIMIT: Duration = Duration::from_secs(600);
const TUTORIAL: &str = include_str!("../../docs/guide/tutorial.md");
const LOAD: &str = include_str!("../../docs/guide/load.md");
const FIO: &str = include_str!("../../docs/reference/fio.md");

/// A page by its name.
macro_rules! page {
    ($name:literal) => {
        ($name, include_str!(concat!("../../docs/", $name, ".md")))
    };
}

/// Pages whose first block needs neither root nor another host.
const PAGES: &[(&str, &str)] = &[
    page!("guide/break"),
    page!("guide/compare"),
    page!("guide/predict"),
    page!("how-to/from-fio"),
    page!("how-to/replay-a-trace"),
    page!("how-to/verify-after-a-crash"),
    page!("how-to/replace-or-grow-a-mirror"),
    page!("how-to/back-up-and-restore"),
    page!("reference/volumes"),
    page!("reference/job-toml"),
    page!("reference/results"),
    page!("reference/reports"),
    page!("reference/tables"),
    page!("how-to/analyse-with-pandas-or-r"),
    page!("how-to/test-in-ci-with-faults"),
    page!("reference/profiles"),
    page!("reference/fio-logs"),
    page!("reference/fio-engines"),
    page!("explanations/measuring"),
    page!("explanations/comparing"),
    page!("explanations/emulated-drives"),
];

/// The shell blocks of a page.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default())
}

/// Runs a script in a folder, with the program found by its name, so that the shell's signals reach
/// the program itself.
fn shell(drumfire: &Drumfire, folder: &Folder, script: &str) -> Finished {
    let programs = drumfire.path().parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", script]).current_dir(folder.path()).env("PATH", path);
    bash.env("XDG_STATE_HOME", folder.path());
    run(&mut bash, LIMIT)
}

#[test]
fn every_block_of_the_tutorial_runs() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    // The port of the page may be in use here.
    let port = free_port().to_string();
    let script: String = blocks(TUTORIAL).map(|block| block.replace("3299", &port)).collect();
    assert!(script.lines().count() > 15, "{script}");
    let finished = shell(&drumfire, &folder, &script).ok();
    for words in ["invalid", "all data intact", "third-io-iris", "emulated", "simulated"] {
        let said = finished.stdout.contains(words) || finished.stderr.contains(words);
        assert!(said, "{words}\n{}\n{}", finished.stdout, finished.stderr);
    }
    for page in ["depth.html", "founding.html"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.starts_with("<!") && text.len() > 5000, "{page}");
    }
}

#[test]
fn every_block_of_the_guide_to_load_runs() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let script: String = blocks(LOAD).collect();
    assert!(script.lines().count() > 5, "{script}");
    shell(&drumfire, &folder, &script).ok();
    let text = std::fs::read_to_string(folder.path().join("depths.html")).unwrap();
    assert!(text.starts_with("<!") && text.len() > 5000, "{text}");
}

#[test]
fn the_first_block_of_each_page_runs() {
    let Some(drumfire) = Drumfire::find() else { return };
    let port = free_port().to_string();
    for (name, page) in PAGES {
        let script = blocks(page).next().unwrap_or_else(|| panic!("{name} has no shell block"));
        let script = &script.replace("3299", &port);
        // A disk of a busy host may stall for longer than a run waits.
        let mut tries = (0..3).map(|_| shell(&drumfire, &Folder::new(), script));
        let finished = tries.find(|run| run.code == Some(0));
        assert!(finished.is_some(), "{name}: {:?}", shell(&drumfire, &Folder::new(), script));
    }
}

#[test]
fn the_page_lists_every_option_of_fio_with_its_treatment() {
    let Some(drumfire) = Drumfire::find() else { return };
    let printed = drumfire.run(Folder::new().path(), "fio --cmdhelp", LIMIT).ok().stdout;
    let options: Vec<(&str, &str)> =
        printed.lines().filter_map(|line| line.rsplit_once(": ")).collect();
    assert!(options.len() > 250, "{printed}");
    let lists = FIO.split_once("tidy --write` -->").unwrap().1.split_once("<!-- end").unwrap().0;
    for (heading, treatment) in [
        ("**Taken", "taken"),
        ("**Differs", "differs"),
        ("**Ignored", "ignored"),
        ("**Refused", "refused"),
    ] {
        let list = lists.split_once(heading).expect(heading).1.split("\n\n").next().unwrap();
        let treated = options.iter().filter(|option| option.1 == treatment);
        let names = treated.map(|(names, _)| names.split(',').next().unwrap_or_default().trim());
        let names: Vec<&str> = names.collect();
        let missing: Vec<_> =
            names.iter().filter(|name| !list.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "{treatment}: cargo xtask tidy --write: {missing:?}");
        assert!(list.contains(&format!("({}).", names.len())), "{treatment}: {}", names.len());
    }
}
