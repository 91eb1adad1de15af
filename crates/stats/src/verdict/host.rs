//! Checks of time: the clock, the length of the measurement, and the number of repeats.

use super::{Check, Verdict};

/// Maximum cost of a clock reading, in percent of the CPU time of an I/O.
const CLOCK_PERCENT: f64 = 2.0;

/// Maximum share of the window in which nothing ran; from the second share on the rate is a
/// different number.
const STOPPED: [f64; 2] = [0.02, 0.1];
/// Minimum time in which nothing ran for a warning and for a failure, in seconds: collecting the
/// numbers of many workers takes time, too, and short windows end late on a busy host.
const STOPPED_LEAST_S: [f64; 2] = [0.1, 1.0];
/// Numbers are collected every second, and the last time after up to this.
const LONGEST_SECOND_S: f64 = 1.5;

/// Length of the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Configured length, in seconds.
    pub asked_s: f64,
    /// Time from the first I/O that counts to the last, in seconds.
    pub measured_s: f64,
    /// Part of the measured time that no second accounts for.
    pub stopped_s: f64,
    /// Time between two readings of the kernel's uptime, and the same by our clock, if both are
    /// known.
    pub clocks_s: Option<[f64; 2]>,
}

/// Maximum difference of the two clocks: this share of the time between two readings, or this many
/// seconds, as uptime has a resolution of 10 ms and the clocks are read one after the other.
const CLOCKS_SHARE: f64 = 0.01;
const CLOCKS_S: f64 = 0.05;

impl Window {
    /// Judges the length. A process or a host that was stopped measures the stop, too: it shows in
    /// a long second, and in a late end of the window.
    fn judge(self) -> (Verdict, String) {
        let Window { asked_s, measured_s, stopped_s, clocks_s } = self;
        let lost = stopped_s.max(measured_s - asked_s);
        let beyond = |which: usize| lost > STOPPED_LEAST_S[which].max(asked_s * STOPPED[which]);
        let verdict = match (beyond(0), beyond(1)) {
            (_, true) => Verdict::Fail,
            (true, false) => Verdict::Warn,
            (false, false) => Verdict::Pass,
        };
        let why = if verdict == Verdict::Pass {
            String::new()
        } else {
            format!(
                ": not scheduled for {lost:.2} s or more (at most 2 %); the rate includes that time"
            )
        };
        let (agree, told) = agreement(clocks_s);
        let words = format!("{measured_s:.2} s measured, {asked_s:.2} requested{why}{told}");
        (verdict.worse(agree), words)
    }
}

/// Returns whether the kernel's uptime and our clock agree.
fn agreement(clocks_s: Option<[f64; 2]>) -> (Verdict, String) {
    let Some([uptime, ours]) = clocks_s else {
        return (Verdict::Unknown, "; no second clock for comparison".to_owned());
    };
    match (uptime - ours).abs() > CLOCKS_S.max(CLOCKS_SHARE * uptime.max(ours)) {
        true => {
            let words = "the clock is wrong, so times and rates are, too";
            (
                Verdict::Fail,
                format!(
                    "; {uptime:.2} s by uptime and {ours:.2} s by the clock of \
                this program: {words}"
                ),
            )
        }
        false => (Verdict::Pass, String::new()),
    }
}

/// Returns the part of a second of `seconds` that is no second of work.
pub(crate) fn stopped_s(seconds: f64) -> f64 {
    if seconds > LONGEST_SECOND_S { seconds - 1.0 } else { 0.0 }
}

/// H15: time was measured correctly and cheaply. `source` is the kernel's clock source, `counter`
/// is true if we read the CPU's counter ourselves, `stamp_ns` is the cost of a reading, `io_us` the
/// CPU time of an I/O, and `window` the length of the measurement, where these are known.
pub fn clock(
    source: Option<&str>,
    counter: bool,
    stamp_ns: f64,
    io_us: Option<f64>,
    window: Option<Window>,
) -> Check {
    let check = |verdict: Verdict, evidence: String| {
        let (lasted, words) = window.map_or((Verdict::Pass, String::new()), |window| {
            let (verdict, words) = window.judge();
            (verdict, format!("; {words}"))
        });
        let made = Check::new("H15", "clock", verdict.worse(lasted), evidence + &words);
        match lasted {
            Verdict::Warn | Verdict::Fail => made.mend(
                "top -H -d 1 (another program on its CPU?), journalctl -k (a suspended host?), \
                then run it again: storage does not stop a process",
            ),
            _ => made,
        }
    };
    let Some(source) = source else {
        return check(Verdict::Unknown, "the kernel's clock source is unknown".to_owned());
    };
    let share = io_us.filter(|us| *us > 0.0).map(|us| stamp_ns / (us * 1e3) * 100.0);
    let cost = match share {
        Some(percent) => match counter {
            // A batch of I/Os shares a reading.
            true => format!("once for each batch of I/Os: {percent:.1} % of one if it is alone"),
            false => format!("at most {percent:.1} % of the CPU time of an I/O"),
        },
        None => "its share of an I/O is unknown".to_owned(),
    };
    let how = if counter { "read without a system call" } else { "read by a system call" };
    let evidence = format!("clock source {source}, {how}, {stamp_ns:.0} ns per reading, {cost}");
    // A batch of I/Os shares a reading: the share of one I/O is an upper bound and fails nothing
    // while the counter is used.
    let dear = share.is_some_and(|percent| percent > CLOCK_PERCENT);
    match counter {
        true => check(Verdict::Pass, evidence),
        false if !dear && share.is_some() => check(Verdict::Pass, evidence),
        false => check(Verdict::Warn, evidence)
            .mend("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }
}

/// Number of runs that a published number needs.
const REPEATS: usize = 5;
/// Maximum spread of the runs, as a share of their median.
const SPREAD: f64 = 0.05;

/// Minimum length of a run that counts, in seconds: consecutive short runs are alike.
const REPEAT_SECONDS: f64 = 5.0;
/// H20: the number was measured more than once. `runs` are those of the same job: IOPS of each, and
/// its length as a repeat in seconds.
pub fn repeats(runs: &[(f64, f64)]) -> Check {
    let check = |verdict, evidence| Check::new("H20", "repeats", verdict, evidence);
    let command = "drumfire sweep … --repeats 5 --seconds 5 (or longer)";
    let whole = runs.iter().filter(|(_, seconds)| *seconds >= REPEAT_SECONDS);
    let mut sorted: Vec<f64> = whole.map(|run| run.0).filter(|rate| rate.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let short = match runs.len().saturating_sub(count) {
        0 => String::new(),
        short => format!(", {short} shorter than {REPEAT_SECONDS:.0} s not counted"),
    };
    if runs.is_empty() {
        return check(Verdict::Unknown, "no run".to_owned());
    }
    if count < REPEATS {
        let of = match runs.len() {
            1 => "one run".to_owned(),
            all => format!("{all} runs{short}"),
        };
        let words = format!("{of}: sweep --repeats {REPEATS} shows the spread");
        return check(Verdict::Unknown, words).mend(command);
    }
    let [least, most] = [sorted[0], sorted[count - 1]];
    let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
    let spread = if median > 0.0 { (most - least) / median } else { f64::INFINITY };
    let evidence = format!(
        "{count} runs, median {median:.0} IOPS, range {:.1} % (at most 5){short}",
        spread * 100.0
    );
    match spread > SPREAD {
        true => check(Verdict::Warn, evidence)
            .mend("--seconds 60 --ramp 30 (longer runs vary less if the cause is chance)"),
        false => check(Verdict::Pass, evidence),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// H15 detects: reading the clock takes 5 % of an I/O's time.
    /// H15 accepts: reading the clock takes 0.1 % of an I/O's time.
    #[test]
    fn a_slow_clock_is_said() {
        assert_eq!(clock(Some("tsc"), true, 8.0, Some(0.1), None).verdict, Verdict::Pass);
        let slow = clock(Some("hpet"), false, 500.0, Some(5.0), None);
        assert_eq!((slow.verdict, slow.mend.len()), (Verdict::Warn, 1));
        assert_eq!(clock(Some("kvm-clock"), false, 40.0, Some(5.0), None).verdict, Verdict::Pass);
        assert_eq!(clock(Some("kvm-clock"), false, 40.0, None, None).verdict, Verdict::Warn);
        assert_eq!(clock(None, true, 8.0, None, None).verdict, Verdict::Unknown);
    }

    /// H15 detects: many short stops within a window that ends in time.
    /// H15 accepts: a window of 10.2 s instead of 10 s.
    #[test]
    fn a_window_that_lasted_longer_is_said() {
        let judge = |asked_s, measured_s, ends: &[f64]| {
            let begins = std::iter::once(0.0).chain(ends.iter().copied());
            let lengths = begins.zip(ends.iter()).map(|(begin, end)| end - begin);
            let stopped_s = lengths.map(stopped_s).sum();
            let clocks_s = Some([measured_s; 2]);
            let window = Some(Window { asked_s, measured_s, stopped_s, clocks_s });
            let [known, unknown] =
                [Some("tsc"), None].map(|source| clock(source, true, 8.0, None, window));
            assert_eq!(unknown.verdict, known.verdict.worse(Verdict::Unknown));
            known.verdict
        };
        assert_eq!(judge(10.0, 10.2, &[]), Verdict::Pass);
        assert_eq!(judge(10.0, 10.21, &[]), Verdict::Warn);
        assert_eq!([11.0, 11.1].map(|s| judge(10.0, s, &[])), [Verdict::Warn, Verdict::Fail]);
        // Other checks judge an early end, and a tenth of a second is not reported.
        assert_eq!(judge(10.0, 3.0, &[]), Verdict::Pass);
        assert_eq!(
            [0.59, 0.61, 1.51].map(|s| judge(0.5, s, &[])),
            [Verdict::Pass, Verdict::Warn, Verdict::Fail]
        );
        // The run was stopped inside: it ends on time.
        assert_eq!(judge(4.5, 4.5, &[1.0, 2.0, 3.0, 4.5]), Verdict::Pass);
        assert_eq!(judge(60.0, 60.0, &[1.0, 2.6, 3.0, 60.0]), Verdict::Fail);
        assert_eq!(judge(60.0, 60.0, &[1.0, 3.3, 4.0]), Verdict::Warn);
    }

    /// H15 detects: a clock that runs at a quarter of the kernel's speed.
    /// H15 accepts: a clock that was read 40 ms later.
    #[test]
    fn two_clocks_must_agree() {
        let judge = |clocks_s| {
            let window = Window { asked_s: 2.0, measured_s: 2.0, stopped_s: 0.0, clocks_s };
            clock(Some("tsc"), true, 8.0, None, Some(window))
        };
        let lie = judge(Some([8.0, 2.0]));
        assert_eq!(lie.verdict, Verdict::Fail);
        assert!(lie.evidence.contains("8.00 s by uptime and 2.00 s by the clock"), "{lie:?}");
        assert_eq!(judge(Some([2.04, 2.0])).verdict, Verdict::Pass);
        assert_eq!(judge(None).verdict, Verdict::Unknown);
    }

    /// H20 detects: five runs that differ by 6 %.
    /// H20 accepts: five runs that differ by 5 %.
    #[test]
    fn one_run_is_no_repeat() {
        let verdict = |rates: &[f64]| judge(rates, 5.0).verdict;
        assert_eq!(verdict(&[]), Verdict::Unknown);
        assert_eq!(verdict(&[1.0; 4]), Verdict::Unknown);
        assert_eq!(verdict(&[100.0, 98.0, 101.0, 99.0, 103.0]), Verdict::Pass);
        assert_eq!(verdict(&[100.0, 98.0, 101.0, 99.0, 104.0]), Verdict::Warn);
        assert_eq!(verdict(&[0.0; 5]), Verdict::Warn);
        let even = judge(&[100.0, 100.0, 100.0, 104.0, 104.0, 104.0], 30.0);
        assert!(even.evidence.contains("median 102 IOPS, range 3.9 %"), "{even:?}");
    }

    /// H20 detects: five runs of 0.2 s.
    #[test]
    fn moments_are_no_repeats() {
        let check = judge(&[100.0; 5], 0.2);
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Unknown, 1), "{check:?}");
        assert!(check.evidence.contains("5 shorter than 5 s not counted"), "{check:?}");
        // Only the long runs are judged.
        let mut runs = [(100.0, 5.0); 6];
        runs[5] = (900.0, 0.2);
        assert_eq!(repeats(&runs).verdict, Verdict::Pass);
    }

    fn judge(rates: &[f64], seconds: f64) -> Check {
        repeats(&rates.iter().map(|rate| (*rate, seconds)).collect::<Vec<_>>())
    }
}
