//! Checks of networks before they are solved or simulated, and walks over routes.

use std::collections::HashSet;

use crate::{
    Class, ClassId, ModelError, Network, Reserve, Servers, Service, Source, Station, StationId,
    Step, Visit,
};

/// Maximum number of stations.
const STATIONS_MAX: usize = 8192;
/// Maximum number of classes.
const CLASSES_MAX: usize = 4096;
/// Maximum number of classes times stations: statistics are kept for each pair.
const CELLS_MAX: usize = 1 << 23;
/// Maximum number of steps of a route, inner ones included.
const STEPS_MAX: usize = 4096;
/// Maximum depth of nested steps.
const DEPTH_MAX: usize = 16;
/// Maximum number of stations that a request holds at once.
pub(crate) const HELD_MAX: usize = 4;
/// Maximum population of a closed class.
pub(crate) const POPULATION_MAX: u32 = 1 << 20;
/// Maximum number of servers of a station, and of entries of its rates.
const SERVERS_MAX: u32 = 65_536;
/// Maximum capacity of a reserve, and of its refill per second.
const UNITS_MAX: f64 = 1e18;
/// Range of a station's relative rates.
const RATES: std::ops::RangeInclusive<f64> = 1e-6..=1e6;
/// Maximum slowdown of a reserve.
const SLOWDOWN_MAX: f64 = 1000.0;
/// Minimum cycle of a closed request, and minimum gap of an open one, in seconds: a picosecond, the
/// resolution of simulated time.
const ROUND_S_MIN: f64 = 1e-12;

impl Network {
    /// Checks all values of the network. [`crate::solve`] and [`crate::simulate`] call this check
    /// themselves.
    ///
    /// # Errors
    ///
    /// [`ModelError::Invalid`] with the station, class or step, and the valid range.
    pub fn check(&self) -> Result<(), ModelError> {
        between("network", "stations", self.stations.len(), 1, STATIONS_MAX)?;
        between("network", "classes", self.classes.len(), 1, CLASSES_MAX)?;
        let cells = self.classes.len() * self.stations.len();
        between("network", "classes times stations", cells, 1, CELLS_MAX)?;
        let mut names = HashSet::new();
        for station in &self.stations {
            check_station(station)?;
            unique(&mut names, &station.name, "station")?;
        }
        names.clear();
        for class in &self.classes {
            self.check_class(class)?;
            unique(&mut names, &class.name, "class")?;
        }
        Ok(())
    }

    /// Checks the class added last, assuming that the others are valid. The name of the class need
    /// not be unique, and the number of classes is limited only by that of class–station pairs.
    pub(crate) fn check_added(&self, id: ClassId) -> Result<(), ModelError> {
        let cells = self.classes.len() * self.stations.len();
        between("network", "classes times stations", cells, 1, CELLS_MAX)?;
        self.check_class(&self.classes[id.0 as usize])
    }

    fn check_class(&self, class: &Class) -> Result<(), ModelError> {
        let place = format!("class '{}'", class.name);
        match &class.source {
            Source::Closed { population, think } => {
                let population = *population as usize;
                between(&place, "requests", population, 1, POPULATION_MAX as usize)?;
                think.check(|| format!("{place}, think"))?;
            }
            Source::Open { gap } => gap.check(|| format!("{place}, rate"))?,
        }
        let mut steps = 0;
        self.check_route(&class.route, &place, Nesting::default(), &mut steps)?;
        let mut work = 0.0;
        visits(&class.route, 1.0, &mut |visit, chance| work += chance * visit.service.mean_s);
        let (round_s, what) = match &class.source {
            Source::Closed { think, .. } => (think.mean_s + work, "work and think time"),
            Source::Open { gap } => (gap.mean_s, "gap between arrivals"),
        };
        if round_s < ROUND_S_MIN {
            let problem = format!("{what} of {round_s} s; at least {ROUND_S_MIN} s is needed");
            return Err(ModelError::invalid(place, problem));
        }
        Ok(())
    }

    fn check_route(
        &self,
        route: &[Step],
        place: &str,
        within: Nesting,
        steps: &mut usize,
    ) -> Result<(), ModelError> {
        *steps += route.len();
        between(place, "steps", *steps, 0, STEPS_MAX)?;
        between(place, "steps within each other", within.depth, 0, DEPTH_MAX)?;
        between(place, "stations held at once", within.held, 0, HELD_MAX)?;
        let inside = Nesting { depth: within.depth + 1, ..within };
        for step in route {
            match step {
                Step::Visit(visit) => self.check_visit(visit, place, false)?,
                Step::Hold(visit, inner) => {
                    self.check_visit(visit, place, true)?;
                    let holding = Nesting { held: within.held + 1, ..inside };
                    self.check_route(inner, place, holding, steps)?;
                }
                Step::Fork(branches) => {
                    between(place, "branches of a fork", branches.len(), 1, STEPS_MAX)?;
                    // A branch holds its own stations.
                    let branch = Nesting { held: 0, ..inside };
                    for route in branches {
                        self.check_route(route, place, branch, steps)?;
                    }
                }
                Step::Choose(branches) => {
                    between(place, "branches of a choice", branches.len(), 1, STEPS_MAX)?;
                    check_chances(branches, place)?;
                    for (_, route) in branches {
                        self.check_route(route, place, inside, steps)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn check_visit(&self, visit: &Visit, place: &str, hold: bool) -> Result<(), ModelError> {
        between(place, "stations of a visit", visit.at.len(), 1, STATIONS_MAX)?;
        for at in &visit.at {
            let Some(station) = self.stations.get(at.0 as usize) else {
                let problem = format!("a visit to station number {}, which is not there", at.0);
                return Err(ModelError::invalid(place, problem));
            };
            if hold && !matches!(station.servers, Servers::Count(_)) {
                let problem = format!("holds '{}', which has no counted servers", station.name);
                return Err(ModelError::invalid(place, problem));
            }
            let capacity = station.reserve.as_ref().map_or(0.0, |reserve| reserve.capacity);
            if !(0.0..=capacity).contains(&visit.draws) {
                let (name, draws) = (&station.name, visit.draws);
                let problem = format!("draws {draws} units from '{name}', which holds {capacity}");
                return Err(ModelError::invalid(place, problem));
            }
        }
        let at = self.name(visit.at[0]);
        visit.service.check(|| format!("{place}, service at '{at}'"))
    }

    /// Returns the name of an existing station.
    pub(crate) fn name(&self, station: StationId) -> &str {
        &self.stations[station.0 as usize].name
    }
}

/// Nesting depth of a route.
#[derive(Clone, Copy, Default)]
struct Nesting {
    depth: usize,
    held: usize,
}

/// Calls `each` for every visit of a route, with the mean number of times that a request makes the
/// visit.
pub(crate) fn visits<'a>(route: &'a [Step], chance: f64, each: &mut impl FnMut(&'a Visit, f64)) {
    for step in route {
        match step {
            Step::Visit(visit) => each(visit, chance),
            Step::Hold(visit, inner) => {
                each(visit, chance);
                visits(inner, chance, each);
            }
            Step::Fork(branches) => branches.iter().for_each(|route| visits(route, chance, each)),
            Step::Choose(branches) => {
                branches.iter().for_each(|(share, route)| visits(route, chance * share, each));
            }
        }
    }
}

/// Returns the minimum mean time of a route without queueing, in seconds: a fork needs at least the
/// mean of its longest branch, and stations run at their maximum speed for one request.
pub(crate) fn unloaded_s(network: &Network, route: &[Step]) -> f64 {
    let visit_s = |visit: &Visit| {
        let speed = |at: &StationId| network.stations[at.0 as usize].servers.speed_each();
        let paces: f64 = visit.at.iter().map(|at| 1.0 / speed(at)).sum();
        visit.service.mean_s * paces / visit.at.len() as f64
    };
    let step_s = |step: &Step| match step {
        Step::Visit(visit) => visit_s(visit),
        Step::Hold(visit, inner) => visit_s(visit) + unloaded_s(network, inner),
        Step::Fork(branches) => {
            branches.iter().map(|route| unloaded_s(network, route)).fold(0.0, f64::max)
        }
        Step::Choose(branches) => {
            branches.iter().map(|(chance, route)| chance * unloaded_s(network, route)).sum()
        }
    };
    route.iter().map(step_s).sum()
}

/// Returns whether a route has visits and choices only.
pub(crate) fn is_product_form(route: &[Step]) -> bool {
    route.iter().all(|step| match step {
        Step::Visit(_) => true,
        Step::Hold(..) | Step::Fork(_) => false,
        Step::Choose(branches) => branches.iter().all(|(_, route)| is_product_form(route)),
    })
}

fn check_station(station: &Station) -> Result<(), ModelError> {
    let place = format!("station '{}'", station.name);
    if let Servers::Count(count) = &station.servers {
        between(&place, "servers", *count as usize, 1, SERVERS_MAX as usize)?;
    }
    if let Servers::Rates(rates) = &station.servers {
        between(&place, "rates", rates.len(), 1, SERVERS_MAX as usize)?;
        if let Some(rate) = rates.iter().find(|rate| !RATES.contains(*rate)) {
            let (low, high) = RATES.into_inner();
            let problem = format!("a relative rate of {rate}; {low} to {high} is possible");
            return Err(ModelError::invalid(place, problem));
        }
    }
    if let Some(head) = &station.head {
        if station.servers != Servers::Count(1) {
            return Err(ModelError::invalid(place, "a head, and not one server"));
        }
        head.check(&place)?;
    }
    let Some(reserve) = &station.reserve else { return Ok(()) };
    if !matches!(station.servers, Servers::Count(_)) {
        return Err(ModelError::invalid(place, "a reserve, but no counted servers"));
    }
    check_reserve(reserve, &place)
}

fn check_reserve(reserve: &Reserve, place: &str) -> Result<(), ModelError> {
    let Reserve { capacity, low, high, refill_per_s, slowdown } = reserve;
    let problem = if !(f64::MIN_POSITIVE..=UNITS_MAX).contains(capacity) {
        format!("a capacity of {capacity}; more than 0 and up to {UNITS_MAX} is possible")
    } else if !(0.0..=*capacity).contains(high) || !(0.0..=*high).contains(low) {
        format!("low {low} and high {high}; 0 ≤ low ≤ high ≤ capacity is needed")
    } else if !(1e-6..=UNITS_MAX).contains(refill_per_s) {
        format!("a refill of {refill_per_s} units per second; 1e-6 to {UNITS_MAX} is possible")
    } else if !(1.0..=SLOWDOWN_MAX).contains(slowdown) {
        format!("a slowdown of {slowdown}; 1 to {SLOWDOWN_MAX} is possible")
    } else {
        return Ok(());
    };
    Err(ModelError::invalid(format!("{place}, reserve"), problem))
}

fn check_chances(branches: &[(f64, Vec<Step>)], place: &str) -> Result<(), ModelError> {
    let sum: f64 = branches.iter().map(|(chance, _)| chance).sum();
    let each = branches.iter().all(|(chance, _)| (0.0..=1.0).contains(chance));
    if each && (sum - 1.0).abs() < 1e-9 {
        return Ok(());
    }
    let problem = format!("the chances of a choice add up to {sum}; they must be 0 to 1 and sum 1");
    Err(ModelError::invalid(place, problem))
}

fn between(
    place: &str,
    what: &str,
    count: usize,
    low: usize,
    high: usize,
) -> Result<(), ModelError> {
    if (low..=high).contains(&count) {
        return Ok(());
    }
    Err(ModelError::invalid(place, format!("{count} {what}; {low} to {high} are possible")))
}

fn unique<'a>(names: &mut HashSet<&'a str>, name: &'a str, what: &str) -> Result<(), ModelError> {
    if names.insert(name) {
        return Ok(());
    }
    Err(ModelError::invalid(format!("{what} '{name}'"), "the name is taken: give it another"))
}

impl Service {
    /// Returns whether queueing theory is exact for the service at an FCFS station.
    pub(crate) fn is_exponential(&self) -> bool {
        self.mean_s == 0.0 || self.shape == crate::Shape::Exponential
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Class, Shape};

    /// Returns a network that uses every value with a range.
    fn everything() -> Network {
        let mut network = Network::default();
        let cores = network.add_station(Station::servers("cores", 8));
        let lock = network.add_station(Station {
            servers: Servers::Rates(vec![1.0, 0.9, 0.7]),
            ..Station::servers("lock", 1)
        });
        let (low, high, slowdown) = (1e3, 5e3, 2.0);
        let reserve = Reserve { capacity: 1e6, low, high, refill_per_s: 4e4, slowdown };
        let device = network
            .add_station(Station { reserve: Some(reserve), ..Station::servers("device", 4) });
        let write = Visit { at: vec![device], service: Service::fixed(2e-5), draws: 1.0 };
        let read = Visit { draws: 0.0, ..write.clone() };
        let either = vec![(0.7, vec![Step::Visit(read)]), (0.3, vec![Step::Visit(write)])];
        let mixed = Class::closed("mixed", 32).visit(cores, Service::exponential(2e-6));
        network.add_class(mixed.step(Step::Choose(either)));
        network.add_class(Class::open("paced", 3e3).visit(lock, Service::fixed(1e-6)));
        network
    }

    fn first_service(network: &mut Network) -> &mut Service {
        match &mut network.classes[0].route[0] {
            Step::Visit(visit) => &mut visit.service,
            _ => unreachable!("the first step is a visit"),
        }
    }

    fn chances(network: &mut Network) -> &mut Vec<(f64, Vec<Step>)> {
        match &mut network.classes[0].route[1] {
            Step::Choose(branches) => branches,
            _ => unreachable!("the second step is a choice"),
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        everything().check().unwrap();
        type Change = fn(&mut Network);
        let cases: [(Change, &str); 13] = [
            (|n| n.stations[0].servers = Servers::Count(0), "cores"),
            (|n| n.stations[1].servers = Servers::Rates(vec![0.0, 0.9]), "lock"),
            (|n| n.stations[2].reserve.as_mut().unwrap().low = 6e3, "low"),
            (|n| first_service(n).mean_s = f64::NAN, "NaN"),
            (|n| first_service(n).mean_s = -2e-6, "cores"),
            (|n| first_service(n).mean_s = 2e9, "cores"),
            (|n| first_service(n).shape = Shape::Erlang(0), "stages"),
            (|n| chances(n)[0].0 = 0.8, "sum"),
            (
                |n| match &mut chances(n)[1].1[0] {
                    Step::Visit(visit) => visit.draws = 2e6,
                    _ => unreachable!("a write is a visit"),
                },
                "draws",
            ),
            (|n| n.classes[0].source = Class::closed("", 99_999_999).source, "mixed"),
            (|n| n.classes[1].source = Class::open("", f64::INFINITY).source, "paced"),
            (|n| n.classes[1].source = Class::open("", -1.0).source, "paced"),
            (|n| n.classes[1].name = "mixed".to_owned(), "taken"),
        ];
        for (number, (change, word)) in cases.into_iter().enumerate() {
            let mut network = everything();
            change(&mut network);
            let error = network.check().unwrap_err().to_string();
            assert!(error.contains(word), "{number}, {word}: {error}");
        }
        assert!(Network::default().check().is_err());
    }

    #[test]
    fn depth_and_size_have_their_limits() {
        let checked = |route: fn(StationId, usize) -> Vec<Step>, count: usize| {
            let mut network = Network::default();
            let at = network.add_station(Station::servers("a", 1));
            let mut class = Class::closed("c", 1);
            class.route = route(at, count);
            network.add_class(class);
            network.check().is_ok()
        };
        fn step(at: StationId) -> Step {
            Step::Visit(Visit { at: vec![at], service: Service::fixed(1e-6), draws: 0.0 })
        }
        fn nested(at: StationId, depth: usize) -> Vec<Step> {
            (0..depth).fold(vec![step(at)], |inner, _| vec![Step::Fork(vec![inner])])
        }
        assert!(checked(nested, 15) && !checked(nested, 18) && !checked(nested, 100));
        let many = |at, count| vec![step(at); count];
        assert!(checked(many, 4096) && !checked(many, 4097));
    }
}
