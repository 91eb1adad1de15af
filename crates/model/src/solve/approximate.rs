//! Approximate mean value analysis for many classes: Bard–Schweitzer and Linearizer.
//!
//! Schweitzer 1979: one request less leaves the others' shares of queues as they are. Linearizer
//! (Chandy and Neuse 1982) estimates how the shares change, from the networks with one request
//! less of each class; the sums are arranged after de Souza e Silva and Muntz 1990, which takes the
//! work from cubic to square in the classes. Only stations that a class visits are gone through,
//! and classes that differ by their names alone are one class with a count: in a fixed point all of
//! them have the same queues, and in the network with a request less all but the one that lacks it.
//!
//! Both weigh those who wait ahead by *their* service, as first come, first served does (Reiser
//! 1979); when all classes have the same service, this is the usual formula. At c servers a request
//! waits for those who wait already, and if all servers are busy for the first to end; how likely
//! that is says Erlang's formula for the load that the request finds.

use super::demand::{Center, Closed, Means};
use super::twins::{Entry, Problem, visits};
use crate::ModelError;
use crate::queue::erlang_c;

/// Iterations after which a fixed point is given up.
const ITERATIONS_MAX: u32 = 100_000;
/// A fixed point is found when no queue moves by more than this share of its class.
const TOLERANCE: f64 = 1e-9;
/// The same for the networks with a request less, round by round of Linearizer; its authors found
/// that more than three rounds change nothing. Only differences of shares are used of them.
const TOLERANCES_LESS: [f64; 3] = [1e-5, 1e-5, 1e-6];
/// Iterations after which one that did not settle goes around its fixed point: from then on only
/// part of each step is made, ever less of it.
const CIRCLES: u32 = 1_000;
/// By how much a station may seem to do more than it can.
const USED_SLACK: f64 = 1e-7;
/// Attempts to bring such a station down to what it can.
const STRAINS_MAX: u32 = 1000;
/// Longest leap of an extrapolation, in steps.
const LEAP_MAX: f64 = 30.0;
/// Most numbers that Linearizer may hold: 128 MiB.
const CELLS_MAX: usize = 1 << 24;

/// Schweitzer's fixed point.
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

/// Linearizer.
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
    // How the shares change when one request of a class is taken away, by class.
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

/// Times per entry and throughputs per class.
struct Found {
    residence_s: Vec<f64>,
    throughput_per_s: Vec<f64>,
    /// Per center: work that is there.
    work_s: Vec<f64>,
    /// Per center: work that is there, but is not waited for.
    relief_s: Vec<f64>,
}

/// What a center with several servers needs to know.
#[derive(Clone)]
pub(super) struct Crowd {
    /// Full speed over the speed of one request alone.
    servers: f64,
    /// Their count, unless the speeds are others than those of servers.
    counted: Option<u32>,
    /// What a request sees of its own kind: all but itself.
    seen: f64,
    /// By how much longer requests stay than the formula says, at least 1.
    strain: f64,
}

/// Beyond so many servers the formula is taken for this many, of the same load.
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

    /// Whether it is the same to a class that is alone there.
    pub fn is_like(&self, other: &Crowd) -> bool {
        (self.servers, self.counted, self.seen) == (other.servers, other.counted, other.seen)
    }

    /// Probability that all servers are busy when `busy` are on average.
    fn all_busy(&self, busy: f64) -> f64 {
        match self.counted {
            Some(count) => erlang_c(count.min(COUNTED_MAX), busy / self.servers),
            None => busy / self.servers,
        }
    }
}

/// Aitken's extrapolation for vectors (Irons and Tuck 1969): where steps shrink evenly, it leaps to
/// where they lead.
struct Leap {
    /// The last step, and where it led; noughts at first.
    step: Vec<f64>,
    led: Vec<f64>,
    steps: u32,
}

impl Leap {
    fn new(width: usize) -> Leap {
        Leap { step: vec![0.0; width], led: vec![0.0; width], steps: 0 }
    }

    /// Moves `new`, which the iteration made of `old`, further in its direction.
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
            // Queues stay positive, and never shrink all at once.
            *new = (here - factor * (here - before)).max(0.2 * here);
        }
    }
}

/// Makes so much of the step from `old` to `new`.
fn shorten(old: &[f64], new: &mut [f64], part: f64) {
    for (new, old) in new.iter_mut().zip(old) {
        *new = old + part * (*new - old);
    }
}

impl Problem {
    /// Every class spread evenly over what it visits.
    fn start(&self) -> Vec<f64> {
        let even = |entry: &Entry| {
            let members: f64 =
                self.entries[self.entries_of(entry.class)].iter().map(|e| e.members).sum();
            self.population[entry.class] / members
        };
        self.entries.iter().map(even).collect()
    }

    /// By how much the work that a request finds changes because it is gone from the others, beyond
    /// what it would be if their shares stayed, by entry.
    fn drift(&self, change: &[Vec<f64>]) -> Vec<f64> {
        let drift = |(e, entry): (usize, &Entry)| {
            let change = &change[entry.class];
            let work = |other: &usize| {
                let Entry { class, visitors, service_s, .. } = self.entries[*other];
                let others = visitors - f64::from(u8::from(class == entry.class));
                others * self.population[class] * service_s * change[*other]
            };
            // Its own share, as that of the last class when it is gone.
            let own = self.entries.len() + e - self.begins[entry.class];
            let own_s = (self.population[entry.class] - 1.0) * entry.service_s * change[own];
            own_s + self.at[entry.center].iter().map(work).sum::<f64>()
        };
        self.entries.iter().enumerate().map(drift).collect()
    }

    /// The same in the network with one request of `gone` less, and for its entries.
    fn drift_less(&self, drift: &[f64], change: &[Vec<f64>], gone: usize) -> Vec<f64> {
        let mut less = drift.to_vec();
        for e in self.entries_of(gone) {
            let Entry { center, service_s, alone, .. } = self.entries[e];
            // To the center of one twin the others do not come.
            let others = if alone { &[][..] } else { &self.at[center] };
            for other in others {
                less[*other] -= service_s * change[self.entries[*other].class][e];
            }
            let own = change[gone][less.len()];
            less.push(drift[e] - service_s * own);
        }
        less
    }

    /// The means of the whole network with the given drifts.
    ///
    /// Where classes differ in their service, the estimate of what a request finds may be so low
    /// that a station does more than it can. Then all stay there longer, until it does what it can.
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

    /// The fixed point with the given drifts.
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

    /// One step towards the fixed point: the largest move of a queue, as a share of its class.
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
                // Of its own class it sees one less.
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
                // Those who follow see the new queue at once.
                work[entry.center] += entry.visitors * entry.service_s * change;
                *queue += change;
            }
        }
        moved
    }

    /// What the work at each center overstates waiting by, for the throughputs found last: those
    /// in service are not waited for, but for the first to end if all servers are busy.
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
            // Before the first step nothing is known; nobody is relieved.
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

    /// Three adapters with drives behind each, all on the same cores; `apart` makes every drive
    /// another by so little that it does not show.
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

    /// Two stations of several servers that are both nearly full: what those in service relieve
    /// the others of changes with each step, and whole steps go around in a circle.
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
        // Both limit at the same rate; at the knee some is lost.
        let share = found.throughput_per_s() / 4e6;
        assert!((0.9..1.0).contains(&share), "{share}");
        assert!(found.stations.iter().all(|station| station.utilisation <= 1.0 + 1e-6));
    }
}
