//! The keeper's watch on slow legs. A write takes as long as its slowest leg: the watch names the
//! leg that slows an array down.

use block::Nanos;

use super::shared::Shared;

/// Time between looks.
const LOOK: Nanos = Nanos::from_secs(10);
/// Minimum changes of a leg between looks for a conclusion.
const CHANGES_LEAST: u64 = 32;
/// Factor over the fastest leg, and minimum difference, from which a leg is slow.
const TIMES: u64 = 5;
const LONGER: Nanos = Nanos::from_millis(5);
/// Time until a leg that is still slow is reported again.
const AGAIN: Nanos = Nanos::from_secs(600);

#[derive(Default)]
pub(super) struct Slow {
    look_at: Nanos,
    /// Time at which each leg was named last.
    told: Vec<Option<Nanos>>,
}

impl Slow {
    pub(super) fn step(&mut self, now: Nanos, shared: &Shared) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK;
        let mean = |(changes, spent): (u64, Nanos)| {
            (changes >= CHANGES_LEAST).then(|| Nanos(spent.0 / changes))
        };
        let means: Vec<Option<Nanos>> = shared.take_times().into_iter().map(mean).collect();
        self.told.resize(means.len(), None);
        let fastest =
            means.iter().enumerate().filter_map(|(leg, mean)| Some(((*mean)?, leg))).min();
        let Some((best, fastest)) = fastest else { return };
        for (leg, mean) in means.into_iter().enumerate() {
            let Some(mean) = mean else { continue };
            if mean.0 < best.0.saturating_mul(TIMES) || mean < best + LONGER {
                self.told[leg] = None;
            } else if self.told[leg].is_none_or(|told| now.since(told) >= AGAIN) {
                self.told[leg] = Some(now);
                let ms = |time: Nanos| time.as_secs_f64() * 1e3;
                shared.say(format!(
                    "{} is slow: its writes take {:.1} ms, and {:.1} ms on leg {}",
                    shared.leg_name(leg),
                    ms(mean),
                    ms(best),
                    fastest + 1
                ));
            }
        }
    }
}
