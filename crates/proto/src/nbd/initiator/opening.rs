//! Negotiation: from the greeting to the first command.

use block::{Backing, Geometry};

use crate::{Ending, Outbox};

use super::super::wire::{
    GREETING_BYTES, OPTION_MAGIC, OPTION_REPLY_BYTES, OPTION_REPLY_MAGIC, REQUEST_MAX_BYTES,
    allocation, client_flags, flag, info, option, reply, u16_at, u32_at, u64_at,
};
use super::super::{EXPORT_MAX_BYTES, wire};
use super::{NbdInitiator, Stage, violation};

/// Longest option reply that is read: an error message may be long.
const ANSWER_MAX_BYTES: u32 = EXPORT_MAX_BYTES as u32 + 64;
/// Longest server message that is shown.
const WORDS_MAX_BYTES: usize = 200;

impl NbdInitiator {
    /// Takes the next message; true while there may be more.
    #[cold]
    pub(super) fn open(&mut self, bytes: &mut &[u8], out: &mut Outbox) -> Result<bool, Ending> {
        match self.stage {
            Stage::Greeting => {
                let Some(greeting) = self.head.take::<GREETING_BYTES>(bytes) else {
                    return Ok(false);
                };
                self.greeted(&greeting, out)?;
            }
            Stage::Structured | Stage::Contexts | Stage::Going => {
                let Some(head) = self.head.take::<OPTION_REPLY_BYTES>(bytes) else {
                    return Ok(false);
                };
                self.option_answer(&head)?;
            }
            Stage::OptionData { option, kind, len } => {
                if !self.head.fill(bytes, len as usize) {
                    return Ok(false);
                }
                let mut data = std::mem::take(&mut self.head);
                let result = self.answered(option, kind, data.bytes(), out);
                data.clear();
                self.head = data;
                result?;
            }
            Stage::Open | Stage::Closed => {}
        }
        Ok(true)
    }

    fn greeted(&mut self, greeting: &[u8; GREETING_BYTES], out: &mut Outbox) -> Result<(), Ending> {
        out.bytes(&client_flags(greeting)?.to_be_bytes());
        ask(option::STRUCTURED_REPLY, &[], out);
        self.stage = Stage::Structured;
        Ok(())
    }

    fn option_answer(&mut self, head: &[u8; OPTION_REPLY_BYTES]) -> Result<(), Ending> {
        let (option, kind, len) = (u32_at(head, 8), u32_at(head, 12), u32_at(head, 16));
        let asked = match self.stage {
            Stage::Structured => option::STRUCTURED_REPLY,
            Stage::Contexts => option::SET_META_CONTEXT,
            _ => option::GO,
        };
        if u64_at(head, 0) != OPTION_REPLY_MAGIC || option != asked {
            return Err(violation("NBD §Option reply: it is for the option that was sent", 8));
        }
        if len > ANSWER_MAX_BYTES {
            return Err(violation("NBD §Option reply: strings are at most 4096 bytes", 16));
        }
        self.stage = Stage::OptionData { option, kind, len };
        Ok(())
    }

    fn answered(
        &mut self,
        option: u32,
        kind: u32,
        data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        if option == option::STRUCTURED_REPLY {
            self.structured = kind == reply::ACK;
            match self.structured && self.config.asks_allocation {
                true => self.select_context(out),
                false => self.go(out),
            }
            return Ok(());
        }
        if option == option::SET_META_CONTEXT {
            return self.context_answered(kind, data, out);
        }
        self.stage = Stage::Going;
        match kind {
            reply::INFO => self.told(data),
            reply::ACK if self.flags & flag::HAS_FLAGS == 0 => {
                Err(violation("NBD §NBD_OPT_GO: the size is told before the end", 12))
            }
            reply::ACK => {
                self.stage = Stage::Open;
                Ok(())
            }
            _ if kind & reply::ERROR != 0 => Err(self.refused(kind, data)),
            _ => Err(violation("NBD §NBD_OPT_GO: information, then the end", 12)),
        }
    }

    /// Asks for the metadata context.
    fn select_context(&mut self, out: &mut Outbox) {
        let name = self.config.export.as_bytes();
        let mut wanted = Vec::from((name.len() as u32).to_be_bytes());
        wanted.extend(name);
        wanted.extend(1_u32.to_be_bytes());
        wanted.extend((allocation::NAME.len() as u32).to_be_bytes());
        wanted.extend(allocation::NAME);
        ask(option::SET_META_CONTEXT, &wanted, out);
        self.stage = Stage::Contexts;
    }

    /// Handles the answer to the metadata context request: a selected context, or the end of the
    /// list. In both cases, the export is next.
    fn context_answered(&mut self, kind: u32, data: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let number = data.first_chunk().map(|number| u32::from_be_bytes(*number));
        match (kind, number) {
            //= NBD §NBD_REP_META_CONTEXT: only requested contexts, each once.
            (reply::META_CONTEXT, Some(_))
                if data[4..] != *allocation::NAME || self.context.is_some() =>
            {
                Err(violation("NBD §NBD_REP_META_CONTEXT: a context that was asked for", 4))
            }
            (reply::META_CONTEXT, Some(number)) => {
                self.context = Some(number);
                self.stage = Stage::Contexts;
                Ok(())
            }
            (reply::ACK, _) => {
                self.go(out);
                Ok(())
            }
            _ if kind & reply::ERROR != 0 => {
                self.context = None;
                self.go(out);
                Ok(())
            }
            _ => Err(violation("NBD §NBD_OPT_SET_META_CONTEXT: contexts, then the end", 12)),
        }
    }

    /// Chooses the export.
    fn go(&mut self, out: &mut Outbox) {
        let name = self.config.export.as_bytes();
        let mut wanted = Vec::from((name.len() as u32).to_be_bytes());
        wanted.extend(name);
        wanted.extend(2_u16.to_be_bytes());
        wanted.extend(info::BLOCK_SIZE.to_be_bytes());
        wanted.extend(info::DESCRIPTION.to_be_bytes());
        ask(option::GO, &wanted, out);
        self.stage = Stage::Going;
    }

    /// Parses an information item of the export.
    fn told(&mut self, data: &[u8]) -> Result<(), Ending> {
        let kind = data.first_chunk().map(|kind| u16::from_be_bytes(*kind));
        match (kind, data.len()) {
            (Some(info::EXPORT), 12) => {
                self.flags = u16_at(data, 10) | flag::HAS_FLAGS;
                self.told_bytes = u64_at(data, 2);
                self.shape(self.told_bytes, self.geometry.block_bytes);
            }
            (Some(info::BLOCK_SIZE), 14) => {
                let (least, most) = (u32_at(data, 2), u32_at(data, 10));
                if !least.is_power_of_two() || least > 65536 || most < least {
                    let rule = "NBD §NBD_INFO_BLOCK_SIZE: a power of two of at most 64 KiB";
                    return Err(violation(rule, 2));
                }
                let block = least.max(512);
                // Whole blocks, and within our own limit.
                self.max_request = most.min(REQUEST_MAX_BYTES) / block * block;
                self.max_request = self.max_request.max(block);
                self.shape(self.told_bytes, block);
            }
            (Some(info::EXPORT | info::BLOCK_SIZE) | None, _) => {
                return Err(violation("NBD §NBD_REP_INFO: lengths of what is told", 0));
            }
            (Some(info::DESCRIPTION), _) => {
                let words = words_of(&data[2..]).unwrap_or_default();
                let (words, instance) = wire::without_instance(&words);
                let (words, backing) = Backing::split(words);
                self.description = Some(words.to_owned()).filter(|words| !words.is_empty());
                self.backing = backing;
                self.instance = instance;
            }
            // NBD_INFO_NAME.
            (Some(_), _) => {}
        }
        Ok(())
    }

    fn shape(&mut self, bytes: u64, block_bytes: u32) {
        self.geometry = Geometry {
            read_only: self.flags & flag::READ_ONLY != 0,
            //= NBD §Transmission flags: a server with flushes may lose unflushed data.
            volatile: self.flags & flag::FLUSH != 0,
            //= NBD §NBD_CMD_TRIM: the content of trimmed ranges is undefined.
            trim_zeroes: false,
            ..Geometry::new(bytes.min(i64::MAX as u64), block_bytes)
        };
    }

    fn refused(&self, kind: u32, data: &[u8]) -> Ending {
        let name = &self.config.export;
        let why = match kind {
            reply::UNKNOWN => format!("the server has no export '{name}'"),
            reply::POLICY => format!("the server does not let us use '{name}'"),
            reply::TLS_REQUIRED => "the server requires TLS, which is not supported".to_owned(),
            reply::UNSUPPORTED => "the server does not support NBD_OPT_GO".to_owned(),
            reply::INVALID | reply::TOO_BIG => format!("the server does not understand '{name}'"),
            other => format!("the server refuses (NBD error {})", other & !reply::ERROR),
        };
        Ending::Refused(match words_of(data) {
            Some(said) => format!("{why}: {said}"),
            None => why,
        })
    }
}

/// A server's message, if printable.
fn words_of(data: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(&data[..data.len().min(WORDS_MAX_BYTES)]);
    let said: String = said.chars().filter(|letter| !letter.is_control()).collect();
    Some(said).filter(|said| !said.is_empty())
}

fn ask(option: u32, data: &[u8], out: &mut Outbox) {
    out.bytes(&OPTION_MAGIC.to_be_bytes());
    out.bytes(&option.to_be_bytes());
    out.bytes(&(data.len() as u32).to_be_bytes());
    out.bytes(data);
}
