//! Logs requested with fio's options in sweeps: each run has its own.

use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};

const LIMIT: Duration = Duration::from_secs(300);
const JOB: &[u8] = b"[a]\nioengine=null\nsize=64m\nrw=randread\ntime_based\nruntime=1\niodepth=2\n\
    write_bw_log=logs/a\nwrite_iops_log=../b\nlog_avg_msec=100\n";

fn lines(path: &Path) -> usize {
    let text = std::fs::read_to_string(path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display())).lines().count()
}

#[test]
fn every_run_has_its_logs_in_its_folder() {
    let Some(drumfire) = Drumfire::find() else { return };
    for fresh in ["connection", "process"] {
        let folder = Folder::new();
        folder.file("job.fio", JOB);
        let args =
            format!("job.fio --axis outstanding=1,4 --repeats 2 --repeat-as {fresh} --out s");
        drumfire.run(folder.path(), &format!("sweep {args} --seconds 0.5"), LIMIT).ok();
        for cell in ["001-outstanding=1", "002-outstanding=4"] {
            for repeat in ["repeat-1", "repeat-2"] {
                let run = folder.path().join("s").join(cell).join(repeat);
                assert!(lines(&run.join("logs/a_bw.1.log")) > 0, "{fresh} {cell} {repeat}");
                assert!(lines(&run.join("b_iops.1.log")) > 0, "{fresh} {cell} {repeat}");
            }
        }
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        left.retain(|entry| entry.as_ref().unwrap().file_name().to_string_lossy() != "s");
        assert_eq!(left.len(), 1, "nothing is written beside the job: {left:?}");
        // Runs missing from a truncated document are read from the results, wherever their logs
        // are.
        let document = folder.path().join("s/sweep.json");
        let text = std::fs::read_to_string(&document).unwrap();
        let mut cut: serde_json::Value = serde_json::from_str(&text).unwrap();
        for cell in cut["cells"].as_array_mut().unwrap() {
            cell["runs"] = serde_json::json!([]);
        }
        std::fs::write(&document, cut.to_string()).unwrap();
        let again = drumfire.run(folder.path(), "sweep s", LIMIT).ok();
        assert!(again.stderr.contains("4 of 4 runs already done"), "{}", again.stderr);
    }
}
