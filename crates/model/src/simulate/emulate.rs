//! A network in its caller's time: the caller submits requests and polls for completions.

use super::check_stop;
use super::engine::Engine;
use crate::{Class, ClassId, Extent, ModelError, Network, Picos, Service, Source};
use block::Nanos;

/// A network with requests from outside, such as a lane that delays each completion until the
/// modelled time.
///
/// Classes define routes; their sources are ignored. Time starts at the first request and is
/// limited to 213 days; calls must be in order of time.
#[derive(Debug)]
pub struct Emulation {
    engine: Engine,
    /// The network with all its classes, for checks of new ones.
    network: Network,
    seed: u64,
    origin: Option<Nanos>,
    /// Keys of the requests in flight, by token.
    keys: Vec<u64>,
    /// Keys of completed requests that are not polled yet.
    done: Vec<u64>,
}

impl Emulation {
    /// Creates an idle network; `seed` is its random seed.
    ///
    /// # Errors
    ///
    /// Errors of [`Network::check`].
    pub fn new(network: &Network, seed: u64) -> Result<Emulation, ModelError> {
        network.check()?;
        let mut network = network.clone();
        network.classes.iter_mut().for_each(only_a_way);
        let mut engine = Engine::empty(&network, seed);
        engine.lines.iter_mut().for_each(|line| line.closed = false);
        let (keys, done) = (Vec::new(), Vec::new());
        Ok(Emulation { engine, network, seed, origin: None, keys, done })
    }

    /// Adds a class at run time, such as for I/Os of a new length. The random streams of the class
    /// depend on the order in which classes were added.
    ///
    /// # Errors
    ///
    /// [`ModelError`] if [`Network::check`] refuses the class, or if there are too many classes.
    pub fn add_class(&mut self, class: Class) -> Result<ClassId, ModelError> {
        let mut class = class;
        only_a_way(&mut class);
        let id = self.network.add_class(class);
        if let Err(error) = self.network.check_added(id) {
            self.network.classes.pop();
            return Err(error);
        }
        self.engine.add(&self.network.classes[id.0 as usize], self.seed);
        self.engine.lines[id.0 as usize].closed = false;
        Ok(id)
    }

    /// Submits a request; [`poll`](Self::poll) returns `key` after its completion.
    ///
    /// # Errors
    ///
    /// [`ModelError::Invalid`] for a class that the network does not have, [`ModelError::TooLarge`]
    /// if too many requests are in flight.
    pub fn submit(&mut self, now: Nanos, class: ClassId, key: u64) -> Result<(), ModelError> {
        self.submit_at(now, class, key, None)
    }

    /// Submits a request with an extent on the disks of its route.
    ///
    /// # Errors
    ///
    /// Errors of [`submit`](Self::submit).
    pub fn submit_at(
        &mut self,
        now: Nanos,
        class: ClassId,
        key: u64,
        extent: Option<Extent>,
    ) -> Result<(), ModelError> {
        if class.0 as usize >= self.engine.lines.len() {
            let problem = format!("there is no class number {}", class.0);
            return Err(ModelError::invalid("emulation", problem));
        }
        let now = self.advance(now);
        let token = self.engine.begin(now, class.0, extent) as usize;
        if token >= self.keys.len() {
            self.keys.resize(token + 1, 0);
        }
        self.keys[token] = key;
        let (keys, done) = (&self.keys, &mut self.done);
        self.engine.settle(&mut |token, _| done.push(keys[token as usize]));
        check_stop(&self.engine)
    }

    /// Appends the keys of requests completed by `now`.
    pub fn poll(&mut self, now: Nanos, done: &mut Vec<u64>) {
        self.advance(now);
        done.append(&mut self.done);
    }

    /// Returns the earliest time at which a poll may return keys; `None` without requests in
    /// flight.
    pub fn wake(&mut self) -> Option<Nanos> {
        let origin = self.origin?;
        if !self.done.is_empty() {
            return Some(Nanos(origin.0 + self.engine.now.0 / 1000));
        }
        self.engine.next().map(|at| Nanos(origin.0.saturating_add(at.0.div_ceil(1000))))
    }

    /// Advances to `now`, and returns `now` in the network's time.
    fn advance(&mut self, now: Nanos) -> Picos {
        let origin = *self.origin.get_or_insert(now);
        let now = Picos(now.since(origin).0.saturating_mul(1000)).max(self.engine.now);
        let (keys, done) = (&self.keys, &mut self.done);
        while self.engine.next().is_some_and(|at| at <= now) {
            self.engine.step(&mut |token, _| done.push(keys[token as usize]));
        }
        now
    }
}

/// Replaces the source of a class by a placeholder: the caller submits the requests of the class.
fn only_a_way(class: &mut Class) {
    class.source = Source::Closed { population: 1, think: Service::fixed(0.0) };
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Class, Method, Station, solve};

    fn drive(services: &[(u32, Service)]) -> Network {
        let mut network = Network::default();
        let mut class = Class::closed("read", 1);
        for (index, (servers, service)) in services.iter().enumerate() {
            let station = network.add_station(Station::servers(format!("{index}"), *servers));
            class = class.visit(station, service.clone());
        }
        network.add_class(class);
        network
    }

    #[test]
    fn requests_wait_in_line() {
        let mut emulation = Emulation::new(&drive(&[(1, Service::fixed(10e-6))]), 1).unwrap();
        let (start, mut done) = (Nanos::from_secs(90 * 24 * 3600), Vec::new());
        assert_eq!(emulation.wake(), None);
        emulation.submit(start, ClassId(0), 7).unwrap();
        emulation.submit(start + Nanos(4_000), ClassId(0), 8).unwrap();
        assert_eq!(emulation.wake(), Some(start + Nanos(10_000)));
        emulation.poll(start + Nanos(9_999), &mut done);
        assert_eq!(done, []);
        emulation.poll(start + Nanos(10_000), &mut done);
        assert_eq!(done, [7]);
        assert_eq!(emulation.wake(), Some(start + Nanos(20_000)));
        // A late poll does not change the times of events.
        emulation.poll(start + Nanos(50_000), &mut done);
        assert_eq!(done, [7, 8]);
        assert_eq!(emulation.wake(), None);
        assert!(emulation.submit(start, ClassId(1), 9).is_err());
    }

    #[test]
    fn a_class_may_come_later() {
        let mut emulation = Emulation::new(&drive(&[(1, Service::fixed(10e-6))]), 1).unwrap();
        let (mut done, at) = (Vec::new(), crate::StationId(0));
        emulation.submit(Nanos(0), ClassId(0), 1).unwrap();
        let longer = Class::closed("longer", 1).visit(at, Service::fixed(30e-6));
        let longer = emulation.add_class(longer).unwrap();
        emulation.submit(Nanos(0), longer, 2).unwrap();
        emulation.poll(Nanos(39_999), &mut done);
        assert_eq!(done, [1]);
        emulation.poll(Nanos(40_000), &mut done);
        assert_eq!(done, [1, 2]);
        let nowhere = Class::closed("x", 1).visit(crate::StationId(9), Service::fixed(1.0));
        assert!(emulation.add_class(nowhere).is_err());
        assert!(emulation.submit(Nanos(40_000), ClassId(2), 3).is_err());
    }

    #[test]
    fn a_worker_in_virtual_time_meets_theory() {
        let services = [(2, Service::exponential(2e-6)), (8, Service::exponential(80e-6))].to_vec();
        let mut network = drive(&services);
        let mut emulation = Emulation::new(&network, 1).unwrap();
        let (mut now, mut done, mut count) = (Nanos(5), Vec::new(), 0_u64);
        (0..32).for_each(|key| emulation.submit(now, ClassId(0), key).unwrap());
        while count < 100_000 {
            now = emulation.wake().unwrap().max(now);
            emulation.poll(now, &mut done);
            for key in done.drain(..) {
                count += 1;
                emulation.submit(now, ClassId(0), key).unwrap();
            }
        }
        if let Source::Closed { population, .. } = &mut network.classes[0].source {
            *population = 32;
        }
        let theory = solve(&network, Method::Exact).unwrap().throughput_per_s();
        let found = count as f64 / now.as_secs_f64();
        assert!((found / theory - 1.0).abs() < 0.015, "{found}, {theory}");
    }
}
