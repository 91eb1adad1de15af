//! PERSISTENT RESERVE IN.

use super::field::{be16, put};
use super::reservation::{Nexus, Reservations};
use super::{Cdb, Plan, Sense, Unit, data};

/// All types, as a bit mask of two bytes.
const TYPES: [u8; 2] = [0xea, 0x01];

//= SPC-4 §PERSISTENT RESERVE IN command: READ KEYS
pub(super) fn read_keys(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    answer(unit, cdb, |reservations, bytes| {
        reservations.list().for_each(|(_, key, _)| bytes.extend(key.to_be_bytes()));
    })
}

//= SPC-4 §PERSISTENT RESERVE IN command: READ RESERVATION
pub(super) fn read_reservation(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    answer(unit, cdb, |reservations, bytes| {
        if let Some((kind, key)) = reservations.held() {
            bytes.extend(key.to_be_bytes());
            // Obsolete, reserved, scope (logical unit) and type, obsolete.
            bytes.extend([0, 0, 0, 0, 0, kind as u8, 0, 0]);
        }
    })
}

//= SPC-4 §PERSISTENT RESERVE IN command: REPORT CAPABILITIES, with PTPL_C and PTPL_A
pub(super) fn report_capabilities(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    // ATP_C: a target has one port, so all ports are that one. TMV: the mask of types is valid.
    let able = 0x04 | u8::from(unit.state.may_persist());
    let active = 0x80 | u8::from(unit.state.read(Reservations::persist));
    data(vec![0, 8, able, active, TYPES[0], TYPES[1], 0, 0], be16(cdb, 7))
}

//= SPC-4 §PERSISTENT RESERVE IN command: READ FULL STATUS
pub(super) fn read_full_status(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    answer(unit, cdb, |reservations, bytes| {
        let kind = reservations.held().map_or(0, |(kind, _)| kind as u8);
        for (nexus, key, holds) in reservations.list() {
            let name = transport_id(nexus);
            bytes.extend(key.to_be_bytes());
            bytes.extend([0, 0, 0, 0, u8::from(holds), if holds { kind } else { 0 }]);
            // Reserved, and the relative identifier of the only target port.
            bytes.extend([0, 0, 0, 0, 0, 1]);
            bytes.extend((name.len() as u32).to_be_bytes());
            bytes.extend(name);
        }
    })
}

/// Parameter data: PRGENERATION, the length of what follows, and that.
fn answer(
    unit: &Unit,
    cdb: &Cdb,
    fill: impl FnOnce(&Reservations, &mut Vec<u8>),
) -> Result<Plan, Sense> {
    let mut bytes = vec![0; 8];
    unit.state.read(|reservations| {
        put(&mut bytes, 0, reservations.generation().to_be_bytes());
        fill(reservations, &mut bytes);
    });
    let len = (bytes.len() - 8) as u32;
    put(&mut bytes, 4, len.to_be_bytes());
    data(bytes, be16(cdb, 7))
}

/// The TransportID of an iSCSI initiator port. A host over NVMe, which has none, is shown by a name
/// of its identifier.
//= SPC-4 §TransportID for initiator ports using SCSI over iSCSI: format 01b, name, ",i,0x", ISID;
// format 00b, name.
fn transport_id(nexus: &Nexus) -> Vec<u8> {
    let (format, name) = match nexus {
        Nexus::Port { name, isid } => {
            let isid: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
            (0x45, format!("{name},i,0x{isid}"))
        }
        Nexus::Host(id) => (0x05, format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid(id))),
    };
    let mut bytes = vec![format, 0, 0, 0];
    bytes.extend(name.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4).max(24), 0);
    let len = (bytes.len() - 4) as u16;
    put(&mut bytes, 2, len.to_be_bytes());
    bytes
}

/// A UUID as text.
fn uuid(id: &[u8; 16]) -> String {
    let mut text = String::new();
    for (at, byte) in id.iter().enumerate() {
        text += if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod test {
    use super::super::reservation::{Action, Kind, ReserveOut};
    use super::super::test::{answer, refusal, unit};
    use super::*;

    #[test]
    fn golden() {
        let unit = unit(1 << 20, 512);
        let ask = |action: u8| answer(&unit, &[0x5e, action, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!([ask(0), ask(1), ask(3)], [vec![0; 8], vec![0; 8], vec![0; 8]]);
        let capabilities = [0, 8, 4, 0x80, 0xea, 1, 0, 0];
        assert_eq!(ask(2), capabilities);
        let nexus = Nexus::Port { name: "iqn.a".to_owned(), isid: [0x80, 1, 2, 3, 4, 0xff] };
        let kind = Some(Kind::ExclusiveAccess);
        for action in [Action::Register { ignore: false }, Action::Reserve] {
            let key = if action == Action::Reserve { 0x0102 } else { 0 };
            let (service_key, persist) = (0x0102, None);
            let out = ReserveOut { action, kind, key, service_key, persist };
            unit.state.reserve(&nexus, &out).unwrap();
        }
        assert_eq!(ask(0), [0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 1, 2]);
        let reserved = [0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 3, 0, 0];
        assert_eq!(ask(1), reserved);
        let mut full = vec![0, 0, 0, 1, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 1, 2];
        full.extend([0, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0, 1, 0, 0, 0, 28, 0x45, 0, 0, 24]);
        full.extend(b"iqn.a,i,0x8001020304ff\0\0");
        assert_eq!(ask(3), full);
        assert_eq!(answer(&unit, &[0x5e, 0, 0, 0, 0, 0, 0, 0, 9, 0]).len(), 9);
        assert_eq!(refusal(&unit, &[0x5e, 4]), Sense::cdb_bit(1, 4));
    }

    #[test]
    fn hosts_over_nvme_are_shown_by_a_name() {
        let unit = unit(1 << 20, 512);
        let (action, kind, persist) = (Action::Join, None, None);
        let join = ReserveOut { action, kind, key: 0, service_key: 9, persist };
        let id = std::array::from_fn(|at| at as u8);
        unit.state.reserve(&Nexus::Host(id), &join).unwrap();
        let full = answer(&unit, &[0x5e, 3, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(full[32..36], [0x05, 0, 0, 72]);
        let name = b"nqn.2014-08.org.nvmexpress:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(full[36..], [&name[..], &[0; 4]].concat());
    }
}
