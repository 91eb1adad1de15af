//! Negotiation: from the greeting to the choice of an export.

use std::sync::Arc;

use block::Nanos;

use crate::{Ending, Outbox};

use super::super::EXPORT_MAX_BYTES;
use super::super::export::NbdExport;
use super::super::wire::{
    OPTION_BYTES, OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAX_BYTES, hello, info, option, reply,
    u16_at, u32_at, u64_at, with_instance,
};
use super::{NbdTarget, Stage, violation};

/// Longest option data that is read: a name and a list of information items.
const OPTION_MAX_BYTES: u32 = 2 * EXPORT_MAX_BYTES as u32;
/// Maximum number of options per connection, as each costs work.
const OPTIONS_MAX: u32 = 256;
/// Preferred block size.
const PREFERRED_BYTES: u32 = 4096;
/// Number of zeroes after the reply to EXPORT_NAME, for clients without NO_ZEROES.
const PADDING_BYTES: usize = 124;

impl NbdTarget {
    /// Takes the next message; true while there may be more.
    #[cold]
    pub(super) fn negotiate(
        &mut self,
        now: Nanos,
        bytes: &mut &[u8],
        out: &mut Outbox,
    ) -> Result<bool, Ending> {
        match self.stage {
            Stage::Hello => {
                let Some(flags) = self.head.take::<4>(bytes) else { return Ok(false) };
                self.hello(u32::from_be_bytes(flags))?;
            }
            Stage::Option => {
                let Some(head) = self.head.take::<OPTION_BYTES>(bytes) else { return Ok(false) };
                self.option(&head)?;
            }
            Stage::OptionData(kind, len) => {
                if !self.head.fill(bytes, len as usize) {
                    return Ok(false);
                }
                let mut data = std::mem::take(&mut self.head);
                self.stage = Stage::Option;
                let result = self.answer_option(now, kind, data.bytes(), out);
                data.clear();
                self.head = data;
                result?;
            }
            Stage::Serving | Stage::Leaving => {}
        }
        Ok(!self.finished)
    }

    //= NBD §Newstyle negotiation: a client says which of our flags it knows, and no others.
    fn hello(&mut self, flags: u32) -> Result<(), Ending> {
        let known = u32::from(hello::FIXED_NEWSTYLE | hello::NO_ZEROES);
        if flags & !known != 0 {
            return Err(violation("NBD §Newstyle negotiation: flags of the client are known ones"));
        }
        self.no_zeroes = flags & u32::from(hello::NO_ZEROES) != 0;
        self.stage = Stage::Option;
        Ok(())
    }

    fn option(&mut self, head: &[u8; OPTION_BYTES]) -> Result<(), Ending> {
        let (kind, len) = (u32_at(head, 8), u32_at(head, 12));
        if u64_at(head, 0) != OPTION_MAGIC {
            return Err(violation("NBD §Newstyle negotiation: an option begins with IHAVEOPT"));
        }
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return Err(Ending::Refused(format!("more than {OPTIONS_MAX} options")));
        }
        if len > OPTION_MAX_BYTES {
            return Err(Ending::Refused(format!("an option of {len} bytes")));
        }
        self.stage = Stage::OptionData(kind, len);
        Ok(())
    }

    fn answer_option(
        &mut self,
        now: Nanos,
        kind: u32,
        data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        if self.must_hold(now, kind, data) { Ok(()) } else { self.answer_now(kind, data, out) }
    }

    pub(super) fn answer_now(
        &mut self,
        kind: u32,
        data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        match kind {
            option::EXPORT_NAME => return self.by_name(data, out),
            option::ABORT => {
                say(kind, reply::ACK, &[], out);
                self.stage = Stage::Leaving;
                self.finished = true;
            }
            option::LIST if data.is_empty() => self.list(out),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                say(kind, reply::ACK, &[], out);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                say(kind, reply::INVALID, b"this option has no data", out);
            }
            option::INFO | option::GO => self.info(kind, data, out),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(kind, data, out);
            }
            _ => say(kind, reply::UNSUPPORTED, b"unknown option", out),
        }
        Ok(())
    }

    //= NBD §NBD_OPT_EXPORT_NAME: there is no answer that refuses: the connection ends.
    fn by_name(&mut self, name: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        let Some(export) = self.exports.now().find(name).cloned() else {
            let name = String::from_utf8_lossy(&name[..name.len().min(80)]).into_owned();
            return Err(Ending::Refused(format!("there is no export '{name}'")));
        };
        self.serve(export);
        let (size, flags) = (self.export().geometry.bytes(), self.export().flags());
        out.bytes(&size.to_be_bytes());
        out.bytes(&flags.to_be_bytes());
        if !self.no_zeroes {
            out.bytes(&[0; PADDING_BYTES]);
        }
        Ok(())
    }

    fn list(&mut self, out: &mut Outbox) {
        for export in self.exports.now().list() {
            let (name, words) = (export.name.as_bytes(), export.description.as_bytes());
            //= NBD §NBD_REP_SERVER: text after the name is for people.
            head(option::LIST, reply::SERVER, 4 + name.len() + words.len(), out);
            out.bytes(&(name.len() as u32).to_be_bytes());
            out.bytes(name);
            out.bytes(words);
        }
        say(option::LIST, reply::ACK, &[], out);
    }

    /// Describes an export, and starts to serve it for GO.
    //= NBD §NBD_OPT_GO: name, then the requested information; the size is always sent.
    fn info(&mut self, kind: u32, data: &[u8], out: &mut Outbox) {
        let Some((name, wanted)) = asked_of(data) else {
            return say(kind, reply::INVALID, b"lengths do not match", out);
        };
        let Some(export) = self.exports.now().find(name).cloned() else {
            return say(kind, reply::UNKNOWN, b"no such export", out);
        };
        let geometry = export.geometry;
        head(kind, reply::INFO, 12, out);
        out.bytes(&info::EXPORT.to_be_bytes());
        out.bytes(&geometry.bytes().to_be_bytes());
        out.bytes(&export.flags().to_be_bytes());
        head(kind, reply::INFO, 14, out);
        out.bytes(&info::BLOCK_SIZE.to_be_bytes());
        let least = geometry.block_bytes;
        for size in [least, least.max(PREFERRED_BYTES), REQUEST_MAX_BYTES] {
            out.bytes(&size.to_be_bytes());
        }
        //= NBD §NBD_INFO_NAME: the name that is meant, for clients that request it.
        if wanted.contains(&info::NAME.to_be_bytes()) {
            head(kind, reply::INFO, 2 + export.name.len(), out);
            out.bytes(&info::NAME.to_be_bytes());
            out.bytes(export.name.as_bytes());
        }
        //= NBD §NBD_INFO_DESCRIPTION: text for people, for clients that request it.
        if wanted.contains(&info::DESCRIPTION.to_be_bytes()) {
            let words = match &export.instance {
                Some(instance) => with_instance(&export.description, instance.number()),
                None => export.description.clone(),
            };
            head(kind, reply::INFO, 2 + words.len(), out);
            out.bytes(&info::DESCRIPTION.to_be_bytes());
            out.bytes(words.as_bytes());
        }
        say(kind, reply::ACK, &[], out);
        if kind == option::GO {
            self.serve(export);
        }
    }

    /// Commands to an export follow.
    fn serve(&mut self, export: Arc<NbdExport>) {
        //= NBD §NBD_OPT_SET_META_CONTEXT: contexts of another export than the chosen one are void.
        self.context = self.context.filter(|of| *of == export.id);
        self.export = export;
        self.stage = Stage::Serving;
        self.recall_losses();
    }
}

/// The name and the information items in the data of GO and INFO.
pub(super) fn asked_of(data: &[u8]) -> Option<(&[u8], &[[u8; 2]])> {
    let (len, rest) = data.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
    let wanted = rest.get(..2).map(|count| usize::from(u16_at(count, 0)))?;
    let fits = rest.len() == 2 + 2 * wanted && name.len() <= EXPORT_MAX_BYTES;
    fits.then(|| (name, rest[2..].as_chunks().0))
}

pub(super) fn head(kind: u32, answer: u32, len: usize, out: &mut Outbox) {
    out.bytes(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.bytes(&kind.to_be_bytes());
    out.bytes(&answer.to_be_bytes());
    out.bytes(&(len as u32).to_be_bytes());
}

pub(super) fn say(kind: u32, answer: u32, data: &[u8], out: &mut Outbox) {
    head(kind, answer, data.len(), out);
    out.bytes(data);
}
