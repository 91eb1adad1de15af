//! Bytes to be sent at once, gathered from several buffers (an iovec).

use crate::{Buf, Memory, Pool};

/// A part of a [`Chain`].
#[derive(Debug)]
pub enum Piece {
    /// The first `len` bytes of a buffer that returns to its pool once they are sent.
    Owned {
        /// The buffer.
        buf: Buf,
        /// Number of bytes.
        len: usize,
    },
    /// A buffer of a zero-copy ring: see [`Lap`](crate::Lap).
    Lent(Buf),
    /// Bytes of a volume, sent in place.
    Shared {
        /// The memory.
        memory: Memory,
        /// Offset of the bytes.
        offset: u64,
        /// Number of bytes.
        len: usize,
    },
}

impl Piece {
    /// Address and length, valid as long as the piece is kept.
    pub fn as_raw(&self) -> (*const u8, usize) {
        match self {
            Piece::Owned { buf, len } => {
                assert!(*len <= buf.len(), "a piece lies in its buffer");
                (buf.address().as_ptr().cast_const(), *len)
            }
            Piece::Lent(buf) => (buf.address().as_ptr().cast_const(), buf.len()),
            Piece::Shared { memory, offset, len } => (memory.at(*offset, *len).cast_const(), *len),
        }
    }

    /// A copy of the bytes, for inspection or to send without io_uring.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Piece::Owned { buf, len } => buf[..*len].to_vec(),
            Piece::Lent(buf) => buf.to_vec(),
            Piece::Shared { memory, offset, len } => {
                let mut bytes = vec![0; *len];
                memory.read(*offset, &mut bytes);
                bytes
            }
        }
    }
}

/// The data of one send: pieces in order, kept alive until the kernel has taken them.
#[derive(Debug, Default)]
pub struct Chain {
    pieces: Vec<Piece>,
    len_bytes: usize,
    /// The kernel got the lent pieces by reference (zero-copy).
    referred: bool,
}

impl Chain {
    /// Appends a piece.
    pub fn push(&mut self, piece: Piece) {
        self.len_bytes += piece.as_raw().1;
        self.pieces.push(piece);
    }

    /// The pieces in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Total length in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len_bytes == 0
    }

    /// Whether all of it may be sent zero-copy.
    pub fn may_refer(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Lent(_)))
    }

    /// Notes that at least a part of it was sent zero-copy.
    pub fn refer(&mut self) {
        self.referred = true;
    }

    /// Whether at least a part of it was sent zero-copy.
    pub fn was_referred(&self) -> bool {
        self.referred
    }

    /// Empties the chain and returns its buffers: those of the pool to `pool`, those of a ring to
    /// `lent`.
    pub fn recycle_with(&mut self, pool: &Pool, mut lent: impl FnMut(Buf)) {
        self.len_bytes = 0;
        self.referred = false;
        for piece in self.pieces.drain(..) {
            match piece {
                Piece::Owned { buf, .. } => pool.give(buf),
                Piece::Lent(buf) => lent(buf),
                Piece::Shared { .. } => {}
            }
        }
    }

    /// Returns the buffers of a chain that was sent whole. A chain with ring buffers stays
    /// unchanged: the ring's owner must return them in order.
    pub fn recycle_sent(&mut self, pool: &Pool) {
        if !self.pieces.iter().any(|piece| matches!(piece, Piece::Lent(_))) {
            self.recycle(pool);
        }
    }

    /// Returns the buffers of a chain whose ring, if any, is gone.
    pub fn recycle(&mut self, pool: &Pool) {
        self.recycle_with(pool, drop);
    }
}
