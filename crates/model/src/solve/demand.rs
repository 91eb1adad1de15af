//! A network in terms of queueing theory: classes, centers, demands.

use std::collections::HashMap;

use super::Caveat;
use super::open::first_come;
use crate::check::visits;
use crate::{ClassId, ModelError, Network, Servers, Service, Source, StationId, Step};

/// Demands of every class at every station. The order is station-major: solvers iterate over all
/// classes of a station, and a thousand stations with as many classes exceed a cache.
pub(super) struct Demands {
    classes: usize,
    /// Time of one server, in seconds, that a request needs at a station over its whole route.
    demand_s: Vec<f64>,
    /// Number of services of a request at a station.
    visits: Vec<f64>,
}

impl Demands {
    /// # Errors
    ///
    /// [`ModelError::NotProductForm`] for routes that hold or fork.
    pub fn of(network: &Network) -> Result<Demands, ModelError> {
        let classes = network.classes.len();
        let cells = network.stations.len() * classes;
        let mut found = Demands { classes, demand_s: vec![0.0; cells], visits: vec![0.0; cells] };
        for (index, class) in network.classes.iter().enumerate() {
            if let Some(what) = beyond_theory(&class.route) {
                return Err(ModelError::NotProductForm { class: class.name.clone(), what });
            }
            visits(&class.route, 1.0, &mut |visit, chance| {
                let share = chance / visit.at.len() as f64;
                for at in &visit.at {
                    let cell = at.0 as usize * classes + index;
                    found.visits[cell] += share;
                    found.demand_s[cell] += share * visit.service.mean_s;
                }
            });
        }
        Ok(found)
    }

    pub fn demand_s(&self, class: usize, station: usize) -> f64 {
        self.demand_s[station * self.classes + class]
    }

    pub fn visits(&self, class: usize, station: usize) -> f64 {
        self.visits[station * self.classes + class]
    }

    /// Returns the mean service time, in seconds.
    fn service_s(&self, class: usize, station: usize) -> f64 {
        self.demand_s(class, station) / self.visits(class, station)
    }
}

fn beyond_theory(route: &[Step]) -> Option<&'static str> {
    route.iter().find_map(|step| match step {
        Step::Visit(_) => None,
        Step::Hold(..) => Some("holds a station while it uses others"),
        Step::Fork(_) => Some("forks"),
        Step::Choose(branches) => branches.iter().find_map(|(_, route)| beyond_theory(route)),
    })
}

/// Stations with a queue that are equal for every class: one of them is solved for all.
#[derive(Clone, Debug)]
pub(super) struct Center {
    pub members: Vec<usize>,
    /// Speeds with 1, 2, 3 … requests; the last speed applies beyond.
    pub speeds: Vec<f64>,
    /// Demands at one member, by closed class.
    pub demand_s: Vec<f64>,
    /// Visits to one member, by closed class.
    pub visits: Vec<f64>,
}

/// Closed classes of a network, adjusted for the load of the open ones.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    /// Indices of the classes in the network.
    pub classes: Vec<usize>,
    pub population: Vec<u32>,
    /// Think time, and time at stations without a queue.
    pub delay_s: Vec<f64>,
    pub centers: Vec<Center>,
}

/// Solution of [`Closed`].
pub(super) struct Means {
    pub throughput_per_s: Vec<f64>,
    /// Residence times at one member, by center and closed class.
    pub residence_s: Vec<Vec<f64>>,
}

impl Closed {
    /// Returns the closed classes; `slack` is the share of each station that open classes leave
    /// idle.
    pub fn of(network: &Network, demands: &Demands, slack: &[f64]) -> Closed {
        let mut closed = Closed {
            classes: Vec::new(),
            population: Vec::new(),
            delay_s: Vec::new(),
            centers: Vec::new(),
        };
        for (index, class) in network.classes.iter().enumerate() {
            if let Source::Closed { population, think } = &class.source {
                closed.classes.push(index);
                closed.population.push(*population);
                closed.delay_s.push(think.mean_s);
            }
        }
        let total: u64 = closed.population.iter().map(|n| u64::from(*n)).sum();
        let mut alike: HashMap<Vec<u64>, usize> = HashMap::new();
        for (station, part) in slack.iter().enumerate() {
            let speeds = speeds(&network.stations[station].servers, total);
            closed.add(station, speeds, *part, demands, &mut alike);
        }
        closed
    }

    fn add(
        &mut self,
        station: usize,
        speeds: Vec<f64>,
        slack: f64,
        demands: &Demands,
        alike: &mut HashMap<Vec<u64>, usize>,
    ) {
        let demand = |class: &usize| demands.demand_s(*class, station) / slack;
        let demand_s: Vec<f64> = self.classes.iter().map(demand).collect();
        if demand_s.iter().all(|demand| *demand == 0.0) {
            return;
        }
        if speeds.is_empty() {
            self.delay_s.iter_mut().zip(&demand_s).for_each(|(delay, demand)| *delay += demand);
            return;
        }
        let visits: Vec<f64> =
            self.classes.iter().map(|class| demands.visits(*class, station)).collect();
        // The key lists only visiting classes: a station has few of them.
        let mut key: Vec<u64> = speeds.iter().map(|speed| speed.to_bits()).collect();
        for (class, (demand_s, visits)) in demand_s.iter().zip(&visits).enumerate() {
            if *visits > 0.0 {
                key.extend([class as u64, demand_s.to_bits(), visits.to_bits()]);
            }
        }
        let next = self.centers.len();
        let index = *alike.entry(key).or_insert(next);
        if index == next {
            self.centers.push(Center { members: Vec::new(), speeds, demand_s, visits });
        }
        self.centers[index].members.push(station);
    }
}

/// Returns the speeds with 1 to `total` requests as far as they differ; empty if no request ever
/// waits.
fn speeds(servers: &Servers, total: u64) -> Vec<f64> {
    match servers {
        Servers::Infinite => Vec::new(),
        Servers::Count(count) if u64::from(*count) >= total => Vec::new(),
        Servers::Count(count) => (1..=*count).map(f64::from).collect(),
        Servers::Rates(rates) => {
            let mut rates: Vec<f64> =
                rates.iter().copied().take(usize::try_from(total).unwrap_or(usize::MAX)).collect();
            while rates.len() > 1 && rates[rates.len() - 1] == rates[rates.len() - 2] {
                rates.pop();
            }
            rates
        }
    }
}

/// Returns the deviations from the theory's assumptions, station by station.
pub(super) fn caveats(network: &Network, demands: &Demands) -> Vec<Caveat> {
    let exponential = exponential_stations(network, demands);
    let open = network.classes.iter().any(|class| matches!(class.source, Source::Open { .. }));
    let mut caveats = Vec::new();
    for (index, station) in network.stations.iter().enumerate() {
        let id = StationId(index as u32);
        // At pure delays any distribution of service is exact.
        let any = matches!(station.servers, Servers::Infinite);
        let queues = !(any || open && first_come(network, index).is_some());
        if queues && !exponential[index] {
            caveats.push(Caveat::NotExponential(id));
        }
        if queues && unequal(network, demands, index) {
            caveats.push(Caveat::UnequalService(id));
        }
        if station.reserve.is_some() {
            caveats.push(Caveat::ReserveIgnored(id));
        }
    }
    let gaps = network.classes.iter().zip(0..);
    for (class, index) in gaps {
        if let Source::Open { gap } = &class.source
            && !gap.is_exponential()
        {
            caveats.push(Caveat::NotPoisson(ClassId(index)));
        }
    }
    caveats
}

/// Returns, per station, whether all services are exponential and those of each class have the same
/// mean.
fn exponential_stations(network: &Network, demands: &Demands) -> Vec<bool> {
    let mut exponential = vec![true; network.stations.len()];
    for (index, class) in network.classes.iter().enumerate() {
        visits(&class.route, 1.0, &mut |visit, _| {
            for at in visit.at.iter().map(|at| at.0 as usize) {
                let usual = Service::exponential(demands.service_s(index, at));
                exponential[at] &=
                    visit.service.is_exponential() && nearly(usual.mean_s, visit.service.mean_s);
            }
        });
    }
    exponential
}

/// Returns whether classes have different mean service times at a station.
pub(super) fn unequal(network: &Network, demands: &Demands, station: usize) -> bool {
    let classes = 0..network.classes.len();
    let mut services = classes
        .filter(|class| demands.visits(*class, station) > 0.0)
        .map(|class| demands.service_s(class, station));
    let first = services.next().unwrap_or(0.0);
    services.any(|service| !nearly(first, service))
}

fn nearly(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}
