//! The tutorial: what it says may be typed can be typed, in its order.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, free_port, run};

const LIMIT: Duration = Duration::from_secs(600);
const PAGE: &str = include_str!("../../docs/tutorial.md");

#[test]
fn every_block_of_the_tutorial_runs() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let blocks = PAGE.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    // Its port may be in use here.
    let port = free_port().to_string();
    let script: String = blocks.map(|block| block.replace("3299", &port)).collect();
    assert!(script.lines().count() > 15, "{script}");
    // Found by its name, so that what the shell ends is the program itself.
    let place = drumfire.path().parent().unwrap().display().to_string();
    let path = format!("{place}:{}", std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-e", "-c", &script]).current_dir(folder.path()).env("PATH", path);
    bash.env("XDG_STATE_HOME", folder.path());
    let finished = run(&mut bash, LIMIT).ok();
    for words in ["invalid", "all data intact", "third-io-iris", "emulated", "simulated"] {
        let said = finished.stdout.contains(words) || finished.stderr.contains(words);
        assert!(said, "{words}\n{}\n{}", finished.stdout, finished.stderr);
    }
    for page in ["depth.html", "founding.html"] {
        let text = std::fs::read_to_string(folder.path().join(page)).unwrap();
        assert!(text.starts_with("<!") && text.len() > 5000, "{page}");
    }
}
