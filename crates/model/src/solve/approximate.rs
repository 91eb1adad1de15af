//! Approximate mean value analysis for many classes: Bard–Schweitzer and Linearizer.
//!
//! Schweitzer 1979: one request less leaves the others' shares of queues as they are. Linearizer
//! (Chandy and Neuse 1982) estimates how the shares change, from the networks with one request
//! less of each class; the sums are arranged after de Souza e Silva and Muntz 1990, which takes the
//! work from cubic to square in the classes. Only stations that a class visits are gone through.
//!
//! Both weigh those who wait ahead by *their* service, as first come, first served does (Reiser
//! 1979); when all classes have the same service, this is the usual formula. A station of c servers
//! becomes one of c-fold speed and a delay of the rest of the service (Seidmann et al. 1987).

use super::demand::{Closed, Means};
use crate::ModelError;

/// Iterations after which a fixed point is given up.
const ITERATIONS_MAX: u32 = 100_000;
/// A fixed point is found when no queue moves by more than this share of its class.
const TOLERANCE: f64 = 1e-9;
/// Rounds of Linearizer; its authors found that more change nothing.
const ROUNDS: usize = 3;
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
    /// One service, at full speed.
    service_s: f64,
    /// What one request alone takes longer at one member, over all visits.
    split_s: f64,
}

struct Problem {
    /// Per class: thinking, delays, and what Seidmann's split adds.
    delay_s: Vec<f64>,
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
    let problem = Problem::new(closed);
    let mut queue = problem.start();
    let drift = vec![0.0; problem.entries.len()];
    let own = vec![0.0; problem.entries.len()];
    let found = problem.core(None, &mut queue, &drift, &own)?;
    Ok(problem.means(found))
}

/// Linearizer.
///
/// # Errors
///
/// [`ModelError::Diverged`], and [`ModelError::TooLarge`] for thousands of classes.
pub(super) fn linearizer(closed: &Closed) -> Result<Means, ModelError> {
    let problem = Problem::new(closed);
    let (classes, width) = (problem.population.len(), problem.entries.len());
    if width.saturating_mul(2 * classes) > CELLS_MAX {
        let what = format!("{classes} classes with {width} visits in all");
        let remedy = "merge what is alike, or use Schweitzer";
        return Err(ModelError::TooLarge { what, limit: CELLS_MAX as u64, remedy });
    }
    let mut queue = problem.start();
    let mut less: Vec<Vec<f64>> = (0..classes).map(|class| problem.less(&queue, class)).collect();
    // How the shares change when one request of a class is taken away, by class.
    let mut change = vec![vec![0.0; width]; classes];
    for _ in 0..ROUNDS {
        let (drift, own) = problem.drift(&change);
        problem.core(None, &mut queue, &drift, &own)?;
        for class in 0..classes {
            let drift = problem.drift_less(&drift, &change, class);
            problem.core(Some(class), &mut less[class], &drift, &own)?;
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
    let (drift, own) = problem.drift(&change);
    let found = problem.core(None, &mut queue, &drift, &own)?;
    Ok(problem.means(found))
}

/// Times per entry and throughputs per class.
struct Found {
    residence_s: Vec<f64>,
    throughput_per_s: Vec<f64>,
}

impl Problem {
    fn new(closed: &Closed) -> Problem {
        let (mut entries, mut begins) = (Vec::new(), vec![0]);
        let mut at = vec![Vec::new(); closed.centers.len()];
        let mut delay_s = closed.delay_s.clone();
        for (class, delay_s) in delay_s.iter_mut().enumerate() {
            for (k, center) in closed.centers.iter().enumerate() {
                let (visits, demand_s) = (center.visits[class], center.demand_s[class]);
                if visits == 0.0 {
                    continue;
                }
                let (slow, fast) = (center.speeds[0], center.speeds[center.speeds.len() - 1]);
                let split_s = demand_s * (1.0 / slow - 1.0 / fast);
                let service_s = demand_s / visits / fast;
                let members = center.members.len() as f64;
                *delay_s += members * split_s;
                at[k].push(entries.len());
                entries.push(Entry { class, center: k, members, visits, service_s, split_s });
            }
            begins.push(entries.len());
        }
        let population = closed.population.iter().map(|n| f64::from(*n)).collect();
        Problem { delay_s, entries, begins, at, population }
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

    /// The same shares with one request of `class` less.
    fn less(&self, queue: &[f64], class: usize) -> Vec<f64> {
        let mut less = queue.to_vec();
        let share = 1.0 - 1.0 / self.population[class];
        less[self.entries_of(class)].iter_mut().for_each(|queue| *queue *= share);
        less
    }

    /// By how much the work that a request finds changes because it is gone from the others, if
    /// nothing else does; and the part of that for which its own class is to blame, per request.
    fn drift(&self, change: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
        let work = |seen_by: usize, e: &usize| {
            let entry = &self.entries[*e];
            self.population[entry.class] * entry.service_s * change[seen_by][*e]
        };
        let sum = |entry: &Entry| self.at[entry.center].iter().map(|e| work(entry.class, e)).sum();
        let drift = self.entries.iter().map(sum).collect();
        let own = (0..).zip(&self.entries);
        let own = own.map(|(e, entry): (usize, _)| entry.service_s * change[entry.class][e]);
        (drift, own.collect())
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

    /// The fixed point with the given drifts, of the network with one request of `gone` less.
    fn core(
        &self,
        gone: Option<usize>,
        queue: &mut [f64],
        drift: &[f64],
        own: &[f64],
    ) -> Result<Found, ModelError> {
        let mut found = Found {
            residence_s: vec![0.0; self.entries.len()],
            throughput_per_s: vec![0.0; self.population.len()],
        };
        let mut work = vec![0.0; self.at.len()];
        for _ in 0..ITERATIONS_MAX {
            work.fill(0.0);
            for (entry, queue) in self.entries.iter().zip(queue.iter()) {
                work[entry.center] += entry.service_s * queue;
            }
            let mut moved = 0.0_f64;
            for class in 0..self.population.len() {
                let less = f64::from(u8::from(gone == Some(class)));
                let population = self.population[class] - less;
                if population == 0.0 {
                    queue[self.entries_of(class)].fill(0.0);
                    continue;
                }
                let mut sum = self.delay_s[class];
                for e in self.entries_of(class) {
                    let entry = &self.entries[e];
                    let own_work = entry.service_s * queue[e] / population + own[e];
                    let ahead = (work[entry.center] + drift[e] - own_work).max(0.0);
                    found.residence_s[e] = entry.visits * (entry.service_s + ahead);
                    sum += entry.members * found.residence_s[e];
                }
                let throughput = population / sum;
                found.throughput_per_s[class] = throughput;
                for e in self.entries_of(class) {
                    let new = throughput * found.residence_s[e];
                    moved = moved.max((new - queue[e]).abs() / population);
                    queue[e] = new;
                }
            }
            if moved < TOLERANCE {
                return Ok(found);
            }
        }
        let what = "approximate mean value analysis";
        Err(ModelError::Diverged { what, iterations: ITERATIONS_MAX })
    }

    fn means(&self, found: Found) -> Means {
        let classes = self.population.len();
        let mut residence_s = vec![vec![0.0; classes]; self.at.len()];
        for (entry, residence) in self.entries.iter().zip(&found.residence_s) {
            residence_s[entry.center][entry.class] = residence + entry.split_s;
        }
        Means { throughput_per_s: found.throughput_per_s, residence_s }
    }
}
