//! Planted caches of known size in front of drives with known latencies, and the same drives
//! without one, on quiet and on busy hosts.

use block::Rng;

use super::*;

mod busy;

const GIB: u64 = 1 << 30;
/// Offsets of a probe.
const PLACES: usize = 64;
/// Runs of each situation.
const SEEDS: u64 = 200;
/// Round trips of the tests' connections, and of a program on the other end, in nanoseconds.
const WIRE_NS: u64 = 30_000;
const PROGRAM_NS: u64 = 45_000;

/// Read latency of a medium, in nanoseconds: a minimum plus a mean that a random factor multiplies.
#[derive(Clone, Copy)]
struct Medium {
    least_ns: f64,
    mean_ns: f64,
    /// Standard deviation of the logarithm of that factor.
    varies: f64,
}

const FLASH: Medium = Medium { least_ns: 10_000.0, mean_ns: 80_000.0, varies: 0.3 };
const SATA: Medium = Medium { least_ns: 40_000.0, mean_ns: 120_000.0, varies: 0.5 };
const DISK: Medium = Medium { least_ns: 1_500_000.0, mean_ns: 6_000_000.0, varies: 0.5 };
const XPOINT: Medium = Medium { least_ns: 6_000.0, mean_ns: 4_000.0, varies: 0.1 };
const DRAM: Medium = Medium { least_ns: 2_000.0, mean_ns: 2_000.0, varies: 0.3 };

impl Medium {
    /// Returns this medium behind a connection and a program that takes `program_ns`.
    fn far(self, program_ns: u64) -> Medium {
        Medium { least_ns: self.least_ns + (WIRE_NS + program_ns) as f64, ..self }
    }

    fn read(self, rng: &mut Rng) -> f64 {
        let normal = (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
        self.least_ns + self.mean_ns * (normal * self.varies).exp()
    }
}

const REMOTE: Below = Below::Remote { wire_ns: Some(WIRE_NS), program_ns: Some(PROGRAM_NS) };

/// A volume, the cache in front of it, and the host that reads it.
#[derive(Clone, Copy)]
struct Situation {
    medium: Medium,
    below: Below,
    /// Latency of a read that the cache answers; `None` without a cache.
    cache: Option<Medium>,
    /// Share of the used range that the cache holds before and after the run.
    held: [f64; 2],
    /// Share of reads that wait for a CPU, for milliseconds, 0 to 1.
    busy: f64,
}

impl Situation {
    fn honest(medium: Medium, below: Below) -> Situation {
        Situation { medium, below, cache: None, held: [0.0; 2], busy: 0.0 }
    }

    fn read(&self, hit: f64, rng: &mut Rng) -> u64 {
        let from = match self.cache {
            Some(cache) if rng.uniform() < hit => cache,
            _ => self.medium,
        };
        let waits =
            if rng.uniform() < self.busy { 500_000.0 + 4_000_000.0 * rng.uniform() } else { 0.0 };
        (from.read(rng) + waits) as u64
    }

    fn probed(&self, seed: u64) -> Probed {
        let mut rng = Rng::new(seed, 25);
        let mut reads = |hit| (0..PLACES).map(|_| self.read(hit, &mut rng)).collect();
        let [before, after] = self.held;
        Probed {
            first_ns: reads(before),
            again_ns: reads(1.0),
            unused_ns: None,
            after_ns: reads(after),
            after_again_ns: reads(1.0),
        }
    }

    fn cached(&self, seed: u64) -> Cached {
        // A queue makes reads of a job slower.
        let mut rng = Rng::new(seed, 26);
        let mut all: Vec<u64> = (0..99).map(|_| self.read(self.held[1], &mut rng) * 4).collect();
        all.sort_unstable();
        Cached {
            name: "v".into(),
            used_bytes: 10 * GIB,
            below: self.below,
            job: JobReads::Like { p50_ns: Some(all[49]) },
            probed: Ok(self.probed(seed)),
        }
    }

    /// Returns the number of seeds that result in pass, unknown and warn.
    fn come_to(&self) -> [u64; 3] {
        let of = |seed| self.cached(seed).judge().0;
        let count = |verdict| (0..SEEDS).filter(|seed| of(*seed) == verdict).count() as u64;
        [count(Verdict::Pass), count(Verdict::Unknown), count(Verdict::Warn)]
    }
}

/// Returns media on this host and behind a connection, each with a cache in front of it.
fn media() -> Vec<(&'static str, Situation, Medium)> {
    let far = |medium: Medium| Situation::honest(medium.far(PROGRAM_NS), REMOTE);
    let far_cache = DRAM.far(PROGRAM_NS);
    vec![
        ("flash", Situation::honest(FLASH, Below::Solid), XPOINT),
        ("SATA", Situation::honest(SATA, Below::Solid), XPOINT),
        ("virtual", Situation::honest(SATA, Below::Hidden), XPOINT),
        ("disk", Situation::honest(DISK, Below::Turns), SATA),
        ("far flash", far(FLASH), far_cache),
        ("far SATA", far(SATA), far_cache),
        ("far disk", far(DISK), far_cache),
    ]
}

/// Drives on this host and behind a connection, on a quiet host and on a busy one.
/// H25 accepts: drives without a cache; a cache of a tenth of the working set.
#[test]
fn honest_drives_are_not_accused() {
    for (name, honest, cache) in media() {
        for busy in [0.0, 0.2] {
            let [pass, unknown, warn] = Situation { busy, ..honest }.come_to();
            assert!(warn <= 1 && unknown <= 2, "{name}, {busy}: {pass} {unknown} {warn}");
            let small = Situation { cache: Some(cache), held: [0.0, 0.1], busy, ..honest };
            let [pass, unknown, warn] = small.come_to();
            assert!(warn <= 2 && unknown <= 4, "{name}, {busy}: {pass} {unknown} {warn}");
        }
    }
}

/// The cache is filled by the run, or before it.
/// H25 detects: a cache of the whole working set, or of three quarters.
#[test]
fn planted_caches_are_found() {
    for (name, honest, cache) in media() {
        for (held, busy) in [([0.0, 1.0], 0.0), ([0.0, 0.75], 0.0), ([0.6, 0.75], 0.0)]
            .into_iter()
            .chain([([0.0, 1.0], 0.2), ([0.0, 0.9], 0.2)])
        {
            let planted = Situation { cache: Some(cache), held, busy, ..honest };
            let [pass, unknown, warn] = planted.come_to();
            assert!(pass <= 2, "{name}, {held:?}, {busy}: {pass} {unknown} {warn}");
            assert!(warn >= SEEDS * 9 / 10, "{name}, {held:?}, {busy}: {pass} {unknown} {warn}");
        }
    }
}

#[test]
fn the_size_of_a_planted_cache_is_told() {
    for (name, honest, cache) in media() {
        for held in [0.25, 0.5, 0.75] {
            let planted = Situation { cache: Some(cache), held: [0.0, held], ..honest };
            let far_off = |seed: &u64| {
                let probed = planted.probed(*seed);
                let split = Split::of(&probed.first_ns, &probed.again_ns).expect("it is seen");
                let [_, after] = parts_held(&probed, &split).expect("it is even");
                (after.part - held).abs() > 0.2
            };
            let off = (0..SEEDS).filter(far_off).count();
            assert!(off <= 4, "{name}, {held}: {off} of {SEEDS}");
        }
    }
}

/// Covers a cache of an HDD, of flash, and of a target that is slower than this host.
/// H25 detects: a cache that holds the working set before the run.
/// H25 accepts: a fast disk of this host.
#[test]
fn what_answers_as_fast_as_memory_never_passes() {
    let all = |medium, below, busy| {
        let held = [1.0; 2];
        Situation { medium: DISK, below, cache: Some(medium), held, busy }.come_to()
    };
    for busy in [0.0, 0.2] {
        assert_eq!(all(SATA, Below::Turns, busy), [0, 0, SEEDS]);
        assert_eq!(all(DRAM, Below::Solid, busy), [0, SEEDS, 0]);
        assert_eq!(all(XPOINT, Below::Hidden, busy), [0, SEEDS, 0]);
        for program_ns in [PROGRAM_NS, PROGRAM_NS * 3 / 2] {
            let [pass, unknown, warn] = all(DRAM.far(program_ns), REMOTE, busy);
            assert_eq!((pass, warn), (0, 0), "{unknown}");
        }
    }
    // A fast disk of this host is known to be one.
    assert_eq!(Situation::honest(XPOINT, Below::Solid).come_to(), [SEEDS, 0, 0]);
}

/// H25 detects: the job's reads are faster than the medium, single reads are not.
/// H25 accepts: a medium at its limit.
#[test]
fn a_job_is_no_faster_than_its_medium() {
    for (below, alone, limit, verdict) in [
        (Below::Turns, 1_500_000, 1_000_000, Verdict::Warn),
        (Below::Solid, 6_000, 5_000, Verdict::Unknown),
        (Below::Hidden, 22_000, 20_000, Verdict::Unknown),
    ] {
        let of = |p50_ns| {
            let all = || vec![alone; PLACES];
            let probed = Probed {
                first_ns: all(),
                again_ns: all(),
                unused_ns: None,
                after_ns: all(),
                after_again_ns: all(),
            };
            let job = JobReads::Like { p50_ns: Some(p50_ns) };
            let (name, probed) = ("v".to_owned(), Ok(probed));
            Cached { name, used_bytes: GIB, below, job, probed }.judge().0
        };
        assert_eq!(of(limit), Verdict::Pass, "{below:?}");
        assert_eq!(of(limit - 1), verdict, "{below:?}");
    }
}

/// H25 detects: unused offsets are slower; the job's reads are faster than reads at any offset.
/// H25 accepts: reads at used and unused offsets take the same time.
#[test]
fn what_only_the_job_uses_may_be_in_a_cache() {
    let even = |ns: u64| (0..PLACES as u64).map(|at| ns + at * 100).collect::<Vec<_>>();
    let of = |unused: u64, after: u64, p50_ns: u64| {
        let unused_ns = Some(even(unused));
        let (first_ns, again_ns) = (even(200_000), even(200_000));
        let (after_ns, after_again_ns) = (even(after), even(after));
        let probed = Probed { first_ns, again_ns, unused_ns, after_ns, after_again_ns };
        let job = JobReads::Like { p50_ns: Some(p50_ns) };
        Cached { name: "v".into(), used_bytes: GIB, below: REMOTE, job, probed: Ok(probed) }.judge()
    };
    assert_eq!(of(200_000, 200_000, 220_000).0, Verdict::Pass);
    assert_eq!(of(390_000, 200_000, 220_000).0, Verdict::Pass);
    let (verdict, words) = of(900_000, 200_000, 220_000);
    assert_eq!(verdict, Verdict::Warn, "{words}");
    assert!(words.contains("others 903 µs: a cache holds the former"), "{words}");
    let (verdict, words) = of(200_000, 40_000, 220_000);
    assert_eq!(verdict, Verdict::Warn, "{words}");
    // A busier host before the run may explain this much of the difference.
    let (verdict, words) = of(200_000, 80_000, 220_000);
    assert_eq!(verdict, Verdict::Unknown, "{words}");
    assert!(words.contains("or the host was busier before"), "{words}");
    let (verdict, words) = of(200_000, 200_000, 45_000);
    assert_eq!(verdict, Verdict::Warn, "{words}");
    assert!(words.contains("at most 45 µs, a read of a random offset takes 203 µs"), "{words}");
}

/// H25 detects: a job of several sizes whose long reads hit a cache, too.
/// H25 accepts: the same mix of sizes from the medium.
#[test]
fn a_mix_of_sizes_is_held_against_its_long_reads() {
    let even = |ns: u64| (0..PLACES as u64).map(|at| ns + at * 100).collect::<Vec<_>>();
    let of = |p90_ns| {
        let all = || even(200_000);
        let (first_ns, again_ns, after_ns, after_again_ns) = (all(), all(), all(), all());
        let probed = Probed { first_ns, again_ns, unused_ns: None, after_ns, after_again_ns };
        let job = JobReads::Mixed { p90_ns };
        Cached { name: "v".into(), used_bytes: GIB, below: REMOTE, job, probed: Ok(probed) }.judge()
    };
    assert_eq!(of(Some(220_000)).0, Verdict::Pass);
    let (verdict, words) = of(Some(45_000));
    assert_eq!(verdict, Verdict::Warn, "{words}");
    assert!(words.contains("nine of ten of the job's reads took at most 45 µs"), "{words}");
    assert_eq!(of(None).0, Verdict::Unknown);
    // Four of five reads are short and take a tenth; a fifth takes what the samples take.
    for (name, honest, _) in media() {
        let mixed = |seed: u64| {
            let mut rng = Rng::new(seed, 27);
            let mut all: Vec<u64> = (0..500)
                .map(|at| honest.read(0.0, &mut rng) / if at % 5 == 0 { 1 } else { 10 })
                .collect();
            all.sort_unstable();
            let job = JobReads::Mixed { p90_ns: Some(all[449]) };
            Cached { job, ..honest.cached(seed) }.judge().0
        };
        let accused = (0..SEEDS).filter(|seed| mixed(*seed) == Verdict::Warn).count();
        assert!(accused * 20 <= SEEDS as usize, "{name}: {accused} of {SEEDS}");
    }
}
