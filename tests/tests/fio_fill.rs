//! Jobs of fio that write until the device is full, compared with the installed fio.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, in_small_file_system, require, run};

const LIMIT: Duration = Duration::from_secs(300);

#[test]
fn a_full_file_system_ends_the_job_and_is_no_failure() {
    let Some(drumfire) = Drumfire::find() else { return };
    in_small_file_system(|small| {
        let folder = Folder::new();
        let job = |fill: u8| {
            let file = small.join("x.img");
            let text = format!(
                "[a]\nioengine=io_uring\niodepth=4\nrw=write\nbs=64k\nsize=16m\n\
                 fill_device={fill}\nfilename={}\n",
                file.display()
            );
            folder.file("job.fio", text.as_bytes());
            let _ = std::fs::remove_file(file);
        };
        job(1);
        let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
        assert!(said.contains("ends at ENOSPC"), "{said}");
        let done = drumfire.run(folder.path(), "run job.fio --out full", LIMIT).ok();
        assert!(!done.stdout.contains("H21"), "{}", done.stdout);
        let ours = drumfire.run(folder.path(), "report full --as fio", LIMIT).ok().json();
        assert_eq!(ours["jobs"][0]["write"]["io_bytes"], 4 << 20);
        assert_eq!(ours["jobs"][0]["error"], 0);
        // Without it each write that finds no space fails.
        job(0);
        let done = drumfire.run(folder.path(), "run job.fio --out failed", LIMIT);
        assert!(done.stdout.contains("ENOSPC (28)"), "{done:?}");
        let Some(fio) = require("fio") else { return };
        job(1);
        let mut command = Command::new(fio);
        command.args(["job.fio", "--output-format=json"]).current_dir(folder.path());
        let theirs = run(&mut command, LIMIT).ok().stdout;
        let at = theirs.find('{').expect("a document behind what fio says of each write");
        let theirs: serde_json::Value = serde_json::from_str(&theirs[at..]).unwrap();
        assert_eq!(theirs["jobs"][0]["write"]["io_bytes"], 4 << 20);
    });
}
