//! Names that a controller reports: of a disk, and of the running server.

use crate::nvme::instance_of;

/// Types of Namespace Identification Descriptors.
//= NVMe base §Namespace Identification Descriptor: 1 EUI64, 2 NGUID, 3 UUID.
const EUI64: u8 = 1;
const NGUID: u8 = 2;
const UUID: u8 = 3;

/// Types with their words, the best first: an NGUID is the longest that is never written by hosts.
const KINDS: [(u8, &str); 3] = [(NGUID, "nguid"), (EUI64, "eui"), (UUID, "uuid")];

/// The name of a namespace, of its identification descriptors.
pub(super) fn of_descriptors(data: &[u8]) -> Option<String> {
    let mut best: Option<(usize, String)> = None;
    let mut rest = data;
    while let [kind, len, _, _, value @ ..] = rest {
        let len = usize::from(*len);
        if len == 0 || len > value.len() {
            break;
        }
        let rank = KINDS.iter().position(|(known, _)| known == kind);
        if let Some(rank) = rank.filter(|rank| best.as_ref().is_none_or(|(best, _)| rank < best))
            && let Some(name) = name(KINDS[rank].1, &value[..len])
        {
            best = Some((rank, name));
        }
        rest = &value[len..];
    }
    best.map(|(_, name)| name)
}

/// The name from Identify Namespace data, for controllers without descriptors.
//= NVMe base §Identify Namespace data structure: NGUID is bytes 119:104, EUI64 127:120.
pub(super) fn of_namespace(data: &[u8]) -> Option<String> {
    let nguid = || name("nguid", data.get(104..120)?);
    let eui64 = || name("eui", data.get(120..128)?);
    nguid().or_else(eui64)
}

fn name(kind: &str, value: &[u8]) -> Option<String> {
    let digits = value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    value.iter().any(|byte| *byte != 0).then(|| format!("{kind}.{digits}"))
}

/// Returns the instance of a server of ours, from Identify Controller data.
pub(super) fn instance(data: &[u8]) -> Option<u64> {
    instance_of(data.get(3072..)?)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_best_name_counts() {
        let descriptor = |kind: u8, value: &[u8]| {
            let head = [kind, value.len() as u8, 0, 0];
            [&head, value].concat()
        };
        let [uuid, eui] = [descriptor(3, &[7; 16]), descriptor(1, &[0xab; 8])];
        let [nguid, none] = [descriptor(2, &[9; 16]), descriptor(2, &[0; 16])];
        let found = |parts: &[&Vec<u8>]| {
            let parts = parts.iter().flat_map(|part| part.iter().copied());
            of_descriptors(&parts.chain([0; 64]).collect::<Vec<u8>>())
        };
        assert_eq!(found(&[&uuid, &eui]).unwrap(), "eui.abababababababab");
        assert_eq!(found(&[&uuid, &nguid, &eui]).unwrap(), format!("nguid.{}", "09".repeat(16)));
        assert_eq!(found(&[&none, &uuid]).unwrap(), format!("uuid.{}", "07".repeat(16)));
        assert_eq!((found(&[]), found(&[&none])), (None, None));
        assert_eq!(of_descriptors(&[2, 16, 0, 0, 1]), None);
        let mut page = vec![0; 4096];
        assert_eq!(of_namespace(&page), None);
        page[127] = 1;
        assert_eq!(of_namespace(&page).unwrap(), "eui.0000000000000001");
        page[104] = 1;
        assert!(of_namespace(&page).unwrap().starts_with("nguid.01"));
        assert_eq!((instance(&page), of_namespace(&page[..100])), (None, None));
    }
}
