//! The host's end of an admin queue.

use block::{Backing, Done, Fault, Geometry, Io, Nanos};

use crate::ascii::printable;
use crate::flow::later;
use crate::{Ending, Endpoint, Fence, Initiator, Outbox, Phase};

use super::super::backing_of;
use super::super::pdu::{CommandBuilder, Completion, admin, get16, get32, get64};
use super::connect::{ANY_CONTROLLER, Connect};
use super::control::{Control, Reply, Rhythm};
use super::link::Link;
use super::{Association, ControllerInstance, NvmeInitiatorConfig, names, replace};

/// The admin queue of an association: connects, enables the controller, identifies the namespace,
/// and sends Keep Alives.
///
/// It is an [`Initiator`] without room for I/Os, so that any driver of initiators can drive it, or
/// use it alone to query a volume. Closing it shuts the controller down.
#[derive(Debug)]
pub struct NvmeAdmin {
    control: Control,
    namespace: u32,
    queues: u16,
    question: Question,
    association: Option<Association>,
    learned: Learned,
    /// The controller that this one replaces, when to look whether it was reset, and until when.
    old: Option<ControllerInstance>,
    look_at: Option<Nanos>,
    reset_until: Option<Nanos>,
    patience: Nanos,
    done: Vec<Done>,
}

/// The commands to a ready controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// The controller that this one replaces is being reset.
    Reset,
    /// Whether it was.
    ResetLog,
    Queues,
    Events,
    List,
    Namespace,
    Descriptors,
    Limits,
    Nothing,
}

/// Results of Identify.
#[derive(Clone, Debug, Default)]
struct Learned {
    queues: u16,
    geometry: Option<Geometry>,
    fence: Option<Fence>,
    backing: Option<Backing>,
    identity: Option<String>,
    /// Raw limits of the NVM command set; 0 if absent.
    zeroes_exponent: u8,
    trim_blocks: u32,
}

/// Entries of our admin queue.
//= NVMe-oF §Connect command: an admin queue has at least 32.
const ENTRIES: u16 = 32;

/// Interval of queries whether a controller has reset another one.
const RESET_POLL_INTERVAL: Nanos = Nanos::from_millis(50);

/// Our maximum transfer, regardless of the controller's.
const TRANSFER_MAX_BYTES: u64 = 1 << 30;

/// Most blocks in one command.
//= NVMe base §NLB: a 0's based value of 16 bits.
const BLOCKS_MAX: u64 = 65536;

impl NvmeAdmin {
    /// An admin queue that connects at its first [`tick`](Endpoint::tick), due at once.
    pub fn new(config: &NvmeInitiatorConfig, now: Nanos) -> NvmeAdmin {
        let connect = Connect {
            host_nqn: config.host_nqn.clone(),
            host_id: config.host_id,
            subsystem_nqn: config.subsystem_nqn.clone(),
            queue: 0,
            entries: ENTRIES,
            controller: ANY_CONTROLLER,
            keep_alive_ms: u32::try_from(config.keep_alive.0 / 1_000_000).unwrap_or(u32::MAX),
        };
        let link = Link::new(config.header_digest, config.data_digest);
        let (wait, patience) = (config.connect_timeout, config.admin_timeout);
        NvmeAdmin {
            control: Control::new(connect, link, Rhythm::new(config), wait, patience, now),
            namespace: config.nsid,
            queues: config.queues.max(1),
            question: Question::Queues,
            association: None,
            learned: Learned::default(),
            old: None,
            look_at: None,
            reset_until: None,
            patience,
            done: Vec::new(),
        }
    }

    /// Replaces an older association with unanswered commands: its controller is reset, if the new
    /// one can do that. [`Association::fence`] returns the outcome.
    pub fn replacing(self, old: ControllerInstance) -> NvmeAdmin {
        NvmeAdmin { old: Some(old), ..self }
    }

    /// The association, once I/O queues may be opened.
    pub fn ready(&self) -> Option<&Association> {
        self.association.as_ref()
    }

    fn news(&mut self, now: Nanos, reply: Reply, out: &mut Outbox) -> Result<(), Ending> {
        match reply {
            Reply::Opened => {
                self.check_controller()?;
                let first = self.first_question();
                self.ask(now, first, out);
            }
            Reply::Answer(completion, data) => {
                let next = self.learn(&completion, &data)?;
                if next == Question::ResetLog {
                    self.ask_later(now, out);
                } else {
                    self.ask(now, next, out);
                }
            }
        }
        Ok(())
    }

    /// The old controller is being reset: looks again a little later, for as long as one command
    /// may take.
    fn ask_later(&mut self, now: Nanos, out: &mut Outbox) {
        let until = *self.reset_until.get_or_insert(later(now, self.patience));
        if now < until {
            self.look_at = Some(later(now, RESET_POLL_INTERVAL));
            return;
        }
        let next = self.was_reset(replace::Outcome::Failed);
        self.ask(now, next, out);
    }

    /// The controller is known: the old one is reset first, if it can do that.
    fn first_question(&mut self) -> Question {
        let page = &self.control.facts().controller;
        let Some(old) = self.old else { return Question::Queues };
        if old.ciu != 0 && replace::is_supported(page) {
            return Question::Reset;
        }
        self.learned.fence = Some(Fence::After(replace::quiesce_time(page)));
        Question::Queues
    }

    /// The old controller was reset, or cannot be.
    fn was_reset(&mut self, outcome: replace::Outcome) -> Question {
        let quiesce = replace::quiesce_time(&self.control.facts().controller);
        self.learned.fence = Some(match outcome {
            replace::Outcome::Done => Fence::Ended,
            replace::Outcome::UnderWay => return Question::ResetLog,
            replace::Outcome::Failed => Fence::After(quiesce),
        });
        Question::Queues
    }

    /// Checks that we support this controller.
    fn check_controller(&self) -> Result<(), Ending> {
        let page = &self.control.facts().controller;
        let refuse = |why: &str| Err(Ending::Refused(why.to_owned()));
        //= NVMe base §CNTRLTYPE: 0 is not reported, 1 an I/O controller.
        if page[111] > 1 {
            return refuse("the controller is not an I/O controller");
        }
        //= NVMe base §SGLS: bits 1:0 say whether SGLs are supported.
        if get32(page, 536) & 3 == 0 {
            return refuse("the controller does not support SGLs, which NVMe/TCP requires");
        }
        //= NVMe-oF §Identify Controller: IOCCSZ is at least 4, and we support only ICDOFF 0.
        if get32(page, 1792) < 4 || get16(page, 1800) != 0 {
            return refuse("the controller's IOCCSZ or ICDOFF is not supported");
        }
        Ok(())
    }

    fn ask(&mut self, now: Nanos, question: Question, out: &mut Outbox) {
        self.question = question;
        let namespace = self.namespace;
        let identify = |id, cns: u32, namespace| {
            CommandBuilder::new(admin::IDENTIFY, id, namespace).word(10, cns)
        };
        let set = |id, feature: u32, value: u32| {
            CommandBuilder::new(admin::SET_FEATURES, id, 0).word(10, feature).word(11, value)
        };
        let queues = u32::from(self.queues - 1);
        let control = &mut self.control;
        const PAGE_BYTES: u32 = 4096;
        let old = self.old.unwrap_or(ControllerInstance { id: 0, ciu: 0, cirn: 0 });
        match question {
            Question::Reset => control.ask(now, |id| replace::command(id, old), 0, out),
            Question::ResetLog => control.ask(now, replace::log, PAGE_BYTES, out),
            //= NVMe base §Number of Queues: feature 07h, both counts 0's based.
            Question::Queues => control.ask(now, |id| set(id, 7, queues | queues << 16), 0, out),
            //= NVMe base §Asynchronous Event Configuration: feature 0Bh, no notices.
            Question::Events => control.ask(now, |id| set(id, 0x0b, 0), 0, out),
            Question::List => {
                control.ask(now, |id| identify(id, 2, namespace.saturating_sub(1)), PAGE_BYTES, out)
            }
            Question::Namespace => {
                control.ask(now, |id| identify(id, 0, namespace), PAGE_BYTES, out)
            }
            Question::Descriptors => {
                control.ask(now, |id| identify(id, 3, namespace), PAGE_BYTES, out);
            }
            Question::Limits => control.ask(now, |id| identify(id, 6, 0), PAGE_BYTES, out),
            Question::Nothing => {
                control.await_events(out);
                self.association = self.associate();
            }
        }
    }

    /// Handles a completion; returns the next command.
    fn learn(&mut self, completion: &Completion, data: &[u8]) -> Result<Question, Ending> {
        let status = completion.status;
        let fail = |what: &str| Err(Ending::Refused(format!("{what}: {status}")));
        let whole = status.is_success() && data.len() == 4096;
        let id = self.namespace;
        match self.question {
            Question::Reset => Ok(self.was_reset(replace::outcome(completion))),
            Question::ResetLog => {
                let old = self.old.filter(|_| whole);
                let outcome =
                    old.map_or(replace::Outcome::Failed, |old| replace::logged(data, old));
                Ok(self.was_reset(outcome))
            }
            Question::Queues if !status.is_success() => fail("requesting queues"),
            Question::Queues => {
                let (submission, completion) =
                    (completion.result as u16, (completion.result >> 16) as u16);
                self.learned.queues = submission.min(completion).saturating_add(1).min(self.queues);
                Ok(Question::Events)
            }
            // A controller without notices may refuse the feature.
            Question::Events => Ok(Question::List),
            //= NVMe base §Active Namespace ID list: the next after the one before ours is ours.
            Question::List if whole && get32(data, 0) != id => {
                Err(Ending::Refused(format!("the subsystem has no namespace {id}")))
            }
            Question::List => Ok(Question::Namespace),
            Question::Namespace if !whole => fail(&format!("namespace {id}")),
            Question::Namespace => {
                self.learned.geometry = Some(self.shape(data)?);
                self.learned.backing = backing_of(data);
                self.learned.identity = names::of_namespace(data);
                Ok(Question::Descriptors)
            }
            Question::Descriptors if whole => {
                check_command_set(data)?;
                let better = names::of_descriptors(data);
                self.learned.identity = better.or(self.learned.identity.take());
                Ok(Question::Limits)
            }
            Question::Descriptors => Ok(Question::Limits),
            Question::Limits => {
                if whole {
                    //= NVMe base §NVM Identify Controller: WZSL is byte 1, DMRSL bytes 7:4.
                    self.learned.zeroes_exponent = data[1];
                    self.learned.trim_blocks = get32(data, 4);
                }
                Ok(Question::Nothing)
            }
            Question::Nothing => Ok(Question::Nothing),
        }
    }

    /// The geometry of the namespace.
    fn shape(&self, data: &[u8]) -> Result<Geometry, Ending> {
        let refuse = |why: String| Err(Ending::Refused(why));
        //= NVMe base §Identify Namespace: NSZE; FLBAS bits 6:5 and 3:0 choose one of LBAF.
        let blocks = get64(data, 0);
        let format = usize::from(data[26] & 0x0f | (data[26] & 0x60) >> 1);
        let format = get32(data, 128 + format * 4);
        let (metadata, exponent) = (format & 0xffff, format >> 16 & 0xff);
        if blocks == 0 {
            return refuse(format!("the subsystem has no namespace {}", self.namespace));
        }
        if metadata != 0 || data[29] & 7 != 0 {
            return refuse("the namespace has metadata or protection information".to_owned());
        }
        if !(9..=16).contains(&exponent) || blocks > u64::MAX >> exponent {
            let most = "a volume has blocks of 2^9 to 2^16 bytes, and less than 2^64 bytes";
            return refuse(format!(
                "the namespace has {blocks} blocks of 2^{exponent} bytes: {most}"
            ));
        }
        //= NVMe base §NSATTR: bit 0 is write protected. §VWC: bit 0 is a volatile cache.
        let read_only = data[99] & 1 != 0;
        let volatile = self.control.facts().controller[525] & 1 != 0;
        //= NVMe base §DLFEAT: bits 2:0 are 1 where deallocated blocks read as zeroes.
        let trim_zeroes = data[33] & 7 == 1;
        Ok(Geometry { block_bytes: 1 << exponent, blocks, read_only, volatile, trim_zeroes })
    }

    fn associate(&self) -> Option<Association> {
        let geometry = self.learned.geometry?;
        let facts = self.control.facts();
        let page = &facts.controller;
        let block = u64::from(geometry.block_bytes);
        //= NVMe base §CAP: MPSMIN is bits 51:48, the power of two of a page beyond 4096.
        let page_exponent = 12 + (facts.capabilities >> 48 & 0xf) as u32;
        let limit = |exponent: u8, otherwise: u64| match exponent {
            0 => otherwise,
            exponent => 1_u64.checked_shl(page_exponent + u32::from(exponent)).unwrap_or(otherwise),
        };
        let whole_blocks = |bytes: u64| (bytes / block * block).max(block);
        let most = whole_blocks(TRANSFER_MAX_BYTES).min(BLOCKS_MAX * block);
        //= NVMe base §MDTS: 0 is no limit.
        let transfer = whole_blocks(limit(page[77], most).min(most));
        let zeroes = whole_blocks(limit(self.learned.zeroes_exponent, u64::MAX));
        let trim_blocks = match self.learned.trim_blocks {
            0 => u32::MAX,
            blocks => blocks,
        };
        //= NVMe base §MAXCMD: commands in flight on a queue; 0 is not reported.
        let entries = (u32::from(facts.capabilities as u16) + 1).max(2);
        let commands = match get16(page, 514) {
            0 => entries,
            commands => u32::from(commands).max(2),
        };
        //= NVMe base §ONCS: bit 2 Dataset Management, bit 3 Write Zeroes.
        let optional = get16(page, 520);
        //= NVMe base §MN: 40 bytes of ASCII, padded with spaces.
        Some(Association {
            model: printable(&page[24..64]),
            controller: replace::instance(facts.cntlid, page),
            fence: self.learned.fence,
            instance: names::instance(page),
            backing: self.learned.backing.clone(),
            identity: self.learned.identity.clone(),
            geometry,
            queues: self.learned.queues,
            max_queue_entries: entries.min(commands),
            max_transfer_bytes: transfer as u32,
            in_capsule_bytes: get32(page, 1792).saturating_mul(16) - 64,
            max_zeroes_bytes: zeroes.min(BLOCKS_MAX * block),
            max_trim_bytes: u64::from(trim_blocks) * block,
            write_zeroes: optional & 1 << 3 != 0,
            trim: optional & 1 << 2 != 0,
            //= NVMe-oF §Identify Controller: OFCS bit 0.
            disconnect: get16(page, 1804) & 1 != 0,
        })
    }
}

/// Checks that the namespace has the NVM command set.
//= NVMe base §Namespace Identification Descriptor: type 4 is the command set, 0 that of blocks.
fn check_command_set(data: &[u8]) -> Result<(), Ending> {
    let mut rest = data;
    while let [kind, len, _, _, value @ ..] = rest {
        let len = usize::from(*len);
        if len == 0 || len > value.len() {
            break;
        }
        if *kind == 4 && value[0] != 0 {
            return Err(Ending::Refused("the namespace lacks the NVM command set".to_owned()));
        }
        rest = &value[len..];
    }
    Ok(())
}

impl Endpoint for NvmeAdmin {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        while let Some(reply) = self.control.take(now, &mut bytes, out)? {
            self.news(now, reply, out)?;
        }
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        self.control.deadline().into_iter().chain(self.look_at).min()
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        if self.look_at.take_if(|at| now >= *at).is_some() && !self.control.is_closing() {
            self.ask(now, Question::ResetLog, out);
        }
        self.control.tick(now, out)
    }
}

impl Initiator for NvmeAdmin {
    fn phase(&self) -> Phase {
        if self.control.is_closed() {
            return Phase::Closed;
        }
        match &self.association {
            _ if self.control.is_closing() => Phase::Closing,
            Some(association) => Phase::Ready(association.geometry),
            None => Phase::Opening,
        }
    }

    fn room(&self) -> usize {
        0
    }

    fn submit(&mut self, _now: Nanos, io: Io, _out: &mut Outbox) {
        self.done.push(io.failed(Fault::Unsupported));
    }

    fn done(&mut self) -> &mut Vec<Done> {
        &mut self.done
    }

    fn fence(&self) -> Fence {
        self.association.as_ref().map_or(Fence::After(Nanos(0)), Association::fence)
    }

    fn backing(&self) -> Option<&Backing> {
        self.association.as_ref()?.backing.as_ref()
    }

    fn instance(&self) -> Option<u64> {
        self.association.as_ref()?.instance
    }

    fn identity(&self) -> Option<String> {
        self.association.as_ref()?.identity.clone()
    }

    fn close(&mut self, now: Nanos, out: &mut Outbox) {
        self.control.close(now, out);
    }

    fn abandon(&mut self) {
        // No I/O is ever in flight here.
    }
}
