mod found;

use super::*;
use crate::formats::note::Treatment;
use crate::spec::{Extent, JobSpec};

const SPECS: &str = "'ACCESS SPECIFICATIONS ====\n\
    'Access specification name,default assignment\n\tmix, of two,NONE\n\
    'size,% of size,% reads,% random,delay,burst,align,reply\n\
    \t4096,60,80,100,0,1,0,0\n\t8192,40,0,50,5,8,4096,512\n\
    'Access specification name,default assignment\n\treads,DISK\n\
    'size,% of size,% reads,% random,delay,burst,align,reply\n\
    \t512,100,100,0,0,1,0,0\n'END access specifications\n";

fn manager(id: u32, depth: u32, targets: &[&str]) -> String {
    let targets: String = targets
        .iter()
        .map(|t| format!("'Target\n\t{t}\n'Target type\n\tDISK\n'End target\n"))
        .collect();
    format!(
        "'Manager ID, manager name\n\t{id},HOST{id}\n'Manager network address\n\n\
         'Worker\n\tWorker 1\n'Worker type\n\tDISK\n'Default target settings for worker\n\
         'Number of outstanding IOs,test connection rate,transactions per connection\n\
         \t{depth},DISABLED,1\n'Disk maximum size,starting sector\n\t2048,8\n\
         'End default target settings for worker\n'Assigned access specs\n\tmix, of two\n\
         \treads\n'End assigned access specs\n'Target assignments\n{targets}\
         'End target assignments\n'End worker\n'End manager\n"
    )
}

fn file(test: &str, managers: &str) -> String {
    format!(
        "Version 2006.07.27\n'TEST SETUP ====\n'Test Description\n\ta test\n'Run Time\n\
         '\thours      minutes    seconds\n\t0          1          5\n'Ramp Up Time (s)\n\t3\n\
         'Queue Depth Cycling\n'\tstart      end        step       step type\n\
         \t1          8          2          EXPONENTIAL\n'Test Type\n\t{test}\n\
         'END test setup\n{SPECS}'MANAGER LIST ====\n{managers}'END manager list\n\
         Version 2006.07.27\n"
    )
}

fn with(text: &str, volumes: &[&str]) -> Result<Reading, FormatError> {
    let volumes: Vec<String> = volumes.iter().map(ToString::to_string).collect();
    let is_volume = |name: &str| name.starts_with("ram:");
    let options =
        Options { volumes: &volumes, is_volume: &is_volume, seconds: None, sector_bytes: 512 };
    read("x.icf", text, &options)
}

fn job(text: &str, volumes: &[&str]) -> JobSpec {
    let reading = with(text, volumes).unwrap_or_else(|error| panic!("{error}"));
    reading.job.unwrap_or_else(|| panic!("refused: {:?}", reading.notes))
}

#[test]
fn workers_targets_and_specifications_become_steps() {
    let managers = manager(1, 16, &["sda", "sdb"]) + &manager(2, 4, &["sda"]);
    let job = job(&file("NORMAL", &managers), &["ram:1g", "ram:2g", "ram:3g"]);
    assert_eq!(
        job.steps.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["mix, of two", "reads"]
    );
    let step = &job.steps[0];
    assert_eq!((step.seconds, step.ramp_seconds), (65.0, 3.0));
    assert_eq!(step.groups[0].volumes, ["ram:1g", "ram:2g"]);
    assert_eq!(step.groups[1].volumes, ["ram:3g"]);
    let workload = &step.groups[0].workload;
    assert_eq!((workload.outstanding, step.groups[1].workload.outstanding), (16, 4));
    assert_eq!(workload.range.start, Extent::Bytes(4096));
    assert_eq!(workload.range.length, Some(Extent::Bytes(1 << 20)));
    let [first, second] = &workload.access.lines[..] else { panic!("{job:?}") };
    assert_eq!((first.share_percent, first.read_percent, first.align()), (60.0, 80.0, 512));
    assert_eq!((second.delay_us, second.burst, second.reply_bytes), (5000, 8, 512));
    assert_eq!((second.align(), second.random_percent), (4096, 50.0));
}

#[test]
fn cycles_become_steps() {
    let managers = manager(1, 16, &["ram:1g", "ram:2g"]);
    let depth = job(&file("CYCLE_OUTSTANDING_IOS", &managers), &[]);
    let depths = |job: &JobSpec| {
        let depth = |step: &crate::spec::Step| step.groups[0].workload.outstanding;
        job.steps.iter().map(depth).collect::<Vec<_>>()
    };
    assert_eq!(depths(&depth), [1, 2, 4, 8, 1, 2, 4, 8]);
    let both = job(&file("7", &managers), &[]);
    assert_eq!(depths(&both).len(), 16);
    assert_eq!(
        (both.steps[0].groups[0].volumes.len(), both.steps[4].groups[0].volumes.len()),
        (1, 2)
    );
}

#[test]
fn a_file_of_specifications_runs_those_that_are_assigned() {
    let job = job(&file("NORMAL", ""), &["ram:1g", "ram:2g"]);
    assert_eq!((job.steps.len(), job.steps[0].name.as_str()), (1, "reads"));
    assert_eq!(job.steps[0].groups[0].volumes.len(), 2);
    let reading = with(&file("NORMAL", ""), &[]).unwrap();
    assert!(reading.job.is_none() && reading.notes[0].why.contains("name volumes"));
}

#[test]
fn says_what_cannot_be_run() {
    let managers = manager(1, 16, &["C: \"System\""]);
    let why = |text: &str, volumes: &[&str]| match with(text, volumes) {
        Err(error) => error.to_string(),
        Ok(reading) => {
            assert_eq!(reading.job, None);
            reading.notes_of(Treatment::Refused).map(ToString::to_string).collect()
        }
    };
    let good = file("NORMAL", &managers);
    assert!(why(&good, &[]).contains("`C: \"System\"`: the target is not a volume"));
    assert!(
        why(&good, &["ram:1g", "ram:2g"])
            .contains("the file has 1 target, `C: \"System\"`, but the command line names 2")
    );
    let network = good.replace("Worker type\n\tDISK", "Worker type\n\tNETWORK,TCP");
    assert!(why(&network, &["ram:1g"]).contains("network workers"));
    for (from, to, part) in [
        ("'Run Time", "'Run Tame", "run time"),
        ("\t0          1          5", "\t0 x 5", "x.icf:7: `0 x 5`: minutes is not a number"),
        ("NORMAL", "SIDEWAYS", "test type"),
        ("4096,60", "4096,61", "sum up to 100"),
        ("4096,60,80", "4096,60,180", "% reads is 180, above 100"),
        ("4096,60,80,100,0,1,0,0", "4096,60", "a line needs size"),
        ("\treads\n'End assigned", "\twrites\n'End assigned", "no access specification"),
        ("'END manager list\n", "", "is missing"),
        ("'END access", "'MIDDLE access", "not a key of an access"),
        ("\t16,DISABLED", "\t0,DISABLED", "outstanding must be 1"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        let said = why(&bad, &["ram:1g"]).to_lowercase();
        assert!(said.contains(&part.to_lowercase()), "{to}: {said}");
    }
}

#[test]
fn old_and_careless_files_are_read() {
    let old = "Version 1998.02.01\n'TEST SETUP\n'Run Time\n\t0 0 3\n'END test setup\n\n\
        'ACCESS SPECIFICATIONS\n'size, % of size, % reads, % random, delay, burst\n\
        2048 100 67 100 0 1\n'END access specifications\n";
    let old = job(old, &["ram:1g"]);
    assert_eq!(old.steps[0].groups[0].workload.access.read_percent(), 67.0);
    let careless = file("NORMAL", &manager(1, 1, &["ram:1g"]))
        .replace("\t4096,60", "  4K,60")
        .replace("'Test Type", "'Target Cycling\n\t1 1 LINEAR\n'TEST TYPE")
        .replace("'ACCESS", "\n\n'access");
    let reading = with(&careless, &[]).unwrap();
    assert_eq!(reading.job.unwrap().steps[0].groups[0].workload.access.lines[0].size_bytes, 4096);
    let said: Vec<String> = reading.notes.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|note| note.contains("Iometer stops reading")), "{said:?}");
    assert!(said.iter().any(|note| note.contains("Target Cycling")), "{said:?}");
}

#[test]
fn what_is_written_is_read_as_the_same_job() {
    let managers = manager(1, 16, &["ram:1g", "ram:2g"]) + &manager(2, 4, &["ram:3g"]);
    let first = job(&file("NORMAL", &managers), &[]);
    let written = write(&first).unwrap();
    let mut again = job(&written, &[]);
    for (old, new) in first.steps.iter().zip(&mut again.steps) {
        new.name = old.name.clone();
        for (old, new) in old.groups.iter().zip(&mut new.groups) {
            new.name = old.name.clone();
        }
    }
    assert_eq!(again, first, "{written}");
    let mut odd = first;
    odd.steps.iter_mut().for_each(|step| step.groups[0].volumes[0] = "'key".into());
    assert!(write(&odd).unwrap_err().contains("name of a target"));
}
