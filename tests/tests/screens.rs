//! Output of commands on a terminal: no line is wider than the terminal, and no word is split.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};

use crate::help::{fits, typed};

const LIMIT: Duration = Duration::from_secs(300);
/// Flags of short runs, whose results do not matter.
const QUICK: &str = "--seconds 0.2 --ramp 0 --no-ceiling --no-cold-reads";
const JOB: &str = "[reads]\nrw=randread\nbs=4k\niodepth=8\nsize=1m\nruntime=1\ntime_based\n";
const DATABASE: &str = "name = 'of screens'\nclients = 4\ncores = 2\ndata_bytes = 1e9\n\
    drive_bytes = 4e9\npage_bytes = 8192\n[transaction]\ncpu_s = 1e-3\nreads = 1\n\
    log_bytes = 9000\nwrites = 2\nhot_rows = 50\n[writeback]\ndepth = 16\nburst = 64\n\
    sync_depth = 64\npages_max = 12000\ncheckpoint_s = 40\ncheckpoint_log_bytes = 280e6\n\
    files = 20\n";

/// Calls in order: later ones read results of earlier ones.
fn calls() -> Vec<(String, i32)> {
    let good = |args: &str| (args.to_owned(), 0);
    let columns = "COLUMNS";
    vec![
        good(&format!("run ram:1m --out run-{columns} {QUICK}")),
        good(&format!("run ram:1m --out other-{columns} --read 70 {QUICK}")),
        good(&format!(
            "race --targets 1 --volumes 2 --volume-size 1m --out race-{columns} {QUICK}"
        )),
        good(&format!(
            "sweep null:1g --axis size=4k,8k --axis outstanding=1,8 --repeats 1 --out s-{columns} \
             {QUICK}"
        )),
        good(&format!("report run-{columns}")),
        good(&format!("report s-{columns}")),
        good(&format!("compare run-{columns} other-{columns}")),
        good(&format!("simulate x25-m --drives 2 --out m-{columns} {QUICK}")),
        good("explain job.fio"),
        good("doctor"),
        good("plan intel-ssd --draws 20"),
        good("plan --drive x25-m --drives 4 --draws 20"),
        good("plan --goal 100k --adapter lsi-9210-8i --year 2010 --draws 20"),
        good("plan --compare iodrive-duo sas-16 --draws 20"),
        good("plan --goal 100k --hosts 2 --drives-max 8 --capacity 1TB --year 2010 --draws 20"),
        good("database database.toml x25-m --seconds 2 --ramp 1"),
        good("scenario list"),
        good(&format!("scenario run marvell-modules --modelled --out scenario-{columns}")),
        ("audit founding".to_owned(), 4),
        good("catalogue list --class drive --year 2010"),
        good("catalogue show x25-m"),
        good("catalogue check"),
        good(&format!(
            "volume create mirror a --leg {{folder}}/{columns}a?size=4m --leg \
             {{folder}}/{columns}b?size=4m"
        )),
        good(&format!("volume show array:a?leg={{folder}}/{columns}a&leg={{folder}}/{columns}b")),
        good("backup job.fio --to null"),
        ("run rma:1g".to_owned(), 2),
        ("run tape:1g".to_owned(), 2),
        ("run null:1g --preset oltp4k".to_owned(), 2),
        ("race --protocol iscs".to_owned(), 2),
        ("simulate x25".to_owned(), 2),
        ("sweep null:1g --axis no=1".to_owned(), 2),
    ]
}

#[test]
fn no_command_prints_wider_than_its_terminal() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("job.fio", JOB.as_bytes());
    folder.file("database.toml", DATABASE.as_bytes());
    for columns in [60, 80, 120_u16] {
        for (args, right) in calls() {
            let args = args.replace("COLUMNS", &columns.to_string());
            let args = args.replace("{folder}", &folder.path().display().to_string());
            let (code, text) = typed(&drumfire.command(folder.path(), &args), columns);
            assert_eq!(code, Some(right), "{args}: {text}");
            fits(&args, &text, columns);
        }
    }
}

/// Rows that a reader sees without scrolling, above the next prompt.
const LAST: usize = 12;

/// The last rows of 80 × 24 have the number, its spread, three latencies, the class with its one
/// reason, and where the result is kept.
#[test]
fn the_last_screen_has_what_a_hurried_reader_wants() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let two = "--seconds 2.2 --ramp 0 --no-ceiling --no-cold-reads";
    let spread = "from second to second";
    for (args, spread, kept) in [
        (format!("run ram:1m --out one {two}"), spread, "saved in one"),
        (format!("run ram:1m --out other --outstanding 4 {two}"), spread, "saved in other"),
        (format!("run ram:1m --out brief {QUICK}"), "one run, no interval", "saved in brief"),
        (
            format!("race --targets 1 --volumes 1 --volume-size 1m --out race {two}"),
            spread,
            "saved in race",
        ),
        (
            format!("sweep ram:1m --axis outstanding=1,2 --repeats 2 --out swept {QUICK}"),
            " of 2; ",
            "saved in swept",
        ),
        ("report one".to_owned(), spread, ""),
        ("report swept".to_owned(), " of 2; ", ""),
        ("compare one other".to_owned(), "too few for an interval", "saved in one and other"),
    ] {
        let (code, text) = typed(&drumfire.command(folder.path(), &args), 80);
        assert_eq!(code, Some(0), "{args}: {text}");
        let rows: Vec<&str> = text.lines().collect();
        let last = rows[rows.len().saturating_sub(LAST)..].join("\n");
        let classes = ["invalid: ", "indicative: ", "publishable"];
        assert!(classes.iter().any(|class| last.contains(class)), "{args}: no class: {last}");
        for part in ["IOPS", "p50 ", "p99 ", "max ", "(H", kept] {
            assert!(last.contains(part), "{args}: no {part}: {last}");
        }
        // A host that held the worker up for a second left too few whole seconds, and H12 or H15
        // says so.
        let held_up = ["H12 warn", "H15 warn"].iter().any(|check| last.contains(check));
        let none = held_up && last.contains("one run, no interval");
        assert!(none || last.contains(spread), "{args}: no {spread}: {last}");
    }
}

/// The default I/O size is 4 KiB everywhere except for races.
#[test]
fn the_default_size_is_the_same_everywhere() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let size = |args: &str| {
        let ended = drumfire.run(folder.path(), &format!("{args} {QUICK} --json"), LIMIT).ok();
        ended.json()["job"]["size_bytes"].clone()
    };
    assert_eq!(size("run null:1g"), 4096);
    assert_eq!(size("simulate x25-m"), 4096);
    assert_eq!(size("race --targets 1 --volumes 1 --volume-size 1m"), 512);
    let help = drumfire.run(folder.path(), "race -h", LIMIT).ok();
    assert!(help.stdout.contains("[default: 512]"), "{}", help.stdout);
}
