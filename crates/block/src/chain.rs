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
            Piece::Owned { buf, len } => (buf[..*len].as_ptr(), *len),
            Piece::Shared { memory, offset, len } => (memory.at(*offset, *len).cast_const(), *len),
        }
    }
}

/// What one send carries: pieces in order, kept alive until the kernel has taken the bytes.
#[derive(Debug, Default)]
pub struct Chain {
    pieces: Vec<Piece>,
    len_bytes: usize,
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

    /// Empties the chain and gives its buffers back to the pool that lent them.
    pub fn recycle(&mut self, pool: &Pool) {
        self.len_bytes = 0;
        for piece in self.pieces.drain(..) {
            if let Piece::Owned { buf, .. } = piece {
                pool.give(buf);
            }
        }
    }
}
