//! Coverage of the intervals of a calibration, over random drives.
//!
//! Five drives are fast. Two hundred, with their results, take minutes:
//! `DRUMFIRE_DRIVES=200 cargo test --release -p drumfire-plan --test intervals -- --nocapture`.

use block::Rng;
use model::device::Profile;
use model::{Method, solve};
use plan::calibrate::{Point, calibrate};
use stats::{Origin, RunResult};

/// Default number of drives.
const DRIVES: u64 = 5;
/// Standard deviation of the rate between runs.
const NOISE: f64 = 0.02;

/// A drive with its true values: parameters by the names of a calibration.
struct Made {
    profile: Profile,
    truths: Vec<(&'static str, f64)>,
}

/// Creates a drive of one of five structures, with random times in the range of flash.
fn made(structure: u64, rng: &mut Rng) -> Made {
    let mut between = |low: f64, high: f64| low * (high / low).powf(rng.uniform());
    let (medium, lone) = (between(40e-6, 120e-6), between(15e-6, 60e-6));
    let (command, write) = (between(1e-6, 4e-6), between(4e-6, 12e-6));
    let byte = between(0.15e-9, 0.6e-9);
    let width = between(24.0, 96.0).round();
    let stage = |name: &str, servers: String, read: String, write: String| {
        format!(
            "[[stage]]\nname = '{name}'\nservers = {servers}\nread = {{ {read} }}\n\
             write = {{ {write} }}\n"
        )
    };
    let each = |seconds: f64| format!("each_s = {seconds:e}");
    let bytes = |seconds: f64| format!("per_byte_s = {seconds:e}");
    let wide = || stage("medium", "'infinite'".to_owned(), each(medium), each(lone));
    let narrow = || stage("medium", format!("{width}"), each(medium), each(lone));
    let controller = || stage("controller", "1".to_owned(), each(command), each(write));
    let link = || stage("link", "1".to_owned(), bytes(byte), bytes(byte));
    let text = match structure {
        0 => wide() + &controller(),
        1 => wide() + &controller() + &link(),
        2 => narrow() + &controller(),
        3 => narrow() + &controller() + &link(),
        _ => {
            let both = |seconds: f64| format!("{}, {}", each(seconds), bytes(byte));
            wide() + &stage("controller", "1".to_owned(), both(command), both(write))
        }
    };
    let mut truths = vec![
        ("medium.read.each_s", medium),
        ("medium.write.each_s", lone),
        ("controller.read.each_s", command),
        ("controller.write.each_s", write),
    ];
    if matches!(structure, 1 | 3) {
        truths.extend([("link.read.per_byte_s", byte), ("link.write.per_byte_s", byte)]);
    }
    let profile = Profile::parse(&format!("name = 'made'\n{text}"));
    Made { profile: profile.unwrap_or_else(|error| panic!("{error}: {text}")), truths }
}

/// Returns a sweep of the drive, each run with a random error.
fn swept(profile: &Profile, rng: &mut Rng) -> Vec<Point> {
    let mut points = Vec::new();
    for size_bytes in [4096, 65_536] {
        for read_percent in [100.0, 0.0] {
            for outstanding in [1, 2, 4, 8, 16, 32, 64, 128] {
                let network = profile.closed(1, outstanding, read_percent / 100.0, size_bytes);
                let iops = solve(&network, Method::Auto).unwrap().throughput_per_s();
                // Twelve uniform numbers less six: normal enough.
                let normal = (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
                let mut result = RunResult { origin: Origin::Simulated, ..RunResult::default() };
                result.job.size_bytes = Some(size_bytes);
                result.job.outstanding = Some(u64::from(outstanding));
                (result.job.volumes, result.job.read_percent) = (1, read_percent);
                result.totals.iops = iops * (1.0 + NOISE * normal);
                points.push(Point::of("made", &result).unwrap());
            }
        }
    }
    points
}

/// A 95 % confidence interval: its parameter, its drive, and whether it covers the true value.
struct Held {
    seed: u64,
    name: &'static str,
    holds: bool,
    told: String,
}

/// Returns the intervals of one drive. A parameter that the runs do not determine has none, and
/// reports that.
fn held(seed: u64) -> Vec<Held> {
    let mut rng = Rng::new(seed, 26);
    let Made { profile, truths } = made(seed % 5, &mut rng);
    let points = swept(&profile, &mut rng);
    let found = calibrate("found", "made", &points, None)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let of = |name: &str| found.parameters.iter().find(|one| one.name == name)?.interval;
    let one = |(name, truth): (&'static str, f64)| {
        let (low, high) = of(name)?;
        let holds = low <= truth && truth <= high;
        let told = format!("structure {}: {name} {truth:e} in {low:e} to {high:e}?", seed % 5);
        Some(Held { seed, name, holds, told })
    };
    truths.into_iter().filter_map(one).collect()
}

/// Returns the intervals of all drives, on as many threads as there are cores.
fn all(drives: u64) -> Vec<Held> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let mine = move |first: u64| {
        (first..drives).step_by(threads as usize).flat_map(held).collect::<Vec<_>>()
    };
    let started: Vec<_> =
        (0..threads).map(|first| std::thread::spawn(move || mine(first))).collect();
    started.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
}

#[test]
fn intervals_of_ninety_five_percent_hold_the_truth_so_often() {
    let asked = std::env::var("DRUMFIRE_DRIVES").ok().and_then(|text| text.parse().ok());
    let drives = asked.unwrap_or(DRIVES);
    let all = all(drives);
    let mut by_name: Vec<(&str, u32, u32)> = Vec::new();
    for one in &all {
        let at = by_name.iter().position(|(name, ..)| *name == one.name).unwrap_or_else(|| {
            by_name.push((one.name, 0, 0));
            by_name.len() - 1
        });
        by_name[at].1 += u32::from(one.holds);
        by_name[at].2 += 1;
        if asked.is_some() && !one.holds {
            println!("seed {}, {} no", one.seed, one.told);
        }
    }
    let (holding, of) = (all.iter().filter(|one| one.holds).count(), all.len());
    let share = holding as f64 / of as f64;
    println!("{holding} of {of} intervals hold the truth, {share:.3}; by parameter {by_name:?}");
    // With few drives chance alone changes the share by some percent.
    let by_chance = 1.0 / (of as f64).sqrt();
    let (least, most) = if asked.is_some() { (0.90, 0.99) } else { (0.90 - by_chance, 1.0) };
    assert!(of as u64 > drives * 3, "{of} intervals of {drives} drives");
    assert!((least..=most).contains(&share), "{holding} of {of} hold the truth: {by_name:?}");
}
