//! Configurations of Iometer in forms that people have, run as Iometer would run them.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// A file as other programs write it: a bare version, `Idle`, names in another case, blanks for
/// tabs.
const MADE: &str = "2006.07.27\n'TEST SETUP ====\n'Test Description\n  made\n'Run Time\n\
    ' hours      minutes    seconds\n  0          0          1\n'Ramp Up Time (s)\n  0\n\
    'Test Type\n  NORMAL\n'END test setup\n'ACCESS SPECIFICATIONS ====\n\
    'Access specification name,default assignment\n  Reads, NONE\n\
    'size,% of size,% reads,% random,delay,burst,align,reply\n  4096,100,100,100,0,1,4096,0\n\
    'Access specification name,default assignment\n  Writes,NONE\n\
    'size,% of size,% reads,% random,delay,burst,align,reply\n  8192,100,0,0,0,1,0,0\n\
    'END access specifications\n'MANAGER LIST ====\n'Manager ID, manager name\n  1, local\n\
    'Manager network address\n  127.0.0.1\n";

fn worker(number: u32, specs: [&str; 2], depth: u32) -> String {
    format!(
        "'Worker\n  Worker {number}\n'Worker type\n  DISK\n'Default target settings for worker\n\
         'Number of outstanding IOs,test connection rate,transactions per connection\n\
         \x20 {depth},DISABLED,1\n'Disk maximum size,starting sector\n  2048,{}\n\
         'End default target settings for worker\n'Assigned access specs\n  {}\n  {}\n\
         'End assigned access specs\n'Target assignments\n'Target\n  {number}: \"\"\n'Target Type\n\
         \x20 DISK\n'End target\n'End target assignments\n'End worker\n",
        2048 * number,
        specs[0],
        specs[1],
    )
}

#[test]
fn what_programs_write_is_run_as_iometer_runs_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let workers = worker(1, ["reads", "WRITES"], 4) + &worker(2, ["Idle", "reads"], 2);
    let text = format!("{MADE}{workers}'End manager\n'END manager list\n2006.07.27\n");
    folder.file("job.icf", text.replace('\n', " \r\n").as_bytes());
    let args = "run job.icf ram:8m ram:16m --seconds 0.3 --json --out r";
    let steps = drumfire.run(folder.path(), args, LIMIT).ok().json();
    let [first, second] = &steps["steps"].as_array().unwrap()[..] else {
        panic!("two tests: {steps}")
    };
    let is = |step: &Value, words: (u64, u64, f64)| {
        let job = &step["job"];
        let found = (&job["workers"], &job["outstanding"], &job["read_percent"]);
        assert_eq!(found, (&words.0.into(), &words.1.into(), &words.2.into()), "{job}");
        assert!(step["totals"]["ios"].as_u64().unwrap() > 0);
    };
    is(first, (1, 4, 100.0));
    is(second, (2, 6, 50.0));
    let groups = &second["spec"]["steps"][0]["groups"];
    assert_eq!(groups[0]["workload"]["range"]["start"], 1 << 20, "{groups}");
    assert_eq!(groups[1]["workload"]["range"]["start"], 2 << 20);
    assert_eq!(groups[1]["volumes"][0], "ram:16m");
}
