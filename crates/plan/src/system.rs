//! A bill becomes a network: each part that I/Os queue at is a station.
//!
//! | part | station | work of one I/O |
//! |---|---|---|
//! | drive, rated | one server | 1 / rating, or size / bandwidth if that is longer |
//! | drive, by channels | a server for each channel, one at random | its latency |
//! | adapter | one server | 1 / rating, or size / bandwidth |
//! | slot of PCI Express | one server | packets of the busier direction |
//! | network port | one server | bytes on the wire of the busier direction |
//! | port engines that wait for their transfer | all of them together, as a network of their own | engine time, then the fabric |
//! | fabric of the server | one server | size / bandwidth |
//! | processor | a server for each core | core time |
//!
//! Times are taken as exponential, so that the means have a theory. The arithmetic of queues is
//! `model`'s; here is only what a part needs for an I/O, and which figures say so.

use std::collections::BTreeMap;

use model::{
    Class, Method, ModelError, Network, Servers, Service, Station, StationId, Step, Visit, solve,
};
use serde::Serialize;

use crate::bill::{Bill, Group, View};
use crate::catalogue::{Kind, Known, Part};
use crate::wire::{self, Pcie, Tcp};

/// How far from the medium a part is; a system can be looked at up to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Drives.
    Drive,
    /// Adapters of drives.
    Adapter,
    /// Slots of PCI Express.
    Slot,
    /// Ports of a network.
    Port,
    /// What all slots share.
    Fabric,
    /// The cores.
    Processor,
}

impl Level {
    /// From the medium to the processor.
    pub const ALL: [Level; 6] =
        [Level::Drive, Level::Adapter, Level::Slot, Level::Port, Level::Fabric, Level::Processor];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Drive => "drives",
            Level::Adapter => "adapters",
            Level::Slot => "slots",
            Level::Port => "ports",
            Level::Fabric => "fabric",
            Level::Processor => "processor",
        }
    }
}

/// A figure that the network is made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Id of the part.
    pub part: String,
    /// What is known about it.
    pub quantity: &'static str,
    /// What was used.
    pub known: Known,
}

/// Parts of one kind that work side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// As "adapter lsi-9210-8i, full".
    pub name: String,
    /// How far from the medium.
    pub level: Level,
    /// How it is known what it does: the weakest of its figures.
    pub kind: Kind,
    /// How its use is told.
    pub load: Load,
}

/// How the use of a resource is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// By these stations: the busiest of them.
    Stations(Vec<StationId>),
    /// By I/Os per second, each of which takes this much of it, in seconds.
    PerIo(f64),
}

/// A change to a bill's figures, for what-ifs and for chance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tweak {
    /// Values to use in place of the figures': by part and quantity.
    pub values: BTreeMap<(String, &'static str), f64>,
    /// Only parts up to this level, as if all others were infinitely fast.
    pub up_to: Option<Level>,
    /// A level of which everything is faster by this factor.
    pub faster: Option<(Level, f64)>,
}

/// A bill as a network.
#[derive(Clone, Debug)]
pub struct System {
    /// What is solved.
    pub network: Network,
    /// What the stations stand for.
    pub resources: Vec<Resource>,
    /// What it was made of.
    pub inputs: Vec<Input>,
    /// What was left out or taken for granted, in words.
    pub remarks: Vec<String>,
}

/// Why a bill has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A figure is missing, or makes no sense here.
    #[error("line {line}: {reason}")]
    Part {
        /// Line of the bill, 1 for the bill itself.
        line: usize,
        /// What is missing, and how to say it.
        reason: String,
    },
    /// The network cannot be solved.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl System {
    /// Makes the network of a bill.
    ///
    /// # Errors
    ///
    /// [`PlanError::Part`] when a figure is missing.
    pub fn build(bill: &Bill, tweak: &Tweak) -> Result<System, PlanError> {
        let mut builder = Builder {
            bill,
            tweak,
            line: 1,
            network: Network::default(),
            resources: Vec::new(),
            inputs: Vec::new(),
            remarks: Vec::new(),
        };
        let processor = builder.processor()?;
        let fabric = builder.fabric()?;
        builder.ports(processor, fabric)?;
        for (index, group) in bill.groups.iter().enumerate() {
            if group.drive.is_some() {
                builder.line = group.line;
                builder.drives(index, group, processor, fabric)?;
            }
        }
        let Builder { network, resources, inputs, remarks, .. } = builder;
        Ok(System { network, resources, inputs, remarks })
    }
}

struct Builder<'a> {
    bill: &'a Bill,
    tweak: &'a Tweak,
    line: usize,
    network: Network,
    resources: Vec<Resource>,
    inputs: Vec<Input>,
    remarks: Vec<String>,
}

/// A station with the time that an I/O needs there.
#[derive(Clone, Copy)]
struct Stop {
    at: StationId,
    seconds: f64,
}

impl<'a> Builder<'a> {
    fn part(&self, id: &str) -> &'a Part {
        // Bills are checked: every id in them is known.
        &self.bill.catalogue.parts[id]
    }

    /// A figure, changed as the tweak says, and remembered.
    fn figure(&mut self, part: &Part, quantity: &'static str) -> Option<f64> {
        let known = part.known(quantity)?;
        let key = (part.id.clone(), quantity);
        let value = self.tweak.values.get(&key).copied().unwrap_or(known.value);
        if !self.inputs.iter().any(|input| input.part == part.id && input.quantity == quantity) {
            self.inputs.push(Input { part: part.id.clone(), quantity, known });
        }
        Some(value)
    }

    fn need(&mut self, part: &Part, quantity: &'static str) -> Result<f64, PlanError> {
        self.figure(part, quantity).ok_or_else(|| PlanError::Part {
            line: self.line,
            reason: format!(
                "{} of {} is not known: give it in a [[figure]] with its source",
                quantity, part.id
            ),
        })
    }

    /// The weakest kind among the figures of a part that were used so far.
    fn kind(&self, part: &str) -> Kind {
        let used = self.inputs.iter().filter(|input| input.part == part);
        used.map(|input| input.known.kind).max().unwrap_or(Kind::Derived)
    }

    fn wanted(&self, level: Level) -> bool {
        self.tweak.up_to.is_none_or(|limit| level <= limit)
    }

    /// A time at a level, shortened if the tweak says so.
    fn at(&self, level: Level, seconds: f64) -> f64 {
        match self.tweak.faster {
            Some((faster, factor)) if faster == level => seconds / factor,
            _ => seconds,
        }
    }

    fn server(&mut self, name: String, level: Level, seconds: f64) -> Stop {
        let at = self.network.add_station(Station::servers(name, 1));
        Stop { at, seconds: self.at(level, seconds) }
    }

    fn remark(&mut self, text: &str) {
        if !self.remarks.iter().any(|known| known == text) {
            self.remarks.push(text.to_owned());
        }
    }

    fn resource(&mut self, name: String, level: Level, part: &str, load: Load) {
        let kind = self.kind(part);
        self.resources.push(Resource { name, level, kind, load });
    }

    /// The cores, if it is said what an I/O costs them.
    fn processor(&mut self) -> Result<Option<Stop>, PlanError> {
        let Some(software) = &self.bill.software else {
            self.remark("no software is named, so that processors are taken as fast enough");
            return Ok(None);
        };
        if !self.wanted(Level::Processor) {
            return Ok(None);
        }
        let server = self.bill.server.as_deref().map(|id| self.part(id));
        let Some(server) = server else {
            let reason = "software without a server: name one, for its cores".to_owned();
            return Err(PlanError::Part { line: 1, reason });
        };
        let software = self.part(software);
        let cores = self.need(server, "cores")?;
        let mut seconds = self.core_time(software)?;
        // A clock of another speed takes another time.
        match (self.figure(software, "clock"), self.figure(server, "clock")) {
            (Some(theirs), Some(ours)) => seconds *= theirs / ours,
            _ => self.remark("the processor time is not scaled: a clock is not known"),
        }
        let station = Station::servers("processor", cores as u32);
        let at = self.network.add_station(station);
        let load = Load::Stations(vec![at]);
        let name = format!("processor, {cores} cores with {}", software.id);
        self.resource(name, Level::Processor, &software.id, load);
        Ok(Some(Stop { at, seconds: self.at(Level::Processor, seconds) }))
    }

    /// Core time of an I/O: the same up to 1 KiB, and on a line through the figure of 4 KiB.
    fn core_time(&mut self, software: &Part) -> Result<f64, PlanError> {
        let small = self.need(software, "core_time")?;
        let Some(large) = self.figure(software, "core_time_4k") else { return Ok(small) };
        let slope = (large - small) / (4096.0 - 1024.0);
        Ok(small + slope * (self.bill.work.size_bytes - 1024.0).max(0.0))
    }

    /// What all slots share, if it is known.
    fn fabric(&mut self) -> Result<Option<Stop>, PlanError> {
        let Some(server) = self.bill.server.as_deref().map(|id| self.part(id)) else {
            return Ok(None);
        };
        if !self.wanted(Level::Fabric) {
            return Ok(None);
        }
        let Some(bandwidth) = self.figure(server, "bandwidth") else { return Ok(None) };
        let seconds = self.bill.work.size_bytes / bandwidth;
        let holds = self.bill.groups.iter().any(|group| self.engine_of(group).is_some());
        if holds {
            // Then it stands in the network of the engines.
            let seconds = self.at(Level::Fabric, seconds);
            self.resource("fabric".to_owned(), Level::Fabric, &server.id, Load::PerIo(seconds));
            return Ok(Some(Stop { at: StationId(0), seconds }));
        }
        let stop = self.server("fabric".to_owned(), Level::Fabric, seconds);
        let load = Load::Stations(vec![stop.at]);
        self.resource("fabric".to_owned(), Level::Fabric, &server.id, load);
        Ok(Some(stop))
    }

    /// The adapter of a group whose ports are engines that wait for their transfer.
    fn engine_of(&self, group: &Group) -> Option<&'a Part> {
        let adapter = self.part(group.adapter.as_deref()?);
        (group.ports > 0 && adapter.known("engine_time").is_some()).then_some(adapter)
    }

    /// Groups of ports: those with engines all together, the others one by one.
    fn ports(&mut self, cpu: Option<Stop>, fabric: Option<Stop>) -> Result<(), PlanError> {
        let bill = self.bill;
        let (mut engines, mut time, mut count) = (None, 0.0, 0);
        for (index, group) in bill.groups.iter().enumerate() {
            self.line = group.line;
            match self.engine_of(group) {
                Some(adapter) if self.wanted(Level::Port) => {
                    let this = self.need(adapter, "engine_time")?;
                    if engines.is_some() && this != time {
                        let reason = "its ports have another engine time than others: one kind \
                            in a bill"
                            .to_owned();
                        return Err(PlanError::Part { line: group.line, reason });
                    }
                    (engines, time) = (Some(adapter), this);
                    count += group.devices();
                }
                None if group.ports > 0 => self.network_ports(index, group, cpu, fabric)?,
                _ => {}
            }
        }
        if let Some(adapter) = engines {
            self.engines(adapter, time, count, cpu, fabric)?;
        }
        Ok(())
    }

    /// Engines hold their port while the fabric transfers: a network of its own with as many
    /// requests as ports, whose throughput is the speed of one station in ours.
    fn engines(
        &mut self,
        adapter: &Part,
        time: f64,
        count: u32,
        cpu: Option<Stop>,
        fabric: Option<Stop>,
    ) -> Result<(), PlanError> {
        let time = self.at(Level::Port, time);
        let mut speeds = Vec::new();
        for busy in 1..=count {
            let mut inner = Network::default();
            let class = Class::closed("ports", busy).think(Service::exponential(time));
            let transfer = fabric.map_or(0.0, |fabric| fabric.seconds);
            let at = inner.add_station(Station::servers("fabric", 1));
            inner.add_class(class.visit(at, Service::exponential(transfer.max(1e-15))));
            speeds.push(solve(&inner, Method::Exact)?.throughput_per_s());
        }
        let one = speeds[0];
        let rates = speeds.iter().map(|speed| speed / one).collect();
        let servers = Servers::Rates(rates);
        let name = "port engines".to_owned();
        let at = self.network.add_station(Station { name, servers, reserve: None });
        let population = count.saturating_mul(self.bill.work.outstanding);
        let class = Class::closed("ports", population).visit(at, Service::exponential(1.0 / one));
        let class = through(class, cpu);
        self.network.add_class(class);
        let load = Load::PerIo(time / f64::from(count));
        let name = format!("{count} ports of {}", adapter.id);
        self.resource(name, Level::Port, &adapter.id, load);
        Ok(())
    }

    /// Ports of a network, each with its requests.
    fn network_ports(
        &mut self,
        index: usize,
        group: &Group,
        cpu: Option<Stop>,
        fabric: Option<Stop>,
    ) -> Result<(), PlanError> {
        let Some(link) = group.link.as_deref().map(|id| self.part(id)) else {
            let reason = "ports without a link: name one, such as ethernet-10".to_owned();
            return Err(PlanError::Part { line: group.line, reason });
        };
        let work = self.bill.work;
        let one_way = work.read_share.max(1.0 - work.read_share);
        let (bytes_per_s, wire) = if link.id.starts_with("fc") {
            let line = wire::line_bytes_per_s(link, 1).unwrap_or(f64::NAN);
            let framing = self.figure(link, "framing").unwrap_or(1.0);
            (line * framing, wire::fc_wire_bytes(work.size_bytes))
        } else {
            let mut tcp = match group.protocol.as_deref() {
                Some("nvme-tcp") => Tcp::NVME,
                _ => Tcp::ISCSI,
            };
            tcp.options = f64::from(group.tcp_options);
            (self.need(link, "nominal_rate")? / 8.0, tcp.wire_bytes(work.size_bytes))
        };
        let seconds = wire * one_way / bytes_per_s;
        let mut stations = Vec::new();
        for port in 0..group.devices() {
            let mut class = Class::closed(format!("port {index}.{port}"), work.outstanding);
            if self.wanted(Level::Port) {
                let name = format!("port {index}.{port}");
                let stop = self.server(name, Level::Port, seconds);
                stations.push(stop.at);
                class = through(class, Some(stop));
            }
            let class = through(through(class, fabric), cpu);
            self.add(class);
        }
        if !stations.is_empty() {
            let name = format!("{} x {}", group.devices(), link.id);
            self.resource(name, Level::Port, &link.id, Load::Stations(stations));
        }
        Ok(())
    }

    /// A class with nowhere to go would be infinitely fast: it is given a nanosecond.
    fn add(&mut self, class: Class) {
        if !class.route.is_empty() {
            self.network.add_class(class);
            return;
        }
        let at = self.network.add_station(Station::delay(format!("nothing {}", class.name)));
        self.network.add_class(class.visit(at, Service::exponential(1e-9)));
    }

    /// Cards with their drives.
    fn drives(
        &mut self,
        index: usize,
        group: &Group,
        cpu: Option<Stop>,
        fabric: Option<Stop>,
    ) -> Result<(), PlanError> {
        let drive = self.part(group.drive.as_deref().unwrap_or_default());
        let medium = self.medium(group, drive)?;
        let adapter = group.adapter.as_deref().map(|id| self.part(id));
        let depth = match self.figure(drive, "queue_depth") {
            Some(depth) => self.bill.work.outstanding.min(depth as u32),
            None => self.bill.work.outstanding,
        };
        let (mut media, mut cards, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for card in 0..group.count {
            let passes = match adapter {
                Some(adapter) => self.adapter(adapter, index, card)?,
                None => None,
            };
            let slot = self.slot(group, adapter.unwrap_or(drive), index, card);
            cards.extend(passes.map(|stop| stop.at));
            slots.extend(slot.map(|stop| stop.at));
            for number in 0..group.drives {
                let name = format!("drive {index}.{card}.{number}");
                let mut class = Class::closed(name.clone(), depth);
                class = medium.visit(self, class, &name, &mut media);
                for stop in [passes, slot, fabric, cpu] {
                    class = through(class, stop);
                }
                self.add(class);
            }
        }
        let full = format!("{} on each of {}", group.drives, group.count);
        self.resource(
            format!("drives, {} x {}", group.devices(), drive.id),
            Level::Drive,
            &drive.id,
            Load::Stations(media),
        );
        if let Some(adapter) = adapter.filter(|_| !cards.is_empty()) {
            let name = format!("adapters, {} x {} ({full})", group.count, adapter.id);
            self.resource(name, Level::Adapter, &adapter.id, Load::Stations(cards));
        }
        if !slots.is_empty() {
            let name = format!("slots of {}", adapter.unwrap_or(drive).id);
            let id = &adapter.unwrap_or(drive).id;
            self.resource(name, Level::Slot, id, Load::Stations(slots));
        }
        Ok(())
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
        let by_rate = self.figure(adapter, "iops").map(|iops| 1.0 / iops);
        let size = self.bill.work.size_bytes;
        let by_bytes = self.figure(adapter, "bandwidth").map(|bandwidth| size / bandwidth);
        let Some(seconds) = [by_rate, by_bytes].into_iter().flatten().reduce(f64::max) else {
            self.remark(&format!("{}: no rate is known, taken as fast enough", adapter.id));
            return Ok(None);
        };
        Ok(Some(self.server(format!("adapter {index}.{card}"), Level::Adapter, seconds)))
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

    fn pcie(&mut self, group: &Group, card: &Part) -> Option<Pcie> {
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

    /// Reads go one way, writes the other: the busier one counts.
    fn slot_seconds(&self, slot: &Pcie) -> f64 {
        let work = self.bill.work;
        let one_way = work.read_share.max(1.0 - work.read_share);
        slot.read_bytes(work.size_bytes) * one_way / slot.packet_bytes_per_s()
    }

    /// What the medium of a drive needs for an I/O.
    fn medium(&mut self, group: &Group, drive: &Part) -> Result<Medium, PlanError> {
        let devices = f64::from(group.devices());
        match group.view {
            View::Channels => {
                let channels = self.need(drive, "channels")?.round().max(1.0) as u32;
                let seconds = self.need(drive, "read_latency")?;
                if self.bill.work.read_share < 1.0 {
                    let reason = "by channels only reads are known".to_owned();
                    return Err(PlanError::Part { line: self.line, reason });
                }
                let seconds = self.at(Level::Drive, seconds);
                Ok(Medium { seconds, channels, delay_s: 0.0 })
            }
            View::Link => {
                let slot = self.pcie(group, drive).ok_or_else(|| PlanError::Part {
                    line: self.line,
                    reason: format!("{}: generation and lanes are not known", drive.id),
                })?;
                let seconds = self.at(Level::Drive, self.slot_seconds(&slot));
                Ok(Medium { seconds, channels: 1, delay_s: 0.0 })
            }
            View::Rated => {
                let alone = self.rated(drive)?;
                let law = model::usl::Scalability {
                    single_per_s: 1.0 / alone,
                    contention: group.contention,
                    coherence: 0.0,
                };
                let seconds = self.at(Level::Drive, devices / law.throughput_per_s(devices));
                // What a lone I/O takes beyond the time that it keeps others waiting.
                let latency = match self.bill.work.read_share >= 0.5 {
                    true => self.figure(drive, "read_latency"),
                    false => self.figure(drive, "write_latency"),
                };
                let delay_s = latency.map_or(0.0, |latency| (latency - seconds).max(0.0));
                Ok(Medium { seconds, channels: 1, delay_s })
            }
        }
    }

    /// Time of an I/O by rating and bandwidth; in a mix, writes weigh more among reads.
    fn rated(&mut self, drive: &Part) -> Result<f64, PlanError> {
        let work = self.bill.work;
        let mut seconds = 0.0;
        if work.read_share > 0.0 {
            let rate = self.need(drive, "read_iops")?;
            let bandwidth = self.figure(drive, "read_bandwidth").unwrap_or(f64::INFINITY);
            seconds += work.read_share * (1.0 / rate).max(work.size_bytes / bandwidth);
        }
        if work.read_share < 1.0 {
            let rate = self.need(drive, "write_iops")?;
            let bandwidth = self.figure(drive, "write_bandwidth").unwrap_or(f64::INFINITY);
            let weight = if work.read_share > 0.0 { self.mix_factor(drive)? } else { 1.0 };
            let write = (1.0 / rate).max(work.size_bytes / bandwidth);
            seconds += (1.0 - work.read_share) * weight * write;
        }
        Ok(seconds)
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

/// What the medium of a drive needs for an I/O.
struct Medium {
    seconds: f64,
    channels: u32,
    delay_s: f64,
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
        if self.delay_s > 0.0 {
            let delay = builder.network.add_station(Station::delay(format!("medium of {name}")));
            class = class.visit(delay, Service::exponential(self.delay_s));
        }
        class
    }
}

fn through(class: Class, stop: Option<Stop>) -> Class {
    match stop {
        Some(stop) => class.visit(stop.at, Service::exponential(stop.seconds)),
        None => class,
    }
}
