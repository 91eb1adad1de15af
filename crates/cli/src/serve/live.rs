//! The second of a server that viewers see: rates of its volumes, and the hosts that use them.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use ::serve::{ConnectionInfo, OpCounts, Server, VolumeCounts, VolumeInfo};
use block::Nanos;
use os::Clock;
use report::watch::{Served, ServedHost, ServedVolume};
use stats::live::{Counts, DirectionCounts};

use super::{OWN_TARGETS, opening};
use crate::watch::Watch;

/// Interval at which viewers are updated.
const SECOND: Duration = Duration::from_secs(1);
/// Connections up to which hosts are listed: each core stops for its list.
const LISTED: usize = 256;

/// Serves until a signal, and shows the served volumes to viewers.
pub fn until_signal(signals: &Receiver<()>, server: &Server, watch: &Watch, portals: Vec<String>) {
    if !watch.is_on() {
        // The channel closes only with the thread that sends to it; then no signal could stop the
        // server.
        let _ = signals.recv();
        return;
    }
    let clock = Clock::get();
    let begin = clock.now();
    let used = || -> Option<u64> {
        let threads = server.thread_ids().into_iter();
        threads.map(|thread| Some(os::sample::thread_cpu(thread).ok()?.0)).sum()
    };
    let mut before = (begin, used());
    loop {
        let now = (clock.now(), used());
        let cores = cores(before, now);
        before = now;
        let count = server.connection_count();
        let connections = if count <= LISTED { server.connections() } else { Vec::new() };
        let volumes = server.volumes();
        watch.serves(Served {
            portals: portals.clone(),
            volumes: volumes.iter().map(|one| volume(server, one, &connections)).collect(),
            hosts: hosts(&connections, &volumes),
            connections: count,
            memory_bytes: server.memory_bytes(),
            cores,
            seconds: now.0.since(begin).as_secs_f64(),
        });
        if signals.recv_timeout(SECOND) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Cores in use between two moments; `None` if no time has passed or a thread has ended.
fn cores(before: (Nanos, Option<u64>), now: (Nanos, Option<u64>)) -> Option<f64> {
    let seconds = now.0.since(before.0).as_secs_f64();
    let used = now.1?.saturating_sub(before.1?);
    (seconds > 0.0).then(|| Nanos(used).as_secs_f64() / seconds)
}

/// A volume for viewers. Only the events of an array name where data is: its legs.
fn volume(server: &Server, info: &VolumeInfo, connections: &[ConnectionInfo]) -> ServedVolume {
    let VolumeInfo { export, counts: counted } = info;
    let name = export.name();
    ServedVolume {
        name: shown(info),
        bytes: export.volume.geometry().bytes(),
        read_only: export.volume.geometry().read_only || server.host_lists().protect(export),
        connections: connections.iter().filter(|one| one.volumes.contains(&name)).count(),
        counts: counted.clone().map(counts),
        state: export.volume.incidents().unwrap_or_default(),
        second: None,
    }
}

/// Name of a volume as the user gives it.
fn shown(info: &VolumeInfo) -> String {
    let export = &info.export;
    let own = export.target.strip_prefix(OWN_TARGETS).unwrap_or(&export.target);
    match export.lun {
        opening::DEFAULT_LUN => own.to_owned(),
        lun => format!("{own}/{lun}"),
    }
}

/// Hosts in the order of their names. A host without a name is its address.
fn hosts(connections: &[ConnectionInfo], volumes: &[VolumeInfo]) -> Vec<ServedHost> {
    let mut all: Vec<ServedHost> = Vec::new();
    for one in connections {
        let address = || one.peer.rsplit_once(':').map_or(&*one.peer, |(address, _)| address);
        let name = one.host.as_deref().unwrap_or_else(address);
        let at = all.iter().position(|host| host.name == name).unwrap_or_else(|| {
            all.push(ServedHost { name: name.to_owned(), ..ServedHost::default() });
            all.len() - 1
        });
        let host = &mut all[at];
        host.connections += 1;
        host.in_flight += one.in_flight;
        let used = volumes.iter().filter(|info| one.volumes.contains(&info.export.name()));
        for name in used.map(shown) {
            if !host.volumes.contains(&name) {
                host.volumes.push(name);
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Counters of a volume in the form that metrics have.
fn counts(of: VolumeCounts) -> Counts {
    let direction = |of: OpCounts| DirectionCounts {
        ios: of.ios,
        errors: of.errors,
        bytes: of.bytes,
        buckets: of.buckets,
        samples: of.ios,
        latency_ns: of.latency_ns.into(),
    };
    Counts {
        read: direction(of.read),
        write: direction(of.write),
        trim: direction(of.trim),
        flush: direction(of.flush),
    }
}

#[cfg(test)]
mod test {
    use ::serve::Protocol;

    use super::*;

    fn connection(peer: &str, host: Option<&str>, in_flight: usize) -> ConnectionInfo {
        ConnectionInfo {
            number: 1,
            protocol: Protocol::Iscsi,
            peer: peer.to_owned(),
            host: host.map(str::to_owned),
            volumes: Vec::new(),
            in_flight,
        }
    }

    #[test]
    fn connections_of_a_host_are_one_row_and_nameless_ones_go_by_address() {
        let all = [
            connection("[::1]:4000", None, 1),
            connection("10.0.0.7:51000", Some("iqn.b"), 3),
            connection("10.0.0.7:51001", Some("iqn.b"), 4),
            connection("[::1]:4001", None, 2),
        ];
        let rows = hosts(&all, &[]);
        let rows: Vec<_> =
            rows.iter().map(|of| (of.name.as_str(), of.connections, of.in_flight)).collect();
        assert_eq!(rows, [("[::1]", 2, 3), ("iqn.b", 2, 7)]);
    }

    #[test]
    fn cores_are_cpu_time_over_the_time_that_has_passed() {
        let [at, later] = [Nanos::from_secs(10), Nanos::from_secs(12)];
        assert_eq!(cores((at, Some(0)), (later, Some(1_000_000_000))), Some(0.5));
        assert_eq!(cores((at, Some(0)), (at, Some(5))), None);
        assert_eq!(cores((at, None), (later, Some(5))), None);
    }
}
