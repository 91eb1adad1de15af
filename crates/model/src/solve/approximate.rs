//! Approximate mean value analysis for many classes: Bard–Schweitzer and Linearizer.
//!
//! Schweitzer 1979: the removal of one request leaves the other classes' shares of queues
//! unchanged. Linearizer (Chandy and Neuse 1982) estimates the change of the shares, from the
//! networks with one request less of each class; the sums are arranged after de Souza e Silva and
//! Muntz 1990, which reduces the work from cubic to quadratic in the classes. Iterations cover only
//! visited stations. Classes that differ only by name are one class with a count: at a fixed point
//! all of them have the same queues, and in the network with one request less all except the one
//! from which it was removed.
//!
//! Both methods weigh requests ahead in an FCFS queue by *their* service times (Reiser 1979); if
//! all classes have the same service time, the result is the usual formula. At c servers a request
//! waits for all waiting requests, and, if all servers are busy, for the first completion; the
//! probability is Erlang's C formula for the load that the request finds.

use super::demand::{Center, Closed, Means};
use super::twins::{Entry, Problem, visits};
use crate::ModelError;
use crate::queue::erlang_c;

/// Maximum number of iterations of a fixed point.
const ITERATIONS_MAX: u32 = 100_000;
/// Convergence criterion of the fixed point: no queue moves by more than this share of its class.
const TOLERANCE: f64 = 1e-9;
/// Convergence criteria of the networks with one request less, by rounds of Linearizer; its authors
/// found that more than three rounds change nothing. Only differences of shares are used.
const TOLERANCES_LESS: [f64; 3] = [1e-5, 1e-5, 1e-6];
/// Number of iterations after which an iteration counts as cyclic: from then on steps are damped
/// increasingly.
const CIRCLES: u32 = 1_000;
/// Tolerance of a utilisation above 1.
const USED_SLACK: f64 = 1e-7;
/// Maximum number of attempts to reduce such a utilisation to 1.
const STRAINS_MAX: u32 = 1000;
/// Maximum step of an extrapolation, in iterations.
const LEAP_MAX: f64 = 30.0;
/// Maximum number of cells of Linearizer: 128 MiB.
const CELLS_MAX: usize = 1 << 24;

/// Solves the network by Schweitzer's fixed point.
///
/// # Errors
///
/// [`ModelError::Diverged`].
pub(super) fn schweitzer(closed: &Closed) -> Result<Means, ModelError> {
    let mut problem = Problem::new(closed);
    let mut queue = problem.start();
    let drift = vec![0.0; problem.entries.len()];
    problem.settle(closed, &mut queue, &drift)
}

/// Solves the network by Linearizer.
///
/// # Errors
///
/// [`ModelError::Diverged`], and [`ModelError::TooLarge`] for thousands of classes.
pub(super) fn linearizer(closed: &Closed) -> Result<Means, ModelError> {
    let mut problem = Problem::new(closed);
    let (classes, width) = (problem.population.len(), problem.entries.len());
    if width.saturating_mul(2 * classes) > CELLS_MAX {
        let what = format!("{classes} classes with {width} visits in all");
        let remedy = "merge what is alike, or use Schweitzer";
        return Err(ModelError::TooLarge { what, limit: CELLS_MAX as u64, remedy });
    }
    let mut queue = problem.start();
    let less: Vec<Problem> = (0..classes).map(|gone| problem.without(gone)).collect();
    // Change of the shares when one request of a class is removed, by class.
    let mut change: Vec<Vec<f64>> = less.iter().map(|less| vec![0.0; less.entries.len()]).collect();
    for tolerance in TOLERANCES_LESS {
        let drift = problem.drift(&change);
        problem.core(&mut queue, &drift, tolerance * 0.1)?;
        let mut changed = Vec::new();
        for (gone, less) in less.iter().enumerate() {
            let drift = problem.drift_less(&drift, &change, gone);
            let share = |e: usize| {
                let e = problem.before(gone, e);
                queue[e] / problem.population[problem.entries[e].class]
            };
            let left = |e: usize| less.population[less.entries[e].class];
            let known = change[gone].iter().enumerate();
            let mut queue: Vec<f64> =
                known.map(|(e, change)| (left(e) * (share(e) + change)).max(0.0)).collect();
            less.core(&mut queue, &drift, tolerance)?;
            let moved = |(e, queue): (usize, f64)| match left(e) > 0.0 {
                true => queue / left(e) - share(e),
                false => 0.0,
            };
            changed.push(queue.into_iter().enumerate().map(moved).collect());
        }
        change = changed;
    }
    let drift = problem.drift(&change);
    problem.settle(closed, &mut queue, &drift)
}

/// Residence times per entry and throughputs per class.
struct Found {
    residence_s: Vec<f64>,
    throughput_per_s: Vec<f64>,
    /// Work present at each center.
    work_s: Vec<f64>,
    /// Work present at each center for which no request waits.
    relief_s: Vec<f64>,
}

/// Parameters of a center with several servers.
#[derive(Clone)]
pub(super) struct Crowd {
    /// Maximum speed over the speed of one request alone.
    servers: f64,
    /// Number of servers, unless the rates are irregular.
    counted: Option<u32>,
    /// Share of a class that an arriving request of the class sees: all requests but the arriving
    /// one.
    seen: f64,
    /// Factor of residence times over the formula, at least 1.
    strain: f64,
}

/// Maximum number of servers in Erlang's formula: a station with more has this number, at the same
/// load.
const COUNTED_MAX: u32 = 256;

impl Crowd {
    pub fn new(center: &Center, closed: &Closed) -> Crowd {
        let speeds = &center.speeds;
        let requests = center.visits.iter().zip(&closed.population).filter(|(v, _)| **v > 0.0);
        let visitors: f64 = requests.map(|(_, n)| f64::from(*n)).sum();
        let servers = speeds[speeds.len() - 1] / speeds[0];
        let regular = (1..).zip(speeds).all(|(n, speed)| *speed == f64::from(n));
        let counted = regular.then_some(speeds.len() as u32);
        Crowd { servers, counted, seen: 1.0 - 1.0 / visitors, strain: 1.0 }
    }

    /// Returns whether both centers are equal for a class that is alone at each of them.
    pub fn is_like(&self, other: &Crowd) -> bool {
        (self.servers, self.counted, self.seen) == (other.servers, other.counted, other.seen)
    }

    /// Returns the probability that all servers are busy if `busy` are on average.
    fn all_busy(&self, busy: f64) -> f64 {
        match self.counted {
            Some(count) => erlang_c(count.min(COUNTED_MAX), busy / self.servers),
            None => busy / self.servers,
        }
    }
}

/// Aitken extrapolation for vectors (Irons and Tuck 1969): if steps shrink evenly, the
/// extrapolation jumps to their limit.
struct Leap {
    /// Last step, and its end; zeroes at first.
    step: Vec<f64>,
    led: Vec<f64>,
    steps: u32,
}

impl Leap {
    fn new(width: usize) -> Leap {
        Leap { step: vec![0.0; width], led: vec![0.0; width], steps: 0 }
    }

    /// Moves `new`, the result of an iteration from `old`, further in the same direction.
    fn extrapolate(&mut self, old: &[f64], new: &mut [f64]) {
        let (mut above, mut below) = (0.0, 0.0);
        for ((new, old), last) in new.iter().zip(old).zip(&self.step) {
            let (step, change) = (new - old, new - old - last);
            above += step * change;
            below += change * change;
        }
        self.steps += 1;
        let leaps = self.steps > 1 && below > 0.0;
        let factor = if leaps { (above / below).clamp(-LEAP_MAX, 0.9) } else { 0.0 };
        let lasts = self.step.iter_mut().zip(&mut self.led);
        for ((new, old), (step, led)) in new.iter_mut().zip(old).zip(lasts) {
            let (here, before) = (*new, *led);
            (*step, *led) = (here - old, here);
            // Queues stay positive, and shrink by a factor of five at most.
            *new = (here - factor * (here - before)).max(0.2 * here);
        }
    }
}

/// Shortens the step from `old` to `new` to this share.
fn shorten(old: &[f64], new: &mut [f64], part: f64) {
    for (new, old) in new.iter_mut().zip(old) {
        *new = old + part * (*new - old);
    }
}

impl Problem {
    /// Returns the initial queues: every class spread evenly over its centers.
    fn start(&self) -> Vec<f64> {
        let even = |entry: &Entry| {
            let members: f64 =
                self.entries[self.entries_of(entry.class)].iter().map(|e| e.members).sum();
            self.population[entry.class] / members
        };
        self.entries.iter().map(even).collect()
    }

    /// Returns, by entry, the change of the work that a request finds because the request itself is
    /// missing from the queues, relative to the work at unchanged shares.
    fn drift(&self, change: &[Vec<f64>]) -> Vec<f64> {
        let drift = |(e, entry): (usize, &Entry)| {
            let change = &change[entry.class];
            let work = |other: &usize| {
                let Entry { class, visitors, service_s, .. } = self.entries[*other];
                let others = visitors - f64::from(u8::from(class == entry.class));
                others * self.population[class] * service_s * change[*other]
            };
            // The share of the own twin, which is the last class once one of its requests is
            // removed.
            let own = self.entries.len() + e - self.begins[entry.class];
            let own_s = (self.population[entry.class] - 1.0) * entry.service_s * change[own];
            own_s + self.at[entry.center].iter().map(work).sum::<f64>()
        };
        self.entries.iter().enumerate().map(drift).collect()
    }

    /// Returns the drift in the network with one request of `gone` less, for the entries of that
    /// network.
    fn drift_less(&self, drift: &[f64], change: &[Vec<f64>], gone: usize) -> Vec<f64> {
        let mut less = drift.to_vec();
        for e in self.entries_of(gone) {
            let Entry { center, service_s, alone, .. } = self.entries[e];
            // Other classes do not visit the center of a single twin.
            let others = if alone { &[][..] } else { &self.at[center] };
            for other in others {
                less[*other] -= service_s * change[self.entries[*other].class][e];
            }
            let own = change[gone][less.len()];
            less.push(drift[e] - service_s * own);
        }
        less
    }

    /// Returns the means of the whole network with these drifts.
    ///
    /// If service times differ, the estimated work that a request finds may be so low that a
    /// station exceeds its capacity. In this case the residence times at the station are increased
    /// until its utilisation is at most 1.
    fn settle(
        &mut self,
        closed: &Closed,
        queue: &mut [f64],
        drift: &[f64],
    ) -> Result<Means, ModelError> {
        for _ in 0..STRAINS_MAX {
            let found = self.core(queue, drift, TOLERANCE)?;
            let mut used = vec![0.0; self.at.len()];
            for entry in &self.entries {
                let rate = entry.visitors * found.throughput_per_s[entry.class] * entry.visits;
                used[entry.center] += rate * entry.service_s;
            }
            if used.iter().all(|used| *used <= 1.0 + USED_SLACK) {
                return Ok(self.means(closed, &found));
            }
            for (crowd, used) in self.crowds.iter_mut().zip(used) {
                crowd.strain = (crowd.strain * used).max(1.0);
            }
        }
        Err(ModelError::Diverged { what: "the load of a station", iterations: STRAINS_MAX })
    }

    /// Iterates to the fixed point with these drifts.
    fn core(&self, queue: &mut [f64], drift: &[f64], tolerance: f64) -> Result<Found, ModelError> {
        let mut found = Found {
            residence_s: vec![0.0; self.entries.len()],
            throughput_per_s: vec![0.0; self.population.len()],
            work_s: vec![0.0; self.at.len()],
            relief_s: vec![0.0; self.at.len()],
        };
        let mut leap = Leap::new(queue.len());
        let mut old = queue.to_vec();
        for iteration in 0..ITERATIONS_MAX {
            old.copy_from_slice(queue);
            if self.iterate(queue, drift, &mut found) < tolerance {
                return Ok(found);
            }
            match iteration / CIRCLES {
                0 => leap.extrapolate(&old, queue),
                circles => shorten(&old, queue, 1.0 / f64::from(1 + circles)),
            }
        }
        let what = "approximate mean value analysis";
        Err(ModelError::Diverged { what, iterations: ITERATIONS_MAX })
    }

    /// Computes one iteration; returns the maximum move of a queue, as a share of its class.
    fn iterate(&self, queue: &mut [f64], drift: &[f64], found: &mut Found) -> f64 {
        self.relieve(found);
        found.work_s.fill(0.0);
        let work = &mut found.work_s;
        for (entry, queue) in self.entries.iter().zip(queue.iter()) {
            work[entry.center] += entry.visitors * entry.service_s * queue;
        }
        let mut moved = 0.0_f64;
        for class in 0..self.population.len() {
            let population = self.population[class];
            if population == 0.0 || self.twins[class] == 0.0 {
                queue[self.entries_of(class)].fill(0.0);
                found.throughput_per_s[class] = 0.0;
                continue;
            }
            let range = self.entries_of(class);
            let entries = &self.entries[range.clone()];
            let queue = &mut queue[range.clone()];
            let residence_s = &mut found.residence_s[range.clone()];
            let others = 1.0 - 1.0 / population;
            let mut sum = self.delay_s[class];
            let places = entries.iter().zip(&*queue).zip(&drift[range]);
            for (((entry, queue), drift), residence_s) in places.zip(&mut *residence_s) {
                // A request of this class finds one request less of the class.
                let own_s = entry.service_s * queue;
                let found_s = work[entry.center] - own_s + own_s * others + drift;
                let ahead_s = (found_s - found.relief_s[entry.center]).max(0.0);
                let strain = self.crowds[entry.center].strain;
                *residence_s = strain * entry.visits * (entry.alone_s + ahead_s);
                sum += entry.members * *residence_s;
            }
            let throughput = population / sum;
            found.throughput_per_s[class] = throughput;
            for ((entry, queue), residence_s) in entries.iter().zip(queue).zip(residence_s) {
                let change = throughput * *residence_s - *queue;
                moved = moved.max(change.abs() * (1.0 - others));
                // Later entries see the new queue immediately.
                work[entry.center] += entry.visitors * entry.service_s * change;
                *queue += change;
            }
        }
        moved
    }

    /// Computes, at the last throughputs, by how much the work at each center overstates the
    /// waiting time: requests do not wait for requests in service, except for the first completion
    /// if all servers are busy.
    fn relieve(&self, found: &mut Found) {
        for ((crowd, at), relief_s) in self.crowds.iter().zip(&self.at).zip(&mut found.relief_s) {
            if crowd.servers <= 1.0 {
                continue;
            }
            let (mut busy, mut work_s) = (0.0, 0.0);
            for entry in at.iter().map(|e| &self.entries[*e]) {
                let rate = entry.visitors * found.throughput_per_s[entry.class] * entry.visits;
                let here = rate * entry.alone_s;
                busy += here;
                work_s += here * entry.service_s;
            }
            // Before the first iteration the throughputs are unknown.
            *relief_s = if busy > 0.0 {
                let seen = crowd.seen * busy.min(crowd.servers);
                crowd.seen * work_s * (1.0 - crowd.all_busy(seen) / seen)
            } else {
                0.0
            };
        }
    }

    fn means(&self, closed: &Closed, found: &Found) -> Means {
        let mut residence_s = vec![vec![0.0; closed.classes.len()]; closed.centers.len()];
        for (class, (set, visits)) in self.set_of.iter().zip(visits(closed)).enumerate() {
            for (k, entry) in visits.into_iter().zip(self.entries_of(*set)) {
                residence_s[k][class] = found.residence_s[entry];
            }
        }
        let throughput_per_s = self.set_of.iter().map(|set| found.throughput_per_s[*set]);
        Means { throughput_per_s: throughput_per_s.collect(), residence_s }
    }
}

#[cfg(test)]
mod test {
    use crate::{Class, Method, Network, Service, Station, solve};

    /// Returns three adapters with drives on each, all on the same cores; `apart` makes all drives
    /// slightly different.
    fn network(apart: f64) -> Network {
        let mut network = Network::default();
        let cores = network.add_station(Station::servers("cores", 4));
        let mut number = 0.0;
        for (group, drives, outstanding) in [(0, 4, 16), (1, 3, 8), (2, 1, 1)] {
            let adapter = network.add_station(Station::servers(format!("adapter {group}"), 1));
            for drive in 0..drives {
                let name = format!("drive {group}.{drive}");
                let own = network.add_station(Station::servers(name.clone(), 1));
                let service = |mean_s: f64| Service::exponential(mean_s);
                number += 1.0;
                network.add_class(
                    Class::closed(name, outstanding)
                        .think(service(1e-5 * (1.0 + apart * number)))
                        .visit(own, service(30e-6))
                        .visit(adapter, service(8e-6))
                        .visit(cores, service(7e-6)),
                );
            }
        }
        network
    }

    #[test]
    fn twins_are_solved_as_if_each_were_by_itself() {
        for method in [Method::Linearizer, Method::Schweitzer] {
            let one = solve(&network(0.0), method).unwrap();
            let all = solve(&network(1e-12), method).unwrap();
            for (class, (a, b)) in one.classes.iter().zip(&all.classes).enumerate() {
                let off = a.throughput_per_s / b.throughput_per_s - 1.0;
                assert!(off.abs() < 1e-6, "{method:?}, class {class}: {off:e}");
            }
            for (station, (a, b)) in one.stations.iter().zip(&all.stations).enumerate() {
                let off = (a.present - b.present) / (1.0 + b.present);
                assert!(off.abs() < 1e-4, "{method:?}, station {station}: {off:e}");
            }
        }
    }

    /// Two nearly saturated stations of several servers: the relief changes with each iteration,
    /// and undamped steps cycle.
    #[test]
    fn what_goes_in_circles_settles() {
        let mut network = Network::default();
        let one = network.add_station(Station::servers("one", 5));
        let two = network.add_station(Station::servers("two", 4));
        let service = |mean_us: f64| Service::exponential(mean_us * 1e-6);
        let class =
            |name, population, think_us| Class::closed(name, population).think(service(think_us));
        let first = class("a", 31, 45.65253).visit(one, service(9.938_668));
        let second =
            class("b", 27, 0.1).visit(two, service(4.993_747)).visit(one, service(17.24292));
        let third = class("c", 19, 49.50984)
            .visit(one, service(1.5496874987717403))
            .visit(one, service(6.903_941))
            .visit(one, service(19.11055))
            .visit(two, service(83.80452));
        for class in [first, second, third] {
            network.add_class(class);
        }
        for method in [Method::Auto, Method::Linearizer, Method::Schweitzer] {
            let found = solve(&network, method).unwrap();
            assert!(found.stations.iter().all(|station| station.utilisation <= 1.0 + 1e-6));
        }
    }

    #[test]
    fn hundreds_of_twins_settle() {
        let mut network = Network::default();
        let shared = network.add_station(Station::servers("shared", 1));
        for drive in 0..400 {
            let own = network.add_station(Station::servers(format!("drive {drive}"), 1));
            network.add_class(
                Class::closed(format!("drive {drive}"), 64)
                    .visit(own, Service::exponential(100e-6))
                    .visit(shared, Service::exponential(0.25e-6)),
            );
        }
        let found = solve(&network, Method::Linearizer).unwrap();
        // Drives and shared station limit at the same rate; near the knee the throughput is
        // slightly lower.
        let share = found.throughput_per_s() / 4e6;
        assert!((0.9..1.0).contains(&share), "{share}");
        assert!(found.stations.iter().all(|station| station.utilisation <= 1.0 + 1e-6));
    }
}
