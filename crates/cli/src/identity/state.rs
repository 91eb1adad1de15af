//! File with the identities of servers: one line for each machine that has used the file, because
//! machines may share a home folder, and images of systems are copied with all files.
//!
//! A line is written once and never changed: identity, machine-id, addresses of the network cards.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use os::{Folder, append_to};

/// Name of the file.
const NAME: &str = "server-id";
/// Maximum bytes that are read: room for 10,000 machines.
const READ_MAX: u64 = 1 << 20;
/// Placeholder for an empty field.
const NONE: &str = "-";

/// State folder of this program: the service manager's, the user's, or the system's. A named folder
/// that cannot be used is not replaced by the next one.
pub fn folder(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    // systemd separates several folders by colons.
    let service = variable("STATE_DIRECTORY").and_then(|list| {
        let first = list.to_str()?.split(':').next()?;
        Some(PathBuf::from(first)).filter(|path| path.is_absolute())
    });
    service
        .or_else(|| Some(path("XDG_STATE_HOME")?.join("drumfire")))
        .or_else(|| Some(path("HOME")?.join(".local/state/drumfire")))
        .unwrap_or_else(|| PathBuf::from("/var/lib/drumfire"))
}

/// Marks of this machine that distinguish it from copies of its file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Machine ID; empty if there is none. Copies of an image share it.
    id: String,
    /// MAC addresses of network cards; a copied virtual machine gets new ones. Containers show
    /// none.
    cards: Vec<String>,
}

impl Machine {
    /// Returns this machine.
    pub fn this() -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let ids = ["/etc/machine-id", "/var/lib/dbus/machine-id"].map(read);
        let id = ids.iter().map(|id| id.trim()).find(|id| !id.is_empty()).unwrap_or_default();
        let id = id.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
        Machine { id, cards: cards(Path::new("/sys/class/net")) }
    }

    /// Whether a line belongs to this machine. One unchanged card suffices; if either list is
    /// empty, the machine ID decides.
    fn is(&self, other: &Machine) -> bool {
        match self.cards.is_empty() || other.cards.is_empty() {
            true => self.id == other.id,
            false => self.cards.iter().any(|card| other.cards.contains(card)),
        }
    }
}

/// Permanent addresses of the network cards, sorted.
fn cards(folder: &Path) -> Vec<String> {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Bridges, tunnels, and assigned or random addresses are left out, because they change.
    let own = entries
        .filter(|card| card.join("device").exists() && read(card.join("addr_assign_type")) == "0");
    let mut found: Vec<String> = own.map(|card| read(card.join("address"))).collect();
    found.retain(|address| address.bytes().any(|byte| !b"0:".contains(&byte)));
    found.retain(|address| address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':'));
    found.sort_unstable();
    found.dedup();
    found
}

/// A persistent identity.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    /// The identity.
    pub id: [u8; 16],
    /// Whether the identity is new although the file has others, which belong to other machines.
    pub copied: bool,
}

/// Identity of this machine's servers in `folder`. If there is none, `chance` generates one, which
/// is saved, once for all concurrent callers.
pub fn server_id(
    folder: &Path,
    machine: &Machine,
    chance: impl FnOnce() -> [u8; 16],
) -> io::Result<Kept> {
    let path = folder.join(NAME);
    let before = match open_plain(&path) {
        Ok(file) => read(file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if let Some(id) = find(&before, machine) {
        return Ok(Kept { id, copied: false });
    }
    Folder::make_trusted(folder)?;
    let mut file = append_to(&path)?;
    file.write_all(line(&before, chance(), machine).as_bytes())?;
    file.sync_all()?;
    // If several processes appended at once, all of them use the first identity.
    let after = read(open_plain(&path)?)?;
    let id = find(&after, machine).ok_or_else(|| {
        io::Error::other(
            "the identity just written \
        is missing",
        )
    })?;
    Ok(Kept { id, copied: lines(&before).next().is_some() })
}

fn open_plain(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other(format!("{NAME} is not a file")));
    }
    File::open(path)
}

fn read(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(READ_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line to be added to a text.
fn line(before: &str, id: [u8; 16], machine: &Machine) -> String {
    let head = match before {
        "" => "# Identities of drumfire serve: one for each machine, its machine-id, its cards.\n",
        // A line truncated by a power cut must not count as complete.
        cut if !cut.ends_with('\n') => " was cut off\n",
        _ => "",
    };
    let or_none = |text: &str| if text.is_empty() { NONE.to_owned() } else { text.to_owned() };
    let id = u128::from_be_bytes(id);
    format!("{head}{id:032x} {} {}\n", or_none(&machine.id), or_none(&machine.cards.join(",")))
}

/// First identity of this machine.
fn find(text: &str, machine: &Machine) -> Option<[u8; 16]> {
    lines(text).find(|(_, other)| machine.is(other)).map(|(id, _)| id)
}

/// Valid lines of a text; others are skipped.
fn lines(text: &str) -> impl Iterator<Item = ([u8; 16], Machine)> {
    text.split_inclusive('\n').filter_map(|line| {
        let mut words = line.strip_suffix('\n')?.split(' ');
        let [id, machine, cards] = [words.next()?, words.next()?, words.next()?];
        let is_hex = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u128::from_str_radix(id, 16).ok().filter(|_| is_hex && words.next().is_none())?;
        let text = |word: &str| if word == NONE { String::new() } else { word.to_owned() };
        let cards = text(cards);
        let cards = cards.split(',').filter(|card| !card.is_empty()).map(str::to_owned).collect();
        Some((id.to_be_bytes(), Machine { id: text(machine), cards }))
    })
}

#[cfg(test)]
mod test {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Scratch {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("drumfire-state-{}-{count}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn text(&self) -> String {
            fs::read_to_string(self.0.join(NAME)).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn machine(id: &str, cards: &[&str]) -> Machine {
        Machine { id: id.to_owned(), cards: cards.iter().map(ToString::to_string).collect() }
    }

    fn ask(folder: &Path, machine: &Machine, chance: u8) -> Kept {
        server_id(folder, machine, || [chance; 16]).unwrap()
    }

    #[test]
    fn it_is_made_once_and_found_again() {
        let scratch = Scratch::new();
        let folder = scratch.0.join("not/there/yet");
        let one = machine("abc", &["52:54:00:00:00:01"]);
        assert_eq!(ask(&folder, &one, 1), Kept { id: [1; 16], copied: false });
        assert_eq!(ask(&folder, &one, 2), Kept { id: [1; 16], copied: false });
        let text = fs::read_to_string(folder.join(NAME)).unwrap();
        let wanted = format!("{} abc 52:54:00:00:00:01", "01".repeat(16));
        assert_eq!(text.lines().nth(1), Some(wanted.as_str()), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn copies_of_a_system_get_their_own() {
        let scratch = Scratch::new();
        let (one, copy) = (machine("abc", &["a:1", "a:2"]), machine("abc", &["b:1"]));
        assert!(!ask(&scratch.0, &one, 1).copied);
        assert_eq!(ask(&scratch.0, &copy, 2), Kept { id: [2; 16], copied: true });
        // Both machines find their identities again, as in a shared home folder.
        assert_eq!(ask(&scratch.0, &one, 3).id, [1; 16]);
        assert_eq!(ask(&scratch.0, &copy, 3), Kept { id: [2; 16], copied: false });
        // A card is added or removed, or none is visible: the machine ID decides.
        for same in [machine("abc", &["a:2", "c:1"]), machine("abc", &[])] {
            assert_eq!(ask(&scratch.0, &same, 3).id, [1; 16]);
        }
        assert_eq!(ask(&scratch.0, &machine("xyz", &[]), 4), Kept { id: [4; 16], copied: true });
        // A system without number or cards is itself.
        let empty = Scratch::new();
        assert_eq!(ask(&empty.0, &machine("", &[]), 5).id, [5; 16]);
        assert_eq!(ask(&empty.0, &machine("", &[]), 6).id, [5; 16]);
    }

    #[test]
    fn what_is_broken_is_passed_over() {
        let scratch = Scratch::new();
        let one = machine("abc", &[]);
        let id = "07".repeat(16);
        for broken in [
            "",
            "\n",
            "rubbish\n",
            &id[1..],
            &format!("{id} abc"),
            &format!("{id} abc -"),
            &format!("+{} abc -\n", &id[1..]),
            &format!("{id} abc - more\n"),
            "\u{fffd}\0\n",
        ] {
            fs::write(scratch.0.join(NAME), broken).unwrap();
            assert_eq!(ask(&scratch.0, &one, 1).id, [1; 16], "{broken:?}");
            assert_eq!(ask(&scratch.0, &one, 2).id, [1; 16], "{broken:?}: {}", scratch.text());
        }
        fs::write(scratch.0.join(NAME), format!("{id} abc -\n")).unwrap();
        assert_eq!(ask(&scratch.0, &one, 1).id, [7; 16]);
    }

    #[test]
    fn all_who_start_at_once_have_the_same() {
        let scratch = Scratch::new();
        let one = machine("abc", &["a:1"]);
        let ids: Vec<[u8; 16]> = std::thread::scope(|scope| {
            let ask = |chance: u8| ask(&scratch.0, &one, chance).id;
            let starters: Vec<_> =
                (1..=16).map(|chance| scope.spawn(move || ask(chance))).collect();
            starters.into_iter().map(|starter| starter.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!(ask(&scratch.0, &one, 99).id, ids[0]);
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_an_error() {
        let scratch = Scratch::new();
        let one = machine("abc", &[]);
        fs::write(scratch.0.join("file"), "").unwrap();
        assert!(server_id(&scratch.0.join("file"), &one, || [1; 16]).is_err());
        fs::create_dir(scratch.0.join(NAME)).unwrap();
        let error = server_id(&scratch.0, &one, || [1; 16]).unwrap_err();
        assert!(error.to_string().contains("not a file"), "{error}");
    }

    #[test]
    fn the_folder_is_the_first_that_is_named() {
        let folder = |pairs: &[(&str, &str)]| {
            folder(|name| {
                let found = pairs.iter().find(|pair| pair.0 == name);
                found.map(|pair| OsString::from(pair.1))
            })
        };
        let [service, user, home] = [
            ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"),
            ("XDG_STATE_HOME", "/state"),
            ("HOME", "/users/x"),
        ];
        assert_eq!(folder(&[service, user, home]), Path::new("/var/lib/a"));
        assert_eq!(folder(&[user, home]), Path::new("/state/drumfire"));
        assert_eq!(folder(&[home]), Path::new("/users/x/.local/state/drumfire"));
        assert_eq!(folder(&[]), Path::new("/var/lib/drumfire"));
        // Values that are no absolute paths count as unset.
        let odd = [("XDG_STATE_HOME", "relative"), ("HOME", "")];
        assert_eq!(folder(&odd), Path::new("/var/lib/drumfire"));
    }

    #[test]
    fn only_cards_that_are_hardware_count() {
        let scratch = Scratch::new();
        let card = |name: &str, address: &str, kind: &str, hardware: bool| {
            let folder = scratch.0.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("address"), format!("{address}\n")).unwrap();
            fs::write(folder.join("addr_assign_type"), format!("{kind}\n")).unwrap();
            if hardware {
                fs::create_dir(folder.join("device")).unwrap();
            }
        };
        card("eth1", "52:54:00:00:00:02", "0", true);
        card("eth0", "52:54:00:00:00:01", "0", true);
        card("wlan0", "12:34:56:78:9a:bc", "3", true);
        card("br0", "52:54:00:00:00:03", "0", false);
        card("odd0", "00:00:00:00:00:00", "0", true);
        assert_eq!(cards(&scratch.0), ["52:54:00:00:00:01", "52:54:00:00:00:02"]);
        assert!(cards(&scratch.0.join("none")).is_empty());
    }
}
