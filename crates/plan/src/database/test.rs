use super::*;

const WATCH: Watch = Watch { warmup_s: 5.0, seconds: 30.0, seed: 1 };

fn database(change: impl FnOnce(&mut Database)) -> Database {
    let mut database = Database {
        name: "a test".to_owned(),
        clients: 8,
        cores: 2,
        data_bytes: 1e9,
        drive_bytes: 4e9,
        page_bytes: 8192,
        transaction: Transaction {
            cpu_s: 1e-3,
            reads: 0.0,
            log_bytes: 1000.0,
            writes: 0.0,
            hot_rows: 0,
        },
        writeback: Writeback {
            depth: 4,
            burst: 1,
            sync_depth: 64,
            pages_max: 10_000,
            checkpoint_s: 10.0,
            checkpoint_log_bytes: None,
            files: 0,
        },
        recovery: None,
    };
    change(&mut database);
    database.check().unwrap();
    database
}

/// A drive that serves one I/O at a time.
fn drive(read_s: f64, write_s: f64, flush_s: f64) -> Profile {
    let text = format!(
        "name = 'd'\n[[stage]]\nname = 's'\nservers = 1\nshape = 'fixed'\nread = {{ each_s = \
         {read_s} }}\nwrite = {{ each_s = {write_s} }}\nflush = {{ each_s = {flush_s} }}\n"
    );
    Profile::parse(&text).unwrap()
}

fn near(found: f64, wanted: f64, percent: f64) {
    assert!((found / wanted - 1.0).abs() * 100.0 < percent, "{found}, not {wanted}");
}

#[test]
fn cores_limit_on_a_fast_drive() {
    let found = database(|_| ()).on(&drive(1e-9, 1e-9, 1e-9), WATCH).unwrap();
    near(found.tps, 2000.0, 2.0);
    assert!(found.cpu_share > 0.98);
    assert_eq!(found.recovery_s, None);
}

#[test]
fn one_client_waits_for_each_write_and_flush() {
    let one = database(|of| of.clients = 1);
    let found = one.on(&drive(1e-3, 2e-3, 3e-3), WATCH).unwrap();
    near(found.tps, 1.0 / 6e-3, 2.0);
    // A third of its millisecond of CPU time is after the flush.
    near(found.commit.mean_s, 5e-3 + 0.33e-3, 2.0);
    near(found.group, 1.0, 0.1);
}

#[test]
fn many_clients_share_a_flush() {
    let of = |clients| database(|of| (of.clients, of.cores) = (clients, 64));
    let slow = drive(1e-3, 5e-3, 5e-3);
    let found = of(64).on(&slow, WATCH).unwrap();
    // Half of the clients wait for the flush in flight, the others for the next one.
    assert!(found.group > 25.0, "{}", found.group);
    near(found.tps, found.group / 10e-3, 5.0);
    assert!(found.tps > 20.0 * of(1).on(&slow, WATCH).unwrap().tps);
}

#[test]
fn a_hot_row_makes_commits_wait_for_each_other() {
    let one_row = database(|of| of.transaction.hot_rows = 1);
    let found = one_row.on(&drive(1e-3, 2e-3, 2e-3), WATCH).unwrap();
    // The row is held for a commit, with a slice of a core before and one after it.
    near(found.tps, 1.0 / 4.67e-3, 3.0);
    near(found.group, 1.0, 0.1);
}

#[test]
fn reads_and_pages_behind_take_the_drive() {
    let both = |of: &mut Database| (of.transaction.reads, of.transaction.writes) = (2.5, 1.5);
    let found = database(both).on(&drive(1e-3, 1e-3, 0.0), WATCH).unwrap();
    // 2.5 reads, 1.5 pages, and the log of each group.
    near(found.tps * (2.5 + 1.5 + 1.0 / found.group), 1000.0, 3.0);
    // Writes beyond the drive's rate stop the clients that cause them.
    let few = database(|of| (of.transaction.writes, of.writeback.pages_max) = (50.0, 200));
    let found = few.on(&drive(1e-3, 1e-3, 0.0), WATCH).unwrap();
    assert!(found.tps < 25.0, "{}", found.tps);
    assert!(found.backlog_pages < 700, "{}", found.backlog_pages);
}

#[test]
fn a_checkpoint_is_a_stall_where_its_pages_go_out_at_once() {
    let of = |checkpoint_s| {
        let change = |of: &mut Database| {
            (of.transaction.reads, of.transaction.writes) = (1.0, 1.0);
            (of.writeback.depth, of.writeback.checkpoint_s) = (1, checkpoint_s);
        };
        database(change).on(&drive(1e-3, 2e-3, 1e-3), WATCH).unwrap()
    };
    let (with, without) = (of(10.0), of(1e5));
    // Each I/O of a client waits for 64 pages, unless it was before them.
    assert!(with.transaction.max_s > 0.128, "{with:?}");
    assert!(without.transaction.max_s < 0.128, "{without:?}");
    assert!(with.backlog_pages < without.backlog_pages);
}

#[test]
fn a_restart_takes_what_its_log_takes() {
    let after = Recovery {
        cpu_s_per_byte: 0.0,
        reads_per_byte: 1e-4,
        read_bytes: 8192,
        read_depth: 1,
        writes_per_byte: 0.0,
        write_bytes: 8192,
        flushes: 0,
        fixed_s: 1.5,
    };
    let found = database(|of| (of.clients, of.recovery) = (1, Some(after)))
        .on(&drive(1e-3, 2e-3, 3e-3), WATCH)
        .unwrap();
    // A crash at 35 s: the checkpoint of 30 s was not complete, redo begins at 20 s.
    near(found.redo_bytes, 15.0 * found.tps * 1000.0, 2.0);
    near(found.recovery_s.unwrap(), 1.503 + found.redo_bytes * 1e-4 * 1e-3, 1.0);
    // If a checkpoint starts after this many bytes of log, recovery reads at most two times as
    // many.
    let often = database(|of| of.writeback.checkpoint_log_bytes = Some(50e3));
    let found = often.on(&drive(1e-3, 2e-3, 3e-3), WATCH).unwrap();
    assert!(found.redo_bytes < 105e3, "{}", found.redo_bytes);
}

#[test]
fn a_seed_decides_and_nonsense_is_refused() {
    let spec = database(|of| of.transaction.reads = 1.3);
    let disk = Profile::shipped("disk-15k").unwrap();
    let of = |seed| spec.on(&disk, Watch { seed, ..WATCH }).unwrap();
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
    let text = toml::to_string(&spec).unwrap();
    assert_eq!(Database::parse(&text), Ok(spec));
    let says = |from: &str, to: &str| Database::parse(&text.replace(from, to)).unwrap_err();
    assert!(says("cpu_s = 0.001", "cpu_s = nan").contains("transaction.cpu_s"));
    assert!(says("clients = 8", "clients = 0").contains("clients = 0: 1 to 10000"));
    assert!(says("clients", "client").contains("client"));
    assert!(says("data_bytes = 1000000000.0", "data_bytes = 5e9").contains("drive_bytes"));
}
#[test]
fn pages_that_go_out_in_bursts_make_commits_wait() {
    let of = |burst| {
        let change = |of: &mut Database| {
            (of.transaction.reads, of.transaction.writes) = (1.0, 1.0);
            (of.writeback.depth, of.writeback.burst) = (64, burst);
        };
        database(change).on(&drive(0.5e-3, 0.5e-3, 0.1e-3), WATCH).unwrap()
    };
    let (even, gathered) = (of(1), of(64));
    assert!(gathered.commit.p99_s > 1.5 * even.commit.p99_s, "{even:?} {gathered:?}");
    assert!(gathered.commit.max_s > 64.0 * 0.5e-3);
}

#[test]
fn a_burst_longer_than_the_pages_that_may_be_dirty_stops_nobody_for_ever() {
    let change = |of: &mut Database| {
        of.transaction.writes = 1.0;
        (of.writeback.burst, of.writeback.pages_max) = (1000, 100);
        of.writeback.checkpoint_s = 1e5;
    };
    let found = database(change).on(&drive(1e-3, 1e-3, 0.0), WATCH).unwrap();
    assert!(found.tps > 300.0, "{found:?}");
}

#[test]
fn thousands_of_clients_are_no_error() {
    let change = |of: &mut Database| {
        (of.clients, of.cores, of.transaction.cpu_s) = (10_000, 1024, 1e-3);
        of.transaction.log_bytes = 50_000.0;
    };
    // Groups of all sizes, and a log of as many lengths.
    let watch = Watch { warmup_s: 0.1, seconds: 0.2, seed: 1 };
    let found = database(change).on(&drive(1e-3, 2e-3, 2e-3), watch);
    let found = found.unwrap();
    assert!(found.group > 1000.0, "{found:?}");
}
