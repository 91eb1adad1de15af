//! Queueing networks: stations, and classes of requests that visit them.

use serde::{Deserialize, Serialize};

use crate::{Head, Service};

/// A station: its index in [`Network::stations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(pub u32);

/// A class: its index in [`Network::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

/// Stations, and the classes that visit them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// At most 4096.
    pub stations: Vec<Station>,
    /// At most 1024.
    pub classes: Vec<Class>,
}

/// Servers behind one FCFS queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// Unique within the network.
    pub name: String,
    /// Number and speed of its servers.
    pub servers: Servers,
    /// A stock that requests consume and the station refills at a lower speed.
    pub reserve: Option<Reserve>,
    /// A disk: the time of a request beyond its service depends on its extent. Only requests with
    /// an [`Extent`](crate::Extent) move the arm, those of an [`Emulation`](crate::Emulation).
    pub head: Option<Head>,
}

/// Parallelism of a station.
#[derive(Clone, Debug, PartialEq)]
pub enum Servers {
    /// This many equal servers, 1 to 65536.
    Count(u32),
    /// A server for each request: a pure delay.
    Infinite,
    /// Load-dependent rates with 1, 2, 3 … requests present, relative to the service time: with `n`
    /// present the station completes `rates[n - 1] / mean_s` requests a second; beyond the list the
    /// last one holds. `[1, 2, 3]` equals three servers.
    Rates(Vec<f64>),
}

/// A stock that visits consume. Below `low` the station refills it, slowed down, until `high`; a
/// visit that finds it empty waits. This models garbage collection of flash: a fresh drive writes
/// fast until its erased blocks run out. Only simulation supports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// Units of a full stock, the initial state of a simulation.
    pub capacity: f64,
    /// Refilling starts below this level, in units.
    pub low: f64,
    /// Refilling ends at this level, in units.
    pub high: f64,
    /// Units refilled per second.
    pub refill_per_s: f64,
    /// Factor of service times during a refill, 1 to 1000.
    pub slowdown: f64,
}

/// A class of requests: their source, and their route.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Unique within the network.
    pub name: String,
    /// The source of its requests.
    pub source: Source,
    /// Its route, step by step.
    pub route: Vec<Step>,
}

/// The source of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A fixed number of requests, each reissued after its completion and think time.
    Closed {
        /// Requests outstanding or thinking, 1 to 2²⁰.
        population: u32,
        /// Think time between completion and reissue; not part of the response.
        think: Service,
    },
    /// Requests arrive independently of the network's state; gaps are exponential in theory, and of
    /// this distribution in a simulation.
    Open {
        /// Gap between two arrivals: its mean is one over the rate.
        gap: Service,
    },
}

/// A step of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Queue at a station, be served, leave.
    Visit(Visit),
    /// Be served at a station, and keep the server during the inner steps, like an engine that
    /// waits for its transfer. At counted servers only, at most four at once.
    Hold(Visit, Vec<Step>),
    /// Run all branches at once, and go on when the last is done: the writes of a mirror.
    Fork(Vec<Vec<Step>>),
    /// Run one branch, chosen with these probabilities, which add up to 1.
    Choose(Vec<(f64, Vec<Step>)>),
}

/// A service at a station.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// The station, or several, of which each request takes a random one.
    pub at: Vec<StationId>,
    /// The service time.
    pub service: Service,
    /// Units consumed of the station's [`Reserve`].
    pub draws: f64,
}

impl Network {
    /// Adds a station and returns its id.
    pub fn add_station(&mut self, station: Station) -> StationId {
        self.stations.push(station);
        StationId(self.stations.len() as u32 - 1)
    }

    /// Adds a class and returns its id.
    pub fn add_class(&mut self, class: Class) -> ClassId {
        self.classes.push(class);
        ClassId(self.classes.len() as u32 - 1)
    }
}

impl Servers {
    /// Speedup over one server with `present` requests.
    pub(crate) fn speed(&self, present: u32) -> f64 {
        match self {
            Servers::Count(count) => f64::from(present.min(*count)),
            Servers::Infinite => f64::from(present),
            Servers::Rates(rates) => rates[(present as usize).min(rates.len()).max(1) - 1],
        }
    }

    /// Highest speedup over one server; infinite for a delay.
    pub(crate) fn speed_max(&self) -> f64 {
        match self {
            Servers::Count(count) => f64::from(*count),
            Servers::Infinite => f64::INFINITY,
            Servers::Rates(rates) => rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Highest speedup over one server for each single request.
    pub(crate) fn speed_each(&self) -> f64 {
        match self {
            Servers::Count(_) | Servers::Infinite => 1.0,
            Servers::Rates(rates) => {
                (1..).zip(rates).map(|(n, rate)| rate / f64::from(n)).fold(0.0, f64::max)
            }
        }
    }
}

impl Station {
    /// `count` equal servers behind one queue.
    pub fn servers(name: impl Into<String>, count: u32) -> Station {
        Station { name: name.into(), servers: Servers::Count(count), reserve: None, head: None }
    }

    /// A pure delay, without a queue.
    pub fn delay(name: impl Into<String>) -> Station {
        Station { name: name.into(), servers: Servers::Infinite, reserve: None, head: None }
    }
}

impl Class {
    /// `population` requests that are reissued at once; an empty route.
    pub fn closed(name: impl Into<String>, population: u32) -> Class {
        let think = Service::fixed(0.0);
        Class { name: name.into(), source: Source::Closed { population, think }, route: Vec::new() }
    }

    /// Poisson arrivals of `rate_per_s` on average; an empty route.
    pub fn open(name: impl Into<String>, rate_per_s: f64) -> Class {
        let gap = Service::exponential(1.0 / rate_per_s);
        Class { name: name.into(), source: Source::Open { gap }, route: Vec::new() }
    }

    /// Sets the think time. Open classes have none.
    pub fn think(mut self, service: Service) -> Class {
        if let Source::Closed { think, .. } = &mut self.source {
            *think = service;
        }
        self
    }

    /// Appends a visit to `station` to its route.
    pub fn visit(self, station: StationId, service: Service) -> Class {
        self.visit_any([station], service)
    }

    /// Appends a visit to a random one of `stations` to its route.
    pub fn visit_any(
        self,
        stations: impl IntoIterator<Item = StationId>,
        service: Service,
    ) -> Class {
        let at = stations.into_iter().collect();
        self.step(Step::Visit(Visit { at, service, draws: 0.0 }))
    }

    /// Appends this step to its route.
    pub fn step(mut self, step: Step) -> Class {
        self.route.push(step);
        self
    }
}
