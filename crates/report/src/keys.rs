//! Keys of a terminal, and whether the terminal is still connected.
//!
//! A read of a closed terminal returns 0 bytes at once, each time: this is not a key.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// `q` or Ctrl-C.
    Stop,
    /// `p`.
    Hold,
    /// `?`: explains the view.
    Help,
}

/// The terminal is closed: no input, no output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// State of the key parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyState {
    /// The next byte is a key.
    #[default]
    Key,
    /// After ESC.
    Escape,
    /// In a longer sequence, which a letter ends.
    Sequence,
}

/// Reads the keys of standard input, a raw terminal.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    place: KeyState,
}

impl Keys {
    /// The keys that were pressed; waits for so long if there are none.
    pub(crate) fn listen(&mut self, patience: Duration) -> Result<Vec<Key>, Gone> {
        let (input, drawn) = (io::stdin(), io::stderr());
        let mut both =
            [PollFd::new(&input, PollFlags::IN), PollFd::new(&drawn, PollFlags::empty())];
        let patience = Timespec::try_from(patience).expect("it is short");
        match poll(&mut both, Some(&patience)) {
            Ok(0) => {
                // ESC alone is a key, too, and later bytes are other keys.
                self.place = KeyState::Key;
                return Ok(Vec::new());
            }
            Ok(_) => {}
            Err(Errno::INTR | Errno::AGAIN) => return Ok(Vec::new()),
            Err(_) => return Err(Gone),
        }
        let lost = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        if both.iter().any(|terminal| terminal.revents().intersects(lost)) {
            return Err(Gone);
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&input, &mut bytes) {
            Ok(0) => Err(Gone),
            Ok(len) => Ok(bytes[..len].iter().filter_map(|byte| self.key(*byte)).collect()),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
            // The terminal was closed in the meantime, or is no longer the controlling terminal.
            Err(_) => Err(Gone),
        }
    }

    /// Returns the key of a byte. Arrows and other keys are sequences, whose letters are no keys.
    fn key(&mut self, byte: u8) -> Option<Key> {
        const ESC: u8 = 0x1b;
        const CTRL_C: u8 = 3;
        let (key, place) = match (self.place, byte) {
            // The terminal is raw: Ctrl-C arrives as a key and not as a signal.
            (_, CTRL_C) => (Some(Key::Stop), KeyState::Key),
            (_, ESC) => (None, KeyState::Escape),
            (KeyState::Key, b'q') => (Some(Key::Stop), KeyState::Key),
            (KeyState::Key, b'p') => (Some(Key::Hold), KeyState::Key),
            (KeyState::Key, b'?' | b'h') => (Some(Key::Help), KeyState::Key),
            (KeyState::Key, _) => (None, KeyState::Key),
            (KeyState::Escape, b'[' | b'O') => (None, KeyState::Sequence),
            (KeyState::Escape, _) | (KeyState::Sequence, b'@'..=b'~') => (None, KeyState::Key),
            (KeyState::Sequence, _) => (None, KeyState::Sequence),
        };
        self.place = place;
        key
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        bytes.iter().filter_map(|byte| keys.key(*byte)).collect()
    }

    #[test]
    fn keys_mean_what_the_footer_says() {
        assert_eq!(keys(b"q"), [Key::Stop]);
        assert_eq!(keys(b"?\x1b[?"), [Key::Help]);
        assert_eq!(keys(b"\x03"), [Key::Stop]);
        assert_eq!(keys(b"xcQP p"), [Key::Hold]);
    }

    #[test]
    fn longer_keys_are_no_letters() {
        // Arrows, F1, Alt-q, a mouse click, and a terminal's report.
        assert_eq!(keys(b"\x1b[A\x1bOp\x1bq\x1b[<0;1;2M\x1b[1;5q"), []);
        assert_eq!(keys(b"\x1b[A\x03"), [Key::Stop]);
        assert_eq!(keys(b"\x1b[1;\x03q"), [Key::Stop, Key::Stop]);
        assert_eq!(keys(b"\x1b\x1b[Aqp"), [Key::Stop, Key::Hold]);
    }
}
