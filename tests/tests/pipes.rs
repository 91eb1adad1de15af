//! Settings and job files that are not regular files: a pipe without a writer, an endless device.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};

/// Time limit: a command that hangs fails the test.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_pipe_that_nobody_writes_into_is_refused() {
    let (Some(drumfire), Some(mkfifo)) = (Drumfire::find(), require("mkfifo")) else { return };
    let folder = Folder::new();
    for name in ["p", "p.toml", "p.fio", "p.icf"] {
        run(Command::new(&mkfifo).arg(folder.path().join(name)), LIMIT).ok();
    }
    for args in [
        "run p.toml",
        "run p.fio",
        "run p.icf",
        "run p",
        "explain p.toml",
        "explain p.fio",
        "fio p.fio",
        "fio p",
        "serve p.toml",
        "serve --volume d=fault:p.toml(ram:1m)",
        "run fault:p(ram:1m) --seconds 1",
        "run delay:p.toml(ram:1m) --seconds 1",
        "run ram:1m --seconds 1 --listen 127.0.0.1:0 --listen-token p",
        "sweep p.toml --axis size=4k",
        "simulate p.toml",
        "plan --bill p.toml",
        "audit p.toml",
        "database p.toml x25-m",
        "scenario run p.toml",
        "catalogue check p.toml",
        "report p",
        "compare p p",
        "run file:p",
        "serve --volume d=file:p",
    ] {
        let ended = drumfire.run(folder.path(), args, LIMIT);
        assert!(matches!(ended.code, Some(1 | 2)), "{args}: {ended:?}");
        assert!(!ended.stderr.is_empty(), "{args}: {ended:?}");
    }
}

#[test]
fn a_pipe_that_a_shell_made_is_read() {
    let (Some(drumfire), Some(bash)) = (Drumfire::find(), require("bash")) else { return };
    let folder = Folder::new();
    let program = drumfire.path().display();
    let script = format!(
        "printf '[a]\\nioengine=null\\nsize=1m\\n' | {program} fio - &&
         {program} fio /dev/stdin < <(printf '[a]\\nioengine=null\\nsize=1m\\n')"
    );
    run(Command::new(bash).args(["-c", &script]).current_dir(folder.path()), LIMIT).ok();
}

#[test]
fn a_device_without_end_is_not_read_to_its_end() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for name in ["z.toml", "z.fio"] {
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(name)).unwrap();
    }
    for args in ["serve z.toml", "run z.toml", "run z.fio", "explain z.toml", "scenario run z.toml"]
    {
        let ended = drumfire.run(folder.path(), args, LIMIT);
        assert_eq!(ended.code, Some(2), "{args}: {ended:?}");
    }
}
