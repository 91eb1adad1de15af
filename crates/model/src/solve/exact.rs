//! Exact mean value analysis over all populations.
//!
//! Reiser and Lavenberg 1980; load-dependent stations by their marginal probabilities (Bolch et al.
//! 2006, section 8.2). The textbook computes the probability of an empty station as one minus the
//! sum of the others, which loses all digits near saturation. This solver computes it from the
//! network without that station, p(0|N) = p(0|N−1c) · Xc(N) / X'c(N): products of positive numbers
//! only, which lose none. This requires the subnetworks, one for each set of load-dependent
//! stations left out; equal stations count once.

use super::demand::{Center, Closed, Means};
use crate::ModelError;

/// Maximum number of cells of a solution: 64 MiB.
const CELLS_MAX: u64 = 1 << 23;

/// Returns the approximate number of multiplications of an exact solution; saturates.
pub(super) fn cost(closed: &Closed) -> u64 {
    let plan = Plan::of(closed);
    let width = plan.width.saturating_add(closed.centers.len() as u64);
    plan.cells().saturating_mul(closed.classes.len() as u64).saturating_mul(width)
        / plan.width.max(1)
}

/// Sizes of the tables.
struct Plan {
    /// Number of requests of all classes.
    total: u64,
    points: u64,
    subnets: u64,
    /// Cells per population of a subnetwork: queues, marginals, one throughput.
    width: u64,
    /// Indices of the load-dependent centers.
    dependent: Vec<usize>,
}

impl Plan {
    fn of(closed: &Closed) -> Plan {
        let product = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(1, u64::saturating_mul);
        let centers = &closed.centers;
        let dependent: Vec<usize> =
            (0..centers.len()).filter(|k| centers[*k].speeds.len() > 1).collect();
        let total = closed.population.iter().map(|n| u64::from(*n)).sum();
        let marginals: u64 = dependent.iter().map(|k| kept(&centers[*k], total)).sum();
        Plan {
            total,
            points: product(&mut closed.population.iter().map(|n| u64::from(*n) + 1)),
            subnets: product(&mut dependent.iter().map(|k| centers[*k].members.len() as u64 + 1)),
            width: centers.len() as u64 + marginals + 1,
            dependent,
        }
    }

    fn cells(&self) -> u64 {
        self.points.saturating_mul(self.subnets).saturating_mul(self.width)
    }
}

/// Returns the number of marginal probabilities that a center needs, for 0 requests, 1, 2 …
///
/// They are needed up to the last speed, because all speeds beyond are equal, and the queue length
/// gives the sum of their terms. If the last speed is not the maximum, that sum would be a
/// difference of large numbers; in this case all marginals are kept.
fn kept(center: &Center, total: u64) -> u64 {
    if falls(center) { total } else { center.speeds.len() as u64 - 1 }
}

fn falls(center: &Center) -> bool {
    let last = center.speeds[center.speeds.len() - 1];
    center.speeds.iter().any(|speed| *speed > last)
}

/// Returns the speed with `present` requests, at least one.
fn speed(center: &Center, present: usize) -> f64 {
    center.speeds[present.min(center.speeds.len()) - 1]
}

/// # Errors
///
/// [`ModelError::TooLarge`] if there are too many populations.
pub(super) fn solve(closed: &Closed) -> Result<Means, ModelError> {
    let plan = Plan::of(closed);
    if plan.cells() > CELLS_MAX {
        let what = format!("a table of {} numbers for exact analysis", plan.cells());
        let remedy = "use Linearizer, or simulate";
        return Err(ModelError::TooLarge { what, limit: CELLS_MAX, remedy });
    }
    let mut tables = Tables::new(closed, plan);
    let (visits, mut last) = (Visits::of(closed), Point::new(closed));
    for subnet in (0..tables.subnets).rev() {
        let left = tables.left(subnet);
        last.present.fill(0);
        for at in 0..tables.points {
            tables.point(closed, &visits, (subnet, &left), at, &mut last);
            last.advance(closed);
        }
    }
    Ok(Means { throughput_per_s: last.throughput_per_s, residence_s: last.residence_s })
}

/// Visits between classes and centers. Most centers are visited by one class of many: a drive by
/// its own I/Os.
struct Visits {
    /// Centers that a class visits, in their order.
    centers: Vec<Vec<usize>>,
    /// Classes that visit a center, in their order.
    classes: Vec<Vec<usize>>,
}

impl Visits {
    fn of(closed: &Closed) -> Visits {
        let (centers, classes) = (0..closed.centers.len(), 0..closed.classes.len());
        let meet = |k: usize, class: usize| closed.centers[k].demand_s[class] != 0.0;
        let of_class = |class| centers.clone().filter(|k| meet(*k, class)).collect();
        let of_center = |k| classes.clone().filter(|class| meet(k, *class)).collect();
        Visits {
            centers: classes.clone().map(of_class).collect(),
            classes: centers.clone().map(of_center).collect(),
        }
    }
}

/// Means at one population.
struct Point {
    /// Requests of each class.
    present: Vec<usize>,
    throughput_per_s: Vec<f64>,
    residence_s: Vec<Vec<f64>>,
}

impl Point {
    fn new(closed: &Closed) -> Point {
        let classes = closed.classes.len();
        let residence_s = vec![vec![0.0; classes]; closed.centers.len()];
        Point { present: vec![0; classes], throughput_per_s: vec![0.0; classes], residence_s }
    }

    /// Moves to the next population, in the order of the strides.
    fn advance(&mut self, closed: &Closed) {
        for (present, population) in self.present.iter_mut().zip(&closed.population) {
            if *present < *population as usize {
                *present += 1;
                return;
            }
            *present = 0;
        }
    }
}

struct Tables {
    points: usize,
    subnets: usize,
    width: usize,
    dependent: Vec<usize>,
    /// Distance of populations that differ by one request, per class.
    strides: Vec<usize>,
    /// Distance of subnetworks that differ by one member, per dependent center.
    steps: Vec<usize>,
    /// Start of the marginals within a row, per dependent center.
    marginals: Vec<usize>,
    /// Number of the marginals, per dependent center.
    kept: Vec<usize>,
    /// Rows per subnetwork and population: mean queue of a member of each center, marginals of each
    /// dependent center, and the throughput of the first class present.
    cells: Vec<f64>,
}

impl Tables {
    fn new(closed: &Closed, plan: Plan) -> Tables {
        let mut strides = Vec::new();
        let mut points = 1;
        for population in &closed.population {
            strides.push(points);
            points *= *population as usize + 1;
        }
        let (mut steps, mut marginals, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let (mut subnets, mut width) = (1, closed.centers.len());
        for k in &plan.dependent {
            let center = &closed.centers[*k];
            steps.push(subnets);
            subnets *= center.members.len() + 1;
            marginals.push(width);
            kept.push(self::kept(center, plan.total) as usize);
            width += kept[kept.len() - 1];
        }
        width += 1;
        let cells = vec![0.0; points * subnets * width];
        let dependent = plan.dependent;
        Tables { points, subnets, width, dependent, strides, steps, marginals, kept, cells }
    }

    /// Returns the number of members of each dependent center that are left in a subnetwork.
    fn left(&self, subnet: usize) -> Vec<usize> {
        let next = self.steps.iter().skip(1).copied().chain([self.subnets]);
        let gone = self.steps.iter().zip(next).map(|(step, next)| subnet % next / step);
        let all = self.steps.iter().zip(self.steps.iter().skip(1).chain([&self.subnets]));
        all.zip(gone).map(|((step, next), gone)| next / step - 1 - gone).collect()
    }

    fn row(&self, subnet: usize, at: usize) -> usize {
        (subnet * self.points + at) * self.width
    }

    /// Solves one population of a subnetwork from the populations with one request less.
    fn point(
        &mut self,
        closed: &Closed,
        visits: &Visits,
        (subnet, left): (usize, &[usize]),
        at: usize,
        found: &mut Point,
    ) {
        let row = self.row(subnet, at);
        let mut pivot = None;
        for class in 0..closed.classes.len() {
            let present = found.present[class];
            if present == 0 {
                found.throughput_per_s[class] = 0.0;
                continue;
            }
            pivot = pivot.or(Some(class));
            let before = self.row(subnet, at - self.strides[class]);
            let mut sum = closed.delay_s[class];
            for k in visits.centers[class].iter().copied() {
                let center = &closed.centers[k];
                let (residence, count) = self.residence(center, k, before, class, left);
                found.residence_s[k][class] = residence;
                sum += residence * count as f64;
            }
            // A class without any time at the remaining stations: the subnetwork cannot hold its
            // requests.
            found.throughput_per_s[class] =
                if sum > 0.0 { present as f64 / sum } else { f64::INFINITY };
        }
        for (k, classes) in visits.classes.iter().enumerate() {
            let residence_s = &found.residence_s[k];
            let means =
                classes.iter().map(|class| (found.throughput_per_s[*class], residence_s[*class]));
            let present = means.filter(|(x, r)| x.is_finite() && *r > 0.0);
            self.cells[row + k] = present.map(|(x, r)| x * r).sum();
        }
        let throughput = pivot.map_or(0.0, |class| found.throughput_per_s[class]);
        self.cells[row + self.width - 1] = throughput;
        for (index, members) in left.iter().enumerate() {
            if *members > 0 || pivot.is_none() {
                self.marginals(closed, subnet, index, at, pivot, &found.throughput_per_s);
            }
        }
    }

    /// Returns the residence time at one member, and the number of members; `before` is the row
    /// that an arriving request finds.
    fn residence(
        &self,
        center: &Center,
        k: usize,
        before: usize,
        class: usize,
        left: &[usize],
    ) -> (f64, usize) {
        let speeds = &center.speeds;
        let last = speeds[speeds.len() - 1];
        let mut wait = (1.0 + self.cells[before + k]) / last;
        let mut count = center.members.len();
        if speeds.len() > 1
            && let Ok(index) = self.dependent.binary_search(&k)
        {
            count = left[index];
            let begin = before + self.marginals[index];
            let marginals = (1..).zip(&self.cells[begin..begin + self.kept[index]]);
            // Sum over the positions of the queue that a request finds; or, if speeds do not fall,
            // the difference of this sum from that at the last speed.
            let (all, beyond) = if falls(center) { (0.0, 0.0) } else { (wait, 1.0 / last) };
            let place_s = |(place, chance): (usize, &f64)| {
                place as f64 * (1.0 / speed(center, place) - beyond) * chance
            };
            wait = all + marginals.map(place_s).sum::<f64>();
        }
        if count == 0 { (0.0, 0) } else { (center.demand_s[class] * wait, count) }
    }

    /// Computes the probabilities of 0, 1, 2 … requests at a dependent center.
    fn marginals(
        &mut self,
        closed: &Closed,
        subnet: usize,
        index: usize,
        at: usize,
        pivot: Option<usize>,
        throughput_per_s: &[f64],
    ) {
        let center = &closed.centers[self.dependent[index]];
        let begin = self.row(subnet, at) + self.marginals[index];
        let Some(pivot) = pivot else {
            self.cells[begin] = 1.0;
            return;
        };
        let without = self.row(subnet + self.steps[index], at) + self.width - 1;
        let less = self.row(subnet, at - self.strides[pivot]) + self.marginals[index];
        let ratio = throughput_per_s[pivot] / self.cells[without];
        self.cells[begin] = if ratio.is_finite() { self.cells[less] * ratio } else { 0.0 };
        for place in 1..self.kept[index] {
            let mut chance = 0.0;
            for (class, x) in throughput_per_s.iter().enumerate() {
                if *x > 0.0 && x.is_finite() {
                    let less = self.row(subnet, at - self.strides[class]) + self.marginals[index];
                    chance += center.demand_s[class] * x * self.cells[less + place - 1];
                }
            }
            self.cells[begin + place] = chance / speed(center, place);
        }
    }
}
