//! A missing check or a missing input never makes a class better.

use block::Rng;

use super::*;
use crate::histogram::{Latencies, Latency};
use crate::run::{PacedTotals, Second, Totals};
use crate::verdict::*;

/// Returns the rank of a class.
fn worth(class: Class) -> u8 {
    match class {
        Class::Invalid => 0,
        Class::Indicative => 1,
        Class::Publishable => 2,
    }
}

/// Returns every check with a pass.
fn passed() -> Vec<Check> {
    ALL.iter().map(|it| Check::new(it.code, it.name, Verdict::Pass, "as it should be")).collect()
}

/// Returns the class of a result of which every other check passed.
fn class_with(check: Check) -> Class {
    let mut checks = passed();
    checks.retain(|other| other.code != check.code);
    checks.push(check);
    Class::of(&checks)
}

#[test]
fn the_list_is_in_order() {
    let codes: Vec<String> = (1..=ALL.len()).map(|number| format!("H{number:02}")).collect();
    assert_eq!(ALL.map(|listed| listed.code).to_vec(), codes);
    assert_eq!(listed("H03").map(|listed| listed.name), Some("device-counters"));
    assert_eq!(listed("H99"), None);
}

#[test]
fn every_check_is_there_once() {
    let made = vec![
        Check::new("H17", "nobody-else", Verdict::Pass, "quiet"),
        Check::new("H03", "device-counters", Verdict::Pass, "98 %"),
        Check::new("H17", "nobody-else", Verdict::Warn, "the disk was used"),
    ];
    let all = complete(made);
    let codes: Vec<&str> = all.iter().map(|check| check.code.as_str()).collect();
    assert_eq!(codes, ALL.map(|listed| listed.code));
    let unmade = all.iter().filter(|check| check.verdict == Verdict::Unknown).count();
    assert_eq!((unmade, all[16].verdict), (ALL.len() - 2, Verdict::Warn));
    assert_eq!((&*all[0].name, &*all[0].evidence), ("direct-io", "not checked"));
}

/// A check that a layout did not have is missing in none of its results, and counts if present.
#[test]
fn results_are_judged_by_the_list_of_their_layout() {
    assert_eq!([3, 4, 5].map(|layout| of_layout(layout).count()), [24, 24, 26]);
    let mut checks = passed();
    assert_eq!(Class::of_layout(4, &checks), Class::Publishable);
    checks.retain(|check| check.code != "H26");
    assert_eq!(Class::of_layout(4, &checks), Class::Publishable);
    assert_eq!(Class::of_layout(5, &checks), Class::Invalid);
    checks.push(Check::unknown("H26", "too short"));
    assert_eq!([4, 5].map(|layout| Class::of_layout(layout, &checks)), [Class::Indicative; 2]);
}

/// Removes each check in turn, whatever its verdict and those of the others.
#[test]
fn no_class_gets_better_without_a_check() {
    let verdicts = [Verdict::Pass, Verdict::Warn, Verdict::Fail, Verdict::Unknown];
    let mut rng = Rng::new(42, 1);
    for draw in 0..500 {
        let mut checks = passed();
        for _ in 0..draw % 4 {
            let at = rng.below(ALL.len() as u64) as usize;
            checks[at].verdict = verdicts[rng.below(4) as usize];
        }
        for (check, listed) in checks.iter_mut().zip(&ALL) {
            if !listed.always && rng.below(4) == 0 && check.verdict == Verdict::Pass {
                check.verdict = Verdict::DoesNotApply;
            }
        }
        let whole = worth(Class::of(&checks));
        for at in 0..ALL.len() {
            let mut fewer = checks.clone();
            let gone = fewer.remove(at);
            assert!(worth(Class::of(&fewer)) <= whole, "draw {draw}: without {gone:?}");
            assert_ne!(Class::of(&complete(fewer)), Class::Publishable, "draw {draw}: {gone:?}");
        }
    }
}

#[test]
fn what_asks_every_run_cannot_but_apply() {
    for listed in ALL {
        let class = class_with(Check::does_not_apply(listed.code, "so it says"));
        assert_eq!(class == Class::Publishable, !listed.always, "{}", listed.code);
    }
    // A check that this version does not have counts, too.
    let mut checks = passed();
    checks.push(Check::new("H99", "new", Verdict::Pass, ""));
    assert_eq!(Class::of(&checks), Class::Publishable);
    for verdict in [Verdict::Warn, Verdict::Unknown, Verdict::DoesNotApply] {
        checks[ALL.len()].verdict = verdict;
        assert_eq!(Class::of(&checks), Class::Indicative);
    }
}

/// Compares a check with all its inputs to the same check with each input missing.
fn judge(whole: Check, without: &[(&str, Check)]) {
    assert_eq!(class_with(whole.clone()), Class::Publishable, "{whole:?}");
    for (input, check) in without {
        assert_eq!(check.code, whole.code);
        let class = class_with(check.clone());
        assert_ne!(class, Class::Publishable, "{} without {input}: {check:?}", check.code);
    }
}

#[test]
fn no_class_gets_better_without_what_a_volume_tells() {
    let file = |beneath: Option<Beneath>, growth| Opened {
        name: "file:a".into(),
        asked: true,
        had: true,
        beneath,
        cache_growth_bytes: growth,
        moved_bytes: Some(1 << 30),
    };
    let direct = |file| direct_io(&[file], Vec::new());
    judge(
        direct(file(None, Some(0))),
        &[
            ("growth", direct(file(None, None))),
            ("layer", direct(file(Some(Beneath::Hidden("loop0".into())), Some(0)))),
            ("file", direct_io(&[], Vec::new())),
        ],
    );
    let readable = |existence| {
        data_exists(&[Readable { name: "file:a".into(), existence, reads: true, clears: false }])
    };
    let looked = [64, 0];
    let written = Existence::Mapped { bytes: 1, unwritten: 0, holes: 0, exact: true, looked };
    judge(
        readable(written),
        &[
            ("map", readable(Existence::Unknown("no map".into()))),
            ("blocks", readable(Existence::Sampled { blocks: 0, zero: 0 })),
            ("place", readable(Existence::Elsewhere)),
            ("volumes", data_exists(&[])),
        ],
    );
}

#[test]
fn no_class_gets_better_without_what_devices_count() {
    let counted = |device: Option<[u64; 2]>, charged, hidden: Option<&str>| Counted {
        name: "vda".into(),
        direct: true,
        issued: [1 << 30, 0],
        device,
        device_ios: 9,
        slack: 0,
        memory: false,
        charged,
        hidden: hidden.map(str::to_owned),
        below: vec![Level { name: "sda".into(), moved: Some([1 << 30, 0]) }],
        cached: false,
        apart: 0.0,
    };
    let all = Some([1 << 30, 0]);
    let uncounted = Counted {
        below: vec![Level { name: "sda".into(), moved: None }],
        ..counted(all, true, None)
    };
    let agree = |counted, process| counters_agree(&[counted], process, Vec::new());
    judge(
        agree(counted(all, true, None), all),
        &[
            ("process", agree(counted(all, true, None), None)),
            ("device", agree(counted(None, false, None), all)),
            ("both", agree(counted(None, true, None), None)),
            ("layer", agree(counted(all, true, Some("loop0")), all)),
            ("level", agree(uncounted, all)),
            ("volumes", counters_agree(&[], all, Vec::new())),
        ],
    );
    let kept = Some(Kept { bytes: 1, ..Kept::default() });
    let data = |read| {
        let (name, written) = ("file:a".into(), Some(Reducible::default()));
        content(&[Data { name, written, reads: true, read }], Vec::new())
    };
    judge(data(kept), &[("kept", data(None)), ("volumes", content(&[], Vec::new()))]);
    let written = Flash {
        disk: "nvme0n1".into(),
        capacity_bytes: 1,
        written_bytes: 2,
        trimmed_bytes: 0,
        writes: 2,
        asked: Some(Writes { mean_bytes: 1.0, random: true }),
        ..Flash::default()
    };
    let flash = |disk| preconditioning(&[disk], Vec::new());
    judge(
        flash(written.clone()),
        &[
            ("capacity", flash(Flash { capacity_bytes: 0, ..written.clone() })),
            ("counters", flash(Flash { written_bytes: 0, ..written.clone() })),
            ("writes", flash(Flash { writes: 0, ..written.clone() })),
            ("job", flash(Flash { asked: None, ..written })),
            ("disks", preconditioning(&[], Vec::new())),
        ],
    );
    judge(kind([Some("a disk"); 2]), &[("kind", kind([Some("a disk"), None]))]);
}

fn kind(kinds: [Option<&str>; 2]) -> Check {
    let kinds = kinds.map(|kind| ("file:a".to_owned(), kind.map(str::to_owned)));
    one_medium(&kinds)
}

#[test]
fn no_class_gets_better_without_what_is_known_of_caches() {
    let set = |medium| {
        let (name, bytes) = ("a".to_owned(), 100 << 20);
        let set = WorkingSet {
            name,
            used_bytes: bytes,
            hot_bytes: bytes,
            volume_bytes: bytes,
            longest_bytes: 4096,
            medium,
        };
        working_set(&[set], Vec::new())
    };
    let disk = |rotational| set(Medium::Disk { name: "vda".into(), rotational });
    let memory = |cache_bytes| set(Medium::Memory { cache_bytes });
    let cached = |memory_bytes| set(Medium::PageCache { memory_bytes, all_bytes: 100 << 20 });
    judge(disk(Some(false)), &[("rotational", disk(None))]);
    let remote = |verdict| set(Medium::Probed(verdict));
    judge(
        remote(Verdict::Pass),
        &[("reads", remote(Verdict::Unknown)), ("probe", set(Medium::Elsewhere))],
    );
    judge(memory(Some(1)), &[("cache", memory(None)), ("medium", set(Medium::Elsewhere))]);
    let untold = distinct(&[], &["file:b".into()]).unwrap();
    judge(cached(1), &[("memory", cached(0)), ("identity", untold)]);
}

#[test]
fn no_class_gets_better_without_what_reads_outside_of_the_window_took() {
    let reads = |ns: u64| (0..64).map(|at| ns + at * 100).collect::<Vec<u64>>();
    let whole = || Probed {
        first_ns: reads(400_000),
        again_ns: reads(400_000),
        unused_ns: Some(reads(400_000)),
        after_ns: reads(400_000),
        after_again_ns: reads(400_000),
    };
    let of = |wire_ns, program_ns, p50_ns, probed| {
        let (name, used_bytes) = ("nvme://a".to_owned(), 1 << 30);
        let (below, job) = (Below::Remote { wire_ns, program_ns }, JobReads::Like { p50_ns });
        cache(&[Cached { name, used_bytes, below, job, probed }], Vec::new())
    };
    let (wire, program, p50) = (Some(30_000), Some(45_000), Some(500_000));
    let told = |probed| of(wire, program, p50, Ok(probed));
    judge(
        told(whole()),
        &[
            ("first reads", told(Probed { first_ns: Vec::new(), ..whole() })),
            ("second reads", told(Probed { again_ns: reads(1)[..9].to_vec(), ..whole() })),
            ("reads after it", told(Probed { after_ns: Vec::new(), ..whole() })),
            ("second reads after it", told(Probed { after_again_ns: Vec::new(), ..whole() })),
            ("unused places", told(Probed { unused_ns: Some(Vec::new()), ..whole() })),
            ("round-trip", of(None, program, p50, Ok(whole()))),
            ("program", of(wire, None, p50, Ok(whole()))),
            ("median", of(wire, program, None, Ok(whole()))),
            ("probe", of(wire, program, p50, Err("left away".into()))),
            ("volumes", cache(&[], Vec::new())),
        ],
    );
}

#[test]
fn a_layout_is_judged_by_its_own_list() {
    let checks = passed();
    assert_eq!(Class::of_layout(5, &checks), Class::Publishable);
    assert_eq!(Class::of_layout(5, &checks[..24]), Class::Invalid);
    assert_eq!(Class::of_layout(4, &checks[..24]), Class::Publishable);
    assert_eq!(Class::of_layout(4, &checks[..23]), Class::Invalid);
}

#[test]
fn no_class_gets_better_without_what_a_host_tells() {
    judge(
        cpu_was_ours(Some(0.0), Some(0)),
        &[
            ("steal", cpu_was_ours(None, Some(0))),
            ("throttled", cpu_was_ours(Some(0.0), None)),
            ("use", quota(Some(("/cpu.max", 1.0)), None).unwrap()),
        ],
    );
    let paced = |readings, heat| {
        let khz = vec![3_000_000; readings];
        frequency(&[Paced { khz, heat, ..Paced::default() }], false)
    };
    judge(
        paced(2, Heat::Counted(0)),
        &[
            ("khz", paced(0, Heat::Counted(0))),
            ("one reading", paced(1, Heat::Counted(0))),
            ("heat", paced(2, Heat::Unknown)),
            ("both", paced(0, Heat::Unknown)),
        ],
    );
    let time = |source| clock(source, true, 8.0, Some(1.0), None);
    judge(time(Some("tsc")), &[("source", time(None))]);
    let window = |clocks_s| {
        let window = Window { asked_s: 9.0, measured_s: 9.0, stopped_s: 0.0, clocks_s };
        clock(Some("tsc"), true, 8.0, Some(1.0), Some(window))
    };
    judge(window(Some([9.0; 2])), &[("uptime", window(None))]);
    let threads = [Scheduled::default()];
    judge(scheduling(&threads), &[("threads", scheduling(&[]))]);
    let place = |own, node, all_nodes| {
        let disk = Beside { disk: "sda".into(), node, cores: vec![0] };
        placement(&[own], &[disk], all_nodes, Vec::new())
    };
    judge(
        place(Some(0), Some(0), Some(2)),
        &[
            ("own node", place(None, Some(0), Some(2))),
            ("node of the disk", place(Some(0), None, Some(2))),
            ("nodes", place(Some(0), Some(0), None)),
            ("disks", placement(&[Some(0)], &[], Some(2), Vec::new())),
        ],
    );
    let whole =
        HostUse { host_percent: Some(50.0), cores: 2, ours: Some(1.0), taken: Some((1, 1.0)) };
    judge(
        nobody_else(whole),
        &[
            ("host", nobody_else(HostUse { host_percent: None, ..whole })),
            ("cores", nobody_else(HostUse { cores: 0, ..whole })),
            ("ours", nobody_else(HostUse { ours: None, ..whole })),
            ("taken", nobody_else(HostUse { taken: None, ..whole })),
            ("disks", disks_shared(&[], 1.0, Vec::new())),
        ],
    );
    let sent = |retransmitted_percent| wire(Wire::Network { retransmitted_percent });
    judge(sent(Some(0.0)), &[("segments", sent(None))]);
}

#[test]
fn no_class_gets_better_without_how_a_host_rests() {
    let rests = Rested { cpu: 0, idle: Some(Vec::new()), siblings: Some(vec![0]) };
    let per_io = PerIo { ios: 1, mean_ns: Some(1e5), core_us: Some(1.0) };
    let rest = |cpu: Rested, per_io| rested(&[cpu], per_io, false);
    judge(
        rest(rests.clone(), per_io),
        &[
            ("states", rest(Rested { idle: None, ..rests.clone() }, per_io)),
            ("siblings", rest(Rested { siblings: None, ..rests.clone() }, per_io)),
            ("latency", rest(rests, PerIo { mean_ns: None, ..per_io })),
            ("CPUs", rested(&[], per_io, false)),
        ],
    );
    let nap = |wake_us| {
        let disk = "nvme0n1".into();
        naps(&[Nap { disk, wake_us, slowest_iops: 99.0, pauses: false }]).unwrap()
    };
    judge(nap(Some(0)), &[("wake", nap(None))]);
}

#[test]
fn no_class_gets_better_without_what_a_disk_tells() {
    let queue = Queue {
        name: "sda".into(),
        scheduler: Some("none".into()),
        most_bytes: Some(1 << 20),
        volatile_cache: Some(false),
        ..Queue::default()
    };
    let asked = Asked { reads: true, writes: true, most_bytes: 4096, ..Asked::default() };
    let disk = |before: Queue| Disk {
        asked,
        after: Some(before.clone()),
        before,
        meanwhile: None,
        merged: Some(Merged::default()),
    };
    let one = |disk: Disk| block_layer(&[disk], Some(&[]), Vec::new());
    judge(
        one(disk(queue.clone())),
        &[
            ("scheduler", one(disk(Queue { scheduler: None, ..queue.clone() }))),
            ("longest", one(disk(Queue { most_bytes: None, ..queue.clone() }))),
            ("cache", one(disk(Queue { volatile_cache: None, ..queue.clone() }))),
            ("merges", one(Disk { merged: None, ..disk(queue.clone()) })),
            ("limits", block_layer(&[disk(queue)], None, Vec::new())),
            ("disks", block_layer(&[], Some(&[]), Vec::new())),
        ],
    );
    let sectors = Sectors {
        disk: "sda".into(),
        logical_bytes: Some(512),
        physical_bytes: Some(4096),
        unit_bytes: Some(4096),
        offset_bytes: Some(0),
    };
    let whole = |sectors| whole_sectors(&[sectors]).unwrap();
    judge(
        whole(sectors.clone()),
        &[
            ("physical", whole(Sectors { physical_bytes: None, ..sectors.clone() })),
            ("unit", whole(Sectors { unit_bytes: None, ..sectors.clone() })),
            ("offset", whole(Sectors { offset_bytes: None, ..sectors })),
        ],
    );
}

#[test]
fn no_class_gets_better_without_what_a_run_counted() {
    let seconds: Vec<Second> =
        (1..=10).map(|t| Second { t: f64::from(t), iops: 1000.0, ..Second::default() }).collect();
    let steady = |seconds, plan, others| {
        steady_state(&Steadiness { seconds, others, plan, ..Steadiness::default() })
    };
    judge(
        steady(&seconds, Plan::Closed, 0),
        &[
            ("seconds", steady(&[], Plan::Closed, 0)),
            ("plan", steady(&seconds, Plan::Varies, 0)),
            ("parts", steady(&seconds, Plan::Closed, 1)),
        ],
    );
    let lends = || Lender::Credits("vda: a disk of a hypervisor".into(), 60.0);
    let burst = |driven_s, lenders: &[Lender]| burst_credits(&seconds, driven_s, lenders);
    judge(
        burst(66.0, &[lends()]),
        &[("time", burst(0.0, &[lends()])), ("volumes", burst(66.0, &[]))],
    );
    let flat = Latency { p90: Some(9), p99: Some(9), mean: Some(9.0), ..Latency::default() };
    let paced = PacedTotals { lag_ns: Latency::default(), service_ns: flat, ..Default::default() };
    let totals = |paced| Totals { ios: 30_000, paced, ..Totals::default() };
    let none = Latency { p90: Some(0), p99: Some(0), mean: Some(0.0), ..Latency::default() };
    let kept = PacedTotals { lag_ns: none, ..paced };
    judge(
        schedule_kept(&totals(Some(kept)), true),
        &[
            ("lag", schedule_kept(&totals(Some(paced)), true)),
            ("all", schedule_kept(&totals(None), true)),
        ],
    );
    let ceiling = Ceiling { iops: 100.0, ..Ceiling::default() };
    let nothing = Ceiling::default();
    judge(
        generator_ceiling(1.0, Some(&ceiling)),
        &[
            ("ceiling", generator_ceiling(1.0, None)),
            ("its rate", generator_ceiling(1.0, Some(&nothing))),
        ],
    );
    let known = Client { cores: 2, busy: Some(0.1), fewer: None };
    let without = [
        ("busy", client(1.0, &ceiling, &Client { busy: None, ..known.clone() })),
        ("CPUs", client(1.0, &ceiling, &Client::default())),
    ];
    judge(client(1.0, &ceiling, &known), &without);
    judge(
        repeats(&[(1.0, 5.0); 5]),
        &[("runs", repeats(&[])), ("a run", repeats(&[(1.0, 5.0); 4]))],
    );
    let mut latencies = Latencies::new();
    latencies.record_n(1000, 10_000_000);
    let shown = |latencies| Shown { latencies, few: &[], closed: true };
    let empty = Latencies::new();
    judge(
        percentiles_supported(&shown(&latencies)),
        &[("latencies", percentiles_supported(&shown(&empty)))],
    );
    let flow = Flow { samples: 1, latency_ns: 5, outstanding_ns: 5, unsettled_ns: 0, span_ns: 5 };
    let flows = Flows { each: vec![("all".into(), flow)], ..Flows::default() };
    judge(littles_law(&flows), &[("flows", littles_law(&Flows::default()))]);
    judge(
        ios_succeeded(&Totals { ios: 1, ..Totals::default() }, &[]),
        &[("counts", ios_succeeded(&Totals::default(), &[]))],
    );
    let peer = |ios| Peer { group: Some(0), ios, seconds: 3.0, ..Peer::default() };
    judge(even(&[peer(900), peer(900)]), &[("workers", even(&[])), ("counts", even(&[peer(0)]))]);
}
