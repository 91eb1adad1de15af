//! The second stage: compresses extents into frames, and assigns an offset to each.

use std::sync::atomic::Ordering;

use super::Codec;
use super::shared::{Packed, Raw, Shared, full};
use crate::format::{FRAME_HEAD_BYTES, FrameHead, checksum};
use crate::stage::Watch;

/// Compresses until the readers have ended.
pub(super) fn pack(shared: &Shared, watch: &mut Watch) {
    while let Some(raw) = shared.raw.take() {
        watch.starved();
        let Some(out) = shared.room.take() else { return };
        watch.blocked();
        let packed = frame(shared, &raw, out);
        if packed.at + packed.len as u64 > shared.target.capacity_bytes() {
            let kept = shared.read_bytes.load(Ordering::Relaxed);
            return shared.fail(full(shared.target, shared.listed, kept));
        }
        shared.frames.fetch_add(1, Ordering::Relaxed);
        watch.worked();
        // The queue has room for all buffers.
        if shared.free.give(raw.buf).is_err() || shared.packed.give(packed).is_err() {
            return;
        }
        watch.blocked();
    }
    watch.starved();
}

/// Makes a frame of an extent.
fn frame(shared: &Shared, raw: &Raw, mut out: block::Buf) -> Packed {
    let bytes = &raw.buf[..raw.len];
    let data = &mut out[FRAME_HEAD_BYTES..];
    let smaller = match shared.options.codec {
        Codec::Lz4 => lz4_flex::block::compress_into(bytes, data).ok(),
        Codec::Stored => None,
    };
    let smaller = smaller.filter(|len| *len < raw.len);
    if smaller.is_none() {
        data[..raw.len].copy_from_slice(bytes);
    }
    let mut frame = FrameHead {
        id: shared.head.id,
        at: 0,
        entry: raw.entry,
        offset: raw.offset,
        source_bytes: raw.len as u32,
        stored_bytes: smaller.unwrap_or(raw.len) as u32,
        compressed: smaller.is_some(),
        crc: checksum(bytes),
    };
    let len = frame.whole_bytes(shared.head.align as usize);
    out[FRAME_HEAD_BYTES + frame.stored_bytes as usize..len].fill(0);
    frame.at = shared.next_at.fetch_add(len as u64, Ordering::Relaxed);
    frame.put(&mut out);
    Packed { at: frame.at, len, source_bytes: raw.len as u64, buf: out }
}
