//! Random jobs, from a search against fio 3.33: sizes, offsets, groups and files are the same as
//! with the installed fio.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Jobs with deterministic I/Os, bytes and files.
const JOBS: [&str; 18] = [
    "[a]\nrw=write\nsize=256k\noffset=25%\n",
    "[a]\nrw=read\nsize=256k\noffset_increment=25%\nnumjobs=2\n",
    "[a]\nrw=read\nfilesize=1m\noffset=64k\n",
    "[a]\nrw=read\nfilesize=1m\noffset=64k\nio_size=50%\n",
    "[a]\nrw=read\nfilesize=1m\nsize=50%\nio_size=50%\n",
    "[a]\nrw=read\nfilesize=1m\nsize=10k\n",
    "[a]\nrw=randwrite\nsize=10k\nloops=2\n",
    "[a]\nrw=randwrite\nnorandommap\nsize=10k\nloops=2\n",
    "[a]\nrw=write\nsize=64k\nnumber_ios=8\nloops=2\n",
    "[a]\nrw=read\nsize=64k\nio_size=256k\nloops=2\n",
    "[a]\nrw=randread\nsize=64k\nio_size=100k\nloops=2\n",
    "[a]\nrw=read:4k\nsize=64k\noffset=16k\n",
    "[a]\nfilename=x\nrw=write\nsize=64k\n[b]\nfilename=x\nrw=read\nsize=256k\nstonewall\n",
    "[a]\nname=other\nrw=write\nsize=64k\nio_size=0\n",
    "[global]\nbsrange=8k-8k\n[a]\nbs=4k\nrw=write\nsize=64k\n",
    "[a]\nrw=read\nsize=64k\nzero_buffers\n",
    "[a]\nrw=read\nsize=64k\nbs=5k\nbuffer_pattern=\"abc\"\n",
    "[global]\ngroup_reporting\nnumjobs=2\nsize=64k\nrw=write\n\
     [a]\ndescription=two words\n[b]\nnew_group\nrw=read\n[c]\nstonewall\n",
];

/// Work done by each job: its name, group, description, error, bytes and I/Os.
fn done(document: &Value) -> Vec<String> {
    let of = |job: &Value| {
        let part = |name: &str| format!("{} {}", job[name]["io_bytes"], job[name]["total_ios"]);
        let (name, id, desc) = (&job["jobname"], &job["groupid"], &job["desc"]);
        format!("{name} {id} {desc} {} {} {}", job["error"], part("read"), part("write"))
    };
    document["jobs"].as_array().expect("there are jobs").iter().map(of).collect()
}

/// Files in the job's folder other than the job file, with their content if `content` is
/// deterministic.
fn files(folder: &Path, content: bool) -> Vec<(String, usize, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_file() && name != "job.fio" {
            let data = fs::read(entry.path()).unwrap();
            found.push((name, data.len(), if content { data } else { Vec::new() }));
        }
    }
    found.sort();
    found
}

#[test]
fn jobs_do_what_they_do_with_fio() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for text in JOBS {
        let (ours, theirs) = (Folder::new(), Folder::new());
        ours.file("job.fio", text.as_bytes());
        theirs.file("job.fio", text.as_bytes());
        drumfire.run(ours.path(), "run job.fio --out out", LIMIT).ok();
        let document = drumfire.run(ours.path(), "report out --as fio", LIMIT).ok().json();
        let mut command = Command::new(&fio);
        command.args(["job.fio", "--output-format=json"]).current_dir(theirs.path());
        let reference = run(&mut command, LIMIT).ok().json();
        assert_eq!(done(&document), done(&reference), "{text}");
        let content = text.contains("buffer");
        assert!(files(ours.path(), content) == files(theirs.path(), content), "{text}");
    }
}

#[test]
fn data_that_nobody_wrote_end_a_job_with_the_error_of_fio() {
    let Some(drumfire) = Drumfire::find() else { return };
    for words in ["verify=md5", "verify=pattern\nverify_pattern=0xdeadbeef"] {
        let folder = Folder::new();
        folder.file("job.fio", format!("[a]\nrw=read\nsize=64k\n{words}\n").as_bytes());
        let run = drumfire.run(folder.path(), "run job.fio --out out", LIMIT);
        assert_eq!(run.code, Some(5), "{words}");
        let document = drumfire.run(folder.path(), "report out --as fio", LIMIT).ok().json();
        assert_eq!(document["jobs"][0]["error"], 84, "{words}");
    }
}
