//! Approximate mean value analysis for many classes: Bard–Schweitzer and Linearizer.
//!
//! Schweitzer 1979: one request less leaves the others' shares of queues as they are. Linearizer
//! (Chandy and Neuse 1982) estimates how the shares change, from the networks with one request
//! less of each class; the sums are arranged after de Souza e Silva and Muntz 1990, which takes the
//! work from cubic to square in the classes. Only stations that a class visits are gone through,
//! and of classes that differ by their names alone one is solved for all.
//!
//! Both weigh those who wait ahead by *their* service, as first come, first served does (Reiser
//! 1979); when all classes have the same service, this is the usual formula. At c servers a request
//! waits for those who wait already, and if all servers are busy for the first to end; how likely
//! that is says Erlang's formula for the load that the request finds.

use super::demand::{Center, Closed, Means};
use crate::ModelError;
use crate::queue::erlang_c;

/// Iterations after which a fixed point is given up.
const ITERATIONS_MAX: u32 = 100_000;
/// A fixed point is found when no queue moves by more than this share of its class.
const TOLERANCE: f64 = 1e-9;
/// The same for the networks with a request less, round by round of Linearizer; its authors found
/// that more than three rounds change nothing. Only differences of shares are used of them.
const TOLERANCES_LESS: [f64; 3] = [1e-5, 1e-5, 1e-6];
/// By how much a station may seem to do more than it can.
const USED_SLACK: f64 = 1e-7;
/// Attempts to bring such a station down to what it can.
const STRAINS_MAX: u32 = 1000;
/// Longest leap of an extrapolation, in steps.
const LEAP_MAX: f64 = 30.0;
/// Most numbers that Linearizer may hold: 128 MiB.
const CELLS_MAX: usize = 1 << 24;

/// What a class has to do with a center.
#[derive(Clone, Copy)]
struct Entry {
    class: usize,
    center: usize,
    members: f64,
    /// Visits to one member.
    visits: f64,
    /// One service, at the speed of one request alone.
    alone_s: f64,
    /// One service, at full speed.
    service_s: f64,
}

struct Problem {
    /// Per class: thinking and delays.
    delay_s: Vec<f64>,
    /// Per center.
    crowds: Vec<Crowd>,
    /// Class by class.
    entries: Vec<Entry>,
    /// Per class: where its entries begin; and their end.
    begins: Vec<usize>,
    /// Per center: its entries.
    at: Vec<Vec<usize>>,
    population: Vec<f64>,
}

/// Schweitzer's fixed point.
///
/// # Errors
///
/// [`ModelError::Diverged`].
pub(super) fn schweitzer(closed: &Closed) -> Result<Means, ModelError> {
    let mut problem = Problem::new(closed);
    let mut queue = problem.start();
    let drift = vec![0.0; problem.entries.len()];
    problem.settle(&mut queue, &drift)
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
    let twins = problem.twins();
    // How the shares change when one request of a class is taken away, by class.
    let mut change = vec![vec![0.0; width]; classes];
    for tolerance in TOLERANCES_LESS {
        let drift = problem.drift(&change);
        problem.core(None, &mut queue, &drift, tolerance * 0.1)?;
        let mut less: Vec<Vec<f64>> = Vec::new();
        for (class, known) in change.iter().enumerate() {
            if twins[class] < class {
                less.push(problem.exchanged(&less[twins[class]], twins[class], class));
                continue;
            }
            let drift = problem.drift_less(&drift, &change, class);
            let mut queue = problem.less(&queue, known, class);
            problem.core(Some(class), &mut queue, &drift, tolerance)?;
            less.push(queue);
        }
        for (gone, change) in change.iter_mut().enumerate() {
            for (e, entry) in problem.entries.iter().enumerate() {
                let full = problem.population[entry.class];
                let left = full - f64::from(u8::from(entry.class == gone));
                let share = if left > 0.0 { less[gone][e] / left } else { queue[e] / full };
                change[e] = share - queue[e] / full;
            }
        }
    }
    let drift = problem.drift(&change);
    problem.settle(&mut queue, &drift)
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
struct Crowd {
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
    fn new(speeds: &[f64], visitors: f64) -> Crowd {
        let servers = speeds[speeds.len() - 1] / speeds[0];
        let regular = (1..).zip(speeds).all(|(n, speed)| *speed == f64::from(n));
        let counted = regular.then_some(speeds.len() as u32);
        Crowd { servers, counted, seen: 1.0 - 1.0 / visitors, strain: 1.0 }
    }

    /// Whether it is the same to a class that is alone there.
    fn is_like(&self, other: &Crowd) -> bool {
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

impl Problem {
    fn new(closed: &Closed) -> Problem {
        let (mut entries, mut begins) = (Vec::new(), vec![0]);
        let mut at = vec![Vec::new(); closed.centers.len()];
        for class in 0..closed.classes.len() {
            for (k, center) in closed.centers.iter().enumerate() {
                let (visits, demand_s) = (center.visits[class], center.demand_s[class]);
                if visits == 0.0 {
                    continue;
                }
                let (slow, fast) = (center.speeds[0], center.speeds[center.speeds.len() - 1]);
                let (alone_s, service_s) = (demand_s / visits / slow, demand_s / visits / fast);
                let members = center.members.len() as f64;
                at[k].push(entries.len());
                entries.push(Entry { class, center: k, members, visits, alone_s, service_s });
            }
            begins.push(entries.len());
        }
        let population: Vec<f64> = closed.population.iter().map(|n| f64::from(*n)).collect();
        let crowd = |(center, at): (&Center, &Vec<usize>)| {
            let visitors: f64 = at.iter().map(|e: &usize| population[entries[*e].class]).sum();
            Crowd::new(&center.speeds, visitors)
        };
        let crowds = closed.centers.iter().zip(&at).map(crowd).collect();
        Problem { delay_s: closed.delay_s.clone(), crowds, entries, begins, at, population }
    }

    fn entries_of(&self, class: usize) -> std::ops::Range<usize> {
        self.begins[class]..self.begins[class + 1]
    }

    /// Every class spread evenly over what it visits.
    fn start(&self) -> Vec<f64> {
        let even = |entry: &Entry| {
            let members: f64 =
                self.entries[self.entries_of(entry.class)].iter().map(|e| e.members).sum();
            self.population[entry.class] / members
        };
        self.entries.iter().map(even).collect()
    }

    /// The queues with one request of `gone` less, as far as the change of shares is known.
    fn less(&self, queue: &[f64], change: &[f64], gone: usize) -> Vec<f64> {
        let less = |((entry, queue), change): ((&Entry, &f64), &f64)| {
            let full = self.population[entry.class];
            let left = full - f64::from(u8::from(entry.class == gone));
            (left * (queue / full + change)).max(0.0)
        };
        self.entries.iter().zip(queue).zip(change).map(less).collect()
    }

    /// Per class, the first one that it may be exchanged with, stations of its own included, and
    /// nothing changes: a request less of either is the same network under other names.
    fn twins(&self) -> Vec<usize> {
        let mut firsts: Vec<usize> = Vec::new();
        let twin = |class: usize| {
            let known = firsts.iter().copied().find(|first| self.are_twins(*first, class));
            if known.is_none() {
                firsts.push(class);
            }
            known.unwrap_or(class)
        };
        (0..self.population.len()).map(twin).collect()
    }

    fn are_twins(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.entries[self.entries_of(one)], &self.entries[self.entries_of(other)]);
        let alone = |entry: &Entry| self.at[entry.center].len() == 1;
        let times = |entry: &Entry| (entry.members, entry.visits, entry.alone_s, entry.service_s);
        let pairs = a.iter().zip(b).all(|(a, b)| {
            let same = a.center == b.center
                || (alone(a) && alone(b) && self.crowds[a.center].is_like(&self.crowds[b.center]));
            same && times(a) == times(b)
        });
        pairs
            && a.len() == b.len()
            && self.population[one] == self.population[other]
            && self.delay_s[one] == self.delay_s[other]
    }

    /// Queues in which twins have changed their places.
    fn exchanged(&self, queue: &[f64], one: usize, other: usize) -> Vec<f64> {
        let mut queue = queue.to_vec();
        for (a, b) in self.entries_of(one).zip(self.entries_of(other)) {
            queue.swap(a, b);
        }
        queue
    }

    /// By how much the work that a request finds changes because it is gone from the others, beyond
    /// what it would be if their shares stayed, by entry.
    fn drift(&self, change: &[Vec<f64>]) -> Vec<f64> {
        let drift = |(e, entry): (usize, &Entry)| {
            let change = &change[entry.class];
            let work = |other: &usize| {
                let other_class = self.entries[*other].class;
                let count = self.population[other_class] - f64::from(u8::from(*other == e));
                count * self.entries[*other].service_s * change[*other]
            };
            self.at[entry.center].iter().map(work).sum()
        };
        self.entries.iter().enumerate().map(drift).collect()
    }

    /// The same in the network with one request of `gone` less.
    fn drift_less(&self, drift: &[f64], change: &[Vec<f64>], gone: usize) -> Vec<f64> {
        let mut drift = drift.to_vec();
        for e in self.entries_of(gone) {
            let Entry { center, service_s, .. } = self.entries[e];
            for other in &self.at[center] {
                drift[*other] -= service_s * change[self.entries[*other].class][e];
            }
        }
        drift
    }

    /// The means of the whole network with the given drifts.
    ///
    /// Where classes differ in their service, the estimate of what a request finds may be so low
    /// that a station does more than it can. Then all stay there longer, until it does what it can.
    fn settle(&mut self, queue: &mut [f64], drift: &[f64]) -> Result<Means, ModelError> {
        for _ in 0..STRAINS_MAX {
            let found = self.core(None, queue, drift, TOLERANCE)?;
            let mut used = vec![0.0; self.at.len()];
            for entry in &self.entries {
                let rate = found.throughput_per_s[entry.class] * entry.visits;
                used[entry.center] += rate * entry.service_s;
            }
            if used.iter().all(|used| *used <= 1.0 + USED_SLACK) {
                return Ok(self.means(found));
            }
            for (crowd, used) in self.crowds.iter_mut().zip(used) {
                crowd.strain = (crowd.strain * used).max(1.0);
            }
        }
        Err(ModelError::Diverged { what: "the load of a station", iterations: STRAINS_MAX })
    }

    /// The fixed point with the given drifts, of the network with one request of `gone` less.
    fn core(
        &self,
        gone: Option<usize>,
        queue: &mut [f64],
        drift: &[f64],
        tolerance: f64,
    ) -> Result<Found, ModelError> {
        let mut found = Found {
            residence_s: vec![0.0; self.entries.len()],
            throughput_per_s: vec![0.0; self.population.len()],
            work_s: vec![0.0; self.at.len()],
            relief_s: vec![0.0; self.at.len()],
        };
        let mut leap = Leap::new(queue.len());
        let mut old = queue.to_vec();
        for _ in 0..ITERATIONS_MAX {
            old.copy_from_slice(queue);
            if self.iterate(gone, queue, drift, &mut found) < tolerance {
                return Ok(found);
            }
            leap.extrapolate(&old, queue);
        }
        let what = "approximate mean value analysis";
        Err(ModelError::Diverged { what, iterations: ITERATIONS_MAX })
    }

    /// One step towards the fixed point: the largest move of a queue, as a share of its class.
    fn iterate(
        &self,
        gone: Option<usize>,
        queue: &mut [f64],
        drift: &[f64],
        found: &mut Found,
    ) -> f64 {
        self.relieve(found);
        found.work_s.fill(0.0);
        let work = &mut found.work_s;
        for (entry, queue) in self.entries.iter().zip(queue.iter()) {
            work[entry.center] += entry.service_s * queue;
        }
        let mut moved = 0.0_f64;
        for class in 0..self.population.len() {
            let less = f64::from(u8::from(gone == Some(class)));
            let population = self.population[class] - less;
            if population == 0.0 {
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
                work[entry.center] += entry.service_s * change;
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
                let here = found.throughput_per_s[entry.class] * entry.visits * entry.alone_s;
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

    fn means(&self, found: Found) -> Means {
        let classes = self.population.len();
        let mut residence_s = vec![vec![0.0; classes]; self.at.len()];
        for (entry, residence) in self.entries.iter().zip(&found.residence_s) {
            residence_s[entry.center][entry.class] = *residence;
        }
        Means { throughput_per_s: found.throughput_per_s, residence_s }
    }
}
