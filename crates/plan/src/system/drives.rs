//! Drives, what they hang on, and the slots that those are in.

use model::{Class, Service, Station, StationId, Step, Visit};

use super::{Builder, Level, Load, PlanError, Stop, through};
use crate::bill::{FlashState, Group, View};
use crate::wire::{self, Pcie};
use catalogue::{Class as Sort, Kind, Known, Part};

/// Most channels of all drives of a group: as many stations as a network may have.
const CHANNELS_MAX: u32 = 2048;
/// With so many in flight for each bank of a drive all of them are busy.
const FULL: f64 = 4.0;
/// More commands than this a disk does not choose among.
const CHOICE_MAX: f64 = 64.0;
/// A queue that takes longer than this at the rating hides what a lone I/O takes, in seconds.
const DEEP_S: f64 = 300e-6;
/// From here on the bandwidth says how fast a drive is, and its rating of short I/Os need not be
/// known, in bytes.
const LONG: f64 = 65_536.0;
/// Lengths that ratings and bandwidths of writes are found with, in bytes.
const RATED: f64 = 4096.0;
const FULL_WRITE: f64 = 131_072.0;

impl Builder<'_> {
    /// Cards with their drives.
    pub(super) fn drives(
        &mut self,
        index: usize,
        group: &Group,
        [fabric, cpu, far, added]: [Option<Stop>; 4],
    ) -> Result<(), PlanError> {
        let drive = self.part(group.drive.as_deref().unwrap_or_default());
        let medium = self.medium(group, drive)?;
        let adapter = group.adapter.as_deref().map(|id| self.part(id));
        let depth = match self.figure(drive, "queue_depth") {
            Some(depth) => self.bill.work.outstanding.min(depth as u32),
            None => self.bill.work.outstanding,
        };
        let way = self.way_in(index, group)?.or(self.front);
        let daemon_s = self.daemon_seconds();
        // Nobody waits in a delay, so that one is enough for all drives of the group.
        let delay = (medium.delay_s > 0.0)
            .then(|| self.network.add_station(Station::delay(format!("media of group {index}"))));
        let hidden = self.hidden(group, drive, &medium);
        let mut daemons = Vec::new();
        let (mut media, mut cards, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for card in 0..group.count {
            let passes = match adapter {
                Some(adapter) => self.adapter(adapter, index, card)?,
                None => None,
            };
            let slot = match hidden {
                Some(Hidden::Slot(_)) => None,
                _ => self.slot(group, adapter.unwrap_or(drive), index, card),
            };
            cards.extend(passes.map(|stop| stop.at));
            slots.extend(slot.map(|stop| stop.at));
            for number in 0..group.drives {
                if self.idle > 0 {
                    self.idle -= 1;
                    continue;
                }
                let name = format!("drive {index}.{card}.{number}");
                let mut class = Class::closed(name.clone(), depth);
                if !matches!(hidden, Some(Hidden::Medium)) {
                    class = medium.visit(self, class, &name, &mut media);
                }
                let stop = delay.map(|at| Stop { at, seconds: medium.delay_s });
                class = through(class, stop);
                if daemon_s > 0.0 {
                    let at = self.network.add_station(Station::servers(format!("of {name}"), 1));
                    daemons.push(at);
                    class = class.visit(at, Service::exponential(daemon_s));
                }
                for stop in [passes, slot, fabric, cpu, way, far, added] {
                    class = through(class, stop);
                }
                self.add(class);
            }
        }
        self.daemons(daemons);
        let each = 1.0 / f64::from(group.devices());
        let media = match media.is_empty() {
            true => Load::PerIo(medium.seconds * each),
            false => Load::Stations(media),
        };
        self.told(group, drive, &medium, (media, cards));
        let slots = match hidden {
            Some(Hidden::Slot(seconds)) => Some(Load::PerIo(seconds * each)),
            _ => (!slots.is_empty()).then_some(Load::Stations(slots)),
        };
        self.slots_told(adapter.unwrap_or(drive), slots);
        Ok(())
    }

    /// Slots as a resource: arithmetic of the standard.
    fn slots_told(&mut self, card: &Part, load: Option<Load>) {
        if let Some(load) = load {
            self.resource(format!("slots of {}", card.id), Level::Slot, &[], load);
        }
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
            &[(&id, &["daemon_read_iops", "daemon_write_iops"])],
            Load::Stations(stations),
        );
    }

    /// Drives and their adapters, as resources.
    fn told(
        &mut self,
        group: &Group,
        drive: &Part,
        medium: &Medium,
        (media, cards): (Load, Vec<StationId>),
    ) {
        let adapter = group.adapter.as_deref().map(|id| self.part(id));
        let full = format!("{} on each of {}", group.drives, group.count);
        self.resource(
            format!("drives, {} x {}", group.devices(), drive.id),
            Level::Drive,
            &[(&drive.id, medium.decides)],
            media,
        );
        if let Some(adapter) = adapter.filter(|_| !cards.is_empty()) {
            let name = format!("adapters, {} x {} ({full})", group.count, adapter.id);
            let decides: &[&str] = match self.adapter_times(adapter) {
                (Some(by_rate), Some(by_bytes)) if by_bytes > by_rate => &["bandwidth"],
                (None, _) => &["bandwidth"],
                _ => &["iops"],
            };
            self.resource(name, Level::Adapter, &[(&adapter.id, decides)], Load::Stations(cards));
        }
    }

    /// What an adapter needs for an I/O; `None` if nothing is known of it.
    fn adapter(
        &mut self,
        adapter: &Part,
        index: usize,
        card: u32,
    ) -> Result<Option<Stop>, PlanError> {
        if !self.wanted(Level::Adapter) {
            return Ok(None);
        }
        let (by_rate, by_bytes) = self.adapter_times(adapter);
        let Some(seconds) = [by_rate, by_bytes].into_iter().flatten().reduce(f64::max) else {
            return Ok(self.adapter_like(adapter).map(|seconds| {
                self.server(format!("adapter {index}.{card}"), Level::Adapter, seconds)
            }));
        };
        Ok(Some(self.server(format!("adapter {index}.{card}"), Level::Adapter, seconds)))
    }

    /// Time of an I/O by what other adapters of its kind do: nobody is infinitely fast. The middle
    /// of those whose rate is known, and a guess between the slowest and the fastest.
    fn adapter_like(&mut self, adapter: &Part) -> Option<f64> {
        let generation = adapter.value("generation");
        let parts = self.bill.catalogue.parts.values();
        let alike = parts.filter(|part| part.class == Sort::Adapter && part.id != adapter.id);
        let rates = |same: bool| {
            let alike = alike.clone().filter(|p| !same || p.value("generation") == generation);
            let mut rates: Vec<f64> = alike.filter_map(|part| part.value("iops")).collect();
            rates.sort_by(f64::total_cmp);
            rates
        };
        let mut of = rates(generation.is_some());
        if of.is_empty() {
            of = rates(false);
        }
        let (low, high) = (*of.first()?, *of.last()?);
        let value = of[of.len() / 2];
        let source = "the adapters of its kind in the catalogue".to_owned();
        let known = Known { value, low, high, kind: Kind::Guess, source };
        self.remark(&format!(
            "{}: no rate is known; taken as others of its kind, {} to {} IOPS: measure it, or give \
             its rate in a [[figure]]",
            adapter.id,
            block::Rate(low),
            block::Rate(high)
        ));
        Some(1.0 / self.supposed(adapter, "iops", known))
    }

    /// Time of an I/O by the rating of an adapter, and by its bandwidth.
    fn adapter_times(&mut self, adapter: &Part) -> (Option<f64>, Option<f64>) {
        let size = self.bill.work.size_bytes;
        let by_rate = self.figure(adapter, "iops").map(|iops| 1.0 / iops);
        (by_rate, self.figure(adapter, "bandwidth").map(|bandwidth| size / bandwidth))
    }

    /// What of a drive in a slot of its own a long I/O does not wait for, as it flows through both.
    fn hidden(&self, group: &Group, drive: &Part, medium: &Medium) -> Option<Hidden> {
        let flows = group.adapter.is_none() && group.drives == 1 && group.view == View::Rated;
        if !flows || self.bill.work.size_bytes < LONG || !self.wanted(Level::Slot) {
            return None;
        }
        let seconds = self.at(Level::Slot, self.slot_seconds(&self.pcie(group, drive)?));
        Some(if medium.seconds < seconds { Hidden::Medium } else { Hidden::Slot(seconds) })
    }

    /// The slot that a card is in; `None` if its generation or width is not known.
    fn slot(&mut self, group: &Group, card: &Part, index: usize, number: u32) -> Option<Stop> {
        let own = card.id == group.drive.as_deref().unwrap_or_default();
        if !self.wanted(Level::Slot) || (own && group.view == View::Link) {
            return None;
        }
        let slot = self.pcie(group, card)?;
        let seconds = self.slot_seconds(&slot);
        Some(self.server(format!("slot {index}.{number}"), Level::Slot, seconds))
    }

    fn pcie(&self, group: &Group, card: &Part) -> Option<Pcie> {
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        let narrowest = |of: &dyn Fn(&Part) -> Option<f64>| {
            let theirs = server.and_then(of).unwrap_or(f64::INFINITY);
            of(card).map(|ours| ours.min(theirs))
        };
        let generation = narrowest(&|part| part.value("generation"))? as u32;
        let lanes = narrowest(&|part| part.value("lanes"))? as u32;
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

    /// What the medium of a drive needs for an I/O.
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
                let alone = self.rated(group, drive)?;
                let law = model::usl::Scalability {
                    single_per_s: 1.0 / alone,
                    contention: group.contention,
                    coherence: 0.0,
                };
                let passed = 1.0 - self.bill.setup.cache.map_or(0.0, |cache| cache.hit);
                let seconds = self.at(Level::Drive, devices / law.throughput_per_s(devices));
                // What a lone I/O takes beyond the time that it keeps others waiting.
                let idle = self.idle(group, drive, alone)?;
                let delay_s = self.beside(seconds, idle) * passed
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

    /// Time of an I/O on an idle drive. What nobody published is not zero: then it is what drives
    /// of its kind take.
    fn idle(&mut self, group: &Group, drive: &Part, rated: f64) -> Result<f64, PlanError> {
        let (reads, writes) = self.shares();
        // Where many wait at the rating, what a lone one takes changes nothing.
        let deep = f64::from(self.bill.work.outstanding) * rated > DEEP_S;
        let read = match self.figure(drive, "read_latency") {
            Some(read) => read,
            None if reads > 0.0 && !deep => self.latency_like(drive, "read_latency"),
            None => 0.0,
        };
        let write = match self.figure(drive, "write_latency") {
            Some(write) => write,
            None if writes > 0.0 && !deep => self.latency_like(drive, "write_latency"),
            None => 0.0,
        };
        let bytes = |bandwidth: Option<f64>| {
            let more = (self.bill.work.size_bytes - 4096.0).max(0.0);
            bandwidth.map_or(0.0, |bandwidth| more / bandwidth)
        };
        let read = read + bytes(drive.value("read_bandwidth"));
        let write = write + bytes(drive.value("write_bandwidth"));
        // Parity is read before it is written.
        let reads_first = group.raid.small_write().0 + self.bill.setup.host_writes().0 > 0.0;
        let before = if reads_first { read } else { 0.0 };
        Ok(reads * read + writes * (before + write))
    }

    /// The delay beside the one server that a rated drive is. Reads go to banks by chance, so that
    /// the rating is not reached before most banks are busy; writes are taken in by a buffer.
    fn beside(&self, seconds: f64, idle: f64) -> f64 {
        let depth = self.bill.work.outstanding;
        let least = (idle - seconds).max(0.0);
        // Long I/Os are spread over many banks; and many in flight leave none of them idle.
        let apart = self.shares().0 < 0.5 || self.bill.work.size_bytes >= LONG;
        let full = f64::from(depth) >= FULL * idle / seconds;
        if apart || full || depth == 1 || least == 0.0 {
            return least;
        }
        let rate = model::laws::banks_per_s(1.0 / seconds, idle, depth);
        least.max(model::laws::delay_s(seconds, depth, rate))
    }

    /// The middle of what drives with the same interface, and as quick as it, are known to take.
    fn latency_like(&mut self, drive: &Part, quantity: &'static str) -> f64 {
        let disk = |part: &Part| part.value("read_iops").is_some_and(|rate| rate < 1000.0);
        let alike = self.bill.catalogue.parts.values().filter(|part| {
            part.class == Sort::Drive
                && part.interface == drive.interface
                && disk(part) == disk(drive)
        });
        let mut times: Vec<f64> = alike.filter_map(|part| part.value(quantity)).collect();
        times.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (times.first().copied(), times.last().copied()) else {
            self.remark(&format!(
                "{}: {quantity} is not known, nor of others like it: taken as 1 / rating, which \
                 is too quick at low depth",
                drive.id
            ));
            return 0.0;
        };
        let value = times[times.len() / 2];
        let source = format!("drives with {} in the catalogue", drive.interface);
        self.remark(&format!(
            "{}: {quantity} is not known; taken as {:.0} us, as others with {}",
            drive.id,
            value * 1e6,
            drive.interface
        ));
        self.supposed(drive, quantity, Known { value, low, high, kind: Kind::Guess, source })
    }

    /// Time of an I/O by rating and bandwidth; in a mix, writes weigh more among reads.
    fn rated(&mut self, group: &Group, drive: &Part) -> Result<f64, PlanError> {
        let work = self.bill.work;
        let (reads, writes) = self.shares();
        let (before, after) = group.raid.small_write();
        let (first, copies) = self.bill.setup.host_writes();
        // Parity over hosts is of what each host holds: both read before they write.
        let (before, after) = (first + before * copies, after * copies);
        let mut seconds = 0.0;
        let reads = reads * self.degraded(group) * self.bill.setup.host_reads();
        if reads > 0.0 || (writes > 0.0 && before > 0.0) {
            let bandwidth = self.figure(drive, "read_bandwidth").unwrap_or(f64::INFINITY);
            let rate = match LONG <= work.size_bytes && bandwidth.is_finite() {
                _ if self.in_sequence(drive, bandwidth) => f64::INFINITY,
                true => self.figure(drive, "read_iops").unwrap_or(f64::INFINITY),
                false => self.read_rate(drive)?,
            } * self.chosen(drive);
            let read = (1.0 / rate).max(work.size_bytes / bandwidth);
            seconds += (reads + writes * before) * read;
        }
        if writes > 0.0 {
            let bandwidth = self.figure(drive, "write_bandwidth").unwrap_or(f64::INFINITY);
            let rate = match self.bill.setup.state {
                _ if self.in_sequence(drive, bandwidth) => f64::INFINITY,
                FlashState::Worn if LONG <= work.size_bytes && bandwidth.is_finite() => {
                    self.figure(drive, "write_iops").unwrap_or(f64::INFINITY)
                }
                FlashState::Worn => match self.alone(drive, "write_iops", "write_latency") {
                    Some(alone) => alone,
                    None => self.need(drive, "write_iops")?,
                },
                FlashState::Fresh => match self.figure(drive, "fresh_write_iops") {
                    Some(rate) => rate,
                    // Fresh flash writes at random as it does in sequence.
                    None => self.need(drive, "write_bandwidth")? / work.size_bytes.max(4096.0),
                },
            };
            let rate = rate * self.gathered(group, drive);
            let among = work.read_share > 0.0 || self.bill.setup.among_reads;
            let weight = if among { self.mix_factor(drive)? } else { 1.0 };
            let write = match self.bill.setup.state {
                FlashState::Worn => between(work.size_bytes, rate, bandwidth),
                FlashState::Fresh => (1.0 / rate).max(work.size_bytes / bandwidth),
            };
            seconds += writes * weight * write * after;
        }
        Ok(seconds)
    }

    /// Whether no head moves: then a disk's rating, which is of random I/Os, says nothing.
    fn in_sequence(&self, drive: &Part, bandwidth: f64) -> bool {
        self.bill.setup.sequential && bandwidth.is_finite() && drive.known("reorder").is_some()
    }

    /// How many times as fast as one after the other a disk is that may choose what is near.
    fn chosen(&mut self, drive: &Part) -> f64 {
        let depth = self.figure(drive, "queue_depth").unwrap_or(CHOICE_MAX).min(CHOICE_MAX);
        let depth = f64::from(self.bill.work.outstanding).min(depth);
        self.figure(drive, "reorder").map_or(1.0, |power| depth.powf(power))
    }

    /// The same for writes, which a cache may gather first.
    fn gathered(&mut self, group: &Group, drive: &Part) -> f64 {
        let cached = group.write_cache.then(|| self.figure(drive, "cached_write_gain")).flatten();
        cached.unwrap_or_else(|| self.chosen(drive))
    }

    /// How many reads of drives a read takes while some have failed: what they held is read from
    /// the others of their set.
    fn degraded(&self, group: &Group) -> f64 {
        let setup = &self.bill.setup;
        let drives = self.bill.drives();
        let holding = drives.saturating_sub(setup.spares).max(1);
        let lost = f64::from(setup.down.drives) / f64::from(holding);
        let width = setup.width.unwrap_or(holding);
        1.0 - lost + lost * group.raid.degraded_reads(width)
    }

    /// I/Os per second of a drive whose rating nobody published, where one at a time needs none.
    fn alone(&mut self, drive: &Part, rating: &str, latency: &'static str) -> Option<f64> {
        if drive.value(rating).is_some() || self.bill.work.outstanding > 1 {
            return None;
        }
        self.figure(drive, latency).map(|seconds| 1.0 / seconds)
    }

    /// Reads per second at the length of the work: a rating holds at the length it was found at,
    /// and between two the logarithm of the length tells.
    fn read_rate(&mut self, drive: &Part) -> Result<f64, PlanError> {
        let size = self.bill.work.size_bytes;
        if let Some(alone) = self.alone(drive, "read_iops", "read_latency") {
            return Ok(alone);
        }
        let rate = self.need(drive, "read_iops")?;
        if size >= 4096.0 {
            return Ok(rate);
        }
        let Some(small) = self.figure(drive, "small_read_iops") else {
            self.remark(&format!(
                "{}: extrapolated: its rating is of 4 KiB, and what shorter reads do is not known",
                drive.id
            ));
            return Ok(rate);
        };
        let share = (4096.0 / size.max(512.0)).log2() / 3.0;
        Ok(rate * (small / rate).powf(share))
    }

    /// How much more a write costs among reads: as the catalogue says, or as its rated mix implies.
    fn mix_factor(&mut self, drive: &Part) -> Result<f64, PlanError> {
        if let Some(factor) = self.figure(drive, "mix_factor") {
            return Ok(factor);
        }
        let Some(mixed) = self.figure(drive, "mix_iops") else {
            self.remark(&format!(
                "{}: no rated mix is known; reads and writes are taken as undisturbed by each \
                 other, which flash drives are not: expect up to half of it",
                drive.id
            ));
            return Ok(1.0);
        };
        let (reads, writes) = (self.need(drive, "read_iops")?, self.need(drive, "write_iops")?);
        Ok(((1.0 / mixed - 0.7 / reads) / (0.3 / writes)).max(0.1))
    }
}

/// Time of a write between the lengths at which rating and bandwidth hold: bytes count on a line.
/// Worn flash writes them again and again, so that the rating of 4 KiB is not that of 8 KiB.
fn between(size_bytes: f64, rate: f64, bandwidth: f64) -> f64 {
    let short = 1.0 / rate;
    let long = short.max(FULL_WRITE / bandwidth);
    let share = ((size_bytes - RATED) / (FULL_WRITE - RATED)).clamp(0.0, 1.0);
    (short + share * (long - short)).max(size_bytes / bandwidth)
}

/// What a long I/O does not wait for.
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
    /// Adds the stations of one drive and sends its class through them.
    fn visit(
        &self,
        builder: &mut Builder,
        mut class: Class,
        name: &str,
        stations: &mut Vec<StationId>,
    ) -> Class {
        let mut at = Vec::new();
        for channel in 0..self.channels {
            let name =
                if self.channels == 1 { name.to_owned() } else { format!("{name}.{channel}") };
            at.push(builder.network.add_station(Station::servers(name, 1)));
        }
        stations.extend(&at);
        let service = Service::exponential(self.seconds);
        class = class.step(Step::Visit(Visit { at, service, draws: 0.0 }));
        class
    }
}
