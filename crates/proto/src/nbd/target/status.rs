//! Metadata contexts and block status: which parts of an export are holes.

use block::extents_of;

use crate::flow::is_full;
use crate::{Ending, Outbox};

use super::super::EXPORT_MAX_BYTES;
use super::super::wire::{
    Asked, CHUNK_BYTES, allocation, chunk, chunk_head, command, error, option, reply, simple_reply,
    u32_at,
};
use super::NbdTarget;
use super::command::Work;
use super::negotiate::{head, say};

/// The number of the context on a connection.
const CONTEXT: u32 = 1;
/// Most extents in a reply: each may take some looks at the metadata of a file system.
const EXTENTS_MAX: usize = 64;

impl NbdTarget {
    /// Answers LIST_META_CONTEXT, or selects contexts.
    //= NBD §NBD_OPT_SET_META_CONTEXT: only after structured replies; replaces earlier selections.
    pub(super) fn contexts(&mut self, kind: u32, data: &[u8], out: &mut Outbox) {
        let selects = kind == option::SET_META_CONTEXT;
        if selects {
            self.context = None;
        }
        if selects && !self.structured {
            return say(kind, reply::INVALID, b"structured replies come first", out);
        }
        let Some((name, queries)) = queries_of(data) else {
            return say(kind, reply::INVALID, b"lengths do not match", out);
        };
        let Some(export) = self.exports.now().find(name).cloned() else {
            return say(kind, reply::UNKNOWN, b"no such export", out);
        };
        //= NBD §Metadata querying: a list without queries is of all contexts.
        let wanted = match selects {
            true => queries.contains(&allocation::NAME),
            false => {
                let lists = [allocation::NAME, allocation::NAMESPACE];
                queries.is_empty() || queries.iter().any(|query| lists.contains(query))
            }
        };
        if wanted && export.extents.is_some() {
            head(kind, reply::META_CONTEXT, 4 + allocation::NAME.len(), out);
            //= NBD §NBD_REP_META_CONTEXT: the number in a list has no meaning.
            out.bytes(&(if selects { CONTEXT } else { 0 }).to_be_bytes());
            out.bytes(allocation::NAME);
            if selects {
                self.context = Some(export.id);
            }
        }
        say(kind, reply::ACK, &[], out);
    }

    /// Handles BLOCK_STATUS.
    #[cold]
    pub(super) fn block_status(&mut self, asked: Asked, out: &mut Outbox) -> Result<(), Ending> {
        let mut error = self.check(&asked, command::FUA | command::REQ_ONE, false);
        if self.context.is_none() || asked.len == 0 {
            error = error::INVAL;
        }
        let slot = self.hold(asked, Work::Status)?;
        let held = &mut self.slots[slot];
        held.error = error;
        held.one_extent = asked.flags & command::REQ_ONE != 0;
        self.tell_status(slot, out);
        Ok(())
    }

    /// Replies to BLOCK_STATUS once the outbox has room.
    pub(super) fn tell_status(&mut self, slot: u16, out: &mut Outbox) {
        if is_full(out) {
            return self.starve(slot, out);
        }
        let held = &self.slots[slot];
        let (cookie, offset, len, error) = (held.cookie, held.offset, held.len, held.error);
        let most = if held.one_extent { 1 } else { EXTENTS_MAX };
        let extents = self.export().extents.as_deref().filter(|_| error == 0);
        let list = extents.map(|extents| extents_of(extents, offset, len.into(), most));
        match list {
            Some(list) => {
                let bytes = 4 + list.len() * allocation::DESCRIPTOR_BYTES;
                let kind = chunk::BLOCK_STATUS;
                out.bytes(&chunk_head(chunk::DONE, kind, cookie, bytes as u32));
                out.bytes(&CONTEXT.to_be_bytes());
                for extent in list {
                    let hole = allocation::HOLE | allocation::ZERO;
                    // No extent is longer than the request, whose length has 32 bits.
                    out.bytes(&(extent.bytes as u32).to_be_bytes());
                    out.bytes(&(if extent.is_hole { hole } else { 0 }).to_be_bytes());
                }
            }
            None if self.structured => {
                out.bytes(&chunk_head(chunk::DONE, chunk::ERROR, cookie, 6));
                out.bytes(&(if error == 0 { error::INVAL } else { error }).to_be_bytes());
                out.bytes(&[0; 2]);
            }
            None => out.bytes(&simple_reply(cookie, error)),
        }
        self.release(slot);
    }
}

const _: () = assert!(CHUNK_BYTES + 4 + EXTENTS_MAX * allocation::DESCRIPTOR_BYTES <= 1024);

/// The export's name and the queries in the data of an option.
//= NBD §NBD_OPT_LIST_META_CONTEXT: name, number of queries, and each with its length.
fn queries_of(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, rest) = string(data)?;
    let (count, mut rest) = (rest.first_chunk::<4>()?, rest.get(4..)?);
    let count = u32_at(count, 0) as usize;
    // Each query has at least its length.
    if count > rest.len() / 4 {
        return None;
    }
    let mut queries = Vec::with_capacity(count);
    for _ in 0..count {
        let (query, behind) = string(rest)?;
        queries.push(query);
        rest = behind;
    }
    rest.is_empty().then_some((name, queries))
}

/// Returns a string after its length, and the rest.
fn string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first_chunk::<4>()?;
    let len = u32::from_be_bytes(*len) as usize;
    if len > EXPORT_MAX_BYTES { None } else { rest.split_at_checked(len) }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn queries_have_lengths_that_match() {
        let word = |text: &[u8]| [&(text.len() as u32).to_be_bytes()[..], text].concat();
        let of = |parts: &[Vec<u8>]| parts.concat();
        let (count, name) = (|count: u32| count.to_be_bytes().to_vec(), word(b"disk"));
        let one = of(&[name.clone(), count(1), word(b"base:")]);
        assert_eq!(queries_of(&one), Some((&b"disk"[..], vec![&b"base:"[..]])));
        let none = of(&[name.clone(), count(0)]);
        assert_eq!(queries_of(&none), Some((&b"disk"[..], vec![])));
        for bad in [
            of(&[name.clone(), count(2), word(b"base:")]),
            of(&[name.clone(), count(u32::MAX), word(b"base:")]),
            of(&[name.clone(), count(0), vec![0]]),
            of(&[count(u32::MAX), name.clone(), count(0)]),
            one[..one.len() - 1].to_vec(),
            name,
            Vec::new(),
        ] {
            assert_eq!(queries_of(&bad), None, "{bad:?}");
        }
    }
}
