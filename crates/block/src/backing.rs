//! Backing store of a volume, and the line by which a server describes it to its peers.
//!
//! INQUIRY and Identify have no field for it. A server of this project sends the line in the bytes
//! that the standards leave to vendors; products of targets and the source of an attached file's
//! mount have a word of it. So figures of an emulated drive are never taken for those of a medium,
//! on whatever side of a network they are measured. A peer may lie: the line makes a result worse,
//! never better.

use crate::printable;

/// Begins the line.
const KEY: &str = "backing=";
/// Longest line, in bytes.
pub const BACKING_BYTES_MAX: usize = 240;

/// Backing store of a volume, from the most certain to the one that says least of a medium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backing {
    /// A file or device.
    Medium,
    /// Not known.
    #[default]
    Unknown,
    /// Memory.
    Memory,
    /// Discards writes.
    Nothing,
    /// A store with injected faults, in a sentence.
    Faulty(String),
    /// An emulated drive, in a sentence.
    Emulated(String),
}

impl Backing {
    /// Parses the line in text of a peer; `None` if the text has none. Words that this version does
    /// not know are [`Unknown`](Self::Unknown).
    pub fn parse(text: &str) -> Option<Backing> {
        let line = text.trim_matches(['\0', ' ']).strip_prefix(KEY)?;
        let (word, sentence) = line.split_once(": ").unwrap_or((line, ""));
        let sentence = || match cut(sentence) {
            "" => format!("a drive that its server describes as {word}"),
            words => printable(words).into_owned(),
        };
        Some(match word {
            "medium" => Backing::Medium,
            "memory" => Backing::Memory,
            "nothing" => Backing::Nothing,
            "faulty" => Backing::Faulty(sentence()),
            "emulated" | "simulated" => Backing::Emulated(sentence()),
            _ => Backing::Unknown,
        })
    }

    /// Finds the line at the end of a description: the words before the line, and the backing.
    pub fn split(description: &str) -> (&str, Option<Backing>) {
        let Some(at) = description.find(KEY) else { return (description, None) };
        (description[..at].trim_end_matches([' ', ',']), Backing::parse(&description[at..]))
    }

    /// Returns the backing in a product name of this project's targets, `DRUMFIRE EMULATED DRIVE`,
    /// or in the source of an attached file's mount, `drumfire-emulated`: initiators of the kernel
    /// and loop devices show nothing else.
    pub fn of_product(product: &str) -> Option<Backing> {
        let upper = product.to_uppercase();
        let mut words = upper.split([' ', '-']);
        words.next().filter(|first| *first == "DRUMFIRE")?;
        let called =
            |what: &str| format!("{what}, described by its server as '{}'", printable(product));
        let of_word = |word| match word {
            "EMULATED" => Backing::Emulated(called("an emulated drive")),
            "FAULTY" => Backing::Faulty(called("a drive with injected faults")),
            "NULL" | "NOTHING" => Backing::Nothing,
            "RAM" | "MEMORY" => Backing::Memory,
            _ => Backing::Unknown,
        };
        Some(words.map(of_word).reduce(Backing::with).unwrap_or_default())
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Backing::Medium => "medium",
            Backing::Unknown => "unknown",
            Backing::Memory => "memory",
            Backing::Nothing => "nothing",
            Backing::Faulty(_) => "faulty",
            Backing::Emulated(_) => "emulated",
        }
    }

    /// The line, of at most [`BACKING_BYTES_MAX`] bytes.
    pub fn line(&self) -> String {
        let line = match self.imitates() {
            Some(sentence) => format!("{KEY}{}: {sentence}", self.word()),
            None => format!("{KEY}{}", self.word()),
        };
        cut(&line).to_owned()
    }

    /// Returns the description of the emulation or the injected faults; `None` for other stores.
    pub fn imitates(&self) -> Option<&str> {
        match self {
            Backing::Faulty(words) | Backing::Emulated(words) => Some(words),
            Backing::Medium | Backing::Unknown | Backing::Memory | Backing::Nothing => None,
        }
    }

    /// Returns the backing of a volume that consists of this and another part: that of the part
    /// which is less of a medium.
    #[must_use]
    pub fn with(self, other: Backing) -> Backing {
        let (worse, other) = if other.rank() > self.rank() { (other, self) } else { (self, other) };
        let Some(more) = other.imitates() else { return worse };
        let joined = |words: String| match words.contains(more) {
            true => words,
            false => format!("{words}; {more}"),
        };
        match worse {
            Backing::Emulated(words) => Backing::Emulated(joined(words)),
            Backing::Faulty(words) => Backing::Faulty(joined(words)),
            worse => worse,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Backing::Medium => 0,
            Backing::Unknown => 1,
            Backing::Memory => 2,
            Backing::Nothing => 3,
            Backing::Faulty(_) => 4,
            Backing::Emulated(_) => 5,
        }
    }
}

/// The first [`BACKING_BYTES_MAX`] bytes of a text, or some less where a character would be cut.
fn cut(text: &str) -> &str {
    let most = text.len().min(BACKING_BYTES_MAX);
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod test {
    use super::*;

    fn emulated(words: &str) -> Backing {
        Backing::Emulated(words.to_owned())
    }

    #[test]
    fn lines_golden() {
        let lines = [
            (Backing::Medium, "backing=medium"),
            (Backing::Unknown, "backing=unknown"),
            (Backing::Memory, "backing=memory"),
            (Backing::Nothing, "backing=nothing"),
            (Backing::Faulty("a: b".to_owned()), "backing=faulty: a: b"),
            (emulated("emulates X25-M"), "backing=emulated: emulates X25-M"),
        ];
        for (backing, line) in lines {
            assert_eq!(backing.line(), line);
            assert_eq!(Backing::parse(line).as_ref(), Some(&backing));
            assert_eq!(Backing::parse(&format!("{line}\0\0  ")), Some(backing));
        }
    }

    #[test]
    fn a_line_of_strangers_is_harmless() {
        for text in ["", "backing", "Backing=memory", "a backing=memory"] {
            assert_eq!(Backing::parse(text), None, "{text}");
        }
        assert_eq!(Backing::parse("backing="), Some(Backing::Unknown));
        assert_eq!(Backing::parse("backing=glass: x"), Some(Backing::Unknown));
        let told = Backing::parse("backing=simulated").unwrap();
        assert_eq!(told, emulated("a drive that its server describes as simulated"));
        let evil = format!("backing=emulated: \u{1b}[2J{}", "ä".repeat(4096));
        let told = Backing::parse(&evil).unwrap();
        assert!(told.line().len() <= BACKING_BYTES_MAX && !told.line().contains('\u{1b}'));
    }

    #[test]
    fn a_description_is_split() {
        let words = "Drumfire EMULATED DRIVE, backing=emulated: emulates cd6";
        let expect = ("Drumfire EMULATED DRIVE", Some(emulated("emulates cd6")));
        assert_eq!(Backing::split(words), expect);
        assert_eq!(Backing::split("a disk"), ("a disk", None));
    }

    #[test]
    fn a_product_tells() {
        let of = |name| Backing::of_product(name).map(|backing| backing.word());
        assert_eq!(of("DRUMFIRE EMULATED STRIPE"), Some("emulated"));
        assert_eq!(of("Drumfire FAULTY VOLUME"), Some("faulty"));
        assert_eq!(of("Drumfire RAM"), Some("memory"));
        assert_eq!(of("Drumfire FILE"), Some("unknown"));
        assert_eq!(of("drumfire-memory"), Some("memory"));
        assert_eq!(of("drumfire-medium"), Some("unknown"), "a word makes nothing better");
        assert_eq!([of("LIO-ORG EMULATED"), of("DRUMFIREMAN RAM")], [None, None]);
    }

    #[test]
    fn the_worst_part_tells_for_the_whole() {
        let all = [Backing::Medium, Backing::Unknown, Backing::Memory, Backing::Nothing];
        for (at, backing) in all.iter().enumerate() {
            for worse in &all[at..] {
                assert_eq!(&backing.clone().with(worse.clone()), worse);
                assert_eq!(&worse.clone().with(backing.clone()), worse);
            }
            assert_eq!(emulated("x").with(backing.clone()), emulated("x"));
        }
        let faulty = Backing::Faulty("y".to_owned());
        assert_eq!(faulty.clone().with(emulated("x")), emulated("x; y"));
        assert_eq!(emulated("x").with(faulty).with(emulated("x")), emulated("x; y"));
    }
}
