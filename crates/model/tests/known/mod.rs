//! Single stations with known formulas, as references for theory and simulation.

/// Returns the probability that an arrival waits (Erlang's C formula) and the mean response time in
/// seconds of an M/M/c queue: Poisson arrivals at `servers` servers with exponential service.
pub fn mmc(rate_per_s: f64, service_s: f64, servers: u32) -> (f64, f64) {
    let offered = rate_per_s * service_s;
    let lost = erlang_b(offered, servers);
    let used = offered / f64::from(servers);
    let waits = lost / (1.0 - used * (1.0 - lost));
    (waits, service_s + waits * service_s / (f64::from(servers) - offered))
}

/// Returns the mean response time in seconds of an M/G/1 queue: Poisson arrivals at one server with
/// service of squared coefficient of variation `scv` (Pollaczek–Khinchine).
pub fn mg1(rate_per_s: f64, service_s: f64, scv: f64) -> f64 {
    let used = rate_per_s * service_s;
    service_s + used * service_s * (1.0 + scv) / 2.0 / (1.0 - used)
}

/// Returns the repairs per second of the machine repairman model: `population` machines run for
/// `think_s` each, and one repairman needs `service_s` per repair.
pub fn repairman(population: u32, think_s: f64, service_s: f64) -> f64 {
    // The probability that all machines run is Erlang's loss formula for think / service.
    (1.0 - erlang_b(think_s / service_s, population)) / service_s
}

/// Returns the blocking probability by the recursion of Erlang's loss formula.
fn erlang_b(offered: f64, servers: u32) -> f64 {
    (1..=servers).fold(1.0, |lost, n| offered * lost / (f64::from(n) + offered * lost))
}
