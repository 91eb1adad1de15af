//! Conversion of a bill to a queueing network: each part with a queue is a station.
//!
//! | part | station | service time of one I/O |
//! |---|---|---|
//! | drive, rated | one server | 1 / rating, or size / bandwidth if that is longer |
//! | flush of a drive without protection | one at a time, shared by all waiting writers | its
//! latency |
//! | HDD, rated | one server | 1 / rating and the rest of its bytes, or bytes alone if sequential |
//! | drive, by channels | a server for each channel, one at random | its latency |
//! | adapter | one server | 1 / rating, or size / bandwidth, or the time of its parity |
//! | parity by software | one server, its thread | a stripe of 4 KiB pages |
//! | slot of PCI Express | one server | packets of the busier direction |
//! | network port | one server | bytes on the wire of the busier direction |
//! | network of a host | a server for each port | the same, with the copies of writes |
//! | port engines | all together, as a separate network | engine time, then the fabric |
//! | fabric of the server | one server | size / bandwidth |
//! | processor | a server for each core | core time |
//!
//! Service times are exponential, so that mean values have a theory. `model` does the queueing;
//! this module determines the time of an I/O at each part, and the figures behind it.

use std::collections::BTreeMap;

use block::Op;
use model::{Class, ModelError, Network, Service, Source, Station, StationId, Step};
use serde::Serialize;

use crate::bill::Bill;
use catalogue::{Basis, Kind, Known, Part};

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

/// Level of a part above the medium; a system can be evaluated up to one of them.
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
    /// Fabric that all slots share.
    Fabric,
    /// The cores.
    Processor,
    /// Serialized software, and layers of the bill.
    Layer,
}

impl Level {
    /// Levels from the medium to the application.
    pub const ALL: [Level; 7] = [
        Level::Drive,
        Level::Adapter,
        Level::Slot,
        Level::Port,
        Level::Fabric,
        Level::Processor,
        Level::Layer,
    ];

    /// Returns the word for the level.
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

/// A figure of the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Input {
    /// Id of the part.
    pub part: String,
    /// Name of the quantity.
    pub quantity: &'static str,
    /// Value that was used.
    pub known: Known,
}

/// Describes what the figures of a prediction rest on: "12 figures, 1 of them recalled (2
/// published, 8 cited, 1 derived)".
pub fn rests_on(inputs: &[Input]) -> String {
    let count = |basis| inputs.iter().filter(|input| input.known.basis == basis).count();
    let sourced = [Basis::Published, Basis::Cited, Basis::Derived];
    let counts = sourced.map(|basis| (count(basis), basis.word()));
    let said: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let said = if said.is_empty() { "none has a source".to_owned() } else { said.join(", ") };
    format!("{} figures, {} of them recalled ({said})", inputs.len(), recalled(inputs))
}

/// Number of figures that are recalled or assumed: no document has them.
pub fn recalled(inputs: &[Input]) -> usize {
    inputs.iter().filter(|input| input.known.basis == Basis::Recalled).count()
}

/// Parts of one kind that work side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Name, such as "adapter lsi-9210-8i, full".
    pub name: String,
    /// Level of the parts above the medium.
    pub level: Level,
    /// Kind of the figure that determines their rate.
    pub kind: Kind,
    /// Source of the utilisation.
    pub load: Load,
}

/// Source of a resource's utilisation.
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
    /// Values to use instead of the figures': by part and quantity.
    pub values: BTreeMap<(String, &'static str), f64>,
    /// Only parts up to this level, as if all others were infinitely fast.
    pub up_to: Option<Level>,
    /// Level of which everything is faster by this factor.
    pub faster: Option<(Level, f64)>,
    /// Only reads, or only writes, instead of their mix.
    pub only: Option<Op>,
}

/// A bill as a queueing network.
#[derive(Clone, Debug)]
pub struct System {
    /// Network to solve.
    pub network: Network,
    /// Resources behind the stations.
    pub resources: Vec<Resource>,
    /// Figures that it uses.
    pub inputs: Vec<Input>,
    /// Assumptions and omissions, as text.
    pub remarks: Vec<String>,
}

/// Reason why a bill has no prediction.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Missing or invalid figure.
    #[error("line {line}: {reason}")]
    Part {
        /// Line of the bill, 1 for the bill itself.
        line: usize,
        /// Missing figure, and how to give it.
        reason: String,
    },
    /// Network that cannot be solved.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl PlanError {
    /// Returns whether the arrival rate exceeds the maximum rate.
    pub fn is_overload(&self) -> bool {
        matches!(self, PlanError::Model(ModelError::Overload { .. }))
    }
}

impl System {
    /// Builds the network of a bill.
    ///
    /// # Errors
    ///
    /// [`PlanError::Part`] if a figure is missing, or if the catalogue is sourced and no document
    /// has a figure.
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
        builder.sourced()?;
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
    /// Ports of separate groups that connect the drives of the others.
    front: Option<Stop>,
    /// Clients of a cluster, their software and their ports; the log and the extents of a file
    /// system; layers of the bill.
    client_stops: Vec<Stop>,
    /// Number of drives without I/O that are not assigned yet: spares and failed ones.
    idle: u32,
}

/// A station with the time of an I/O at it.
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

    /// Returns a figure, changed by the tweak, and records it.
    fn figure(&mut self, part: &Part, quantity: &'static str) -> Option<f64> {
        let value = part.value(quantity)?;
        if !self.has_input(part, quantity) {
            let known = part.known(quantity)?;
            self.inputs.push(Input { part: part.id.clone(), quantity, known });
        }
        Some(self.tweaked(part, quantity).unwrap_or(value))
    }

    fn has_input(&self, part: &Part, quantity: &str) -> bool {
        self.inputs.iter().any(|input| input.quantity == quantity && input.part == part.id)
    }

    /// Returns the value that the tweak has for a figure.
    fn tweaked(&self, part: &Part, quantity: &'static str) -> Option<f64> {
        if self.tweak.values.is_empty() {
            return None;
        }
        self.tweak.values.get(&(part.id.clone(), quantity)).copied()
    }

    /// Returns a figure that no source gives, assumed from similar parts, and records it.
    fn supposed(&mut self, part: &Part, quantity: &'static str, known: Known) -> f64 {
        let value = self.tweaked(part, quantity).unwrap_or(known.value);
        if !self.has_input(part, quantity) {
            self.inputs.push(Input { part: part.id.clone(), quantity, known });
        }
        value
    }

    fn need(&mut self, part: &Part, quantity: &'static str) -> Result<f64, PlanError> {
        let catalogue = &self.bill.catalogue;
        let why = match catalogue.left_out(&part.id).any(|name| name == quantity) {
            true => "is recalled, and --sourced leaves it out",
            false if catalogue.is_sourced() => "is in no document, and --sourced assumes nothing",
            false => "is not known",
        };
        self.figure(part, quantity).ok_or_else(|| PlanError::Part {
            line: self.line,
            reason: format!(
                "{quantity} of {} {why}: give it in a [[figure]] with its source",
                part.id
            ),
        })
    }

    /// Refuses a system of a sourced catalogue that rests on a figure which no document has, and
    /// says which figures of its parts were left out.
    fn sourced(&mut self) -> Result<(), PlanError> {
        if !self.bill.catalogue.is_sourced() {
            return Ok(());
        }
        let names = |inputs: &[Input]| {
            let recalled = inputs.iter().filter(|input| input.known.basis == Basis::Recalled);
            let names = recalled.map(|input| format!("{} of {}", input.quantity, input.part));
            names.collect::<Vec<_>>().join(", ")
        };
        let recalled = names(&self.inputs);
        if !recalled.is_empty() {
            let reason = format!(
                "--sourced cannot answer: no document has {recalled}: give a [[figure]] with its \
                 source"
            );
            return Err(PlanError::Part { line: self.line, reason });
        }
        self.remark("figures that no document has are left out (--sourced)");
        let groups = self.bill.groups.iter();
        let named = groups.flat_map(|group| [&group.drive, &group.adapter, &group.link]);
        let named: Vec<&String> =
            named.chain([&self.bill.server, &self.bill.software]).flatten().collect();
        for id in named {
            let left_out: Vec<&str> = self.bill.catalogue.left_out(id).collect();
            if !left_out.is_empty() {
                let words = left_out.join(", ");
                self.remark(&format!("{id}: recalled, so left out by --sourced: {words}"));
            }
        }
        Ok(())
    }

    /// Returns the least certain kind of the figures that a resource depends on; `derived` without
    /// any.
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

    /// Returns a time at a level, shortened if the tweak says so.
    fn at(&self, level: Level, seconds: f64) -> f64 {
        match self.tweak.faster {
            Some((faster, factor)) if faster == level => seconds / factor,
            _ => seconds,
        }
    }

    /// Returns the shares of reads and writes in the workload, each write with its journal.
    fn shares(&self) -> (f64, f64) {
        let (reads, writes) = match self.tweak.only {
            None => (self.bill.work.read_share, 1.0 - self.bill.work.read_share),
            Some(Op::Read) => (1.0, 0.0),
            Some(_) => (0.0, 1.0),
        };
        (reads, writes * self.bill.setup.with_journal(self.bill.work.flush))
    }

    /// Returns the share of the bytes in the busier direction: links are full duplex, and reads and
    /// writes use opposite directions.
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

    /// Adds a resource. `from` names the parts and quantities that it depends on.
    fn resource(&mut self, name: String, level: Level, from: &[(&str, &[&str])], load: Load) {
        let kind = self.kind(from);
        self.resources.push(Resource { name, level, kind, load });
    }

    /// Merges the classes of all drives into one: each I/O goes to any of them.
    fn merge_classes(&mut self, in_flight: u32) {
        let classes = std::mem::take(&mut self.network.classes);
        // No more than the drives accept at once.
        let taken = classes.iter().fold(0u32, |sum, class| match class.source {
            Source::Closed { population, .. } => sum.saturating_add(population),
            Source::Open { .. } => sum,
        });
        let in_flight = in_flight.min(taken).max(1);
        let chance = 1.0 / classes.len().max(1) as f64;
        let routes = classes.into_iter().map(|class| (chance, class.route)).collect();
        self.network.add_class(Class::closed("drives", in_flight).step(Step::Choose(routes)));
    }

    /// Adds a class. A class without a station would be infinitely fast: it gets a delay of a
    /// nanosecond.
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
