//! Mean values by queueing theory.

mod approximate;
mod demand;
mod exact;
mod open;
mod twins;

use crate::{ClassId, ModelError, Network, Servers, StationId, laws};
use demand::{Center, Closed, Demands, Means};

/// A solution method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Exact solution if it is quick to compute, Linearizer otherwise.
    Auto,
    /// Exact mean value analysis (Reiser and Lavenberg 1980), in product form.
    Exact,
    /// Linearizer (Chandy and Neuse 1982).
    Linearizer,
    /// Bard–Schweitzer.
    Schweitzer,
}

/// Reason why the means of a solution are not exact for the given network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// The method itself is an approximation.
    Approximate,
    /// Service at this station was assumed to be exponential.
    NotExponential(StationId),
    /// Classes have different mean service times at this FCFS station.
    UnequalService(StationId),
    /// Waiting for one of several servers was approximated by Erlang's formula.
    SplitServers(StationId),
    /// Arrivals of this class were assumed to be Poisson.
    NotPoisson(ClassId),
    /// The reserve of this station was assumed never to be empty.
    ReserveIgnored(StationId),
}

/// Means of a network, from theory or from a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The method used, never [`Method::Auto`]; `None` for a simulation.
    pub method: Option<Method>,
    /// Means of the classes, in the order of [`Network::classes`].
    pub classes: Vec<ClassResult>,
    /// Means of the stations, in the order of [`Network::stations`].
    pub stations: Vec<StationResult>,
    /// Reasons why the figures are not exact; empty if they are.
    pub caveats: Vec<Caveat>,
}

/// Means of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassResult {
    /// Requests completed per second.
    pub throughput_per_s: f64,
    /// Time from issue to completion in seconds, without think time.
    pub response_s: f64,
    /// Mean number of requests between issue and completion.
    pub outstanding: f64,
}

/// Means of one station.
#[derive(Clone, Debug, PartialEq)]
pub struct StationResult {
    /// Utilisation of the servers, or of the maximum rate, 0 to 1; for a delay the mean number of
    /// requests present.
    pub utilisation: f64,
    /// Mean number of requests waiting or in service.
    pub present: f64,
    /// Requests completed per second.
    pub throughput_per_s: f64,
    /// Residence time of a request over its whole route, per class, in seconds.
    pub residence_s: Vec<f64>,
}

impl Solution {
    /// Returns the requests of all classes completed per second.
    pub fn throughput_per_s(&self) -> f64 {
        self.classes.iter().map(|class| class.throughput_per_s).sum()
    }

    /// Returns the mean response time over the requests of all classes, in seconds.
    pub fn response_s(&self) -> f64 {
        let outstanding: f64 = self.classes.iter().map(|class| class.outstanding).sum();
        outstanding / self.throughput_per_s()
    }
}

/// Solves a network of closed classes, open classes, or both.
///
/// # Errors
///
/// Errors of [`Network::check`]; [`ModelError::NotProductForm`] for routes that hold or fork;
/// [`ModelError::Overload`] for open classes; [`ModelError::TooLarge`] for [`Method::Exact`];
/// [`ModelError::Diverged`] for the approximate methods.
pub fn solve(network: &Network, method: Method) -> Result<Solution, ModelError> {
    network.check()?;
    let demands = Demands::of(network)?;
    let load = open::load(network, &demands)?;
    let slack: Vec<f64> = load.iter().map(|load| 1.0 - load.used).collect();
    let closed = Closed::of(network, &demands, &slack);
    let mut caveats = demand::caveats(network, &demands);
    let method = choose(network, &closed, &load, method, &mut caveats)?;
    let means = match method {
        Method::Linearizer => approximate::linearizer(&closed)?,
        Method::Schweitzer => approximate::schweitzer(&closed)?,
        Method::Auto | Method::Exact => exact::solve(&closed)?,
    };
    let mut solution = assemble(network, &demands, &closed, &means);
    open::add(network, &demands, &load, &mut solution);
    totals(network, &demands, &mut solution);
    (solution.method, solution.caveats) = (Some(method), caveats);
    Ok(solution)
}

/// Maximum work of an exact solution by [`Method::Auto`], in multiplications: a few milliseconds.
const EXACT_COST: u64 = 2_000_000;

/// Returns the method to use, and adds its caveats.
fn choose(
    network: &Network,
    closed: &Closed,
    load: &[open::Load],
    method: Method,
    caveats: &mut Vec<Caveat>,
) -> Result<Method, ModelError> {
    // The recursion covers neither open requests at several servers nor different service times in
    // one queue.
    let any = |test: &dyn Fn(&Center) -> bool| closed.centers.iter().any(test);
    let shared = any(&|center| {
        center.speeds.len() > 1 && center.members.iter().any(|k| load[*k].used > 0.0)
    });
    let refuse = |what| {
        let class = network.classes[closed.classes[0]].name.clone();
        Err(ModelError::NotProductForm { class, what })
    };
    let unequal = caveats.iter().any(|caveat| matches!(caveat, Caveat::UnequalService(_)));
    let method = match method {
        Method::Auto if shared || unequal || exact::cost(closed) > EXACT_COST => Method::Linearizer,
        Method::Auto => Method::Exact,
        Method::Exact if shared => {
            return refuse("shares several servers with open classes");
        }
        given => given,
    };
    if method == Method::Exact {
        return Ok(method);
    }
    if !closed.classes.is_empty() {
        caveats.push(Caveat::Approximate);
    }
    if any(&|center| center.speeds.windows(2).any(|pair| pair[1] < pair[0])) {
        return refuse("visits a station that slows down under load");
    }
    let split = closed.centers.iter().filter(|center| center.speeds.len() > 1);
    let split = split.flat_map(|center| &center.members);
    caveats.extend(split.map(|station| Caveat::SplitServers(StationId(*station as u32))));
    Ok(method)
}

/// Returns the solution of the closed classes, with figures of the network.
fn assemble(network: &Network, demands: &Demands, closed: &Closed, means: &Means) -> Solution {
    let classes = network.classes.len();
    let mut solution = Solution {
        method: None,
        classes: vec![ClassResult::default(); classes],
        stations: vec![StationResult::idle(classes); network.stations.len()],
        caveats: Vec::new(),
    };
    // Station by station, as the data is station-major.
    for (station, result) in solution.stations.iter_mut().enumerate() {
        // Without queueing the residence time is the demand; centers with queues are overwritten
        // below.
        let speed = network.stations[station].servers.speed(1);
        for class in &closed.classes {
            result.residence_s[*class] = demands.demand_s(*class, station) / speed;
        }
    }
    for (center, residence_s) in closed.centers.iter().zip(&means.residence_s) {
        for station in &center.members {
            let result = &mut solution.stations[*station];
            for (class, residence_s) in closed.classes.iter().zip(residence_s) {
                result.residence_s[*class] = *residence_s;
            }
        }
    }
    for (class, throughput_per_s) in closed.classes.iter().zip(&means.throughput_per_s) {
        solution.classes[*class].throughput_per_s = *throughput_per_s;
    }
    solution
}

/// Computes from throughputs and residence times all figures that follow by Little's law.
fn totals(network: &Network, demands: &Demands, solution: &mut Solution) {
    for station in &solution.stations {
        for (class, residence_s) in solution.classes.iter_mut().zip(&station.residence_s) {
            class.response_s += residence_s;
        }
    }
    for class in &mut solution.classes {
        class.outstanding = laws::population(class.throughput_per_s, class.response_s);
    }
    for (station, result) in solution.stations.iter_mut().enumerate() {
        let mut work = 0.0;
        for (index, class) in solution.classes.iter().enumerate() {
            work += class.throughput_per_s * demands.demand_s(index, station);
            result.present += class.throughput_per_s * result.residence_s[index];
            result.throughput_per_s += class.throughput_per_s * demands.visits(index, station);
        }
        result.utilisation = match &network.stations[station].servers {
            Servers::Infinite => result.present,
            servers => work / servers.speed_max(),
        };
    }
}

impl StationResult {
    fn idle(classes: usize) -> StationResult {
        let residence_s = vec![0.0; classes];
        StationResult { utilisation: 0.0, present: 0.0, throughput_per_s: 0.0, residence_s }
    }
}
