//! Registrations and the reservation as a text, which outlives the server.
//!
//! A line for each: the type with its holder, and each key with its party. The last line has a
//! checksum of those before it.

use crate::crc32c::crc32c;

use super::{Held, Kind, Nexus, REGISTRATIONS_MAX, Registration, Reservations};

/// The first line.
const HEAD: &str = "drumfire reservations 1";

/// A record that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct RecordError {
    /// Line, from 1.
    pub line: usize,
    /// Reason.
    pub why: &'static str,
}

impl Reservations {
    /// The record of what persists: nothing unless a host has asked for it.
    pub(crate) fn record(&self) -> String {
        let mut text = format!("{HEAD}\n");
        if self.persists {
            if let Some(held) = &self.held {
                text += &format!("type {} {}\n", held.kind as u8, party(&held.holder));
            }
            for registration in &self.registrations {
                text += &format!("key {:016x} {}\n", registration.key, party(&registration.nexus));
            }
        }
        text += &format!("end {:08x}\n", crc32c(text.as_bytes()));
        text
    }

    /// The state that a record has.
    pub(crate) fn of_record(text: &str) -> Result<Reservations, RecordError> {
        let count = text.lines().count();
        let wrong = |line, why| RecordError { line, why };
        let cut = text.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
        let (body, end) = text.split_at(cut);
        if end != format!("end {:08x}\n", crc32c(body.as_bytes())) {
            return Err(wrong(count.max(1), "the checksum is not that of the lines before it"));
        }
        let mut all = Reservations::default();
        for (line, words) in (1..).zip(body.lines()) {
            if line == 1 {
                if words != HEAD {
                    return Err(wrong(line, "another format"));
                }
                continue;
            }
            all.take(words).map_err(|why| wrong(line, why))?;
        }
        let is_held = all.held.as_ref().is_none_or(|held| match held.kind.is_of_all() {
            true => !all.registrations.is_empty(),
            false => all.key_of(&held.holder).is_some(),
        });
        if !is_held {
            return Err(wrong(count, "nobody who is registered holds the reservation"));
        }
        all.persists = !all.registrations.is_empty();
        Ok(all)
    }

    /// Takes over a line.
    fn take(&mut self, line: &str) -> Result<(), &'static str> {
        let (word, rest) = line.split_once(' ').ok_or("a word is missing")?;
        let (value, party) = rest.split_once(' ').ok_or("a word is missing")?;
        let nexus = nexus(party).ok_or("no initiator port and no host")?;
        match word {
            "type" if self.held.is_none() => {
                let kind = value.parse().ok().and_then(Kind::of_code).ok_or("an unknown type")?;
                self.held = Some(Held { kind, holder: nexus });
                Ok(())
            }
            "key" if self.key_of(&nexus).is_some() => Err("the party has a key already"),
            "key" if self.registrations.len() >= REGISTRATIONS_MAX => Err("too many keys"),
            "key" => {
                let key = bytes_of(value).map(u64::from_be_bytes).filter(|key| *key != 0);
                let key = key.ok_or("no key")?;
                self.registrations.push(Registration { nexus, key });
                Ok(())
            }
            _ => Err("an unknown word"),
        }
    }
}

/// A party as two or three words.
fn party(nexus: &Nexus) -> String {
    match nexus {
        Nexus::Port { name, isid } => format!("port {} {}", hexadecimal(isid), escaped(name)),
        Nexus::Host(id) => format!("host {}", hexadecimal(id)),
    }
}

fn nexus(party: &str) -> Option<Nexus> {
    match party.split_once(' ')? {
        ("host", id) => bytes_of(id).map(Nexus::Host),
        ("port", rest) => {
            let (isid, name) = rest.split_once(' ')?;
            Some(Nexus::Port { name: plain(name)?, isid: bytes_of(isid)? })
        }
        _ => None,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Exactly `N` bytes of lower-case digits.
fn bytes_of<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// A name without blanks: other bytes than printable ASCII, and percent signs, become `%xx`.
fn escaped(name: &str) -> String {
    let of = |byte: u8| match byte {
        b'%' => "%25".to_owned(),
        byte if byte.is_ascii_graphic() => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    name.bytes().map(of).collect()
}

fn plain(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.extend(bytes_of::<1>(std::str::from_utf8(digits).ok()?)?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod test {
    use super::super::{Action, ReserveOut};
    use super::*;

    fn sample() -> Reservations {
        let mut all = Reservations::default();
        let port = Nexus::Port { name: "iqn.a:ü %\n".to_owned(), isid: [0x80, 1, 2, 3, 4, 5] };
        for (at, nexus) in [port.clone(), Nexus::Host([7; 16])].iter().enumerate() {
            let (action, kind) = (Action::Register { ignore: true }, None);
            let service_key = 0x1234 + at as u64;
            let persist = Some(true);
            all.change(nexus, &ReserveOut { action, kind, key: 0, service_key, persist }).unwrap();
        }
        let kind = Some(Kind::ExclusiveAccess);
        let (action, persist) = (Action::Reserve, None);
        all.change(&port, &ReserveOut { action, kind, key: 0x1234, service_key: 0, persist })
            .unwrap();
        all
    }

    #[test]
    fn golden() {
        let record = sample().record();
        let expect = "drumfire reservations 1\n\
            type 3 port 800102030405 iqn.a:%c3%bc%20%25%0a\n\
            key 0000000000001234 port 800102030405 iqn.a:%c3%bc%20%25%0a\n\
            key 0000000000001235 host 07070707070707070707070707070707\n";
        assert_eq!(record, format!("{expect}end {:08x}\n", crc32c(expect.as_bytes())));
        let again = Reservations::of_record(&record).unwrap();
        assert_eq!(again.record(), record);
        assert_eq!((again.held(), again.generation()), (sample().held(), 0));
        assert!(again.persist());
        let none = Reservations::default().record();
        assert_eq!(none.lines().count(), 2);
        assert!(!Reservations::of_record(&none).unwrap().persist());
    }

    #[test]
    fn every_damage_is_found() {
        let record = sample().record();
        for at in 0..record.len() {
            for cut in [&record[..at], ""] {
                assert!(Reservations::of_record(cut).is_err(), "cut at {at}");
            }
            let mut bytes = record.clone().into_bytes();
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    assert!(Reservations::of_record(text).is_err(), "byte {at}, bit {bit}");
                }
                bytes[at] ^= 1 << bit;
            }
        }
        let of = |body: &str| {
            let body = format!("{HEAD}\n{body}");
            let end = format!("end {:08x}\n", crc32c(body.as_bytes()));
            Reservations::of_record(&(body + &end)).map(drop).map_err(|error| error.line)
        };
        let host = "host 07070707070707070707070707070707";
        assert_eq!(of(&format!("key 0000000000000001 {host}\n")), Ok(()));
        for (body, line) in [
            ("\n".to_owned(), 2),
            ("key\n".to_owned(), 2),
            (format!("key 1 {host}\n"), 2),
            (format!("key 0000000000000000 {host}\n"), 2),
            (format!("key +000000000000001 {host}\n"), 2),
            (format!("key 0000000000000001 {host}0\n"), 2),
            ("key 0000000000000001 port 800102030405 iqn%0\n".to_owned(), 2),
            ("key 0000000000000001 port 800102030405 iqn%ff\n".to_owned(), 2),
            (format!("key 0000000000000001 {host}\nkey 0000000000000002 {host}\n"), 3),
            (format!("type 2 {host}\n"), 2),
            (format!("type 3 {host}\n"), 3),
            (format!("lock 1 {host}\n"), 2),
            (format!("type 7 {host}\n"), 3),
        ] {
            assert_eq!(of(&body), Err(line), "{body}");
        }
        let many: String = (0..=REGISTRATIONS_MAX)
            .map(|at| format!("key 0000000000000001 host {at:032x}\n"))
            .collect();
        assert_eq!(of(&many), Err(REGISTRATIONS_MAX + 2));
    }
}
