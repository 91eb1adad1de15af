//! The keys of a terminal, and whether the terminal is still there.
//!
//! A read of a terminal that is gone ends at once and without a byte, for ever: it is no key.

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
    /// `?`: what is shown, in words.
    Help,
}

/// The terminal is gone: nobody types there any more, and nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// Where a byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyState {
    /// It is a key.
    #[default]
    Key,
    /// Behind ESC.
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
                // ESC alone is a key, too, and what comes later is another one.
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
            // It went away since, or is no longer ours.
            Err(_) => Err(Gone),
        }
    }

    /// What a byte means. Arrows and other keys are sequences of several: none of them is a letter.
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
        // Arrows, F1, Alt-q, a click, and what a terminal says of itself.
        assert_eq!(keys(b"\x1b[A\x1bOp\x1bq\x1b[<0;1;2M\x1b[1;5q"), []);
        assert_eq!(keys(b"\x1b[A\x03"), [Key::Stop]);
        assert_eq!(keys(b"\x1b[1;\x03q"), [Key::Stop, Key::Stop]);
        assert_eq!(keys(b"\x1b\x1b[Aqp"), [Key::Stop, Key::Hold]);
    }
}
