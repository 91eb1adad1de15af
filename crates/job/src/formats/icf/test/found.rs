//! Variants of files in use: written by hand, by programs, or by very old versions.

use super::*;

/// Returns a file that runs `reads` on `ram:1g`, in the format of 1.1.0.
fn whole() -> String {
    file("NORMAL", &manager(1, 4, &["ram:1g"]))
}

/// Replaces both of the workers' specifications by `first` and `second`.
fn assigned(managers: &str, first: &str, second: &str) -> String {
    managers.replace("\tmix, of two\n\treads\n'End", &format!("\t{first}\n\t{second}\n'End"))
}

fn said(reading: &Reading) -> String {
    reading.notes.iter().map(|note| format!("{note}\n")).collect()
}

#[test]
fn a_worker_may_be_idle() {
    let two = assigned(&manager(1, 4, &["ram:1g"]), "reads", "IDLE")
        + &assigned(&manager(2, 4, &["ram:2g"]), "Idle", "reads");
    let job = job(&file("NORMAL", &two), &["ram:1g", "ram:2g"]);
    let volumes = |step: usize| {
        job.steps[step].groups.iter().map(|group| group.volumes.clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (volumes(0), volumes(1)),
        (vec![vec!["ram:1g".into()]], vec![vec!["ram:2g".into()]])
    );
    // A definition of Idle is ignored, and a test in which no worker does anything is none.
    let one = file("NORMAL", &assigned(&manager(1, 4, &["ram:1g"]), "Idle", "reads")).replace(
        "'END access",
        "'Access specification name,default assignment\n\tIdle,NONE\n'size\n\
         0,100,0,0,0,1,0,0\n'END access",
    );
    let reading = with(&one, &[]).unwrap();
    assert!(said(&reading).contains("every worker is idle in this test"), "{}", said(&reading));
    let names: Vec<_> = reading.job.unwrap().steps.into_iter().map(|step| step.name).collect();
    assert_eq!(names, ["reads"]);
}

#[test]
fn names_of_specifications_are_found_as_iometer_finds_them() {
    let named = file("NORMAL", &assigned(&manager(1, 4, &["ram:1g"]), "READS", "Mix, Of Two"));
    assert_eq!(job(&named, &[]).steps[0].name, "reads");
    let again = "'Access specification name,default assignment\n\tReads,NONE\n\
        'size,% of size\n\t8192,100,0,0,0,1,0,0\n'END access";
    let replaced = with(&whole().replace("'END access", again), &[]).unwrap();
    assert!(said(&replaced).contains("defined again"), "{}", said(&replaced));
    let line = &replaced.job.unwrap().steps[1].groups[0].workload.access.lines[0];
    assert_eq!((line.size_bytes, line.read_percent), (8192, 0.0));
    // The only specification of a file does not replace a missing one.
    let cut = whole().replace("\tmix, of two\n\treads\n'End", "\tgone\n'End");
    let (begin, end) = (cut.find("\tmix, of two,NONE").unwrap(), cut.find("\treads,DISK").unwrap());
    let cut = format!("{}{}", &cut[..begin], &cut[end..]);
    let error = with(&cut, &[]).unwrap_err().to_string();
    assert!(error.contains("`gone`: no access specification of this name"), "{error}");
}

#[test]
fn the_oldest_forms_are_read() {
    // The setup has no end, types are numbers, and lines up to 100 % are one specification.
    let old = "Version 1998.01.05\n'TEST SETUP ====\n'Run Time\n'\thours minutes seconds\n\t0 0 1\n\
        'Default Workers to Spawn\n\t0\n'Record Results\n\t0\n'Worker Cycling\n\t1 5 0\n\
        'Queue Depth Cycling\n\t1 8 2 1\n'Test Type\n\t0\n'ACCESS SPECIFICATIONS ====\n\
        'size, % of size, % reads, % random, delay, burst\n2048 60 67 100 0 1\n\
        4096 40 67 100 0 1\n512 100 100 0 0 1\n'END access specifications\n";
    let old = job(old, &["ram:1g"]);
    let sizes = |step: usize| {
        let lines = &old.steps[step].groups[0].workload.access.lines;
        lines.iter().map(|line| line.size_bytes).collect::<Vec<_>>()
    };
    assert_eq!((old.steps.len(), sizes(0), sizes(1)), (2, vec![2048, 4096], vec![512]));
    let numbers = whole().replace(",DISK\n", ",2\n").replace("'END test setup\n", "");
    assert_eq!(job(&numbers, &[]).steps.len(), 2);
}

#[test]
fn what_hands_and_programs_do_to_files_is_read() {
    let good = job(&whole(), &[]);
    for (what, text) in [
        ("blank lines", whole().replace('\n', "  \r\n \t\r\n")),
        ("a bare version", whole().replacen("Version 2006", "2006", 1)),
        ("no version", whole().replacen("Version 2006.07.27\n", "", 1)),
        ("headings", whole().replace("'TEST SETUP ====", "'Test Setup --- of mine")),
        ("blanks in keys", whole().replace("name,default", "name, default")),
        ("'Version", whole().replacen("Version", "'Version", 1)),
    ] {
        let reading = with(&text, &[]).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(reading.job.as_ref(), Some(&good), "{what}: {}", said(&reading));
    }
    let mut nameless = good.clone();
    nameless.name.clear();
    assert_eq!(job(&whole().replace("\ta test\n", ""), &[]), nameless);
    let commented = format!("'made by hand\nsome words\n'======\n{}", whole());
    let reading = with(&commented, &[]).unwrap();
    assert!(
        said(&reading).contains("x.icf:2: `some words`: the line is outside"),
        "{}",
        said(&reading)
    );
    assert_eq!(reading.job, Some(good));
}

#[test]
fn parts_outside_of_their_section_are_no_comments() {
    let lost = whole().replace("'MANAGER LIST", "'MANGER LIST");
    let error = with(&lost, &[]).unwrap_err().to_string();
    assert!(error.contains("not a section of an Iometer configuration"), "{error}");
    let early = whole().replace("'MANAGER LIST ====\n", "'MANAGER LIST\n'END manager list\n");
    let error = with(&early, &[]).unwrap_err().to_string();
    assert!(error.contains("is outside its section"), "{error}");
}

#[test]
fn managers_of_one_name_are_two_hosts() {
    let second = manager(2, 4, &["sda"]).replace("HOST2", "HOST1");
    let two = job(&file("NORMAL", &(manager(1, 4, &["sda"]) + &second)), &["ram:1g", "ram:2g"]);
    assert_eq!(two.steps[0].groups[1].volumes, ["ram:2g"]);
}

#[test]
fn refusals_say_which_line() {
    let refused = |text: &str| {
        let reading = with(text, &[]).unwrap();
        assert_eq!(reading.job, None);
        said(&reading)
    };
    let counted = refused(&whole().replace("\t4,DISABLED,1", "\t4,ENABLED,5"));
    assert!(counted.contains("`4,ENABLED,5`: the test connection rate"), "{counted}");
    let short = refused(&whole().replace("\t8192,40,", "\t8192,39,"));
    assert!(short.contains(":18: `mix, of two`: the lines sum up to 99 percent"), "{short}");
    let endless = refused(&whole().replace("\t0          1          5", "\t0 0 0"));
    assert_eq!(endless.matches("the test has no end").count(), 1, "{endless}");
}

#[test]
fn workers_of_one_target_do_not_begin_together() {
    let two = manager(1, 4, &["ram:1g"]);
    let begin = two.find("'Worker\n").unwrap();
    let end = two.find("'End manager").unwrap();
    let two = format!("{}{}{}", &two[..end], &two[begin..end], &two[end..]);
    assert!(
        said(&with(&file("NORMAL", &two), &[]).unwrap()).contains("start at different offsets")
    );
    assert!(!said(&with(&whole(), &[]).unwrap()).contains("start at different"));
}
