//! One fault of a schedule: its effect, affected I/Os, time and repetition.

use block::{Fault, Nanos, Op, parse_size};
use serde::Deserialize;

/// Longest time in a schedule, in seconds: a year.
const TIME_S_MAX: f64 = 366.0 * 86_400.0;

/// Effect on an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verb {
    /// The I/O fails without being executed.
    Error,
    /// A read of a bad block fails. `chance` is the share of bad blocks; a write of the whole
    /// block, a trim or zeroing heals it.
    BadBlocks,
    /// The I/O is executed, but completes only when the fault's time is over or the schedule
    /// changes.
    Hang,
    /// The I/O completes later: `add_s`, `factor` or both.
    Slow,
    /// The I/O succeeds without being executed: a lost write, or an ignored flush.
    Drop,
    /// Only the first blocks of a write are executed, fewer than all.
    Tear,
    /// The I/O goes to another offset of the volume.
    Misdirect,
    /// One bit of the data is flipped: of the data that a read returns or a write stores.
    Flip,
    /// The I/O is not executed, and its connection ends without a response. Without a connection it
    /// fails.
    Disconnect,
    /// Like the previous verb, with a TCP reset.
    Reset,
    /// A target solicits no data of writes (no R2T) while the fault lasts.
    Withhold,
    /// A read returns earlier data of its blocks, where known.
    Stale,
    /// All I/Os fail, those in flight too, until the power is back; the write cache loses its
    /// blocks, except those that chance saves.
    PowerCut,
}

/// Effect of a power cut on the write cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    /// Share of the blocks that were on the medium already, 0 to 1.
    pub(super) survives: f64,
    /// Each block has its own outcome; otherwise the blocks of a write share one.
    pub(super) torn: bool,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) verb: Verb,
    #[serde(default)]
    op: Ops,
    #[serde(default)]
    range: Option<[Size; 2]>,
    #[serde(default)]
    after_s: f64,
    #[serde(default)]
    for_s: Option<f64>,
    #[serde(default)]
    every_s: Option<f64>,
    #[serde(default)]
    chance: Option<f64>,
    #[serde(default)]
    pub(super) count: Option<u64>,
    #[serde(default)]
    add_s: Option<Added>,
    #[serde(default)]
    factor: Option<f64>,
    #[serde(default)]
    fault: Option<Word>,
    #[serde(default)]
    pub(super) sticky: bool,
    #[serde(default)]
    survives: Option<f64>,
    #[serde(default)]
    torn: Option<bool>,
}

/// One operation or several.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(untagged, expecting = "an operation or a list of them: read, write, flush, trim")]
enum Ops {
    #[default]
    All,
    One(OpWord),
    Some(Vec<OpWord>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OpWord {
    Read,
    Write,
    Flush,
    /// Trims and zeroing.
    Trim,
}

/// Bytes, as a number or as text such as "1g".
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "SizeText")]
pub(super) struct Size(pub(super) u64);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a size, such as 4096 or \"1g\"")]
enum SizeText {
    Bytes(u64),
    Text(String),
}

impl TryFrom<SizeText> for Size {
    type Error = String;

    fn try_from(text: SizeText) -> Result<Size, String> {
        match text {
            SizeText::Bytes(bytes) => Ok(Size(bytes)),
            SizeText::Text(text) => parse_size(&text).map(Size).map_err(|error| error.to_string()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "seconds, or [minimum, maximum]")]
enum Added {
    Fixed(f64),
    Between([f64; 2]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Medium,
    NoSpace,
    ReadOnly,
    Disconnected,
}

impl Rule {
    pub(super) fn check(&self) -> Result<(), String> {
        let times = [
            ("after_s", Some(self.after_s)),
            ("for_s", self.for_s),
            ("every_s", self.every_s),
            ("add_s", self.added().map(|[least, _]| least)),
            ("add_s", self.added().map(|[_, most]| most)),
        ];
        for (key, value) in times {
            if value.is_some_and(|value| !(0.0..=TIME_S_MAX).contains(&value)) {
                return Err(format!("{key}: 0 to {TIME_S_MAX} seconds"));
            }
        }
        if self.added().is_some_and(|[least, most]| least > most) {
            return Err("add_s: [minimum, maximum]".to_owned());
        }
        if self.chance.is_some_and(|chance| !(0.0..=1.0).contains(&chance)) {
            return Err("chance: 0 to 1".to_owned());
        }
        match (self.every_s, self.for_s) {
            (Some(every), Some(span)) if span < every && span > 0.0 => {}
            (Some(_), _) => return Err("every_s needs a shorter for_s".to_owned()),
            (None, _) => {}
        }
        if self.range.is_some_and(|[from, to]| from.0 >= to.0) {
            return Err("range: [\"from\", \"to\"], as in [\"1g\", \"2g\"]".to_owned());
        }
        self.check_verb()
    }

    /// Checks the keys against the verb.
    fn check_verb(&self) -> Result<(), String> {
        let word = self.verb.word();
        let slow = self.add_s.is_some() || self.factor.is_some();
        if slow != (self.verb == Verb::Slow) {
            return Err(match slow {
                true => format!("add_s and factor need verb = \"slow\", not \"{word}\""),
                false => "verb = \"slow\" needs add_s, factor or both".to_owned(),
            });
        }
        if self.factor.is_some_and(|factor| !(1.0..=1e6).contains(&factor)) {
            return Err("factor: 1 to 1000000".to_owned());
        }
        if self.fault.is_some() && self.verb != Verb::Error {
            return Err(format!("fault needs verb = \"error\", not \"{word}\""));
        }
        if self.sticky && self.verb != Verb::Error {
            return Err(format!("sticky needs verb = \"error\", not \"{word}\""));
        }
        if self.verb == Verb::BadBlocks && (self.chance.is_none() || self.count.is_some()) {
            return Err(
                "verb = \"bad-blocks\" needs chance, the share of bad blocks, and accepts \
                no count"
                    .to_owned(),
            );
        }
        if self.verb == Verb::PowerCut {
            return self.check_cut();
        }
        if self.survives.is_some() || self.torn.is_some() {
            return Err(format!("survives and torn need verb = \"power-cut\", not \"{word}\""));
        }
        if self.verb == Verb::Withhold && (self.range.is_some() || self.chance.is_some()) {
            return Err(
                "verb = \"withhold\" affects all writes: remove range and chance".to_owned()
            );
        }
        match self.named().into_iter().flatten().find(|op| !self.verb.goes_with(*op)) {
            Some(op) => Err(format!("verb = \"{word}\" has no effect on a {}", op.op().word())),
            None if self.named().is_some_and(|named| named.is_empty()) => {
                Err("op: at least one".to_owned())
            }
            None => Ok(()),
        }
    }

    fn check_cut(&self) -> Result<(), String> {
        if self.op != Ops::All || self.range.is_some() || self.chance.is_some() {
            return Err(
                "verb = \"power-cut\" affects all I/Os: remove op, range and chance".to_owned()
            );
        }
        match self.survives {
            Some(share) if !(0.0..=1.0).contains(&share) => Err("survives: 0 to 1".to_owned()),
            _ => Ok(()),
        }
    }

    fn named(&self) -> Option<Vec<OpWord>> {
        match &self.op {
            Ops::All => None,
            Ops::One(op) => Some(vec![*op]),
            Ops::Some(ops) => Some(ops.clone()),
        }
    }

    /// Whether the rule affects this kind of I/O.
    pub(super) fn concerns(&self, op: Op) -> bool {
        let word = OpWord::of(op);
        match &self.op {
            Ops::All => self.verb.goes_with(word),
            Ops::One(one) => *one == word,
            Ops::Some(some) => some.contains(&word),
        }
    }

    /// Whether the rule affects I/Os that touch `offset..offset + len`. I/Os without a range match
    /// everywhere.
    pub(super) fn touches(&self, op: Op, offset: u64, len: u32) -> bool {
        let Some([Size(from), Size(to)]) = self.range else { return true };
        op == Op::Flush || offset < to && offset.saturating_add(len.into()) > from
    }

    /// Whether the rule is active at this time since the schedule began, and when that ends; the
    /// inner `None` if never.
    pub(super) fn window(&self, since: Nanos) -> Option<Option<Nanos>> {
        let after = nanos(self.after_s);
        if since < after {
            return None;
        }
        let Some(span) = self.for_s.map(nanos) else { return Some(None) };
        let begin = match self.every_s.map(nanos) {
            Some(every) => after + Nanos(since.since(after).0 / every.0.max(1) * every.0),
            None => after,
        };
        let end = begin + span;
        (since < end).then_some(Some(end))
    }

    /// Number of windows begun at this time since the schedule began, and the start of the next
    /// one.
    pub(super) fn windows(&self, since: Nanos) -> (u64, Option<Nanos>) {
        let (after, every) = (nanos(self.after_s), self.every_s.map(nanos));
        if since < after {
            return (0, Some(after));
        }
        match every {
            Some(every) => {
                let begun = since.since(after).0 / every.0.max(1) + 1;
                (begun, Some(after + Nanos(begun.saturating_mul(every.0.max(1)))))
            }
            None => (1, None),
        }
    }

    /// The effect of a power cut.
    pub(super) fn cut(&self) -> Cut {
        Cut { survives: self.survives.unwrap_or(0.5), torn: self.torn.unwrap_or(true) }
    }

    /// Share of I/Os, or of blocks, that the rule affects: 0 to 1.
    pub(super) fn chance(&self) -> f64 {
        self.chance.unwrap_or(1.0)
    }

    /// Minimum and maximum seconds of added latency.
    pub(super) fn added(&self) -> Option<[f64; 2]> {
        self.add_s.map(|added| match added {
            Added::Fixed(seconds) => [seconds; 2],
            Added::Between(both) => both,
        })
    }

    /// Factor of the latency.
    pub(super) fn factor(&self) -> f64 {
        self.factor.unwrap_or(1.0)
    }

    /// The fault of a struck I/O.
    pub(super) fn fault(&self) -> Fault {
        match self.fault {
            None | Some(Word::Medium) => Fault::Medium,
            Some(Word::NoSpace) => Fault::NoSpace,
            Some(Word::ReadOnly) => Fault::ReadOnly,
            Some(Word::Disconnected) => Fault::Disconnected,
        }
    }
}

impl Verb {
    /// Name of the verb.
    pub(super) fn word(self) -> &'static str {
        match self {
            Verb::Error => "error",
            Verb::BadBlocks => "bad-blocks",
            Verb::Hang => "hang",
            Verb::Slow => "slow",
            Verb::Drop => "drop",
            Verb::Tear => "tear",
            Verb::Misdirect => "misdirect",
            Verb::Flip => "flip",
            Verb::Disconnect => "disconnect",
            Verb::Reset => "reset",
            Verb::Withhold => "withhold",
            Verb::Stale => "stale",
            Verb::PowerCut => "power-cut",
        }
    }

    fn goes_with(self, op: OpWord) -> bool {
        match self {
            Verb::Error
            | Verb::Hang
            | Verb::Slow
            | Verb::PowerCut
            | Verb::Disconnect
            | Verb::Reset => true,
            Verb::BadBlocks | Verb::Stale => op == OpWord::Read,
            Verb::Drop => op != OpWord::Read,
            Verb::Tear | Verb::Withhold => op == OpWord::Write,
            Verb::Misdirect | Verb::Flip => matches!(op, OpWord::Read | OpWord::Write),
        }
    }
}

impl OpWord {
    fn of(op: Op) -> OpWord {
        match op {
            Op::Read => OpWord::Read,
            Op::Write => OpWord::Write,
            Op::Flush => OpWord::Flush,
            Op::Trim | Op::WriteZeroes => OpWord::Trim,
        }
    }

    fn op(self) -> Op {
        match self {
            OpWord::Read => Op::Read,
            OpWord::Write => Op::Write,
            OpWord::Flush => Op::Flush,
            OpWord::Trim => Op::Trim,
        }
    }
}

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9) as u64)
}
