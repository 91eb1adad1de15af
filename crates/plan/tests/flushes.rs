//! Flushes, total queue depths, clients of a cluster, and unknown figures.

use catalogue::Catalogue;
use plan::bill::Bill;
use plan::predict::{Limit, Prediction, limit, predict, what_if};
use plan::system::Tweak;

fn read(text: &str) -> Result<Bill, String> {
    Bill::read("b.toml", text, &Catalogue::shipped()).map_err(|error| error.to_string())
}

fn asked(text: &str) -> Result<Prediction, String> {
    predict(&read(text)?, &Tweak::default()).map_err(|error| error.to_string())
}

/// Returns the IOPS of writes to drives, for the given lines at the top of the bill and in its
/// group.
fn writes(top: &str, group: &str) -> Result<f64, String> {
    let head = "name = 'x'\nsize = '4k'\nread = 0\n";
    asked(&format!("{head}{top}[[group]]\n{group}")).map(|found| found.iops)
}

fn near(found: f64, wanted: f64, off: f64) {
    assert!((found / wanted - 1.0).abs() <= off, "{found} for {wanted}");
}

#[test]
fn a_flush_after_each_write_is_the_drives_own() {
    let each = |drive: &str| writes("outstanding = 1\nflush = 1\n", &format!("drive = '{drive}'"));
    near(each("970-evo-500").unwrap(), 1.0 / 1019e-6, 0.02);
    near(each("optane-900p-480").unwrap(), 1.0 / 30e-6, 0.2);
    // An HDD rotates once for each sequential write, and moves its head for random ones anyway.
    let disk = |more: &str| {
        writes(&format!("outstanding = 1\nflush = 1\n{more}"), "drive = 'hdd-7k2'").unwrap()
    };
    near(disk("sequential = true\n"), 120.0, 0.02);
    near(disk(""), 115.0, 0.02);
    // Without flushes it sorts them in its own cache.
    assert!(writes("outstanding = 1\n", "drive = 'hdd-7k2'").unwrap() > 2.0 * disk(""));
    // A flush after ten writes is a tenth of one after each.
    let tenth = writes("outstanding = 1\nflush = 10\n", "drive = '970-evo-500'").unwrap();
    assert!(tenth > 7.0 * each("970-evo-500").unwrap(), "{tenth}");
    // Reads wait for no flush.
    let reads = |flush: &str| {
        let text = format!(
            "name = 'x'\nsize = '4k'\noutstanding = 1\n{flush}[[group]]\ndrive = '970-evo-500'\n"
        );
        asked(&text).unwrap().iops
    };
    assert_eq!(reads("flush = 1\n"), reads(""));
}

#[test]
fn writers_share_flushes() {
    let with = |depth: u32| {
        let top = format!("outstanding = {depth}\nfsync = 1\n");
        writes(&top, "drive = '970-evo-500'").unwrap()
    };
    near(with(4) / with(1), 2.0, 0.05);
    assert!(with(64) > 2.0 * with(4) && with(64) < 16.0 * with(1));
}

#[test]
fn a_protected_cache_flushes_nothing() {
    let group = "adapter = 'lsi-9266-8i'\ndrive = 'hdd-7k2'\ndrives = 4\nwrite_cache = true\n";
    let top = "outstanding = 4\nsequential = true\n";
    let known = Catalogue::shipped().part("lsi-9266-8i").is_ok();
    let group = if known { group.to_owned() } else { group.replace("lsi-9266-8i", "any-adapter") };
    let plain = writes(top, &group).unwrap();
    near(writes(&format!("{top}flush = 1\n"), &group).unwrap(), plain, 1e-9);
    let bare = group.replace("write_cache = true\n", "");
    assert!(writes(&format!("{top}flush = 1\n"), &bare).unwrap() < plain / 10.0);
}

#[test]
fn protection_that_nobody_tells_is_asked_for() {
    let given = "[source.me]\ntitle = 'my own'\n[[figure]]\npart = 'any-nvme'\n\
        is = 'write_iops'\nvalue = 1e5\nunit = 'IOPS'\nkind = 'guess'\nsource = 'me'\n";
    let plp = |value: &str| {
        format!(
            "{given}[[figure]]\npart = 'any-nvme'\nis = 'plp'\nvalue = {value}\n\
            kind = 'guess'\nsource = 'me'\n"
        )
    };
    let ask =
        |more: &str| writes("outstanding = 1\nflush = 1\n", &format!("drive = 'any-nvme'\n{more}"));
    let refused = ask(given).unwrap_err();
    assert!(refused.contains("power-loss protection") && refused.contains("plp = 1"), "{refused}");
    let (with, without) = (ask(&plp("1")).unwrap(), ask(&plp("0")).unwrap());
    assert!((10e3..90e3).contains(&with) && (100.0..3e3).contains(&without), "{with} {without}");
    assert!(
        writes("outstanding = 1\nflush = 0\n", "drive = 'x25-m'").unwrap_err().contains("1 to")
    );
}

#[test]
fn what_is_in_flight_in_all_is_spread_by_chance() {
    let reads = |top: &str, drives: u32| {
        let text =
            format!("name = 'x'\nsize = '4k'\n{top}[[group]]\ndrive = 'x25-m'\ncount = {drives}\n");
        asked(&text).unwrap().iops
    };
    let one = reads("outstanding = 1\n", 1);
    // A queue depth of 1 is as fast on eight drives as on one, and eight I/Os interfere with each
    // other.
    near(reads("in_flight = 1\n", 8), one, 1e-6);
    let eight = reads("in_flight = 8\n", 8);
    assert!(eight < 0.9 * 8.0 * one && eight > 4.0 * one, "{eight} of {one}");
    // Many I/Os fill all drives, like many on each.
    near(reads("in_flight = 2048\n", 8), reads("outstanding = 256\n", 8), 0.05);
    // Sequential I/Os use drives in turn.
    let head = "sequential = true\nin_flight = 8\n";
    near(reads(head, 8), reads("sequential = true\noutstanding = 1\n", 8), 1e-9);
    for (top, why) in [
        ("in_flight = 8\noutstanding = 1\n", "one of the two"),
        ("", "one of the two"),
        ("in_flight = 0\n", "1 to 1048576"),
    ] {
        let text = format!("name = 'x'\nsize = '4k'\n{top}[[group]]\ndrive = 'x25-m'\n");
        let refused = asked(&text).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_few_in_flight_on_many_hosts_are_as_slow_as_one() {
    let text = |flight: u32| {
        format!(
            "name = 'x'\nsize = '4k'\nhosts = 5\nreplicas = 3\nsoftware = 'ceph'\n\
             network = '25GbE'\nin_flight = {flight}\n[[group]]\ndrive = 'pm1743'\ncount = 4\n"
        )
    };
    let one = asked(&text(1)).unwrap();
    near(one.iops * one.latency_s, 1.0, 1e-6);
    near(asked(&text(5)).unwrap().iops / one.iops, 5.0, 0.05);
    let bill = read(&text(1)).unwrap();
    let found = limit(&bill, &what_if(&bill).unwrap()).unwrap();
    assert!(!matches!(found, Some(Limit::QueueDepth { lifts: None, .. })), "{found:?}");
}

#[test]
fn a_cluster_makes_each_write_durable_anyway() {
    let iops = |drive: &str, flush: &str| {
        let top = format!("hosts = 3\nreplicas = 3\nsoftware = 'ceph'\nin_flight = 16\n{flush}");
        writes(&top, &format!("drive = '{drive}'\ncount = 4\n")).unwrap()
    };
    for drive in ["pm1743", "970-evo-plus-1000", "hdd-7k2"] {
        assert_eq!(iops(drive, ""), iops(drive, "flush = 1\n"), "{drive}");
    }
    assert!(iops("970-evo-plus-1000", "") < iops("pm1743", "") / 2.0);
}

#[test]
fn one_client_of_a_cluster_is_its_limit() {
    let reads = |more: &str| {
        let text = format!(
            "name = 'x'\nsize = '4k'\nhosts = 4\nreplicas = 3\nsoftware = 'ceph'\n\
             network = '100GbE'\nin_flight = 1024\n{more}[[group]]\ndrive = 'pm1743'\ncount = 8\n"
        );
        asked(&text).unwrap().iops
    };
    near(reads("clients = 1\n"), 1.0 / 19.2e-6, 0.05);
    near(reads("clients = 2\n"), 2.0 / 19.2e-6, 0.1);
    assert!(reads("clients = 64\n") > 0.9 * reads(""));
    let wide = |clients: &str| {
        let text = format!(
            "name = 'x'\nsize = '1m'\nhosts = 8\nreplicas = 2\nsoftware = 'ceph'\n\
             network = '10GbE'\nin_flight = 1024\n{clients}[[group]]\ndrive = 'pm1743'\ncount = 8\n"
        );
        asked(&text).unwrap().bytes_per_s
    };
    near(wide("clients = 1\n"), 1.18e9, 0.05);
    assert!(wide("") > 4.0 * wide("clients = 1\n"));
}

#[test]
fn copies_without_software_are_those_of_some_cluster() {
    let text = |software: &str| {
        format!(
            "name = 'x'\nsize = '4k'\nread = 0\nhosts = 3\nreplicas = 3\n{software}\
             network = '25GbE'\noutstanding = 4\n[[group]]\ndrive = 'pm1743'\ncount = 4\n"
        )
    };
    assert_eq!(read(&text("")).unwrap().software.as_deref(), Some("any-cluster"));
    assert_eq!(read(&text("software = 'none'\n")).unwrap().software, None);
    let (some, none) = (asked(&text("")).unwrap(), asked(&text("software = 'none'\n")).unwrap());
    assert!(some.iops < none.iops / 10.0, "{} {}", some.iops, none.iops);
}

#[test]
fn a_disk_without_a_bandwidth_streams_as_others_do() {
    let mb_s = |drive: &str| {
        let text = format!(
            "name = 'x'\nsize = '1m'\noutstanding = 4\nsequential = true\n[[group]]\n\
             drive = '{drive}'\n"
        );
        let found = asked(&text).unwrap();
        (found.bytes_per_s / 1e6, found.remarks)
    };
    for drive in ["hdd-10k", "hdd-15k"] {
        let (found, remarks) = mb_s(drive);
        assert!((80.0..300.0).contains(&found), "{drive}: {found} MB/s");
        let known = Catalogue::shipped().part(drive).unwrap().value("read_bandwidth").is_some();
        let told = remarks.iter().any(|remark| remark.contains("read_bandwidth unknown"));
        assert!(known || told, "{remarks:?}");
    }
}
