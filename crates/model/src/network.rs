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
    /// Stations, at most 8192.
    pub stations: Vec<Station>,
    /// Classes, at most 4096.
    pub classes: Vec<Class>,
}

/// A station: servers with one FCFS queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// Name, unique within the network.
    pub name: String,
    /// Number and speed of the servers.
    pub servers: Servers,
    /// Reserve that requests consume and the station refills at a lower speed.
    pub reserve: Option<Reserve>,
    /// Mechanics of a disk: the time of a request also depends on its extent. Only requests with an
    /// [`Extent`](crate::Extent), those of an [`Emulation`](crate::Emulation), move the arm.
    pub head: Option<Head>,
}

/// Parallelism of a station.
#[derive(Clone, Debug, PartialEq)]
pub enum Servers {
    /// Number of equal servers, 1 to 65536.
    Count(u32),
    /// One server per request: a pure delay.
    Infinite,
    /// Load-dependent rates with 1, 2, 3 … requests present, relative to the service time: with `n`
    /// present the station completes `rates[n - 1] / mean_s` requests a second; beyond the list the
    /// last rate applies. `[1, 2, 3]` equals three servers.
    Rates(Vec<f64>),
}

/// A reserve that visits consume. Below `low` the station refills the reserve, at reduced speed,
/// until `high`; a visit that finds the reserve empty waits. Flash with garbage collection is
/// modelled in this way: a fresh drive writes fast until its erased blocks run out. Only simulation
/// supports reserves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// Units of a full reserve, the initial state of a simulation.
    pub capacity: f64,
    /// Level below which refilling starts, in units.
    pub low: f64,
    /// Level at which refilling ends, in units.
    pub high: f64,
    /// Refill rate, in units per second.
    pub refill_per_s: f64,
    /// Factor of service times during a refill, 1 to 1000.
    pub slowdown: f64,
}

/// A class of requests: their source, and their route.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Name of the class, unique within the network.
    pub name: String,
    /// Source of the requests.
    pub source: Source,
    /// Route of the requests, step by step.
    pub route: Vec<Step>,
}

/// The source of requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Closed loop: a fixed number of requests, each reissued after its completion and think time.
    Closed {
        /// Number of requests outstanding or thinking, 1 to 2²⁰.
        population: u32,
        /// Think time between completion and reissue; not part of the response time.
        think: Service,
    },
    /// Arrivals that do not depend on the network's state; gaps are exponential in theory, and have
    /// this distribution in a simulation.
    Open {
        /// Gap between two arrivals: its mean is one over the rate.
        gap: Service,
    },
}

/// A step of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Queue at a station, be served, and leave.
    Visit(Visit),
    /// Be served at a station, and keep the server during the inner steps, like an engine that
    /// waits for its transfer. Only stations with a number of servers can be held, at most four at
    /// once.
    Hold(Visit, Vec<Step>),
    /// Run all branches concurrently, and continue when the last one is done, like the writes of a
    /// mirror.
    Fork(Vec<Vec<Step>>),
    /// Run one branch, chosen with these probabilities, which add up to 1.
    Choose(Vec<(f64, Vec<Step>)>),
}

/// A service at a station.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Station, or several stations, one of which each request selects at random.
    pub at: Vec<StationId>,
    /// Service time.
    pub service: Service,
    /// Units of the station's [`Reserve`] that the visit consumes.
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
    /// Returns the speedup over one server with `present` requests.
    pub(crate) fn speed(&self, present: u32) -> f64 {
        match self {
            Servers::Count(count) => f64::from(present.min(*count)),
            Servers::Infinite => f64::from(present),
            Servers::Rates(rates) => rates[(present as usize).min(rates.len()).max(1) - 1],
        }
    }

    /// Returns the maximum speedup over one server; infinite for a delay.
    pub(crate) fn speed_max(&self) -> f64 {
        match self {
            Servers::Count(count) => f64::from(*count),
            Servers::Infinite => f64::INFINITY,
            Servers::Rates(rates) => rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// Returns the maximum speedup of a single request over one server.
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
    /// Returns a station of `count` equal servers with one queue.
    pub fn servers(name: impl Into<String>, count: u32) -> Station {
        Station { name: name.into(), servers: Servers::Count(count), reserve: None, head: None }
    }

    /// Returns a pure delay, without a queue.
    pub fn delay(name: impl Into<String>) -> Station {
        Station { name: name.into(), servers: Servers::Infinite, reserve: None, head: None }
    }
}

impl Class {
    /// Returns a class of `population` requests that are reissued at once; its route is empty.
    pub fn closed(name: impl Into<String>, population: u32) -> Class {
        let think = Service::fixed(0.0);
        Class { name: name.into(), source: Source::Closed { population, think }, route: Vec::new() }
    }

    /// Returns a class of Poisson arrivals with a mean of `rate_per_s`; its route is empty.
    pub fn open(name: impl Into<String>, rate_per_s: f64) -> Class {
        let gap = Service::exponential(1.0 / rate_per_s);
        Class { name: name.into(), source: Source::Open { gap }, route: Vec::new() }
    }

    /// Sets the think time of a closed class; no effect on an open class.
    pub fn think(mut self, service: Service) -> Class {
        if let Source::Closed { think, .. } = &mut self.source {
            *think = service;
        }
        self
    }

    /// Appends a visit to `station` to the route.
    pub fn visit(self, station: StationId, service: Service) -> Class {
        self.visit_any([station], service)
    }

    /// Appends a visit to a random one of `stations` to the route.
    pub fn visit_any(
        self,
        stations: impl IntoIterator<Item = StationId>,
        service: Service,
    ) -> Class {
        let at = stations.into_iter().collect();
        self.step(Step::Visit(Visit { at, service, draws: 0.0 }))
    }

    /// Appends this step to the route.
    pub fn step(mut self, step: Step) -> Class {
        self.route.push(step);
        self
    }
}
