//! Volumes and hosts of a server at a moment, and the I/Os of its last second.

use block::{EDGES, EDGES_NS};
use serde_json::{Value, json};
use stats::live::{Counts, DirectionCounts};

use super::Past;

/// Volumes, hosts and portals of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// Listening addresses, as "iscsi=127.0.0.1:3260".
    pub portals: Vec<String>,
    /// Volumes.
    pub volumes: Vec<ServedVolume>,
    /// Hosts that are connected now.
    pub hosts: Vec<ServedHost>,
    /// Connections now.
    pub connections: usize,
    /// Memory that connections take, and may take, in bytes.
    pub memory_bytes: [u64; 2],
    /// Cores that its threads used in the last second.
    pub cores: Option<f64>,
    /// For how long it has served, in seconds.
    pub seconds: f64,
}

/// A volume of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedVolume {
    /// Name, as a user of the server has given it.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether no host may change it.
    pub read_only: bool,
    /// Connections that use it.
    pub connections: usize,
    /// I/Os since the server began; `None` if they are not counted.
    pub counts: Option<Counts>,
    /// Lost legs, resynchronisation and other events, in a sentence; empty if there are none.
    pub state: String,
    /// I/Os since the moment before; `None` of a volume that was not there.
    pub second: Option<ServedSecond>,
}

/// A host with its connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedHost {
    /// IQN or NQN; the address of one that has no name.
    pub name: String,
    /// Names of the volumes that it uses.
    pub volumes: Vec<String>,
    /// Connections.
    pub connections: usize,
    /// I/Os in flight.
    pub in_flight: usize,
}

/// I/Os of a volume, or of all, between two moments about a second apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServedSecond {
    /// Reads per second.
    pub reads: f64,
    /// Writes, writes of zeroes and trims per second.
    pub writes: f64,
    /// Flushes per second, which are no I/Os.
    pub flushes: f64,
    /// Bytes read and written per second.
    pub bytes: f64,
    /// I/Os and flushes that ended in a fault.
    pub errors: u64,
    /// Numbers of latencies up to each edge, of reads, writes and trims.
    buckets: Vec<u64>,
    /// Latencies, with those beyond the last edge.
    samples: u64,
}

impl ServedSecond {
    /// I/Os between two states of the same counters, `seconds` apart. `None` if no time has
    /// passed, or if the counters began anew, as those of a volume that was opened again do.
    fn between(before: &Counts, now: &Counts, seconds: f64) -> Option<ServedSecond> {
        if seconds <= 0.0 {
            return None;
        }
        let ios = [(&before.read, &now.read), (&before.write, &now.write)];
        let ios = [ios[0], ios[1], (&before.trim, &now.trim)];
        let flush = (&before.flush, &now.flush);
        let grew = |of: fn(&DirectionCounts) -> u64, (before, now): (_, _)| {
            of(now).checked_sub(of(before))
        };
        let [reads, writes, trims] = ios.map(|pair| grew(|of| of.ios, pair));
        let mut all = ServedSecond {
            reads: reads? as f64 / seconds,
            writes: (writes? + trims?) as f64 / seconds,
            flushes: grew(|of| of.ios, flush)? as f64 / seconds,
            buckets: vec![0; EDGES],
            ..ServedSecond::default()
        };
        for pair in ios {
            all.bytes += grew(|of| of.bytes, pair)? as f64 / seconds;
            all.samples += grew(|of| of.samples, pair)?;
            let counts = pair.0.buckets.iter().zip(&pair.1.buckets);
            for (sum, (before, now)) in all.buckets.iter_mut().zip(counts) {
                *sum += now.saturating_sub(*before);
            }
        }
        for pair in ios.into_iter().chain([flush]) {
            all.errors += grew(|of| of.errors, pair)?;
        }
        Some(all)
    }

    fn add(&mut self, other: &ServedSecond) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.samples += other.samples;
        self.buckets.resize(EDGES, 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, count)| *sum += count);
    }

    /// I/Os per second.
    pub fn iops(&self) -> f64 {
        self.reads + self.writes
    }

    /// Edge in nanoseconds that `percent` of the latencies do not exceed; `None` without I/Os, or
    /// beyond the last edge.
    pub fn at_most_ns(&self, percent: f64) -> Option<u64> {
        let wanted = (self.samples as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(|at| EDGES_NS[at])
    }

    fn document(&self) -> Value {
        json!({
            "iops": self.iops(),
            "read_iops": self.reads,
            "write_iops": self.writes,
            "flushes": self.flushes,
            "bytes_per_second": self.bytes,
            "errors": self.errors,
            "p50_at_most_ns": self.at_most_ns(50.0),
            "p99_at_most_ns": self.at_most_ns(99.0),
        })
    }
}

impl Served {
    /// Fills in the I/Os since an earlier moment of the same server.
    pub fn follow(&mut self, before: &Served) {
        let seconds = self.seconds - before.seconds;
        for volume in &mut self.volumes {
            let earlier = before.volumes.iter().find(|one| one.name == volume.name);
            let counts = earlier.and_then(|one| one.counts.as_ref()).zip(volume.counts.as_ref());
            volume.second =
                counts.and_then(|(before, now)| ServedSecond::between(before, now, seconds));
        }
    }

    /// I/Os of all volumes since the earlier moment; `None` if that of none is known.
    pub fn all(&self) -> Option<ServedSecond> {
        let mut known = self.volumes.iter().filter_map(|volume| volume.second.as_ref()).peekable();
        known.peek()?;
        let mut all = ServedSecond::default();
        known.for_each(|one| all.add(one));
        Some(all)
    }

    /// The second for the chart.
    pub(super) fn past(&self) -> Option<Past> {
        let all = self.all()?;
        let [p50_ns, p99_ns] = [50.0, 99.0].map(|percent| all.at_most_ns(percent));
        Some(Past { iops: all.iops(), p50_ns, p99_ns })
    }

    pub(super) fn document(&self) -> Value {
        let volume = |of: &ServedVolume| {
            json!({
                "name": of.name,
                "bytes": of.bytes,
                "read_only": of.read_only,
                "connections": of.connections,
                "state": of.state,
                "errors": of.counts.as_ref().map(errors),
                "second": of.second.as_ref().map(ServedSecond::document),
            })
        };
        let host = |of: &ServedHost| {
            json!({
                "name": of.name,
                "volumes": of.volumes,
                "connections": of.connections,
                "in_flight": of.in_flight,
            })
        };
        json!({
            "portals": self.portals,
            "volumes": self.volumes.iter().map(volume).collect::<Vec<Value>>(),
            "hosts": self.hosts.iter().map(host).collect::<Vec<Value>>(),
            "second": self.all().as_ref().map(ServedSecond::document),
            "connections": self.connections,
            "memory_bytes": self.memory_bytes[0],
            "memory_limit_bytes": self.memory_bytes[1],
            "cores": self.cores,
            "seconds": self.seconds as u64,
        })
    }
}

/// Errors of a volume since the server began.
fn errors(of: &Counts) -> u64 {
    [&of.read, &of.write, &of.trim, &of.flush].iter().map(|of| of.errors).sum()
}

#[cfg(test)]
mod test {
    use super::*;

    fn counts(reads: u64, fast: u64, errors: u64) -> Counts {
        let mut of = Counts::default();
        of.read.ios = reads;
        of.read.bytes = reads * 4096;
        of.read.samples = reads;
        of.read.errors = errors;
        // Up to 100 ns and up to 1 µs.
        of.read.buckets[0] = fast;
        of.read.buckets[6] = reads - fast;
        of
    }

    fn served(seconds: f64, volumes: &[(&str, Counts)]) -> Served {
        let volume = |(name, counts): &(&str, Counts)| ServedVolume {
            name: (*name).to_owned(),
            counts: Some(counts.clone()),
            ..ServedVolume::default()
        };
        Served { seconds, volumes: volumes.iter().map(volume).collect(), ..Served::default() }
    }

    #[test]
    fn a_second_is_what_was_counted_since_the_one_before_over_the_time_in_between() {
        let before = served(10.0, &[("a", counts(1000, 1000, 1)), ("b", counts(7, 7, 0))]);
        let mut now = served(12.0, &[("a", counts(1200, 1150, 4)), ("b", counts(7, 7, 0))]);
        now.follow(&before);
        let a = now.volumes[0].second.as_ref().unwrap();
        assert_eq!((a.iops(), a.bytes, a.errors), (100.0, 409_600.0, 3));
        assert_eq!((a.at_most_ns(50.0), a.at_most_ns(99.0)), (Some(100), Some(1000)));
        let b = now.volumes[1].second.as_ref().unwrap();
        assert_eq!((b.iops(), b.at_most_ns(99.0)), (0.0, None), "no I/O has no latency");
        let all = now.all().unwrap();
        assert_eq!((all.iops(), all.errors), (100.0, 3));
        assert_eq!(now.past().unwrap().p99_ns, Some(1000));
        let document = now.document();
        assert_eq!(document["volumes"][0]["errors"], 4, "since the server began");
        assert_eq!(document["volumes"][0]["second"]["errors"], 3);
        assert_eq!(document["second"]["iops"], 100.0);
    }

    #[test]
    fn counters_that_began_anew_and_new_volumes_have_no_second() {
        let before = served(1.0, &[("a", counts(1000, 0, 0))]);
        let mut now = served(2.0, &[("a", counts(3, 0, 0)), ("new", counts(5, 5, 0))]);
        now.follow(&before);
        assert_eq!(now.volumes.iter().filter(|one| one.second.is_some()).count(), 0);
        assert_eq!((now.all(), now.past().is_none()), (None, true));
        assert!(now.document()["second"].is_null());
        let mut twice = before.clone();
        twice.follow(&before);
        assert!(twice.all().is_none(), "no time has passed");
    }
}
