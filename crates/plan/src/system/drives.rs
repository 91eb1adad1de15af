//! Drives, their adapters and their slots as stations.

use model::{Class, Service, Station, StationId, Step, Visit};

use super::flush::Flush;
use super::rated::LONG;
use super::{Builder, Level, Load, PlanError, Stop, through};
use crate::bill::{ANY_CLUSTER, Group, LANES, Raid, View};
use crate::wire::{self, Pcie};
use catalogue::{Part, is_disk};

/// Maximum number of channels of all drives of a group: as many stations as a network may have.
const CHANNELS_MAX: u32 = 2048;
/// Share of an NVMe drive's bandwidth that a lone large read gets, in addition to its latency: five
/// published runs of 512 KiB to 4 MiB, 0.7 to 0.8.
const LONE: f64 = 0.75;
/// Number of I/Os in flight per bank of a drive from which on all banks are busy.
const FULL: f64 = 4.0;
/// Latency of a write in the write cache of an adapter, in seconds: 50 to 100 us are usual.
const KEPT_S: f64 = 60e-6;
/// Time of a queue at the rating from which on it hides the latency of a lone I/O, in seconds.
const DEEP_S: f64 = 300e-6;

impl Builder<'_> {
    /// Adds cards with their drives.
    pub(super) fn drives(
        &mut self,
        index: usize,
        group: &Group,
        [fabric, cpu, far, added, parity]: [Option<Stop>; 5],
    ) -> Result<(), PlanError> {
        let drive = self.part(group.drive.as_deref().unwrap_or_default());
        let (flush, medium) = self.flushed(group, drive)?;
        let adapter = group.adapter.as_deref().map(|id| self.part(id));
        let depth = self.figure(drive, "queue_depth").map_or(u32::MAX, |depth| depth as u32);
        let depth = self.bill.work.outstanding.min(depth).min(self.commands_each(group));
        let way = self.way_in(index, group)?.or(self.front);
        let daemon_s = self.daemon_seconds();
        // A delay has no queue, so one suffices for all drives of the group.
        let delay = (medium.delay_s > 0.0)
            .then(|| self.network.add_station(Station::delay(format!("media of group {index}"))));
        let hidden = self.hidden(group, drive, &medium);
        let at_once = self.at_once(group);
        let mut daemons = Vec::new();
        let (mut media, mut cards, mut slots) = (Vec::new(), Passed::default(), Passed::default());
        for card in 0..group.count {
            let mut passes = match adapter {
                Some(adapter) => self.adapter(group, adapter, [index as u32, card])?,
                None => None,
            };
            let mut slot = None;
            cards.at.extend(passes.map(|stop| stop.at));
            for number in 0..group.drives {
                // Drives without an adapter are cards, each in its own slot.
                let waits = !matches!(hidden, Some(Hidden::Slot(_)));
                if waits && (number == 0 || adapter.is_none()) {
                    slot = self.slot(group, [index as u32, card, number]);
                    slots.at.extend(slot.map(|stop| stop.at));
                }
                if number == 0 {
                    let passed = (&mut cards, &mut slots);
                    [passes, slot] = self.passed(group, &medium, passed, [passes, slot], at_once);
                }
                if self.idle > 0 {
                    self.idle -= 1;
                    continue;
                }
                let name = format!("drive {index}.{card}.{number}");
                let mut class = Class::closed(name.clone(), depth);
                if !matches!(hidden, Some(Hidden::Medium)) {
                    let placed = (card * group.drives + number, at_once);
                    class = medium.visit(self, class, &name, (&mut media, placed));
                }
                let alone = delay.map(|at| Stop { at, seconds: medium.delay_s });
                let flushed = flush.map(|flush| flush.stop(self, &name));
                let daemon = self.daemon(&name, daemon_s);
                daemons.extend(daemon.map(|stop| stop.at));
                let stops =
                    [alone, flushed, daemon, passes, slot, fabric, cpu, parity, way, far, added];
                let clients = self.client_stops.iter().copied().map(Some);
                class = stops.into_iter().chain(clients).fold(class, through);
                self.add(class);
            }
        }
        self.daemons(daemons);
        self.flushes(group, drive, flush);
        let each = 1.0 / f64::from(group.devices());
        let media = match media.is_empty() {
            true => Load::PerIo(medium.seconds * each),
            false => Load::Stations(media),
        };
        self.told(group, drive, &medium, (media, cards.load(group.count)));
        self.slots_told(adapter.unwrap_or(drive), slots.load_of(hidden, each, group.count));
        Ok(())
    }

    /// Returns the medium, and the flushes that queue in the drive; other flushes are a part of its
    /// delay.
    fn flushed(
        &mut self,
        group: &Group,
        drive: &Part,
    ) -> Result<(Option<Flush>, Medium), PlanError> {
        let medium = self.medium(group, drive)?;
        Ok(match self.flush(group, drive)? {
            Some(flush) if !flush.queues => {
                let alone_s = self.at(Level::Drive, flush.seconds);
                (None, Medium { delay_s: (medium.delay_s + alone_s).max(0.0), ..medium })
            }
            other => (other, medium),
        })
    }

    /// Returns the number of drives that an I/O keeps busy at once, if the queue depth is the total
    /// of all drives: those of its mirror, its parities or its copies, and those that a large one
    /// is spread over.
    fn at_once(&self, group: &Group) -> f64 {
        if self.bill.setup.in_flight.is_none() || group.view != View::Rated {
            return 1.0;
        }
        let all = f64::from(group.devices());
        let (reads, writes) = self.shares();
        let (before, after) = self.written(group);
        let (first, hosts) = self.bill.setup.host_writes();
        let (before, after) = (first + before * hosts, after * hosts);
        let drive = self.part(group.drive.as_deref().unwrap_or_default());
        let reads = reads * self.pieces(group, drive).0;
        let written = writes * (before + after);
        // A write cache distributes its writes over all drives, however few arrive at once.
        let waits = if group.write_cache { written / all } else { writes * self.phases(group) };
        let copies = (reads + written) / (self.shares().0 + waits);
        (copies * self.spread(group)).clamp(1.0, all)
    }

    /// Returns the number of drives that an I/O is spread over, if the queue depth is the total of
    /// all drives: a sequential one by its size, and one on a RAID set of flash by its bytes.
    fn spread(&self, group: &Group) -> f64 {
        let drive = self.part(group.drive.as_deref().unwrap_or_default());
        let apart = group.raid != Raid::None && !is_disk(drive);
        let told = self.bill.setup.in_flight.is_some() && group.view == View::Rated;
        match told && (self.bill.setup.sequential || apart) {
            true => {
                let chunks = self.bill.work.size_bytes / group.chunk;
                chunks.clamp(1.0, f64::from(group.devices()))
            }
            false => 1.0,
        }
    }

    /// Adds slots as a resource: arithmetic of the standard.
    fn slots_told(&mut self, card: &Part, load: Option<Load>) {
        if let Some(load) = load {
            self.resource(format!("slots of {}", card.id), Level::Slot, &[], load);
        }
    }

    /// Returns the daemon that serves a drive, if it takes any time.
    fn daemon(&mut self, drive: &str, seconds: f64) -> Option<Stop> {
        let name = format!("of {drive}");
        (seconds > 0.0).then(|| Stop {
            at: self.network.add_station(Station::servers(name, self.bill.setup.daemons)),
            seconds,
        })
    }

    /// Adds the daemons that serve the drives, as one resource.
    fn daemons(&mut self, stations: Vec<StationId>) {
        let target = self.bill.setup.target.as_ref().map(|target| target.software.as_str());
        let mut named = self.bill.software.as_deref().into_iter().chain(target);
        let has = |id: &&str| self.part(id).known("core_time").is_none();
        let Some(id) = named.find(has).filter(|_| !stations.is_empty()).map(str::to_owned) else {
            return;
        };
        self.resource(
            format!("daemons of {id}"),
            Level::Processor,
            &[
                (&id, &["daemon_read_iops", "daemon_write_iops"]),
                (ANY_CLUSTER, &["daemon_read_iops", "daemon_write_iops"]),
            ],
            Load::Stations(stations),
        );
    }

    /// Adds drives and their adapters, as resources.
    fn told(
        &mut self,
        group: &Group,
        drive: &Part,
        medium: &Medium,
        (media, cards): (Load, Option<Load>),
    ) {
        let adapter = group.adapter.as_deref().map(|id| self.part(id));
        let full = format!("{} on each of {}", group.drives, group.count);
        self.resource(
            format!("drives, {} x {}", group.devices(), drive.id),
            Level::Drive,
            &[(&drive.id, medium.decides)],
            media,
        );
        if let Some((adapter, cards)) = adapter.zip(cards) {
            let name = format!("adapters, {} x {} ({full})", group.count, adapter.id);
            let decides = self.adapter_decides(group, adapter);
            self.resource(name, Level::Adapter, &[(&adapter.id, decides)], cards);
        }
    }

    /// Returns the hidden stage of large I/Os, which stream through drive and slot at once: the
    /// shorter of both times is hidden.
    fn hidden(&self, group: &Group, drive: &Part, medium: &Medium) -> Option<Hidden> {
        let flows = group.adapter.is_none() && group.view == View::Rated;
        if !flows || self.bill.work.size_bytes < LONG || !self.wanted(Level::Slot) {
            return None;
        }
        let seconds = self.at(Level::Slot, self.slot_seconds(&self.pcie(group, drive)?));
        Some(if medium.seconds < seconds { Hidden::Medium } else { Hidden::Slot(seconds) })
    }

    /// Returns the stops of a large I/O at an adapter and its slot. The I/O streams through a stage
    /// that its drives cannot fill, and through the shorter of both: only its last part waits
    /// there.
    fn passed(
        &self,
        group: &Group,
        medium: &Medium,
        (cards, slots): (&mut Passed, &mut Passed),
        stops: [Option<Stop>; 2],
        at_once: f64,
    ) -> [Option<Stop>; 2] {
        let long = group.view == View::Rated && self.bill.work.size_bytes >= LONG;
        if group.adapter.is_none() || !long || medium.channels > 1 {
            return stops;
        }
        let in_flight = self.bill.setup.in_flight.map_or(f64::INFINITY, f64::from);
        let at_work = f64::from(group.drives).min(in_flight * at_once);
        let longest = stops.iter().flatten().map(|stop| stop.seconds).fold(0.0, f64::max);
        let streams =
            |stop: &Stop| stop.seconds < longest || medium.seconds >= stop.seconds * at_work;
        let last = 4096.0 / self.bill.work.size_bytes;
        let pass = |passed: &mut Passed, stop: Option<Stop>| match stop {
            Some(stop) if streams(&stop) => passed.streamed(stop, last),
            other => other,
        };
        [pass(cards, stops[0]), pass(slots, stops[1])]
    }

    /// Returns the slot of an adapter, or of a drive that is a card; `None` if its generation or
    /// width is unknown.
    fn slot(&mut self, group: &Group, [index, card, number]: [u32; 3]) -> Option<Stop> {
        let part = group.adapter.as_ref().or(group.drive.as_ref())?;
        if !self.wanted(Level::Slot) || (group.adapter.is_none() && group.view == View::Link) {
            return None;
        }
        let seconds = self.slot_seconds(&self.pcie(group, self.part(part))?);
        let seconds = seconds * self.passes(group);
        let name = match group.adapter {
            None if group.drives > 1 => format!("slot {index}.{card}.{number}"),
            _ => format!("slot {index}.{card}"),
        };
        Some(self.server(name, Level::Slot, seconds))
    }

    fn pcie(&self, group: &Group, card: &Part) -> Option<Pcie> {
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        let narrowest = |of: &dyn Fn(&Part) -> Option<f64>| {
            let theirs = server.and_then(of).unwrap_or(f64::INFINITY);
            of(card).map(|ours| ours.min(theirs))
        };
        let said = self.bus_generation(group).unwrap_or(f64::INFINITY);
        let known = narrowest(&|part| part.value("generation")).unwrap_or(f64::INFINITY);
        let generation = Some(known.min(said)).filter(|generation| generation.is_finite())? as u32;
        let lanes = narrowest(&|part| part.value("lanes"));
        let lanes = lanes.or(said.is_finite().then_some(LANES))? as u32;
        let link = self.bill.catalogue.parts.get(&format!("pcie-{generation}"))?;
        Some(Pcie {
            lane_bytes_per_s: wire::line_bytes_per_s(link, 1)?,
            generation,
            lanes,
            payload_max: group.payload_max,
            long_addresses: group.long_addresses,
        })
    }

    fn slot_seconds(&self, slot: &Pcie) -> f64 {
        slot.read_bytes(self.bill.work.size_bytes) * self.one_way() / slot.packet_bytes_per_s()
    }

    /// Returns the service time of a drive for an I/O.
    fn medium(&mut self, group: &Group, drive: &Part) -> Result<Medium, PlanError> {
        let devices = f64::from(group.devices());
        match group.view {
            View::Channels => {
                let channels = self.need(drive, "channels")?.round().max(1.0) as u32;
                if channels.saturating_mul(group.devices()) > CHANNELS_MAX {
                    let reason = format!("more than {CHANNELS_MAX} channels: use fewer drives");
                    return Err(PlanError::Part { line: self.line, reason });
                }
                let seconds = self.need(drive, "read_latency")?;
                if self.bill.work.read_share < 1.0 {
                    let reason = "by channels only reads are known".to_owned();
                    return Err(PlanError::Part { line: self.line, reason });
                }
                let seconds = self.at(Level::Drive, seconds);
                Ok(Medium {
                    seconds,
                    channels,
                    delay_s: 0.0,
                    decides: &["read_latency", "channels"],
                })
            }
            View::Link => {
                let slot = self.pcie(group, drive).ok_or_else(|| PlanError::Part {
                    line: self.line,
                    reason: format!("{}: generation and lanes are not known", drive.id),
                })?;
                let seconds = self.at(Level::Drive, self.slot_seconds(&slot));
                Ok(Medium { seconds, channels: 1, delay_s: 0.0, decides: &[] })
            }
            View::Rated => {
                let alone = self.rated(group, drive)?.max(self.bus_seconds(group));
                let law = model::usl::Scalability {
                    single_per_s: 1.0 / alone,
                    contention: group.contention,
                    coherence: 0.0,
                };
                let passed = 1.0 - self.bill.setup.cache.map_or(0.0, |cache| cache.hit);
                let seconds = self.at(Level::Drive, devices / law.throughput_per_s(devices));
                // Latency of a lone I/O beyond the time that it delays others.
                let idle = self.idle(group, drive, alone)?;
                let depth = self.bill.work.outstanding.min(self.commands_each(group));
                let busy = seconds / self.at_once(group);
                let delay_s = self.beside(drive, busy, idle, depth) * passed
                    + self.bill.setup.cache.map_or(0.0, |cache| cache.hit * cache.latency_s);
                // Other I/Os wait for the drive's time that a rebuild uses.
                let passed = passed / (1.0 - self.bill.setup.rebuild);
                let decides: &[&str] = match self.bill.work.size_bytes > 4096.0 {
                    true => &["read_bandwidth", "write_bandwidth"],
                    false => &["read_iops", "write_iops", "mix_iops", "mix_factor"],
                };
                Ok(Medium { seconds: seconds * passed, channels: 1, delay_s, decides })
            }
        }
    }

    /// Returns the latency of an I/O on an idle drive. If unknown, it is that of similar drives,
    /// never zero.
    fn idle(&mut self, group: &Group, drive: &Part, rated: f64) -> Result<f64, PlanError> {
        let (reads, writes) = self.shares();
        // If others wait at the rating, the latency of a lone I/O has no effect.
        let others = self.bill.work.outstanding.saturating_sub(1);
        let deep = f64::from(others) * rated > DEEP_S || is_disk(drive);
        // With sequential I/O an HDD uses read-ahead and write-back: its head is already in
        // position.
        let streams = is_disk(drive) && self.bill.setup.sequential;
        let carried = self.carried(group, drive);
        let without = |latency: f64| latency - carried.min(latency / 2.0);
        let read = match self.read_alone(drive).filter(|_| !streams) {
            Some(read) => without(1.0 / self.within(drive, 1.0 / read)),
            None if reads > 0.0 && !deep => self.latency_like(drive, "read_latency"),
            None => 0.0,
        };
        let write = match self.figure(drive, "write_latency").filter(|_| !streams) {
            Some(write) => without(1.0 / self.within(drive, 1.0 / write)),
            None if writes > 0.0 && !deep => self.latency_like(drive, "write_latency"),
            None => 0.0,
        };
        let (bus, bridge) = match self.bus(group) {
            Some(bus) => (bus.bytes_per_s, self.figure(bus.part, "added_latency").unwrap_or(0.0)),
            None => (f64::INFINITY, 0.0),
        };
        let size = self.bill.work.size_bytes / self.spread(group);
        let bytes = |bandwidth: Option<f64>, size: f64| {
            let more = (size - 4096.0).max(0.0);
            bandwidth.map_or(0.0, |bandwidth| more / bandwidth.min(bus))
        };
        let record = self.records(group).map_or(size, |records| records.bytes);
        // With a slower slot its flash has enough time.
        let slot = self.pcie(group, drive).map_or(0.0, |slot| self.slot_seconds(&slot));
        let lone = others == 0 && drive.interface == "pcie" && slot < rated;
        let share = if lone { LONE } else { 1.0 };
        let read = read + bridge + bytes(drive.value("read_bandwidth").map(|b| b * share), record);
        let write = write + bridge + bytes(drive.value("write_bandwidth"), size);
        // Parity is read before it is written.
        let reads_first = self.written(group).0 + self.bill.setup.host_writes().0 > 0.0;
        let before = if reads_first { read } else { 0.0 };
        let written = match group.write_cache {
            true => KEPT_S,
            false => before + write + self.bitmap_seconds(group, drive, write)?,
        };
        Ok(reads * read + writes * written)
    }

    /// Returns the time of 4 KiB on a drive's own link, which is part of its latency already, and
    /// which the slot would add again.
    fn carried(&self, group: &Group, drive: &Part) -> f64 {
        let direct = group.adapter.is_none() && self.wanted(Level::Slot);
        let own = || {
            let slot = self.pcie(group, drive).filter(|_| direct)?;
            let generation = drive.value("generation")? as u32;
            let link = self.bill.catalogue.parts.get(&format!("pcie-{generation}"))?;
            let lane_bytes_per_s = wire::line_bytes_per_s(link, 1)?;
            let lanes = drive.value("lanes").map_or(slot.lanes, |lanes| lanes as u32);
            Some(Pcie { lane_bytes_per_s, generation, lanes, ..slot })
        };
        own().map_or(0.0, |own| own.read_bytes(4096.0) / own.packet_bytes_per_s())
    }

    /// Returns the latency of a lone read, at its size: between those of 512 B and 4 KiB, linear in
    /// the logarithm of the size.
    fn read_alone(&mut self, drive: &Part) -> Option<f64> {
        let full = self.figure(drive, "read_latency")?;
        let share = (4096.0 / self.bill.work.size_bytes.clamp(512.0, 4096.0)).log2() / 3.0;
        let small = (share > 0.0).then(|| self.figure(drive, "small_read_latency")).flatten();
        Some(small.map_or(full, |small| full * (small / full).powf(share)))
    }

    /// Returns the delay in addition to the single server of a rated drive. Random reads hit random
    /// dies, so a drive reaches its rating only if most dies are busy; writes go to a buffer, and a
    /// SATA link is slower than a few dies.
    fn beside(&self, drive: &Part, seconds: f64, idle: f64, depth: u32) -> f64 {
        let least = (idle - seconds).max(0.0);
        // Large I/Os are spread over many banks, and a deep queue leaves none of them idle.
        let link_bound = drive.interface == "sata";
        let apart = link_bound || self.shares().0 < 0.5 || self.bill.work.size_bytes >= LONG;
        let full = f64::from(depth) >= FULL * idle / seconds;
        if apart || full || depth == 1 || least == 0.0 {
            return least;
        }
        let rate = model::laws::banks_per_s(1.0 / seconds, idle, depth);
        least.max(model::laws::delay_s(seconds, depth, rate))
    }
}

/// Adapters or slots of a group.
#[derive(Default)]
struct Passed {
    at: Vec<StationId>,
    /// Time of an I/O at a stage that it streams through, in seconds.
    streamed_s: f64,
}

impl Passed {
    /// Returns the stop of an I/O of which only the `last` part waits there.
    fn streamed(&mut self, stop: Stop, last: f64) -> Option<Stop> {
        self.streamed_s = stop.seconds;
        Some(Stop { seconds: stop.seconds * last, ..stop })
    }

    /// Returns the load, like `load`, of slots whose time is hidden from I/Os; `each` is the share
    /// per device.
    fn load_of(self, hidden: Option<Hidden>, each: f64, count: u32) -> Option<Load> {
        match hidden {
            Some(Hidden::Slot(seconds)) => Some(Load::PerIo(seconds * each)),
            _ => self.load(count),
        }
    }

    /// Returns the load of `count` of them; `None` without any.
    fn load(self, count: u32) -> Option<Load> {
        match self.streamed_s > 0.0 {
            true => Some(Load::PerIo(self.streamed_s / f64::from(count))),
            false => (!self.at.is_empty()).then_some(Load::Stations(self.at)),
        }
    }
}

/// Stage that a large I/O does not wait for.
#[derive(Clone, Copy)]
enum Hidden {
    /// The medium.
    Medium,
    /// The slot, with its time in seconds.
    Slot(f64),
}

/// Service of a drive's medium for an I/O.
struct Medium {
    seconds: f64,
    channels: u32,
    delay_s: f64,
    /// Quantities that determine its rate.
    decides: &'static [&'static str],
}

impl Medium {
    /// Adds the stations of one drive and routes its class through them. If an I/O keeps `at_once`
    /// drives busy, that many are one station that is faster by this factor.
    fn visit(
        &self,
        builder: &mut Builder,
        mut class: Class,
        name: &str,
        (stations, (placed, at_once)): (&mut Vec<StationId>, (u32, f64)),
    ) -> Class {
        let service = Service::exponential(self.seconds / at_once);
        if f64::from(placed) < stations.len() as f64 * at_once && self.channels == 1 {
            return class.visit(stations[stations.len() - 1], service);
        }
        let mut at = Vec::new();
        for channel in 0..self.channels {
            let name =
                if self.channels == 1 { name.to_owned() } else { format!("{name}.{channel}") };
            at.push(builder.network.add_station(Station::servers(name, 1)));
        }
        stations.extend(&at);
        class = class.step(Step::Visit(Visit { at, service, draws: 0.0 }));
        class
    }
}
