//! A bill becomes a queueing network: each part that I/Os queue at is a station.
//!
//! | part | station | service time of one I/O |
//! |---|---|---|
//! | drive, rated | one server | 1 / rating, or size / bandwidth if that is longer |
//! | flush of a drive without protection | one at a time, for all that wait | its latency |
//! | disk, rated | one server | 1 / rating and the rest of its bytes, or bytes alone in sequence |
//! | drive, by channels | a server for each channel, one at random | its latency |
//! | adapter | one server | 1 / rating, or size / bandwidth, or what its parity takes |
//! | parity by software | one server, its thread | a stripe of 4 KiB pages |
//! | slot of PCI Express | one server | packets of the busier direction |
//! | network port | one server | bytes on the wire of the busier direction |
//! | network of a host | a server for each port | the same, with the copies of writes |
//! | port engines | all together, as a network of their own | engine time, then the fabric |
//! | fabric of the server | one server | size / bandwidth |
//! | processor | a server for each core | core time |
//!
//! Service times are exponential, so that mean values have a theory. `model` does the queueing;
//! this module knows what a part takes for an I/O, and which figures say so.

use std::collections::BTreeMap;

use block::Op;
use model::{Class, ModelError, Network, Service, Source, Station, StationId, Step};
use serde::Serialize;

use crate::bill::Bill;
use catalogue::{Kind, Known, Part};

mod bus;
mod drives;
mod flush;
mod host;
mod layer;
mod like;
mod ports;
mod raid;
mod rated;

pub(crate) use flush::is_flush;

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
    /// What software does one after the other, and layers of the bill.
    Layer,
}

impl Level {
    /// From the medium to who asks.
    pub const ALL: [Level; 7] = [
        Level::Drive,
        Level::Adapter,
        Level::Slot,
        Level::Port,
        Level::Fabric,
        Level::Processor,
        Level::Layer,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Drive => "drives",
            Level::Adapter => "adapters",
            Level::Slot => "slots",
            Level::Port => "ports",
            Level::Fabric => "fabric",
            Level::Processor => "processor",
            Level::Layer => "layers",
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

/// How many figures of which kind an answer rests on: "figures: 8 spec, 1 guess".
pub fn rests_on(inputs: &[Input]) -> String {
    let all = [Kind::Spec, Kind::Measured, Kind::Derived, Kind::Fit, Kind::Guess];
    let count = |kind| inputs.iter().filter(|input| input.known.kind == kind).count();
    let counts = all.into_iter().map(|kind| (count(kind), kind.word()));
    let said =
        counts.filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    format!("figures: {}", said.collect::<Vec<_>>().join(", "))
}

/// Sources without a document: figures as somebody recalls them.
const RECALLED: [&str; 3] = ["from-memory", "usb-bridges", "threads"];

/// How many of the figures are only recalled.
pub fn recalled(inputs: &[Input]) -> usize {
    inputs.iter().filter(|input| RECALLED.contains(&input.known.source.as_str())).count()
}

/// Parts of one kind that work side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// As "adapter lsi-9210-8i, full".
    pub name: String,
    /// How far from the medium.
    pub level: Level,
    /// How it is known what it does: the kind of the figure that decides.
    pub kind: Kind,
    /// How its utilisation is found.
    pub load: Load,
}

/// How the utilisation of a resource is found.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// The busiest of these stations.
    Stations(Vec<StationId>),
    /// IOPS times this, in seconds.
    PerIo(f64),
}

/// Changes to a bill's figures, for what-ifs and draws.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tweak {
    /// Values to use in place of the figures': by part and quantity.
    pub values: BTreeMap<(String, &'static str), f64>,
    /// Only parts up to this level, as if all others were infinitely fast.
    pub up_to: Option<Level>,
    /// A level of which everything is faster by this factor.
    pub faster: Option<(Level, f64)>,
    /// Reads alone, or writes alone, in place of their mix.
    pub only: Option<Op>,
}

/// A bill as a network.
#[derive(Clone, Debug)]
pub struct System {
    /// What is solved.
    pub network: Network,
    /// What the stations are.
    pub resources: Vec<Resource>,
    /// The figures that it uses.
    pub inputs: Vec<Input>,
    /// Assumptions and omissions, in words.
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

impl PlanError {
    /// Whether more arrives than is done.
    pub fn is_overload(&self) -> bool {
        matches!(self, PlanError::Model(ModelError::Overload { .. }))
    }
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
            front: None,
            client_stops: Vec::new(),
            idle: bill.setup.idle(),
        };
        let processor = builder.processor()?;
        let fabric = builder.fabric()?;
        let far = builder.target()?;
        let added = builder.added();
        let parity = builder.parity();
        builder.log();
        builder.extents();
        builder.layers();
        builder.ports([fabric, processor, far, added])?;
        builder.network()?;
        builder.client_software();
        for (index, group) in bill.groups.iter().enumerate() {
            if group.drive.is_some() {
                builder.line = group.line;
                builder.drives(index, group, [fabric, processor, far, added, parity])?;
            }
        }
        if let Some(seconds) = bill.rebuild_s() {
            let share = bill.setup.rebuild * 100.0;
            builder.remark(&format!(
                "a rebuild takes {:.1} h with {share} % of the time of each drive",
                seconds / 3600.0
            ));
        }
        if let Some(all) = bill.setup.in_flight {
            builder.merge_classes(bill.host_in_flight(all));
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
    /// Ports of their own groups that lead to the drives of the others.
    front: Option<Stop>,
    /// Clients of a cluster, their software and their ports; the log and the extents of a file
    /// system; layers of the bill.
    client_stops: Vec<Stop>,
    /// Drives that take no I/O and are not placed yet: spares and failed ones.
    idle: u32,
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

    /// A figure, changed as the tweak says, and recorded.
    fn figure(&mut self, part: &Part, quantity: &'static str) -> Option<f64> {
        let known = part.known(quantity)?;
        let key = (part.id.clone(), quantity);
        let value = self.tweak.values.get(&key).copied().unwrap_or(known.value);
        if !self.inputs.iter().any(|input| input.part == part.id && input.quantity == quantity) {
            self.inputs.push(Input { part: part.id.clone(), quantity, known });
        }
        Some(value)
    }

    /// A figure that no source gives, assumed from similar parts and recorded.
    fn supposed(&mut self, part: &Part, quantity: &'static str, known: Known) -> f64 {
        let key = (part.id.clone(), quantity);
        let value = self.tweak.values.get(&key).copied().unwrap_or(known.value);
        if !self.inputs.iter().any(|input| input.part == part.id && input.quantity == quantity) {
            self.inputs.push(Input { part: part.id.clone(), quantity, known });
        }
        value
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

    /// The least certain kind of the figures that a resource depends on; `derived` without any.
    fn kind(&self, from: &[(&str, &[&str])]) -> Kind {
        let decides = |input: &&Input| {
            let of = |(part, names): &(&str, &[&str])| {
                input.part == *part && names.contains(&input.quantity)
            };
            from.iter().any(of)
        };
        let kinds = self.inputs.iter().filter(decides).map(|input| input.known.kind);
        kinds.max().unwrap_or(Kind::Derived)
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

    /// Shares of reads and writes in what is asked about, each write with what a journal writes
    /// for it.
    fn shares(&self) -> (f64, f64) {
        let (reads, writes) = match self.tweak.only {
            None => (self.bill.work.read_share, 1.0 - self.bill.work.read_share),
            Some(Op::Read) => (1.0, 0.0),
            Some(_) => (0.0, 1.0),
        };
        (reads, writes * self.bill.setup.with_journal(self.bill.work.flush))
    }

    /// Share of the bytes in the busier direction: links are full duplex, and reads and writes go
    /// opposite ways.
    fn one_way(&self) -> f64 {
        let reads = self.bill.work.read_share;
        match self.tweak.only {
            None => reads.max(1.0 - reads),
            Some(op) => f64::from(u8::from((op == Op::Read) == (reads >= 0.5))),
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

    /// `from` names the parts and quantities that the resource depends on.
    fn resource(&mut self, name: String, level: Level, from: &[(&str, &[&str])], load: Load) {
        let kind = self.kind(from);
        self.resources.push(Resource { name, level, kind, load });
    }

    /// One class in place of one for each drive: each I/O goes to any of them.
    fn merge_classes(&mut self, in_flight: u32) {
        let classes = std::mem::take(&mut self.network.classes);
        // No more than the drives take at once.
        let taken = classes.iter().fold(0u32, |sum, class| match class.source {
            Source::Closed { population, .. } => sum.saturating_add(population),
            Source::Open { .. } => sum,
        });
        let in_flight = in_flight.min(taken).max(1);
        let chance = 1.0 / classes.len().max(1) as f64;
        let routes = classes.into_iter().map(|class| (chance, class.route)).collect();
        self.network.add_class(Class::closed("drives", in_flight).step(Step::Choose(routes)));
    }

    /// A class without a station would be infinitely fast: it gets a delay of a nanosecond.
    fn add(&mut self, class: Class) {
        if !class.route.is_empty() {
            self.network.add_class(class);
            return;
        }
        let at = self.network.add_station(Station::delay(format!("nothing {}", class.name)));
        self.network.add_class(class.visit(at, Service::exponential(1e-9)));
    }
}

fn through(class: Class, stop: Option<Stop>) -> Class {
    match stop {
        Some(stop) => class.visit(stop.at, Service::exponential(stop.seconds)),
        None => class,
    }
}
