//! An honest volume on another host, read by an otherwise idle host: its result is publishable, but
//! not if any evidence is missing. The I/Os are done in virtual time; the counters of hosts and
//! networks are planted, as no test host is ever quiet.

use stats::verdict::*;
use stats::{Class, RunResult, Verdict};

use super::test::{drive, reads, run, spec};
use super::*;

/// H25 accepts: reads of a remote disk before and after the run, as long as the job's.
fn probed() -> Probed {
    let mut takes = drive(25, 5000.0);
    let mut places = |count: usize| (0..count).map(|_| takes().0).collect::<Vec<u64>>();
    let [first_ns, again_ns, after_ns, after_again_ns] = [64; 4].map(&mut places);
    Probed { first_ns, again_ns, unused_ns: None, after_ns, after_again_ns }
}

/// Checks of a host on a remote volume, without those of the run's own numbers.
fn found(result: &RunResult, probed: Result<Probed, String>) -> Vec<Check> {
    let (name, totals) = ("nvme+tcp://a".to_owned(), result.totals);
    let remote = || vec![(Verdict::DoesNotApply, "remote".to_owned())];
    let existence = Existence::Sampled { blocks: 64, zero: 0 };
    let kept = Some(Kept { looked: 64, ..Kept::default() });
    let cached = Cached {
        name: name.clone(),
        used_bytes: 64 << 30,
        below: Below::Remote { wire_ns: Some(30_000), program_ns: Some(25_000) },
        job: JobReads::Like { p50_ns: totals.read.latency_ns.p50 },
        probed,
    };
    let set = WorkingSet {
        name: name.clone(),
        used_bytes: 64 << 30,
        hot_bytes: 64 << 30,
        volume_bytes: 64 << 30,
        longest_bytes: 4096,
        medium: Medium::Probed(cached.judge().0),
    };
    let seconds = totals.seconds;
    let window = Window {
        asked_s: seconds,
        measured_s: seconds,
        stopped_s: 0.0,
        clocks_s: Some([seconds; 2]),
    };
    let pace = Paced { khz: vec![3_000_000; 2], heat: Heat::Counted(0), ..Paced::default() };
    let ours =
        HostUse { host_percent: Some(30.0), cores: 4, ours: Some(1.2), taken: Some((1, 0.9)) };
    let ceiling = Ceiling { iops: totals.iops * 9.0, ..Ceiling::default() };
    vec![
        data_exists(&[Readable { name: name.clone(), existence, reads: true, clears: false }]),
        direct_io(&[], remote()),
        counters_agree(&[], None, remote()),
        content(&[Data { name, written: None, reads: true, read: kept }], Vec::new()),
        preconditioning(&[], vec![(Verdict::DoesNotApply, "not written".to_owned())]),
        working_set(&[set], Vec::new()),
        cache(&[cached], Vec::new()),
        block_layer(&[], Some(&[]), remote()),
        clock(Some("tsc"), true, 8.0, Some(9.0), Some(window)),
        frequency(&[pace], false),
        placement(&[Some(0)], &[], Some(1), Vec::new()),
        disks_shared(&[], seconds, remote()),
        nobody_else(ours),
        cpu_was_ours(Some(0.0), Some(0)),
        scheduling(&[Scheduled::default()]),
        wire(Wire::Network { retransmitted_percent: Some(0.0) }),
        connections(&totals, &result.workers),
        one_medium(&[("a".to_owned(), Some("remote".to_owned()))]),
        generator_ceiling(totals.iops, Some(&ceiling)),
        repeats(&[(totals.iops, seconds); 5]),
    ]
}

/// Returns the class of a 30 s run with these probe reads, and with data samples before and after
/// it.
fn class(probed: Result<Probed, String>, kept: Option<[u32; 2]>) -> (Class, Vec<Check>) {
    let spec = spec(2, &reads(8), 30.0);
    let mut takes = drive(7, 5000.0);
    let mut result = run(&spec, move |_, _| (takes(), false));
    let mut checks = found(&result, probed);
    let done: Vec<u64> = result.workers.iter().map(|worker| worker.read.ios).collect();
    checks.push(data(&spec, &result.totals, &done, (false, kept)));
    for check in joined(checks) {
        result.set_check(check);
    }
    let against = result.checks.iter().filter(|check| check.verdict.is_against());
    (result.class, against.cloned().collect())
}

#[test]
fn a_volume_of_another_host_can_have_a_result_to_be_published() {
    let (whole, against) = class(Ok(probed()), Some([64, 0]));
    assert_eq!(whole, Class::Publishable, "{against:?}");
    let against = |(class, against): (Class, Vec<Check>)| {
        assert_eq!(class, Class::Indicative);
        against.into_iter().map(|check| check.code).collect::<Vec<_>>()
    };
    assert_eq!(against(class(Ok(probed()), None)), ["H05"]);
    assert_eq!(against(class(Err("left away".into()), Some([64, 0]))), ["H08", "H25"]);
    // All of it in the target's memory before the run.
    let memory = Probed {
        first_ns: vec![70_000; 64],
        again_ns: vec![69_000; 64],
        after_ns: vec![71_000; 64],
        after_again_ns: vec![70_000; 64],
        unused_ns: None,
    };
    assert_eq!(against(class(Ok(memory), Some([64, 0]))), ["H08", "H25"]);
}
