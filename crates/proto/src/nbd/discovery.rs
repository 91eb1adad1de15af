//! A short session that lists the exports of a server.

use block::Nanos;

use crate::flow::{Collector, later};
use crate::{Ending, Endpoint, Outbox, Violation};

use super::EXPORT_MAX_BYTES;
use super::wire::{
    GREETING_BYTES, OPTION_MAGIC, OPTION_REPLY_BYTES, OPTION_REPLY_MAGIC, client_flags, option,
    reply, u32_at, u64_at,
};

/// Time-out of the whole session.
const TIMEOUT: Nanos = Nanos::from_secs(10);
/// Longest reply: a name, its length and a description.
const ANSWER_MAX_BYTES: u32 = 2 * EXPORT_MAX_BYTES as u32 + 4;
/// Most exports that are listed: 1 MiB of short names.
const EXPORTS_MAX: usize = 65_536;
/// Most bytes of all names.
const NAMES_MAX_BYTES: usize = 4 << 20;

/// A session that sends LIST and ABORT.
#[derive(Debug)]
pub struct NbdDiscovery {
    stage: Stage,
    until: Nanos,
    head: Collector,
    names: Vec<String>,
    names_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Listing,
    /// The data of a reply of this kind and length comes.
    Data(u32, u32),
    /// The list is complete; ABORT was sent.
    Closed,
}

impl NbdDiscovery {
    /// A session that begins with the server's greeting.
    pub fn new(now: Nanos) -> NbdDiscovery {
        NbdDiscovery {
            stage: Stage::Greeting,
            until: later(now, TIMEOUT),
            head: Collector::new(OPTION_REPLY_BYTES),
            names: Vec::new(),
            names_bytes: 0,
        }
    }

    /// The names of the exports, once complete.
    pub fn exports(&self) -> Option<Vec<String>> {
        (self.stage == Stage::Closed).then(|| self.names.clone())
    }

    /// Whether the session has ended.
    pub fn finished(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// Takes the next message; true while there may be more.
    fn step(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> Result<bool, Ending> {
        match self.stage {
            Stage::Greeting => {
                let Some(greeting) = self.head.take::<GREETING_BYTES>(bytes) else {
                    return Ok(false);
                };
                self.greeted(&greeting, out)?;
            }
            Stage::Listing => {
                let Some(head) = self.head.take::<OPTION_REPLY_BYTES>(bytes) else {
                    return Ok(false);
                };
                self.replied(&head)?;
            }
            Stage::Data(kind, len) => {
                if !self.head.fill(bytes, len as usize) {
                    return Ok(false);
                }
                let mut data = std::mem::take(&mut self.head);
                let result = self.told(kind, data.bytes(), out);
                data.clear();
                self.head = data;
                result?;
            }
            Stage::Closed => {
                *bytes = &[];
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn greeted(&mut self, greeting: &[u8; GREETING_BYTES], out: &mut Outbox) -> Result<(), Ending> {
        out.bytes(&client_flags(greeting)?.to_be_bytes());
        ask(option::LIST, out);
        self.stage = Stage::Listing;
        Ok(())
    }

    fn replied(&mut self, head: &[u8; OPTION_REPLY_BYTES]) -> Result<(), Ending> {
        if u64_at(head, 0) != OPTION_REPLY_MAGIC || u32_at(head, 8) != option::LIST {
            return Err(violation("NBD §Option reply: it is for the option that was sent", 8));
        }
        let len = u32_at(head, 16);
        if len > ANSWER_MAX_BYTES {
            return Err(violation("NBD §Option reply: strings are at most 4096 bytes", 16));
        }
        self.stage = Stage::Data(u32_at(head, 12), len);
        Ok(())
    }

    //= NBD §NBD_REP_SERVER: length of the name, name, text for people; ACK ends the list.
    fn told(&mut self, kind: u32, data: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        match kind {
            reply::SERVER => {
                let wrong = || violation("NBD §NBD_REP_SERVER: a length and a name", 0);
                let (len, rest) = data.split_first_chunk().ok_or_else(wrong)?;
                let name = rest.get(..u32::from_be_bytes(*len) as usize).ok_or_else(wrong)?;
                self.names_bytes += name.len();
                if self.names.len() == EXPORTS_MAX || self.names_bytes > NAMES_MAX_BYTES {
                    return Err(Ending::Refused("the list of exports has no end".to_owned()));
                }
                self.names.push(String::from_utf8_lossy(name).into_owned());
                self.stage = Stage::Listing;
                Ok(())
            }
            reply::ACK => {
                ask(option::ABORT, out);
                self.stage = Stage::Closed;
                Ok(())
            }
            reply::TLS_REQUIRED => {
                let why = "the server requires TLS, which is not supported";
                Err(Ending::Refused(why.to_owned()))
            }
            _ if kind & reply::ERROR != 0 => {
                Err(Ending::Refused("the server does not list its exports".to_owned()))
            }
            _ => Err(violation("NBD §NBD_OPT_LIST: exports, then the end", 12)),
        }
    }
}

impl Endpoint for NbdDiscovery {
    fn receive(&mut self, _now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let mut bytes = bytes;
        while self.step(&mut bytes, out)? {}
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        (self.stage != Stage::Closed).then_some(self.until)
    }

    fn tick(&mut self, now: Nanos, _out: &mut Outbox) -> Result<(), Ending> {
        match now >= self.until && self.stage != Stage::Closed {
            true => Err(Ending::TimedOut("the server did not list its exports in time")),
            false => Ok(()),
        }
    }
}

fn ask(option: u32, out: &mut Outbox) {
    out.bytes(&OPTION_MAGIC.to_be_bytes());
    out.bytes(&option.to_be_bytes());
    out.bytes(&0_u32.to_be_bytes());
}

fn violation(rule: &'static str, at: usize) -> Ending {
    Ending::Violation(Violation { rule, at })
}
