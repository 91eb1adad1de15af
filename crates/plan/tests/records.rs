//! File systems with whole records, memory in front of drives, CPUs and enclosures.

use catalogue::Catalogue;
use plan::bill::Bill;
use plan::predict::{Prediction, predict};
use plan::system::Tweak;

fn read(text: &str) -> Result<Bill, String> {
    Bill::read("b.toml", text, &Catalogue::shipped()).map_err(|error| error.to_string())
}

fn asked(text: &str) -> Prediction {
    predict(&read(text).unwrap(), &Tweak::default()).unwrap()
}

/// Returns the IOPS for the given lines at the top of the bill and in its group.
fn iops(top: &str, group: &str) -> f64 {
    asked(&format!("name = 'x'\n{top}\n[[group]]\n{group}\n")).iops
}

fn near(found: f64, wanted: f64, off: f64) {
    assert!((found / wanted - 1.0).abs() <= off, "{found} for {wanted}");
}

#[test]
fn a_short_read_moves_its_whole_record() {
    let drives = "drive = 'pm983-960'\ndrives = 4";
    let with = |record: &str| iops(&format!("size = '4k'\noutstanding = 64\n{record}"), drives);
    // 3 GB/s of each drive are 23,000 records of 128 KiB.
    near(with("record = '128k'"), 4.0 * 3.0e9 / 131_072.0, 0.1);
    assert!(with("record = '16k'") > 3.0 * with("record = '128k'"));
    near(with("record = '4k'"), with(""), 1e-9);
    // Sequential I/O moves no byte twice.
    let stream = |record: &str| {
        iops(&format!("size = '64k'\noutstanding = 32\nsequential = true\n{record}"), drives)
    };
    near(stream("record = '128k'"), stream(""), 1e-9);
}

#[test]
fn a_record_under_parity_keeps_all_data_drives_busy() {
    let disks = |raid: &str, drives: u32| {
        let group = format!("drive = 'hdd-7k2'\ndrives = {drives}\nraid = '{raid}'");
        iops("size = '4k'\noutstanding = 4\nrecord = '128k'", &group)
    };
    // Eight HDDs with double parity do little more than one, and as mirrors eight times that.
    let one = disks("none", 1);
    assert!((1.0..1.6).contains(&(disks("raidz2", 8) / one)), "{}", disks("raidz2", 8) / one);
    assert!((7.0..9.0).contains(&(disks("mirror", 8) / one)), "{}", disks("mirror", 8) / one);
    // Random writes go to free space sequentially: no HDD seeks for each.
    let writes = iops(
        "size = '4k'\nread = 0\noutstanding = 32\nrecord = '16k'",
        "drive = 'hdd-7k2'\ndrives = 6\nraid = 'raidz1'",
    );
    let plain = iops(
        "size = '4k'\nread = 0\noutstanding = 32",
        "drive = 'hdd-7k2'\ndrives = 6\nraid = '5'",
    );
    assert!(writes > 20.0 * plain, "{writes} {plain}");
    // Data that no cache has are read before.
    let missed = iops(
        "size = '4k'\nread = 0\noutstanding = 32\nrecord = '16k'\ncache_hit = 0\n\
         cache_latency_us = 10",
        "drive = 'hdd-7k2'\ndrives = 6\nraid = 'raidz1'",
    );
    assert!(missed < writes / 10.0, "{missed} {writes}");
}

#[test]
fn threads_on_zfs_wait_for_each_read() {
    let with = |more: &str| {
        let top = format!("software = 'zfs'\nsize = '4k'\n{more}");
        iops(&top, "drive = 'micron-7450'\ndrives = 8\nraid = 'mirror'")
    };
    near(with("in_flight = 128\njobs = 4"), with("in_flight = 4\njobs = 4"), 1e-9);
    near(with("outstanding = 16\njobs = 4"), with("in_flight = 4\njobs = 4"), 1e-9);
    assert!(with("in_flight = 2\njobs = 4") < with("in_flight = 4\njobs = 4"));
    // Memory accepts writes: a thread does not wait for drives.
    let deep = with("in_flight = 1\njobs = 1\nread = 0\nrecord = '4k'");
    near(deep, with("outstanding = 32\njobs = 1\nread = 0\nrecord = '4k'"), 1e-9);
    assert!(deep > 3.0 * with("in_flight = 1\njobs = 1\nread = 0\nrecord = '4k'\nflush = 1"));
    // A log does one write after the other, whatever its drives do.
    let log = |raid: &str, jobs: u32| {
        let top = "software = 'zfs'\nsize = '4k'\nread = 0\nflush = 1\noutstanding = 64";
        let group = format!("drive = 'micron-7450'\ndrives = 6\nraid = '{raid}'");
        iops(&format!("{top}\njobs = {jobs}"), &group)
    };
    near(log("none", 256), 1.0 / 15e-6, 0.05);
    near(log("raidz2", 256), log("none", 256), 0.05);
    assert!((10e3..50e3).contains(&log("none", 1)), "{}", log("none", 1));
}

#[test]
fn memory_answers_writes_that_are_not_flushed() {
    let with = |more: &str| {
        let top =
            format!("size = '4k'\nread = 0\njobs = 1\nsoftware = 'linux-libaio-file'\n{more}");
        iops(&top, "drive = 'hdd-7k2'\ndrives = 1")
    };
    near(with("in_flight = 1\nbuffered = true"), with("outstanding = 32"), 1e-9);
    assert!(with("in_flight = 1\nbuffered = true") > with("in_flight = 1"));
    near(with("in_flight = 1\nbuffered = true\nflush = 1"), with("in_flight = 1\nflush = 1"), 1e-9);
}

#[test]
fn a_slow_core_takes_longer() {
    let with = |server: &str| {
        let top =
            format!("size = '4k'\noutstanding = 64\njobs = 1\nsoftware = 'linux-libaio'\n{server}");
        asked(&format!("name = 'x'\n{top}\n[[group]]\ndrive = 'pm1743'\n"))
    };
    let usual = with("server = 'xeon-scalable-1'").iops;
    near(with("").iops, usual, 0.01);
    near(with("server = 'cortex-a72'").iops / usual, 0.28, 0.05);
    assert!(with("server = 'ryzen-7000'").iops > 1.5 * usual);
    assert!(with("").remarks.iter().any(|remark| remark.contains("not scaled")));
    assert!(!with("server = 'atom-c3558'").remarks.iter().any(|r| r.contains("not scaled")));
    // A CPU part of any number of cores has none to count.
    let error = read(
        "name = 'x'\nsize = '4k'\noutstanding = 1\nsoftware = 'linux'\n\
        server = 'cortex-a72'\n[[group]]\ndrive = 'x25-m'\n",
    )
    .map(|bill| predict(&bill, &Tweak::default()).unwrap_err().to_string());
    assert!(error.unwrap().contains("give cores or jobs"));
    let target = "name = 'x'\nsize = '4k'\noutstanding = 1\ntarget_software = 'linux-lio-iscsi'\n\
        target_server = 'cortex-a72'\n[[group]]\ndrive = 'x25-m'\nlink = '10GbE'\n";
    let error = predict(&read(target).unwrap(), &Tweak::default()).unwrap_err().to_string();
    assert!(error.contains("give target_cores"), "{error}");
}

#[test]
fn heads_of_disks_move_less_in_a_short_file() {
    let with = |drive: &str, span: &str| {
        iops(&format!("size = '4k'\noutstanding = 1\n{span}"), &format!("drive = '{drive}'"))
    };
    let all = with("hdd-7k2", "");
    near(with("hdd-7k2", "span = '100t'"), all, 1e-9);
    let short = with("hdd-7k2", "span = '1g'");
    // Half a rotation of 4.2 ms, and a seek of one or a few tracks.
    assert!((1.6 * all..1e3 / 5.0).contains(&short), "{short} of {all}");
    assert!(with("hdd-7k2", "span = '100g'") < short);
    near(with("970-evo-500", "span = '1g'"), with("970-evo-500", ""), 1e-9);
    let text =
        "name = 'x'\nsize = '4k'\noutstanding = 1\nspan = '1k'\n[[group]]\ndrive = 'x25-m'\n";
    assert!(read(text).map(|_| "taken").unwrap_err().contains("at least 1m"));
}

#[test]
fn a_file_takes_its_first_writes_one_after_the_other() {
    let drives = "drive = 'p4510-4000'\ndrives = 4\nraid = '0'";
    let with = |jobs: u32, more: &str| {
        let work = format!("size = '4k'\nread = 0\njobs = {jobs}\nin_flight = 200\n{more}");
        iops(&format!("{work}\nsoftware = 'linux-md'"), drives)
    };
    let (one, four) = (with(4, "unwritten = 1"), with(4, "unwritten = 4"));
    near(one, 1e6 / 32.0, 0.01);
    near(four, 4.0 * one, 0.05);
    assert!(with(16, "") > 3.0 * four, "{}", with(16, ""));
    near(with(16, "unwritten = 0"), with(16, ""), 1e-9);
    // A lone write waits for the record of it.
    let alone = |more: &str| {
        let top = "size = '4k'\nread = 0\njobs = 1\nin_flight = 1\nsoftware = 'linux-libaio-file'";
        1e6 / iops(&format!("{top}\n{more}"), "drive = 'p4510-4000'")
    };
    near(alone("unwritten = 1") - alone(""), 32.0, 0.01);
}

#[test]
fn only_files_have_first_writes() {
    let refused = |top: &str, why: &str| {
        let text = format!("name = 'x'\nsize = '4k'\noutstanding = 8\nunwritten = 1\n{top}\n");
        let error = read(&format!("{text}[[group]]\ndrive = 'x25-m'\n")).map(|_| "taken");
        let error = error.unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    refused("software = 'linux-libaio-file'", "random writes");
    refused("software = 'linux-libaio-file'\nread = 0\nsequential = true", "random writes");
    refused("software = 'windows-raw'\nread = 0", "name linux-libaio-file");
    refused("software = 'linux-psync'\nread = 0\nbuffered = true", "direct writes");
    refused("read = 0", "give software");
    let many = read(
        "name = 'x'\nsize = '4k'\noutstanding = 8\nread = 0\nunwritten = 4000000000\n\
         software = 'linux-psync'\n[[group]]\ndrive = 'x25-m'\n",
    );
    assert!(many.map(|_| "taken").unwrap_err().contains("1 to 4096 files"));
}

#[test]
fn one_stream_reads_one_side_of_a_mirror() {
    let with = |jobs: u32, raid: &str| {
        let top = format!("size = '128k'\noutstanding = 16\nsequential = true\njobs = {jobs}");
        let top = format!("{top}\nsoftware = 'linux-libaio'");
        iops(&top, &format!("drive = 'hdd-7k2'\ndrives = 2\nraid = '{raid}'"))
    };
    near(with(1, "1"), with(1, "0") / 2.0, 0.02);
    near(with(2, "1"), with(2, "0"), 0.02);
}

#[test]
fn a_host_that_nobody_names_is_as_most_are() {
    let with = |server: &str| {
        let top = "size = '4k'\noutstanding = 64\njobs = 1\nsoftware = 'windows-crystaldiskmark'";
        asked(&format!("name = 'x'\n{top}\n{server}\n[[group]]\ndrive = '990-pro-2000'\n"))
    };
    let (slow, fast) = (with("server = 'core-2'").iops, with("server = 'ryzen-9000'").iops);
    let untold = with("");
    assert!(slow < untold.iops && untold.iops < fast, "{slow} {} {fast}", untold.iops);
    assert!(untold.remarks.iter().any(|remark| remark.contains("host processor unknown")));
}

#[test]
fn enclosures_have_a_bridge_and_a_cable() {
    let with = |drive: &str, more: &str, link: &str| {
        iops(&format!("outstanding = 1\n{more}"), &format!("drive = '{drive}'\n{link}"))
    };
    let stream = |link: &str| with("dc600m-960", "size = '1m'\nsequential = true", link) * 1.048576;
    assert!((380.0..440.0).contains(&stream("link = 'usb-3'")), "{}", stream("link = 'usb-3'"));
    assert!((30.0..44.0).contains(&stream("link = 'usb-2'")));
    let lone = |drive: &str, link: &str| with(drive, "size = '4k'", link);
    assert!(lone("dc600m-960", "link = 'usb-3'") < 0.8 * lone("dc600m-960", ""));
    assert!(lone("970-evo-500", "link = 'usb-4'") > 0.8 * lone("970-evo-500", ""));
    let text = "name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'sas-ssd'\n";
    let error = read(&format!("{text}link = 'usb-3'\n")).map(|_| "taken").unwrap_err();
    assert!(error.contains("no usb-3"), "{error}");
}

#[test]
fn a_record_of_no_length_is_refused() {
    for (record, why) in
        [("'0'", "512 bytes to 16m"), ("'32m'", "512 bytes to 16m"), ("'big'", "not a size")]
    {
        let text = format!(
            "name = 'x'\nsize = '4k'\noutstanding = 1\nrecord = {record}\n[[group]]\n\
             drive = 'x25-m'\n"
        );
        let error = read(&text).map(|_| "taken").unwrap_err();
        assert!(error.contains(why) && error.starts_with("b.toml:4:"), "{error}");
    }
}

#[test]
fn records_that_nothing_reads_ahead_are_found_one_by_one() {
    let disks = "drive = 'hdd-7k2-large'\ndrives = 12\nraid = 'mirror'";
    let stream = |rest: &str| {
        let top = "size = '1m'\nsequential = true\nsoftware = 'zfs'\njobs = 1\nin_flight = 1";
        iops(&format!("{top}\n{rest}"), disks)
    };
    // Each of the eight records of a read waits for at least half a rotation, all of them at once.
    let (ahead, alone) = (stream(""), stream("buffered = false\nspan = '8g'"));
    assert!((60.0..240.0).contains(&alone), "{alone}");
    assert!(ahead > 4.0 * alone, "{ahead} {alone}");
    // Writes go to memory either way.
    let writes = |rest: &str| {
        let top = "size = '1m'\nread = 0\nsequential = true\nsoftware = 'zfs'\njobs = 1";
        iops(&format!("{top}\nin_flight = 1\n{rest}"), disks)
    };
    near(writes("buffered = true"), writes(""), 1e-9);
}

#[test]
fn a_thread_waits_for_each_read_through_a_page_cache() {
    let reads = |rest: &str| {
        let top = "size = '4k'\nsoftware = 'linux-libaio-file'\njobs = 2";
        iops(&format!("{top}\n{rest}"), "drive = '990-pro-2000'")
    };
    near(reads("in_flight = 64\nbuffered = true"), reads("in_flight = 2"), 1e-9);
    assert!(reads("in_flight = 64") > 5.0 * reads("in_flight = 2"));
    // The core copies the data that it reads: one thread moves less than the drive does.
    let stream = |rest: &str| {
        let top = "size = '1m'\nsequential = true\nsoftware = 'linux-libaio-file'\njobs = 1";
        iops(&format!("{top}\nin_flight = 8\n{rest}"), "drive = '990-pro-2000'") * 1.048_576
    };
    assert!((1700.0..2000.0).contains(&stream("buffered = true")), "{}", stream("buffered = true"));
    assert!(stream("") > 6000.0, "{}", stream(""));
}

#[test]
fn short_reads_of_optane_take_less_time() {
    let alone = |size: &str| {
        let top = format!("size = '{size}'\nsoftware = 'io-uring-2020'\njobs = 1\nin_flight = 1");
        iops(&top, "drive = 'p5800x-800'")
    };
    near(alone("512"), 290_000.0, 0.1);
    assert!(alone("512") > alone("2k") && alone("2k") > alone("4k"));
}

#[test]
fn threads_of_md_contend_for_its_locks() {
    let reads = |jobs: u32| {
        let top = format!("size = '4k'\nsoftware = 'linux-md'\njobs = {jobs}\noutstanding = 512");
        iops(&top, "drive = 'pm1743'\ndrives = 12\nraid = '0'")
    };
    // Sixteen times the threads do eight times as many.
    let gain = reads(64) / reads(4);
    assert!((7.0..9.5).contains(&gain), "{gain}");
}

#[test]
fn a_stream_on_disks_waits_for_no_turn() {
    let stream = |rest: &str, group: &str| {
        let top = "size = '1m'\nsequential = true\nsoftware = 'windows-crystaldiskmark'";
        let top = format!("{top}\njobs = 1\nin_flight = 1\n{rest}");
        iops(&top, &format!("drive = 'hdd-5k4'\n{group}")) * 1.048_576
    };
    // HDDs of 150 MB/s, one command at a time: they read ahead and write behind.
    assert!((130.0..=160.0).contains(&stream("", "")), "{}", stream("", ""));
    assert!((130.0..=160.0).contains(&stream("read = 0", "")), "{}", stream("read = 0", ""));
    let mirror = "drives = 2\nraid = '1'\nlink = 'usb-3'";
    assert!((120.0..=160.0).contains(&stream("", mirror)), "{}", stream("", mirror));
}

#[test]
fn a_disk_sorts_writes_in_its_own_cache() {
    let one = |rest: &str, group: &str| {
        let top =
            format!("size = '4k'\njobs = 1\nin_flight = 1\nsoftware = 'linux-libaio'\n{rest}");
        iops(&top, &format!("drive = 'he10-10000'\n{group}"))
    };
    let (reads, writes) = (one("", ""), one("read = 0", ""));
    assert!((3.5..5.0).contains(&(writes / reads)), "{reads} {writes}");
    // Neither with a flush after each write nor with parity, which reads first.
    assert!(one("read = 0\nflush = 1", "") < 1.2 * reads);
    assert!(one("read = 0", "drives = 5\nraid = '5'") < 1.2 * reads);
}

#[test]
fn a_long_io_streams_through_an_adapter() {
    let mb_s = |adapter: &str, drives: u32, in_flight: u32| {
        let top = format!(
            "size = '1m'\nsequential = true\njobs = 1\nin_flight = {in_flight}\n\
             software = 'windows-crystaldiskmark'"
        );
        let group = format!("{adapter}drive = '850-pro-512'\ndrives = {drives}\nraid = 'jbod'");
        iops(&top, &group) * 1.048_576
    };
    let chipset = "adapter = 'intel-pch-dmi2'\n";
    let (direct, behind) = (mb_s("", 1, 1), mb_s(chipset, 1, 1));
    // One SSD of 550 MB/s, one read at a time: reviews measure 520 either way.
    assert!((500.0..=545.0).contains(&direct), "{direct}");
    assert!((0.98..=1.0).contains(&(behind / direct)), "{behind} {direct}");
    // However many SSDs there are, one I/O streams.
    let (two, behind) = (mb_s("", 2, 1), mb_s(chipset, 2, 1));
    assert!((0.97..=1.0).contains(&(behind / two)), "{behind} {two}");
    // Six that could do 3.3 GB/s share the chipset's 2 GB/s.
    let shared = mb_s(chipset, 6, 96);
    assert!((1300.0..=2000.0).contains(&shared), "{shared}");
}

#[test]
fn one_long_read_alone_does_not_get_all_of_the_bandwidth() {
    let long = |in_flight: u32| {
        let top = format!("size = '4m'\nsequential = true\nin_flight = {in_flight}\njobs = 1");
        iops(&format!("{top}\nsoftware = 'linux-libaio-file'"), "drive = 'd7-p5510-3840'")
            * 4.194_304
    };
    assert!((4200.0..4900.0).contains(&long(1)), "{}", long(1));
    assert!(long(4) > 6000.0, "{}", long(4));
}
