//! Messages between ranks: one tag, fixed fields in little-endian order, and a body.

use block::Nanos;

/// Longest body: a part of some thousand workers has some megabytes.
pub const BODY_MAX_BYTES: usize = 64 << 20;

/// A message. Rounds number the orders of the leader from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Leader: asks for the time.
    Ping {
        /// Number, which the answer repeats.
        number: u32,
    },
    /// Leader: work, in the words of whoever runs it.
    Order {
        /// Round.
        round: u32,
        /// The work.
        body: Vec<u8>,
    },
    /// Leader: begin at an instant of the follower's own clock.
    Start {
        /// Round.
        round: u32,
        /// The instant.
        at: Nanos,
    },
    /// Leader: end the round early, with a part of what there is.
    Stop {
        /// Round.
        round: u32,
    },
    /// Leader: the work is done.
    Leave,
    /// Both: a sign of life.
    Beat,
    /// Follower: facts about its host.
    Hello {
        /// The facts.
        body: Vec<u8>,
    },
    /// Follower: its time.
    Pong {
        /// Number of the [`Ping`](Message::Ping).
        number: u32,
        /// The rank's clock.
        clock: Nanos,
    },
    /// Both: words between order and start, of whoever runs the work.
    Word {
        /// Round.
        round: u32,
        /// The words.
        body: Vec<u8>,
    },
    /// Follower: can begin.
    Ready {
        /// Round.
        round: u32,
    },
    /// Follower: cannot do the work.
    Refused {
        /// Round.
        round: u32,
        /// Why.
        why: String,
    },
    /// Follower: figures of the past second.
    Second {
        /// Round.
        round: u32,
        /// The figures.
        body: Vec<u8>,
    },
    /// Follower: the part so far, in case the follower is lost.
    Draft {
        /// Round.
        round: u32,
        /// Beginning and end of what is in it, by the follower's own clock.
        window: (Nanos, Nanos),
        /// The part.
        body: Vec<u8>,
    },
    /// Follower: its part, whole.
    Part {
        /// Round.
        round: u32,
        /// Beginning and end of its measured window, by the follower's own clock.
        window: (Nanos, Nanos),
        /// The part.
        body: Vec<u8>,
    },
}

const PING: u8 = 1;
const ORDER: u8 = 2;
const START: u8 = 3;
const STOP: u8 = 4;
const LEAVE: u8 = 5;
const BEAT: u8 = 6;
const HELLO: u8 = 7;
const PONG: u8 = 8;
const READY: u8 = 9;
const REFUSED: u8 = 10;
const SECOND: u8 = 11;
const DRAFT: u8 = 12;
const PART: u8 = 13;
const WORD: u8 = 14;

impl Message {
    /// Returns the bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let (tag, number, instants, body): (u8, Option<u32>, &[Nanos], &[u8]) = match self {
            Message::Ping { number } => (PING, Some(*number), &[], &[]),
            Message::Order { round, body } => (ORDER, Some(*round), &[], body),
            Message::Word { round, body } => (WORD, Some(*round), &[], body),
            Message::Start { round, at } => (START, Some(*round), std::slice::from_ref(at), &[]),
            Message::Stop { round } => (STOP, Some(*round), &[], &[]),
            Message::Leave => (LEAVE, None, &[], &[]),
            Message::Beat => (BEAT, None, &[], &[]),
            Message::Hello { body } => (HELLO, None, &[], body),
            Message::Pong { number, clock } => {
                (PONG, Some(*number), std::slice::from_ref(clock), &[])
            }
            Message::Ready { round } => (READY, Some(*round), &[], &[]),
            Message::Refused { round, why } => (REFUSED, Some(*round), &[], why.as_bytes()),
            Message::Second { round, body } => (SECOND, Some(*round), &[], body),
            Message::Draft { round, window, body } => {
                (DRAFT, Some(*round), &[window.0, window.1], body)
            }
            Message::Part { round, window, body } => {
                (PART, Some(*round), &[window.0, window.1], body)
            }
        };
        let mut bytes = Vec::with_capacity(1 + 4 + 16 + body.len());
        bytes.push(tag);
        number.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        instants.iter().for_each(|instant| bytes.extend(instant.0.to_le_bytes()));
        bytes.extend(body);
        bytes
    }

    /// Reads a message; `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let (tag, mut rest) = bytes.split_first()?;
        let from = &mut rest;
        let message = match *tag {
            PING => Message::Ping { number: number(from)? },
            ORDER => Message::Order { round: number(from)?, body: body(from)? },
            WORD => Message::Word { round: number(from)?, body: body(from)? },
            START => Message::Start { round: number(from)?, at: instant(from)? },
            STOP => Message::Stop { round: number(from)? },
            LEAVE => Message::Leave,
            BEAT => Message::Beat,
            HELLO => Message::Hello { body: body(from)? },
            PONG => Message::Pong { number: number(from)?, clock: instant(from)? },
            READY => Message::Ready { round: number(from)? },
            REFUSED => {
                let round = number(from)?;
                let why = String::from_utf8_lossy(&body(from)?).into_owned();
                Message::Refused { round, why }
            }
            SECOND => Message::Second { round: number(from)?, body: body(from)? },
            DRAFT => {
                let (round, window) = (number(from)?, (instant(from)?, instant(from)?));
                Message::Draft { round, window, body: body(from)? }
            }
            PART => {
                let (round, window) = (number(from)?, (instant(from)?, instant(from)?));
                Message::Part { round, window, body: body(from)? }
            }
            _ => return None,
        };
        rest.is_empty().then_some(message)
    }
}

fn number(from: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u32::from_le_bytes(*bytes))
}

fn instant(from: &mut &[u8]) -> Option<Nanos> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(Nanos(u64::from_le_bytes(*bytes)))
}

fn body(from: &mut &[u8]) -> Option<Vec<u8>> {
    let bytes = std::mem::take(from);
    (bytes.len() <= BODY_MAX_BYTES).then(|| bytes.to_vec())
}

#[cfg(test)]
mod test {
    use super::*;

    fn all() -> Vec<Message> {
        let (round, body, window) = (7, b"body".to_vec(), (Nanos(3), Nanos(u64::MAX)));
        vec![
            Message::Ping { number: 1 },
            Message::Order { round, body: body.clone() },
            Message::Word { round, body: body.clone() },
            Message::Start { round, at: Nanos(5) },
            Message::Stop { round },
            Message::Leave,
            Message::Beat,
            Message::Hello { body: body.clone() },
            Message::Pong { number: 1, clock: Nanos(9) },
            Message::Ready { round },
            Message::Refused { round, why: "no such file".to_owned() },
            Message::Second { round, body: Vec::new() },
            Message::Draft { round, window, body: body.clone() },
            Message::Part { round, window, body },
        ]
    }

    #[test]
    fn every_message_is_read_back() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    /// Cut, longer or unknown bytes are no message, or one whose body is as long as the bytes.
    #[test]
    fn other_bytes_are_no_message() {
        assert_eq!(Message::decode(&[]), None);
        assert_eq!(Message::decode(&[0]), None);
        assert_eq!(Message::decode(&[15, 0, 0, 0, 0]), None);
        for message in all() {
            let bytes = message.encode();
            for cut in 0..bytes.len() {
                if let Some(other) = Message::decode(&bytes[..cut]) {
                    assert_eq!(other.encode(), &bytes[..cut]);
                }
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x55;
                let _ = Message::decode(&changed);
            }
        }
        let long = Message::Beat.encode().into_iter().chain([0]).collect::<Vec<u8>>();
        assert_eq!(Message::decode(&long), None);
    }
}
