//! Native jobs that cannot be run: the message has the position.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};

const LIMIT: Duration = Duration::from_secs(300);
const JOB: &str = "seed = 7\n\n[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"null:1g\"]\n\
    workload.access.lines = [{ size_bytes = \"4k\" }]\n\n[[steps]]\nseconds = 1\n\
    [[steps.groups]]\nvolumes = [\"null:2g\"]\n\
    workload.access.lines = [{ size_bytes = \"4k\" }]\n[[steps.groups]]\n\
    volumes = [\"null:3g\"]\nworkload.outstanding = 4\n\
    workload.access.lines = [{ size_bytes = \"8k\" }]\n";

#[test]
fn a_wrong_job_is_refused_with_file_and_line() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for (from, to, says) in [
        ("outstanding = 4", "outstanding = 0", "job.toml:14: step 2, group 2: outstanding must be"),
        ("outstanding = 4", "outstandig = 4", "job.toml:16: unknown field `outstandig`"),
        ("null:3g", "nul:3g", "job.toml:14: 'nul:3g' is not a volume"),
        (
            "\"8k\"",
            "\"8k\", read_percent = 120",
            "job.toml:14: step 2, group 2: the share of reads",
        ),
        (
            "seconds = 1\n[[steps.groups]]\nvolumes = [\"null:2g",
            "seconds = -1\n[[steps.groups]]\nvolumes = [\"null:2g",
            "job.toml:9: step 2: seconds must be",
        ),
        ("seed = 7", "seed = 9223372036854775808", "job.toml: the job: the seed must be"),
        ("\"8k\"", "\"8kk\"", "job.toml:17: '8kk' is not a size"),
    ] {
        let wrong = JOB.replace(from, to);
        assert_ne!(wrong, JOB, "{from}");
        folder.file("job.toml", wrong.as_bytes());
        for verb in ["run", "explain", "sweep --repeats 1"] {
            let ended = drumfire.run(folder.path(), &format!("{verb} job.toml"), LIMIT);
            assert_eq!(ended.code, Some(2), "{verb} {to}: {ended:?}");
            assert!(ended.stderr.contains(says), "{verb} {to}: {ended:?}");
        }
    }
    assert!(folder.result().is_none());
}
