//! Relation of two clocks, by round trips: within half of the shortest, another's clock read what
//! it answered in the middle.

use block::{Nanos, Plant, planted};

/// Drift that a clock may have. Crystals are within 200 ppm; a clock that is corrected by the
/// kernel, within 500 ppm.
const DRIFT_MAX_PPM: f64 = 1000.0;
/// Maximum change of a clock's rate during a run, in ppm: a warm crystal is another one.
const WANDER_PPM: f64 = 5.0;

/// One round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trip {
    /// Own clock when the question was sent.
    pub sent: Nanos,
    /// The other clock when it was answered.
    pub theirs: Nanos,
    /// Own clock when the answer came.
    pub back: Nanos,
}

/// Reading of another clock at an instant of the own one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The instant, by the own clock.
    pub at: Nanos,
    /// The other clock then.
    pub theirs: Nanos,
    /// Maximum error of the offset.
    pub bound: Nanos,
}

/// An instant with its bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounded {
    /// The instant.
    pub at: Nanos,
    /// Maximum error of the offset.
    pub bound: Nanos,
}

/// Relation of another clock to the own one during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Measured before the run.
    pub before: Offset,
    /// Measured after the run; `None` if the other was gone by then.
    pub after: Option<Offset>,
}

impl Trip {
    /// Time on the way, there and back.
    pub fn took(&self) -> Nanos {
        self.back.since(self.sent)
    }

    /// Returns the offset that the trip shows.
    pub fn offset(&self) -> Offset {
        let parts = if planted(Plant::NarrowBound) { 8 } else { 2 };
        let half = Nanos(self.took().0.div_ceil(parts));
        Offset { at: self.sent + Nanos(self.took().0 / 2), theirs: self.theirs, bound: half }
    }
}

impl Offset {
    /// The other clock minus the own one, in nanoseconds.
    fn ahead_ns(&self) -> f64 {
        self.theirs.0 as f64 - self.at.0 as f64
    }
}

impl Relation {
    /// A relation measured once.
    pub fn new(before: Offset) -> Relation {
        Relation { before, after: None }
    }

    /// Returns what the other clock reads at an instant of the own one.
    pub fn theirs(&self, own: Nanos) -> Nanos {
        let Offset { at, theirs, .. } = self.before;
        let since_ns = own.0 as i128 - i128::from(at.0);
        let drifted_ns = since_ns as f64 * self.drift().0;
        nanos(i128::from(theirs.0) + since_ns + drifted_ns as i128)
    }

    /// Returns the own instant at which the other clock read `theirs`, with its bound.
    pub fn own(&self, theirs: Nanos) -> Bounded {
        let (drift, _) = self.drift();
        let since_ns = i128::from(theirs.0) - i128::from(self.before.theirs.0);
        let own_ns = since_ns as f64 / (1.0 + drift) - since_ns as f64;
        let at = nanos(i128::from(self.before.at.0) + since_ns + own_ns as i128);
        Bounded { at, bound: self.bound(at) }
    }

    /// Returns the drift of the other clock in ppm; `None` if measured once.
    pub fn drift_ppm(&self) -> Option<f64> {
        self.after.map(|_| self.drift().0 * 1e6)
    }

    /// Returns whether the other clock was set during the run: it drifted further than a clock can.
    pub fn was_set(&self) -> bool {
        self.jump_ns() > 0.0
    }

    /// Rate of the other clock less that of the own one, and the seconds between the two looks.
    fn drift(&self) -> (f64, f64) {
        let Some(after) = self.after else { return (0.0, 0.0) };
        let between_ns = after.at.since(self.before.at).0 as f64;
        if between_ns <= 0.0 {
            return (0.0, 0.0);
        }
        let drift = (after.ahead_ns() - self.before.ahead_ns()) / between_ns;
        // A rate below −1 would be a clock that runs backwards: it was set.
        if drift.abs() > 0.5 { (0.0, between_ns / 1e9) } else { (drift, between_ns / 1e9) }
    }

    /// Most by which the clock was set in between, in nanoseconds: it may have drifted back
    /// meanwhile. 0 if drift explains the difference.
    fn jump_ns(&self) -> f64 {
        let Some(after) = self.after else { return 0.0 };
        let between_ns = after.at.since(self.before.at).0 as f64;
        let moved_ns = (after.ahead_ns() - self.before.ahead_ns()).abs();
        let slack_ns = (after.bound.0 + self.before.bound.0) as f64;
        let explained_ns = between_ns * DRIFT_MAX_PPM / 1e6 + slack_ns;
        if moved_ns > explained_ns { moved_ns + explained_ns } else { 0.0 }
    }

    /// Bound of a conversion at an own instant: that of the looks, and what the clock may have
    /// wandered since the nearest of them. A clock that was set may have been set at any time.
    fn bound(&self, own: Nanos) -> Nanos {
        let far_ns = |at: Nanos| own.0.abs_diff(at.0) as f64;
        let before_ns = far_ns(self.before.at);
        let (wide, ppm, nearest_ns) = match self.after {
            None => (self.before.bound, DRIFT_MAX_PPM, before_ns),
            Some(after) => {
                let ppm = self.drift().0.abs() * 1e6 + WANDER_PPM;
                let wide = self.before.bound.max(after.bound);
                (wide, ppm, before_ns.min(far_ns(after.at)))
            }
        };
        wide + Nanos((nearest_ns * ppm / 1e6 + self.jump_ns()) as u64)
    }
}

fn nanos(ns: i128) -> Nanos {
    Nanos(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod test {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A look at a clock that is `ahead_ns` ahead, with a trip of 100 µs.
    fn look(at_ns: u64, ahead_ns: i64) -> Offset {
        let middle = Nanos(at_ns.wrapping_add_signed(ahead_ns));
        let half = Nanos(50_000);
        let (sent, back) = (Nanos(at_ns - half.0), Nanos(at_ns + half.0));
        Trip { sent, theirs: middle, back }.offset()
    }

    #[test]
    fn offset_and_drift_are_undone() {
        // 1 s ahead, 200 ppm fast: 2 ms more after ten seconds.
        let relation = Relation {
            before: look(10 * S, S as i64),
            after: Some(look(20 * S, S as i64 + 2_000_000)),
        };
        assert!((relation.drift_ppm().unwrap() - 200.0).abs() < 1e-6);
        let theirs = relation.theirs(Nanos(15 * S));
        assert_eq!(theirs.0, 15 * S + S + 1_000_000);
        let back = relation.own(theirs);
        assert!(back.at.0.abs_diff(15 * S) <= 2, "{back:?}");
        assert!(back.bound >= Nanos(50_000) && back.bound < Nanos(2_000_000), "{back:?}");
        // Near a look the bound is that of the look.
        assert!(relation.own(look(10 * S, S as i64).theirs).bound < Nanos(51_000));
        assert!(!relation.was_set());
    }

    #[test]
    fn a_clock_that_was_set_is_told_and_bounded() {
        for jump_ns in [S as i64, -(S as i64), 30_000_000] {
            let before = look(10 * S, 0);
            let relation = Relation { before, after: Some(look(20 * S, jump_ns)) };
            assert!(relation.was_set(), "{jump_ns}");
            // Wherever it was set, the truth is within the bound.
            let bounded = relation.own(Nanos(15 * S));
            let error_ns = bounded.at.0.abs_diff(15 * S);
            assert!(error_ns <= bounded.bound.0, "{bounded:?}");
            let late = Nanos((15 * S).wrapping_add_signed(jump_ns));
            let bounded = relation.own(late);
            assert!(bounded.at.0.abs_diff(15 * S) <= bounded.bound.0, "{bounded:?}");
        }
    }

    /// A clock that is set forward and drifts back is set by more than both looks show.
    #[test]
    fn a_clock_that_was_set_may_have_drifted_back() {
        let (set_ns, drifts_ns) = (470_000_000, -120_000);
        let before = look(10 * S, 0);
        let after = look(10 * S + S * 6 / 10, set_ns + drifts_ns);
        let relation = Relation { before, after: Some(after) };
        // Set at once after the first look.
        let truth_ns = 10 * S + S / 1000;
        let bounded = relation.own(Nanos(truth_ns.wrapping_add_signed(set_ns)));
        assert!(bounded.at.0.abs_diff(truth_ns) <= bounded.bound.0, "{bounded:?}");
    }

    #[test]
    fn one_look_is_trusted_less_the_older_it_is() {
        let relation = Relation::new(look(10 * S, 5));
        assert_eq!(relation.drift_ppm(), None);
        let (soon, late) = (relation.own(Nanos(10 * S)), relation.own(Nanos(20 * S)));
        assert!(soon.bound < Nanos(60_000) && late.bound > Nanos(10_000_000));
        // Instants before zero of a clock are its zero.
        assert_eq!(relation.theirs(Nanos(0)), Nanos(5));
    }
}
