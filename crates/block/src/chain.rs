//! Bytes to be sent in one go, gathered from several places.

use crate::{Buf, Memory, Pool};

/// A part of a [`Chain`].
#[derive(Debug)]
pub enum Piece {
    /// The first `len` bytes of a buffer that goes back to its pool when they are sent.
    Owned {
        /// Holds the bytes.
        buf: Buf,
        /// How many of them.
        len: usize,
    },
    /// A buffer of a ring. It may be sent by reference: see [`Lap`](crate::Lap).
    Lent(Buf),
    /// Bytes of a volume, sent from where they lie.
    Shared {
        /// Holds the bytes.
        memory: Memory,
        /// Where they begin.
        offset: u64,
        /// How many.
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

    /// A copy of the bytes: for those who look at them, or send them without a ring.
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

/// What one send carries: pieces in order, kept alive until the kernel has taken the bytes.
#[derive(Debug, Default)]
pub struct Chain {
    pieces: Vec<Piece>,
    len_bytes: usize,
    /// The kernel was given the lent pieces by reference.
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

    /// Whether all of it may be sent by reference.
    pub fn may_refer(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Lent(_)))
    }

    /// Notes that at least a part of it was sent by reference.
    pub fn refer(&mut self) {
        self.referred = true;
    }

    /// Whether at least a part of it was sent by reference.
    pub fn was_referred(&self) -> bool {
        self.referred
    }

    /// Empties the chain and gives its buffers back: those of the pool to `pool`, those of a ring
    /// to `lent`.
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

    /// The same for a chain that was sent whole. One with pieces of a ring stays as it is: whoever
    /// has the ring must see in which order they come back.
    pub fn recycle_sent(&mut self, pool: &Pool) {
        if !self.pieces.iter().any(|piece| matches!(piece, Piece::Lent(_))) {
            self.recycle(pool);
        }
    }

    /// The same where the ring, if there is one, is gone.
    pub fn recycle(&mut self, pool: &Pool) {
        self.recycle_with(pool, drop);
    }
}
