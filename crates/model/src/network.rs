//! What is modelled: stations, and classes of requests that visit them.

use serde::{Deserialize, Serialize};

use crate::{Head, Service};

/// Names a station: its place in [`Network::stations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationId(pub u32);

/// Names a class: its place in [`Network::classes`].
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

/// Servers behind one first-come-first-served queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// Unique within the network.
    pub name: String,
    /// How many requests it serves at once, and how fast.
    pub servers: Servers,
    /// Something that requests use up and that the station makes anew, at the cost of its speed.
    pub reserve: Option<Reserve>,
    /// It is a disk: what a request takes beyond its service depends on where it is. Only requests
    /// with an [`Extent`](crate::Extent) move it, those of an [`Emulation`](crate::Emulation).
    pub head: Option<Head>,
}

/// How much a station does at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Servers {
    /// This many equal servers, 1 to 65536.
    Count(u32),
    /// A server for each request: a pure delay.
    Infinite,
    /// Rates with 1, 2, 3 … requests present, relative to the service time: with `n` present the
    /// station works off `rates[n - 1] / mean_s` requests a second; beyond the list the last one
    /// holds. `[1, 2, 3]` works as three servers do.
    Rates(Vec<f64>),
}

/// A stock that visits draw from. Below `low` the station refills it, slowed down, until `high`; at
/// nought a visit that draws waits. This is how flash collects garbage: a fresh drive writes fast
/// until its erased blocks run out. Only simulation sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    /// Units in a full stock, with which a simulation starts.
    pub capacity: f64,
    /// Refilling starts below this level, in units.
    pub low: f64,
    /// Refilling ends at this level, in units.
    pub high: f64,
    /// Units made per second while refilling.
    pub refill_per_s: f64,
    /// Service times are multiplied by this while refilling, 1 to 1000.
    pub slowdown: f64,
}

/// A kind of request: where it comes from, and its way through the stations.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Unique within the network.
    pub name: String,
    /// Where its requests come from.
    pub source: Source,
    /// Its way, step by step.
    pub route: Vec<Step>,
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// So many requests, each issued anew as soon as it is done and has thought.
    Closed {
        /// Requests outstanding or thinking, 1 to 2²⁰.
        population: u32,
        /// Between done and issued again; not part of the response.
        think: Service,
    },
    /// Requests arrive whatever the state of the network; gaps are exponential in theory, and of
    /// the given shape in a simulation.
    Open {
        /// Gap between two arrivals: its mean is one over the rate.
        gap: Service,
    },
}

/// One step on the way of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Queue at a station, be served, leave.
    Visit(Visit),
    /// Be served at a station, and keep the server while the inner steps are done: an engine that
    /// waits for its transfer. At counted servers only, at most four at once.
    Hold(Visit, Vec<Step>),
    /// Do all branches at once and go on when the last is done: the writes of a mirror.
    Fork(Vec<Vec<Step>>),
    /// Do one branch, chosen with these probabilities, which add up to 1.
    Choose(Vec<(f64, Vec<Step>)>),
}

/// A service at a station.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// The station; of several, one at random for each request.
    pub at: Vec<StationId>,
    /// How long the service takes.
    pub service: Service,
    /// Units taken from the station's [`Reserve`].
    pub draws: f64,
}

impl Network {
    /// Adds a station and says its name in this network.
    pub fn add_station(&mut self, station: Station) -> StationId {
        self.stations.push(station);
        StationId(self.stations.len() as u32 - 1)
    }

    /// Adds a class and says its name in this network.
    pub fn add_class(&mut self, class: Class) -> ClassId {
        self.classes.push(class);
        ClassId(self.classes.len() as u32 - 1)
    }
}

impl Servers {
    /// How many times faster than one server it works with `present` requests.
    pub(crate) fn speed(&self, present: u32) -> f64 {
        match self {
            Servers::Count(count) => f64::from(present.min(*count)),
            Servers::Infinite => f64::from(present),
            Servers::Rates(rates) => rates[(present as usize).min(rates.len()).max(1) - 1],
        }
    }

    /// How many times faster than one server it works at best; infinite for a delay.
    pub(crate) fn speed_max(&self) -> f64 {
        match self {
            Servers::Count(count) => f64::from(*count),
            Servers::Infinite => f64::INFINITY,
            Servers::Rates(rates) => rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// How many times faster than one server it works for each of its requests, at best.
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
    /// `population` requests that are issued anew at once; an empty way.
    pub fn closed(name: impl Into<String>, population: u32) -> Class {
        let think = Service::fixed(0.0);
        Class { name: name.into(), source: Source::Closed { population, think }, route: Vec::new() }
    }

    /// Requests that arrive `rate_per_s` times a second on average, at random; an empty way.
    pub fn open(name: impl Into<String>, rate_per_s: f64) -> Class {
        let gap = Service::exponential(1.0 / rate_per_s);
        Class { name: name.into(), source: Source::Open { gap }, route: Vec::new() }
    }

    /// With this time to think between two requests. Open classes do not think.
    pub fn think(mut self, service: Service) -> Class {
        if let Source::Closed { think, .. } = &mut self.source {
            *think = service;
        }
        self
    }

    /// With a visit to `station` at the end of its way.
    pub fn visit(self, station: StationId, service: Service) -> Class {
        self.visit_any([station], service)
    }

    /// With a visit to one of `stations`, at random, at the end of its way.
    pub fn visit_any(
        self,
        stations: impl IntoIterator<Item = StationId>,
        service: Service,
    ) -> Class {
        let at = stations.into_iter().collect();
        self.step(Step::Visit(Visit { at, service, draws: 0.0 }))
    }

    /// With this step at the end of its way.
    pub fn step(mut self, step: Step) -> Class {
        self.route.push(step);
        self
    }
}
