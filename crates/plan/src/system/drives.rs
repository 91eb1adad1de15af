//! Drives, their adapters and their slots as stations.

use model::{Class, Service, Station, StationId, Step, Visit};

use super::flush::Flush;
use super::rated::{LONG, is_disk};
use super::{Builder, Level, Load, PlanError, Stop, through};
use crate::bill::{ANY_CLUSTER, Group, LANES, Raid, View};
use crate::wire::{self, Pcie};
use catalogue::Part;

/// Most channels of all drives of a group: as many stations as a network may have.
const CHANNELS_MAX: u32 = 2048;
/// What a lone long read gets of the bandwidth of an NVMe drive, beside its latency: five published
/// runs of 512 KiB to 4 MiB, 0.7 to 0.8.
const LONE: f64 = 0.75;
/// With so many in flight for each bank of a drive all of them are busy.
const FULL: f64 = 4.0;
/// What a card with a write cache takes to keep a write, in seconds: 50 to 100 us are usual.
const KEPT_S: f64 = 60e-6;
/// A queue that takes longer than this at the rating hides what a lone I/O takes, in seconds.
const DEEP_S: f64 = 300e-6;

impl Builder<'_> {
    /// Cards with their drives.
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
        // Nobody waits in a delay, so that one is enough for all drives of the group.
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
                // Drives without an adapter are cards, each in a slot of its own.
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

    /// The medium, and the flushes that queue in the drive; those that do not are a part of its
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

    /// How many drives an I/O keeps busy at once, where what is in flight is told for all drives:
    /// those of its mirror, its parities or its copies, and those that a long one is spread over.
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
        // A write cache hands its writes to all drives, however few come at once.
        let waits = if group.write_cache { written / all } else { writes * self.phases(group) };
        let copies = (reads + written) / (self.shares().0 + waits);
        (copies * self.spread(group)).clamp(1.0, all)
    }

    /// Drives that an I/O is spread over, where what is in flight is told for all drives: in
    /// sequence by its length, and a set of flash takes one apart by its bytes.
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

    /// Slots as a resource: arithmetic of the standard.
    fn slots_told(&mut self, card: &Part, load: Option<Load>) {
        if let Some(load) = load {
            self.resource(format!("slots of {}", card.id), Level::Slot, &[], load);
        }
    }

    /// The daemon that serves a drive, if it takes any time.
    fn daemon(&mut self, drive: &str, seconds: f64) -> Option<Stop> {
        let name = format!("of {drive}");
        (seconds > 0.0).then(|| Stop {
            at: self.network.add_station(Station::servers(name, self.bill.setup.daemons)),
            seconds,
        })
    }

    /// The daemons that serve the drives, as one resource.
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

    /// Drives and their adapters, as resources.
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

    /// Long I/Os flow through drive and slot at once: the shorter of both times is hidden.
    fn hidden(&self, group: &Group, drive: &Part, medium: &Medium) -> Option<Hidden> {
        let flows = group.adapter.is_none() && group.view == View::Rated;
        if !flows || self.bill.work.size_bytes < LONG || !self.wanted(Level::Slot) {
            return None;
        }
        let seconds = self.at(Level::Slot, self.slot_seconds(&self.pcie(group, drive)?));
        Some(if medium.seconds < seconds { Hidden::Medium } else { Hidden::Slot(seconds) })
    }

    /// Stops of a long I/O at an adapter and its slot. It streams through what its drives cannot
    /// fill, and through the shorter of both: there only its last part waits.
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

    /// The slot of an adapter, or of a drive that is a card; `None` if its generation or width is
    /// not known.
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

    /// Service time of a drive for an I/O.
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
                // What a lone I/O takes beyond the time that it keeps others waiting.
                let idle = self.idle(group, drive, alone)?;
                let depth = self.bill.work.outstanding.min(self.commands_each(group));
                let busy = seconds / self.at_once(group);
                let delay_s = self.beside(drive, busy, idle, depth) * passed
                    + self.bill.setup.cache.map_or(0.0, |cache| cache.hit * cache.latency_s);
                // What a rebuild takes of a drive's time, others wait for.
                let passed = passed / (1.0 - self.bill.setup.rebuild);
                let decides: &[&str] = match self.bill.work.size_bytes > 4096.0 {
                    true => &["read_bandwidth", "write_bandwidth"],
                    false => &["read_iops", "write_iops", "mix_iops", "mix_factor"],
                };
                Ok(Medium { seconds: seconds * passed, channels: 1, delay_s, decides })
            }
        }
    }

    /// Latency of an I/O on an idle drive. If unknown, it is that of similar drives, never zero.
    fn idle(&mut self, group: &Group, drive: &Part, rated: f64) -> Result<f64, PlanError> {
        let (reads, writes) = self.shares();
        // Where others wait at the rating, what a lone one takes changes nothing.
        let others = self.bill.work.outstanding.saturating_sub(1);
        let deep = f64::from(others) * rated > DEEP_S || is_disk(drive);
        // In sequence a disk reads ahead and writes behind: its head is there already.
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
        // Behind a slower slot its flash has time enough.
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

    /// What 4 KiB take through a drive's own link, which its latency holds already, and the slot
    /// would add once more.
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

    /// Latency of a read alone, at its length: between those of 512 B and 4 KiB on a line in the
    /// logarithm of the length.
    fn read_alone(&mut self, drive: &Part) -> Option<f64> {
        let full = self.figure(drive, "read_latency")?;
        let share = (4096.0 / self.bill.work.size_bytes.clamp(512.0, 4096.0)).log2() / 3.0;
        let small = (share > 0.0).then(|| self.figure(drive, "small_read_latency")).flatten();
        Some(small.map_or(full, |small| full * (small / full).powf(share)))
    }

    /// The delay beside the single server of a rated drive. Random reads hit dies at random, so a
    /// drive reaches its rating only when most dies are busy; writes go to a buffer, and a SATA
    /// link is the slower one of a few dies.
    fn beside(&self, drive: &Part, seconds: f64, idle: f64, depth: u32) -> f64 {
        let least = (idle - seconds).max(0.0);
        // Long I/Os are spread over many banks, and many in flight leave none of them idle.
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
    /// What an I/O takes of one that it streams through, in seconds.
    streamed_s: f64,
}

impl Passed {
    /// The stop of an I/O that waits there for its `last` part only.
    fn streamed(&mut self, stop: Stop, last: f64) -> Option<Stop> {
        self.streamed_s = stop.seconds;
        Some(Stop { seconds: stop.seconds * last, ..stop })
    }

    /// As `load`, of slots whose time is hidden from I/Os, `each` of a device.
    fn load_of(self, hidden: Option<Hidden>, each: f64, count: u32) -> Option<Load> {
        match hidden {
            Some(Hidden::Slot(seconds)) => Some(Load::PerIo(seconds * each)),
            _ => self.load(count),
        }
    }

    /// How busy `count` of them are; `None` without any.
    fn load(self, count: u32) -> Option<Load> {
        match self.streamed_s > 0.0 {
            true => Some(Load::PerIo(self.streamed_s / f64::from(count))),
            false => (!self.at.is_empty()).then_some(Load::Stations(self.at)),
        }
    }
}

/// The stage that a long I/O does not wait for.
#[derive(Clone, Copy)]
enum Hidden {
    /// The medium.
    Medium,
    /// The slot, which takes so long.
    Slot(f64),
}

/// What the medium of a drive needs for an I/O.
struct Medium {
    seconds: f64,
    channels: u32,
    delay_s: f64,
    /// The quantities that say how fast it is.
    decides: &'static [&'static str],
}

impl Medium {
    /// Adds the stations of one drive and sends its class through them. Where an I/O keeps so many
    /// drives busy `at_once`, as many are one station that is as much faster.
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
