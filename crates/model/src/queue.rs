//! Single stations with known formulas.

use crate::{ModelError, Servers};

/// Means of one open station.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Share of time that a server is busy.
    pub utilisation: f64,
    /// Mean number of requests waiting or in service.
    pub present: f64,
    /// Mean time waiting and in service, in seconds.
    pub response_s: f64,
    /// Probability that an arrival has to wait.
    pub waits: f64,
}

/// M/M/c: Poisson arrivals, exponential service, `servers` servers (Erlang's C formula).
///
/// # Errors
///
/// [`ModelError::Overload`] at or beyond saturation, [`ModelError::Invalid`] for absurd values.
pub fn mmc(rate_per_s: f64, service_s: f64, servers: u32) -> Result<Means, ModelError> {
    let utilisation = utilisation("M/M/c", rate_per_s, service_s, servers)?;
    let offered = rate_per_s * service_s;
    let Stationary { present, waits } = birth_death(&Servers::Count(servers), offered);
    Ok(Means { utilisation, present, response_s: present / rate_per_s, waits })
}

/// M/G/1: Poisson arrivals, one server, service of squared coefficient of variation `scv`
/// (Pollaczek–Khinchine).
///
/// # Errors
///
/// As [`mmc`].
pub fn mg1(rate_per_s: f64, service_s: f64, scv: f64) -> Result<Means, ModelError> {
    let utilisation = utilisation("M/G/1", rate_per_s, service_s, 1)?;
    if !(0.0..=1e6).contains(&scv) {
        return Err(ModelError::invalid("M/G/1", format!("an scv of {scv}; 0 to 1e6 is possible")));
    }
    let wait_s = utilisation * service_s * (1.0 + scv) / 2.0 / (1.0 - utilisation);
    let response_s = service_s + wait_s;
    Ok(Means { utilisation, present: rate_per_s * response_s, response_s, waits: utilisation })
}

/// Machine repairman: `population` machines that run for `think_s`, one repairman that takes
/// `service_s`; returns the throughput in repairs per second.
///
/// # Errors
///
/// [`ModelError::Invalid`] for absurd values.
pub fn repairman(population: u32, think_s: f64, service_s: f64) -> Result<f64, ModelError> {
    let sane = 1e-12..=1e6;
    if population == 0 || !sane.contains(&service_s) || !(0.0..=1e6).contains(&think_s) {
        let problem = "a population from 1, service from 1e-12 s, thinking from 0 s are needed";
        return Err(ModelError::invalid("machine repairman", problem));
    }
    // The probability that all machines run is Erlang's loss formula for think / service.
    let ratio = service_s / think_s;
    if !ratio.is_finite() {
        return Ok(1.0 / service_s);
    }
    let offered = 1.0 / ratio;
    let mut blocked = 1.0;
    for n in 1..=population {
        blocked = offered * blocked / (f64::from(n) + offered * blocked);
    }
    Ok((1.0 - blocked) / service_s)
}

fn utilisation(
    what: &str,
    rate_per_s: f64,
    service_s: f64,
    servers: u32,
) -> Result<f64, ModelError> {
    let sane = f64::MIN_POSITIVE..=1e15;
    if servers == 0 || !sane.contains(&rate_per_s) || !sane.contains(&service_s) {
        let problem = "rate, service and number of servers must be greater than 0";
        return Err(ModelError::invalid(what, problem));
    }
    let utilisation = rate_per_s * service_s / f64::from(servers);
    if utilisation >= 1.0 {
        return Err(ModelError::Overload { station: what.to_owned(), utilisation });
    }
    Ok(utilisation)
}

/// Erlang's C formula: the probability that all servers are busy at utilisation `used`.
pub(crate) fn erlang_c(servers: u32, used: f64) -> f64 {
    let offered = used * f64::from(servers);
    let mut lost = 1.0;
    for n in 1..=servers {
        lost = offered * lost / (f64::from(n) + offered * lost);
    }
    lost / (1.0 - used * (1.0 - lost))
}

/// Steady state of an open station.
pub(crate) struct Stationary {
    /// Mean number present.
    pub present: f64,
    /// Probability that all servers are busy, or that more requests add no speed.
    pub waits: f64,
}

/// An open station with `offered` work, in servers, below its highest speed.
///
/// Relative probabilities, summed up to the last speed, geometric beyond.
pub(crate) fn birth_death(servers: &Servers, offered: f64) -> Stationary {
    let last = match servers {
        Servers::Count(count) => *count,
        Servers::Rates(rates) => rates.len() as u32,
        Servers::Infinite => return Stationary { present: offered, waits: 0.0 },
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
    Stationary { present: present / (sum + tail), waits: tail / (sum + tail) }
}
