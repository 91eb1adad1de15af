//! Several volumes driven as one: remote ones, and the features of the generator on them.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};

const LIMIT: Duration = Duration::from_secs(300);

/// Job file: a second of random reads over two volumes in stripes.
fn striped(volumes: [String; 2]) -> String {
    format!(
        "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = {volumes:?}\nstripes.bytes = \"64k\"\n\
         workload.outstanding = 8\nworkload.access.lines = [{{ size_bytes = \"4k\", \
         read_percent = 100, random_percent = 100 }}]\n"
    )
}

#[test]
fn remote_volumes_are_driven_in_stripes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["a=ram:16m", "b=ram:16m"]);
    let folder = Folder::new();
    for uris in
        [["a", "b"].map(|name| served.uri(name)), ["a", "b"].map(|name| served.nvme_uri(name))]
    {
        folder.file("job.toml", striped(uris).as_bytes());
        let result =
            drumfire.run(folder.path(), "run job.toml --ceiling --json", LIMIT).ok().json();
        assert!(result["totals"]["ios"].as_u64().unwrap() > 0, "{result}");
        assert_eq!(result["ceiling"]["at_least"], true, "{}", result["ceiling"]);
    }
}

#[test]
fn files_of_a_trace_have_a_ceiling() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for name in ["x", "y"] {
        folder.file(name, &[7; 1 << 20]);
    }
    let mut trace = "fio version 2 iolog\nx add\ny add\nx open\ny open\n".to_owned();
    for number in 0..500 {
        let name = if number % 3 == 0 { "x" } else { "y" };
        trace += &format!("{name} read {} 4096\n", number % 256 * 4096);
    }
    folder.file("t.log", trace.as_bytes());
    folder.file("job.fio", b"[a]\nread_iolog=t.log\nioengine=io_uring\niodepth=4\n");
    let ran = drumfire.run(folder.path(), "run job.fio --ceiling --json", LIMIT).ok();
    assert!(!ran.stderr.contains("was not measured"), "{}", ran.stderr);
    let result = ran.json();
    assert!(result["ceiling"]["iops"].as_f64().unwrap() > 0.0, "{}", result["ceiling"]);
}
