//! Twin classes, and the centers they visit: the unknowns of the approximate methods.
//!
//! Twins are classes that may be swapped, their own centers included, without changing the network:
//! equal drives on one adapter. At a fixed point all of them have the same queues, and in the
//! network with one request less all except the one from which it was removed. Twins are therefore
//! one class with a count.

use super::approximate::Crowd;
use super::demand::{Center, Closed};

/// A class at a center.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub class: usize,
    pub center: usize,
    /// True if no other class visits the center: each twin has its own such center.
    pub alone: bool,
    /// Number of twins that visit the center.
    pub visitors: f64,
    pub members: f64,
    /// Number of visits to one member.
    pub visits: f64,
    /// Service time at the speed of a lone request.
    pub alone_s: f64,
    /// Service time at full speed.
    pub service_s: f64,
}

/// The network with one class per set of twins; its data is that of one twin.
pub(super) struct Problem {
    /// Number of twins per class.
    pub twins: Vec<f64>,
    /// Think time and delays per class.
    pub delay_s: Vec<f64>,
    /// Server parameters per center.
    pub crowds: Vec<Crowd>,
    /// Entries, class by class.
    pub entries: Vec<Entry>,
    /// Start of each class's entries, and the end of the last.
    pub begins: Vec<usize>,
    /// Entries per center.
    pub at: Vec<Vec<usize>>,
    /// Requests of one twin per class.
    pub population: Vec<f64>,
    /// Index of the set of twins, by class of the network.
    pub set_of: Vec<usize>,
}

impl Problem {
    /// Finds the twins of a network.
    pub fn new(closed: &Closed) -> Problem {
        let visitors = |center: &Center| center.visits.iter().filter(|v| **v > 0.0).count();
        let visited: Vec<usize> = closed.centers.iter().map(visitors).collect();
        let crowds: Vec<Crowd> = closed.centers.iter().map(|k| Crowd::new(k, closed)).collect();
        let mut problem = Problem {
            twins: Vec::new(),
            delay_s: Vec::new(),
            at: vec![Vec::new(); crowds.len()],
            crowds,
            entries: Vec::new(),
            begins: vec![0],
            population: Vec::new(),
            set_of: Vec::new(),
        };
        for (class, visits) in visits(closed).into_iter().enumerate() {
            let set = problem.population.len();
            let entry = |k: usize| Entry::new(closed, class, k, set, visited[k] == 1);
            let entries: Vec<Entry> = visits.into_iter().map(entry).collect();
            let (delay_s, population) =
                (closed.delay_s[class], f64::from(closed.population[class]));
            let set = (0..set).find(|set| {
                (problem.delay_s[*set], problem.population[*set]) == (delay_s, population)
                    && problem.are_twins(&problem.entries[problem.entries_of(*set)], &entries)
            });
            problem.set_of.push(set.unwrap_or(problem.population.len()));
            match set {
                Some(set) => problem.twins[set] += 1.0,
                None => problem.add(population, delay_s, entries),
            }
        }
        problem.count_visitors();
        problem
    }

    /// Adds a class.
    fn add(&mut self, population: f64, delay_s: f64, entries: Vec<Entry>) {
        for (index, entry) in (self.entries.len()..).zip(&entries) {
            self.at[entry.center].push(index);
        }
        self.entries.extend(entries);
        self.begins.push(self.entries.len());
        self.twins.push(1.0);
        self.delay_s.push(delay_s);
        self.population.push(population);
    }

    fn count_visitors(&mut self) {
        for entry in &mut self.entries {
            let twins = self.twins[entry.class];
            entry.visitors = if entry.alone { twins.min(1.0) } else { twins };
        }
    }

    /// Returns the network with one request of a twin of `gone` less: that twin becomes a class of
    /// its own, the last one.
    pub fn without(&self, gone: usize) -> Problem {
        let mut entries = self.entries[self.entries_of(gone)].to_vec();
        let mut less = Problem {
            twins: self.twins.clone(),
            delay_s: self.delay_s.clone(),
            crowds: self.crowds.clone(),
            entries: self.entries.clone(),
            begins: self.begins.clone(),
            at: self.at.clone(),
            population: self.population.clone(),
            set_of: Vec::new(),
        };
        for entry in &mut entries {
            entry.class = self.population.len();
            if entry.alone {
                less.crowds.push(less.crowds[entry.center].clone());
                less.at.push(Vec::new());
                entry.center = less.crowds.len() - 1;
            }
        }
        less.twins[gone] -= 1.0;
        less.add(self.population[gone] - 1.0, self.delay_s[gone], entries);
        less.count_visitors();
        less
    }

    /// Returns the original index of an entry of the network without a request of `gone`.
    pub fn before(&self, gone: usize, entry: usize) -> usize {
        let added = entry.checked_sub(self.entries.len());
        added.map_or(entry, |place| self.begins[gone] + place)
    }

    /// Returns the range of the entries of a class.
    pub fn entries_of(&self, class: usize) -> std::ops::Range<usize> {
        self.begins[class]..self.begins[class + 1]
    }

    /// Returns whether these are entries of twins.
    fn are_twins(&self, one: &[Entry], other: &[Entry]) -> bool {
        let times = |entry: &Entry| (entry.members, entry.visits, entry.alone_s, entry.service_s);
        let pair = |(a, b): (&Entry, &Entry)| {
            let same = a.center == b.center
                || (a.alone && b.alone && self.crowds[a.center].is_like(&self.crowds[b.center]));
            same && times(a) == times(b)
        };
        one.len() == other.len() && one.iter().zip(other).all(pair)
    }
}

impl Entry {
    fn new(closed: &Closed, class: usize, k: usize, set: usize, alone: bool) -> Entry {
        let center = &closed.centers[k];
        let (visits, demand_s) = (center.visits[class], center.demand_s[class]);
        let (slow, fast) = (center.speeds[0], center.speeds[center.speeds.len() - 1]);
        let (alone_s, service_s) = (demand_s / visits / slow, demand_s / visits / fast);
        let members = center.members.len() as f64;
        Entry { class: set, center: k, alone, visitors: 1.0, members, visits, alone_s, service_s }
    }
}

/// Returns the centers that each class visits.
pub(super) fn visits(closed: &Closed) -> Vec<Vec<usize>> {
    let mut of = vec![Vec::new(); closed.classes.len()];
    for (k, center) in closed.centers.iter().enumerate() {
        for (class, visits) in center.visits.iter().enumerate() {
            if *visits > 0.0 {
                of[class].push(k);
            }
        }
    }
    of
}
