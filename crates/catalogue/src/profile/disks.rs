//! Disks with an arm, in virtual time: the simulated profile reproduces the disk's figures.

use block::{Nanos, Op, Rng};
use model::Extent;
use model::device::{Machine, Way};

use super::test::{closed, drives, near};
use super::*;

/// Returns IOPS and mean latency of 4 KiB I/Os at random offsets, at a queue depth of
/// `outstanding`.
fn at_random(profile: &Profile, op: Op, outstanding: u64, bytes: u64) -> (f64, f64) {
    let mut rng = Rng::new(11, outstanding);
    run(profile, op, outstanding, bytes, move |_| rng.below(bytes / 4096) * 4096)
}

/// Returns IOPS and mean latency of 4 KiB I/Os at the offsets that `place` returns, at a queue
/// depth of `outstanding`.
fn run(
    profile: &Profile,
    op: Op,
    outstanding: u64,
    within: u64,
    mut place: impl FnMut(u64) -> u64,
) -> (f64, f64) {
    const IOS: u64 = 6_000;
    let own = profile.clone();
    let ways = Box::new(move |way: Way| Ok(own.route(1, way.drive, way.op, way.len_bytes)));
    let machine = Machine::new(profile.network(1), ways, 7).unwrap();
    let lane = machine.join();
    let (mut now, mut made, mut count, mut sum_ns) = (Nanos(0), 0, 0, 0);
    let (mut begun, mut slots) = (vec![Nanos(0); outstanding as usize], Vec::new());
    let mut free: Vec<u32> = (0..outstanding as u32).collect();
    while count < IOS {
        for slot in std::mem::take(&mut free) {
            let write = op == Op::Write;
            let extent = Extent { offset: place(made), bytes: 4096, within, write };
            let way = Way { drive: 0, op, len_bytes: 4096 };
            machine.begin(now, lane, [(slot, way, extent)].into_iter()).unwrap();
            begun[slot as usize] = now;
            made += 1;
        }
        now = machine.next().unwrap().max(now);
        machine.due(now, lane, &mut slots);
        for slot in slots.drain(..) {
            (count, sum_ns) = (count + 1, sum_ns + now.since(begun[slot as usize]).0);
            free.push(slot);
        }
    }
    (count as f64 / now.as_secs_f64(), sum_ns as f64 / 1e9 / count as f64)
}

#[test]
fn a_lone_read_takes_the_average_seek_half_a_turn_and_its_bytes() {
    let disks = drives(true);
    assert!(disks.len() >= 9, "{} disks", disks.len());
    for (part, profile) in disks {
        let figure = |what: &str| part.value(what).unwrap();
        let bare_s =
            figure("average_seek") + 30.0 / figure("rpm") + 4096.0 / figure("read_bandwidth");
        let capacity = figure("capacity") as u64;
        let found_s = at_random(&profile, Op::Read, 1, capacity).1;
        near(&part.id, found_s, bare_s, 5.0);
        let command_s = part.value("command_time").unwrap_or(0.0);
        near(&part.id, found_s, bare_s + command_s, 1.5);
        let slower_s = part.value("average_write_seek").unwrap_or(figure("average_seek"))
            - figure("average_seek");
        let write_s = at_random(&profile, Op::Write, 1, capacity).1;
        near(&part.id, write_s, bare_s + command_s + slower_s, 1.5);
    }
}

#[test]
fn many_outstanding_are_faster_as_on_published_disks() {
    for (part, profile) in drives(true) {
        let capacity = part.value("capacity").unwrap() as u64;
        let [alone, many] =
            [1, 32].map(|outstanding| at_random(&profile, Op::Read, outstanding, capacity).0);
        assert!((2.0..3.0).contains(&(many / alone)), "{}: {many} of {alone}", part.id);
    }
    // A paper by HP measured 4,850 reads per second on 12 disks of 15,000 rpm, at a total queue
    // depth of 256.
    let catalogue = Catalogue::shipped();
    let disk = catalogue.part("cheetah-15k7").unwrap().profile().unwrap();
    let found = at_random(&disk, Op::Read, 256 / 12, 450_000_000_000).0;
    near("a disk of 12", found, 4850.0 / 12.0, 6.0);
    near("in theory", closed(&disk, Op::Read, 256 / 12, 4096).0, found, 2.0);
}

#[test]
fn a_stream_reads_at_the_bandwidth() {
    for (part, profile) in drives(true) {
        let capacity = part.value("capacity").unwrap() as u64;
        let rate = run(&profile, Op::Read, 2, capacity, |made| made * 4096).0 * 4096.0;
        // If a command is slower than its transfer, the controller is the bottleneck.
        let command_s = part.value("command_time").unwrap_or(0.0);
        let most = part.value("read_bandwidth").unwrap().min(4096.0 / command_s.max(1e-9));
        near(&part.id, rate, most, 2.0);
    }
}

#[test]
fn a_disk_of_ones_own_has_an_arm_by_five_figures() {
    let mut catalogue = Catalogue::default();
    let figure = |is: &str, value: f64, unit: &str| {
        format!("{{ is='{is}', value={value}, unit='{unit}', kind='spec', source='s' }},")
    };
    let text = format!(
        "[source.s]\ntitle='a sheet'\n[[part]]\nid='d'\nname='a disk'\nclass='drive'\n\
         interface='sas'\nfigures=[{}{}{}{}{}]",
        figure("rpm", 15_000.0, ""),
        figure("average_seek", 2.9, "ms"),
        figure("full_seek", 6.0, "ms"),
        figure("track_seek", 0.2, "ms"),
        figure("read_bandwidth", 100.0, "MB/s"),
    );
    catalogue.add("d.toml", &text).unwrap();
    let part = catalogue.part("d").unwrap();
    let profile = part.profile().unwrap();
    // Seek, half a turn of 4 ms, and 41 us of data; a write is as fast, and there is no read-ahead.
    for op in [Op::Read, Op::Write] {
        near("a disk", closed(&profile, op, 1, 4096).1, 2.9e-3 + 2e-3 + 41e-6, 2.0);
    }
    assert_eq!(profile.stages[0].head.as_ref().unwrap().ahead_bytes, 0.0);
    assert!(catalogue.profile_text(part).unwrap().contains("average_seek"));
}
