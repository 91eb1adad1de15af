//! The first commands to a logical unit: whether it is ready, its capacity and its capabilities.

use block::{Allocation, Backing, Geometry, Nanos};

use crate::scsi::{
    BACKING_PAGE, Capacity, Key, ModeFlags, STATUS_BYTES, Sense, VENDOR, cdb, parse_backing,
    parse_designation, parse_instance, parse_lba_status, parse_mode_sense6, parse_product,
    parse_read_capacity10, parse_read_capacity16, parse_serial,
};
use crate::{Attention, Ending, Outbox};

use super::super::pdu::{Command, DataIn, Header, Response, task_tag};
use super::answer::{CHECK_CONDITION, GOOD, sense_of};
use super::login::refused;
use super::{IscsiInitiator, Stage, attention, violation};

/// Facts of a unit other than its geometry.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Vendor and product.
    pub(super) product: Option<String>,
    /// The disk's name in the world, and whether it is a designation.
    pub(super) identity: Option<String>,
    has_designation: bool,
    /// Instance, if this is a server of ours.
    pub(super) instance: Option<u64>,
    /// Backing store, if this is a server of ours.
    pub(super) backing: Option<Backing>,
    /// Whether an attention reported that the volatile cache may be lost; `None` without such an
    /// attention.
    pub(super) power_was_lost: Option<bool>,
}

/// A command in progress.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) question: Question,
    task_tag: u32,
    /// Data received so far.
    data: Vec<u8>,
    attempts: u32,
    /// Time of the repetition.
    pub(super) again_at: Option<Nanos>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Ready,
    Capacity16,
    Capacity10,
    Mode,
    Product,
    Backing,
    Designation,
    Serial,
    /// Resets the unit, so that the commands of an older session have ended.
    Reset,
    /// TEST UNIT READY, for the attentions that the reset has established.
    Settled,
    /// A range of blocks without storage: the first one, and how many.
    Allocation(u64, u64),
    /// The identity again, after this attention: by designation, or by serial number.
    SameDesignation(Attention),
    SameSerial(Attention),
}

/// Maximum number of attempts: a unit may have several unit attentions pending.
const ATTEMPTS_MAX: u32 = 64;
/// Delay before the next query of a unit that is becoming ready.
const NOT_READY_PAUSE: Nanos = Nanos::from_millis(200);
/// The low half of these commands' ITTs, which no slot has.
pub(super) const QUESTION: u32 = 0xfffe;

impl Question {
    /// Whether it is asked while I/Os are in flight.
    pub(super) fn is_about_identity(self) -> bool {
        matches!(self, Question::SameDesignation(_) | Question::SameSerial(_))
    }

    /// The CDB, and the most data that it returns.
    fn command(self) -> ([u8; 16], u32) {
        match self {
            Question::Ready => (cdb::test_unit_ready(), 0),
            Question::Capacity16 => (cdb::read_capacity16(32), 32),
            Question::Capacity10 => (cdb::read_capacity10(), 8),
            // All pages: a unit without one of them still reports write protection.
            Question::Mode => (cdb::mode_sense6(0x3f, 255), 255),
            Question::Product => (cdb::inquiry(None, 96), 96),
            Question::Backing => (cdb::inquiry(Some(BACKING_PAGE), 255), 255),
            Question::Designation | Question::SameDesignation(_) => {
                (cdb::inquiry(Some(0x83), 255), 255)
            }
            Question::Serial | Question::SameSerial(_) => (cdb::inquiry(Some(0x80), 255), 255),
            Question::Reset | Question::Settled => (cdb::test_unit_ready(), 0),
            Question::Allocation(first, _) => {
                (cdb::get_lba_status(first, STATUS_BYTES), STATUS_BYTES)
            }
        }
    }
}

impl IscsiInitiator {
    /// The login is complete: sends the first command.
    pub(super) fn open(&mut self, out: &mut Outbox) {
        let (question, data) = (Question::Ready, Vec::new());
        let task_tag = self.question_tag;
        let opening = Opening { question, task_tag, data, attempts: 0, again_at: None };
        self.stage = Stage::Opening(opening);
        self.ask(out);
    }

    /// Asks which blocks of a range are holes. The answer is there when the stage is ready again.
    pub(super) fn ask_status(&mut self, first: u64, blocks: u64, out: &mut Outbox) {
        let (question, data) = (Question::Allocation(first, blocks), Vec::new());
        let task_tag = self.question_tag;
        let opening = Opening { question, task_tag, data, attempts: 0, again_at: None };
        (self.stage, self.began) = (Stage::Opening(opening), self.heard);
        self.ask(out);
    }

    /// Asks the unit whether it is still the same disk. New I/Os wait for the answer; those in
    /// flight go on. A unit without an identity cannot tell: the session ends.
    pub(super) fn ask_who_it_is(
        &mut self,
        attention: Attention,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        if !matches!(self.stage, Stage::Ready) {
            return Ok(());
        }
        if self.facts.identity.is_none() || self.window() == 0 {
            return Err(Ending::Attention(attention));
        }
        let question = match self.facts.has_designation {
            true => Question::SameDesignation(attention),
            false => Question::SameSerial(attention),
        };
        let (data, task_tag) = (Vec::new(), self.question_tag);
        let opening = Opening { question, task_tag, data, attempts: 0, again_at: None };
        (self.stage, self.began) = (Stage::Opening(opening), self.heard);
        self.ask(out);
        Ok(())
    }

    /// The unit's identity is this one now: the session goes on if it was before.
    fn is_still(&mut self, identity: Option<String>, why: Attention) -> Result<(), Ending> {
        self.stage = Stage::Ready;
        if identity == self.facts.identity { Ok(()) } else { Err(Ending::Attention(why)) }
    }

    /// The identity that the answer to a question has.
    fn identity_in(&self, question: Question, data: &[u8]) -> Option<String> {
        if matches!(question, Question::Designation | Question::SameDesignation(_)) {
            return parse_designation(data);
        }
        // Numbers of different makers may be equal.
        let maker = self.facts.product.clone().unwrap_or_default();
        parse_serial(data).map(|serial| format!("{maker} {serial}"))
    }

    /// Sends the current command, or repeats it.
    pub(super) fn ask(&mut self, out: &mut Outbox) {
        let Stage::Opening(opening) = &mut self.stage else { return };
        opening.again_at = None;
        opening.attempts += 1;
        opening.data.clear();
        opening.task_tag = opening.task_tag.wrapping_add(1 << 16);
        self.question_tag = opening.task_tag;
        let (cdb, expected_len) = opening.question.command();
        let command = Command {
            last: true,
            read: expected_len != 0,
            attribute: 1,
            lun: self.lun,
            task_tag: opening.task_tag,
            expected_len,
            command_number: self.command_number,
            expected_status: self.status,
            cdb,
            ..Command::default()
        };
        self.command_number = self.command_number.wrapping_add(1);
        self.params.put(&command, &[], out);
    }

    /// Data-In of a command that is no I/O.
    #[cold]
    pub(super) fn opening_data_in(&mut self, header: &Header) -> Result<(), Ending> {
        self.gathered.clear();
        self.gathering = *header;
        let asked = matches!(&self.stage,
            Stage::Opening(opening) if opening.task_tag == task_tag(header));
        if asked && DataIn::parse(header).data_len != 0 {
            return Ok(());
        }
        Err(violation("RFC 7143 §11.2.1.8: data has the tag of a command in flight", 16))
    }

    /// A part of the data was received.
    pub(super) fn opening_data(&mut self, out: &mut Outbox) -> Result<(), Ending> {
        let data = DataIn::parse(&self.gathering);
        let Stage::Opening(opening) = &mut self.stage else { return Ok(()) };
        if data.offset as usize != opening.data.len() || opening.data.len() > 4096 {
            return Err(violation("RFC 7143 §13.18: data of a read comes in order, and once", 40));
        }
        opening.data.extend_from_slice(&self.gathered);
        if !data.ends {
            self.count(data.numbers);
            return Ok(());
        }
        self.count_status(data.numbers)?;
        self.conclude(data.status, None, out)
    }

    /// A command completed with this status.
    pub(super) fn opening_response(&mut self, out: &mut Outbox) -> Result<(), Ending> {
        let response = Response::parse(&self.gathering);
        self.count_status(response.numbers)?;
        if response.response != 0 {
            return Err(refused("the target failed while the volume was opened: see its own log"));
        }
        let sense = sense_of(&self.gathered);
        self.conclude(response.status, sense, out)
    }

    /// Whether an ITT is that of the command in progress.
    pub(super) fn is_question(&self, tag: u32) -> bool {
        matches!(&self.stage, Stage::Opening(opening) if opening.task_tag == tag)
    }

    fn conclude(
        &mut self,
        status: u8,
        sense: Option<Sense>,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let answered = status == GOOD;
        if let Some(attention) = sense.and_then(attention::that_ends)
            && self.asks_for_identity()
        {
            return Err(Ending::Attention(attention));
        }
        if !answered && self.asks_again(status, sense, out) {
            return Ok(());
        }
        let Stage::Opening(opening) = &mut self.stage else { return Ok(()) };
        let (question, data) = (opening.question, std::mem::take(&mut opening.data));
        if let Some(next) = self.learn(question, &data, sense, answered, out)? {
            self.go_on(next, out);
        }
        Ok(())
    }

    /// Takes the facts in an answer, and returns the next question.
    fn learn(
        &mut self,
        question: Question,
        data: &[u8],
        sense: Option<Sense>,
        answered: bool,
        out: &mut Outbox,
    ) -> Result<Option<Question>, Ending> {
        let next = match question {
            Question::Ready if answered => Question::Capacity16,
            Question::Ready => return Err(self.unusable(sense)),
            Question::Capacity16 => match parse_read_capacity16(data).filter(|_| answered) {
                Some(capacity) => self.learn_capacity(capacity),
                None => Question::Capacity10,
            },
            Question::Capacity10 => match parse_read_capacity10(data).filter(|_| answered) {
                Some(capacity) => self.learn_capacity(capacity),
                None => return Err(self.unusable(sense)),
            },
            Question::Mode => {
                self.learn_mode(parse_mode_sense6(data).filter(|_| answered));
                Question::Product
            }
            Question::Product => {
                self.facts.product = parse_product(data).filter(|_| answered);
                self.facts.instance = parse_instance(data).filter(|_| answered);
                let product = self.facts.product.as_deref().unwrap_or_default();
                if product.starts_with(VENDOR) { Question::Backing } else { Question::Designation }
            }
            Question::Backing => {
                self.facts.backing = parse_backing(data).filter(|_| answered);
                Question::Designation
            }
            Question::Designation => {
                let identity = self.identity_in(Question::Designation, data);
                self.facts.identity = identity.filter(|_| answered);
                self.facts.has_designation = self.facts.identity.is_some();
                if self.facts.has_designation {
                    self.make_sure(out);
                    return Ok(None);
                }
                Question::Serial
            }
            Question::Serial => {
                let identity = self.identity_in(Question::Serial, data);
                self.facts.identity = identity.filter(|_| answered);
                self.make_sure(out);
                return Ok(None);
            }
            Question::Reset | Question::Settled => {
                self.stage = Stage::Ready;
                return Ok(None);
            }
            question @ (Question::SameDesignation(attention) | Question::SameSerial(attention)) => {
                let identity = self.identity_in(question, data).filter(|_| answered);
                return self.is_still(identity, attention).map(|()| None);
            }
            Question::Allocation(first, blocks) => {
                self.stage = Stage::Ready;
                return self.learn_allocation(data, first, blocks, answered).map(|()| None);
            }
        };
        Ok(Some(next))
    }

    /// Whether the unit is asked for its identity while I/Os are in flight.
    fn asks_for_identity(&self) -> bool {
        matches!(&self.stage, Stage::Opening(opening) if opening.question.is_about_identity())
    }

    /// Repeats a command that failed for a temporary reason: a unit attention, a unit that becomes
    /// ready, or a busy unit. The number of tries is limited, and so is the time of the opening.
    fn asks_again(&mut self, status: u8, sense: Option<Sense>, out: &mut Outbox) -> bool {
        let Stage::Opening(opening) = &mut self.stage else { return false };
        if opening.attempts >= ATTEMPTS_MAX {
            return false;
        }
        match sense {
            Some(sense) if sense.key == Key::UnitAttention => {
                self.note_attention(sense);
                self.ask(out);
                return true;
            }
            Some(Sense { key: Key::NotReady, asc: 0x04, .. }) => {}
            _ if status != CHECK_CONDITION => {}
            _ => return false,
        }
        opening.again_at = Some(self.heard + NOT_READY_PAUSE);
        true
    }

    /// Sends the next command.
    pub(super) fn go_on(&mut self, next: Question, out: &mut Outbox) {
        if let Stage::Opening(opening) = &mut self.stage {
            opening.question = next;
            opening.attempts = 0;
        }
        self.ask(out);
    }

    /// The command in progress met a unit attention: it will be repeated.
    fn note_attention(&mut self, sense: Sense) {
        let Stage::Opening(opening) = &mut self.stage else { return };
        if opening.question == Question::Settled {
            // The attention reports our own reset.
            return;
        }
        if let Some(lost) = attention::lost_power(sense) {
            let known = self.facts.power_was_lost.unwrap_or(false);
            self.facts.power_was_lost = Some(known | lost);
        }
        if attention::that_ends(sense).or(attention::of_units(sense)).is_some() {
            // Facts learned before may be different now.
            opening.question = Question::Ready;
        }
    }

    fn learn_capacity(&mut self, capacity: Capacity) -> Question {
        let Capacity { blocks, block_bytes, .. } = capacity;
        let trim_zeroes = capacity.can_trim && capacity.trimmed_reads_zero;
        let (read_only, volatile) = (false, true);
        self.geometry = Geometry { block_bytes, blocks, read_only, volatile, trim_zeroes };
        self.block_shift = block_bytes.trailing_zeros();
        self.can_trim = capacity.can_trim;
        self.trimmed_reads_zero = trim_zeroes;
        Question::Mode
    }

    /// The answer about a range of blocks.
    fn learn_allocation(
        &mut self,
        data: &[u8],
        first: u64,
        blocks: u64,
        answered: bool,
    ) -> Result<(), Ending> {
        let told = parse_lba_status(data, first, blocks);
        if answered && told.is_none() {
            let rule = "SBC-4 §GET LBA STATUS parameter data: extents in order from the first on";
            return Err(violation(rule, 0));
        }
        let bytes = |blocks: u64| blocks.saturating_mul(self.geometry.block_bytes.into());
        let told = told.filter(|_| answered).map(|blocks| Allocation {
            bytes: bytes(blocks.bytes),
            holes: bytes(blocks.holes),
            zeroes: bytes(blocks.zeroes),
        });
        self.allocation = Some(told);
        Ok(())
    }

    /// Without mode data the unit counts as writable, with a volatile cache.
    fn learn_mode(&mut self, flags: Option<ModeFlags>) {
        let Some(flags) = flags else { return };
        self.geometry.read_only = flags.write_protected;
        self.geometry.volatile = flags.write_cache.unwrap_or(true);
        self.can_force_unit_access = flags.can_force_unit_access;
    }

    /// Why the unit cannot be used.
    fn unusable(&self, sense: Option<Sense>) -> Ending {
        let (lun, target) = (self.config.lun, &self.config.target_name);
        let text = match sense {
            Some(sense) if sense.asc == Sense::LOGICAL_UNIT_NOT_SUPPORTED.asc => {
                format!(
                    "target {target} has no LUN {lun}: check the number after the target's name"
                )
            }
            Some(sense) if sense.asc == Sense::MEDIUM_NOT_PRESENT.asc => {
                format!("LUN {lun} of target {target} has no medium: load one at the target")
            }
            Some(sense) => format!("LUN {lun} of target {target} cannot be used: {sense}"),
            None => format!("LUN {lun} of target {target} does not report its capacity"),
        };
        Ending::Refused(text)
    }
}
