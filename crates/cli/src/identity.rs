//! Identity of a server's volumes: source of serial numbers and worldwide names.
//!
//! A host that finds one identity on two paths treats both as one disk and writes to either. So
//! volumes have the same identity only if they are the same data, of the same server, under the
//! same name, or if the user said that two servers are one. See decision 0015.

mod state;

use std::env;
use std::path::PathBuf;

use ::serve::DiskId;
use sha2::{Digest, Sha256};
use volume::Lifetime;

use crate::exit::UsageError;

/// Identity of a server, distinct from all others.
pub struct Identity {
    source: Source,
    /// Random number, for volumes that end with this process.
    process: [u8; 16],
}

enum Source {
    /// Text of the user: servers with the same text are one.
    Given([u8; 16]),
    /// Saved by this machine, or random.
    Own([u8; 16]),
}

impl Identity {
    /// Identity shared by all servers with this text.
    pub fn given(text: &str) -> Result<Identity, UsageError> {
        if text.is_empty() {
            let message = "--id needs a text: the same on all servers with paths to the same disks";
            return Err(UsageError(message.to_owned()));
        }
        Ok(Identity {
            source: Source::Given(hash(&[b"given", text.as_bytes()])),
            process: chance(),
        })
    }

    /// Random identity, unique to this process.
    pub fn of_process() -> Identity {
        Identity { source: Source::Own(chance()), process: chance() }
    }

    /// Identity of the servers of this machine and user, created at the first start. If it cannot
    /// be saved, the identity is that of this process, and `note` gets the reason.
    pub fn kept(note: impl FnOnce(String)) -> Identity {
        let folder = state::folder(|name| env::var_os(name));
        let machine = state::Machine::this();
        match state::server_id(&folder, &machine, chance) {
            Ok(kept) => {
                if kept.copied {
                    note(format!(
                        "{} belongs to another machine, or all network interfaces changed: this \
                        server has a new identity, so hosts see its volumes as new disks",
                        folder.display()
                    ));
                }
                Identity { source: Source::Own(kept.id), process: chance() }
            }
            Err(error) => {
                note(format!(
                    "cannot save the server's identity in {}: {error}: after a restart, hosts \
                    see its volumes as new disks; set XDG_STATE_HOME to a writable folder, or \
                    add --id TEXT",
                    folder.display()
                ));
                Identity::of_process()
            }
        }
    }

    /// Whether the user allows other servers to have this identity, too.
    pub fn is_given(&self) -> bool {
        matches!(self.source, Source::Given(_))
    }

    /// Identity of the volume at this LUN of a target.
    pub fn disk(&self, target: &str, lun: u8, lifetime: &Lifetime) -> DiskId {
        let (target, lun) = (target.as_bytes(), &[lun][..]);
        DiskId::new(match (&self.source, lifetime) {
            // Each server may have its own path to the data.
            (Source::Given(id), _) => hash(&[b"disk of given", id, target, lun]),
            (Source::Own(_), Lifetime::Process) => {
                hash(&[b"disk of process", &self.process, target, lun])
            }
            (Source::Own(id), Lifetime::Lasting(name)) => hash(&[b"disk", id, target, lun, name]),
        })
    }
}

/// Folder of the server's state.
pub fn state_folder() -> PathBuf {
    state::folder(|name| env::var_os(name))
}

/// First controller ID of NVMe, random.
pub fn first_controller() -> u16 {
    os::random() as u16
}

/// A number for this running of a server.
pub fn instance() -> u64 {
    os::random()
}

fn chance() -> [u8; 16] {
    (u128::from(os::random()) << 64 | u128::from(os::random())).to_ne_bytes()
}

/// 128 bits of SHA-256 over parts, with unambiguous boundaries.
fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    *hash.finalize().first_chunk().expect("32 bytes have 16")
}

#[cfg(test)]
mod test {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const TARGET: &str = "iqn.2026-11.io.drumfire:disk";

    fn lasting(name: &str) -> Lifetime {
        Lifetime::Lasting(name.into())
    }

    fn own(id: u8) -> Identity {
        Identity { source: Source::Own([id; 16]), process: chance() }
    }

    #[test]
    fn identities_golden() {
        // Identities must never change: hosts recognise their disks by them.
        let given = Identity::given("rack 7").unwrap().disk(TARGET, 1, &Lifetime::Process);
        assert_eq!(given.to_string(), "93af3888-58c2-84cb-a8ab-13aae023fafc");
        let kept = own(7).disk(TARGET, 1, &lasting("file /srv/disk.img"));
        assert_eq!(kept.to_string(), "14639a35-2e62-8bce-a5f4-a32264609c15");
    }

    #[test]
    fn disks_differ_by_server_name_number_and_data() {
        let lifetimes = [lasting("file /a"), lasting("file /b"), Lifetime::Process];
        let targets = [TARGET, "iqn.2026-11.io.drumfire:disk1", "iqn.2026-11.io.drumfire:dis"];
        let mut seen = BTreeSet::new();
        for server in [own(1), own(2), Identity::of_process()] {
            for target in targets {
                for lun in [0, 1, 11, 255] {
                    for lifetime in &lifetimes {
                        let disk = server.disk(target, lun, lifetime);
                        assert_eq!(disk, server.disk(target, lun, lifetime));
                        assert!(seen.insert(disk), "{target} {lun} {lifetime:?}");
                    }
                }
            }
        }
        // Serial numbers and NAA names are shorter, and differ as well.
        let count = seen.len();
        assert_eq!(seen.iter().map(|disk| disk.serial()).collect::<BTreeSet<_>>().len(), count);
        assert_eq!(seen.iter().map(|disk| disk.naa()).collect::<BTreeSet<_>>().len(), count);
    }

    #[test]
    fn whatever_differs_has_another_identity() {
        // Few letters and short words, so that one is often a prefix of another.
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut word = |most: u64| -> String {
            (0..draw(most + 1)).map(|_| char::from(b'a' + draw(2) as u8)).collect()
        };
        let mut seen: BTreeMap<DiskId, (String, String, u8, String)> = BTreeMap::new();
        for lun in (0..20_000).map(|round: u32| (round % 3) as u8) {
            let (server, target, data) = (word(2), word(4), word(4));
            let identity = match server.is_empty() {
                true => own(7),
                false => Identity::given(&server).unwrap(),
            };
            let disk = identity.disk(&target, lun, &lasting(&data));
            // A given identity is the same for any data.
            let data = if server.is_empty() { data } else { String::new() };
            let what = (server, target, lun, data);
            assert_eq!(*seen.entry(disk).or_insert(what.clone()), what);
        }
        let whats: BTreeSet<_> = seen.values().collect();
        assert_eq!(whats.len(), seen.len());
        assert!(seen.len() > 2_000, "{}", seen.len());
    }

    #[test]
    fn what_survives_a_restart_keeps_its_identity_and_memory_does_not() {
        let [before, after] = [own(1), own(1)];
        let file = lasting("file /a");
        assert_eq!(before.disk(TARGET, 1, &file), after.disk(TARGET, 1, &file));
        let ram = Lifetime::Process;
        assert_ne!(before.disk(TARGET, 1, &ram), after.disk(TARGET, 1, &ram));
    }

    #[test]
    fn servers_that_are_given_one_text_are_one() {
        let given = |text| Identity::given(text).unwrap();
        let [a, b, other] = ["rack 7", "rack 7", "rack 8"].map(given);
        for lifetime in [lasting("file /a"), Lifetime::Process] {
            assert_eq!(a.disk(TARGET, 1, &lifetime), b.disk(TARGET, 1, &lasting("file /b")));
            assert_ne!(a.disk(TARGET, 1, &lifetime), a.disk(TARGET, 2, &lifetime));
            assert_ne!(a.disk(TARGET, 1, &lifetime), other.disk(TARGET, 1, &lifetime));
        }
        assert!(a.is_given() && !own(1).is_given());
        assert!(Identity::given("").is_err());
    }

    #[test]
    fn parts_are_kept_apart() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"a", b""]), hash(&[b"a"]));
    }
}
