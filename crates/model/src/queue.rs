//! Formulas of a single station.

use crate::Servers;

/// Returns the probability that all servers are busy at utilisation `used` (Erlang's C formula).
pub(crate) fn erlang_c(servers: u32, used: f64) -> f64 {
    let offered = used * f64::from(servers);
    let mut lost = 1.0;
    for n in 1..=servers {
        lost = offered * lost / (f64::from(n) + offered * lost);
    }
    lost / (1.0 - used * (1.0 - lost))
}

/// Returns the mean number of requests present at an open station with `offered` work, in servers,
/// less than the station's maximum speed.
///
/// The relative probabilities are summed up to the last speed; beyond it they are a geometric
/// series.
pub(crate) fn birth_death(servers: &Servers, offered: f64) -> f64 {
    let last = match servers {
        Servers::Count(count) => *count,
        Servers::Rates(rates) => rates.len() as u32,
        Servers::Infinite => return offered,
    };
    let (mut chance, mut sum, mut present) = (1.0, 1.0, 0.0);
    for n in 1..last {
        chance *= offered / servers.speed(n);
        sum += chance;
        present += f64::from(n) * chance;
        if sum > 1e200 {
            let scale = 1.0 / sum;
            (chance, sum, present) = (chance * scale, 1.0, present * scale);
        }
    }
    // From `last` on: a geometric series of ratio r.
    let r = offered / servers.speed(last);
    let first = chance * r;
    let tail = first / (1.0 - r);
    present += tail * (f64::from(last) + r / (1.0 - r));
    present / (sum + tail)
}
