//! Turns arbitrary bytes into PDUs that pass the first checks.

/// Bytes of an iSCSI header (BHS).
const HEADER_BYTES: usize = 48;

/// Data segments are multiples of this, as a block of 512 bytes is.
const DATA_STEP_BYTES: usize = 16;

/// Splits `noise` into headers with short data, and fixes what would end the connection at once:
/// lengths, CmdSNs or StatSNs from `number` on, most of the tags.
pub fn polite_iscsi(noise: &[u8], number: u32) -> Vec<u8> {
    polite_iscsi_to(noise, number, None)
}

/// Splits `noise` likewise, with half of the tags replaced by that of a command in flight.
pub fn polite_iscsi_to(noise: &[u8], mut number: u32, asked: Option<u32>) -> Vec<u8> {
    let mut stream = Vec::with_capacity(noise.len() * 2);
    let mut rest = noise;
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let mut header = *header;
        // The last byte of a CDB is CONTROL, and reserved elsewhere: it selects the fixes.
        let wish = std::mem::take(&mut header[47]);
        let len = (usize::from(wish & 0x3f) * DATA_STEP_BYTES).min(after.len());
        let (data, after) = after.split_at(len);
        rest = after;
        header[4] = 0;
        header[5..8].copy_from_slice(&(len as u32).to_be_bytes()[1..]);
        if wish & 0x40 == 0 {
            // Few tags, so that PDUs match commands in flight.
            let tag = u32::from(header[19] & 7);
            let tag = asked.filter(|_| tag < 4).unwrap_or(tag);
            header[16..20].copy_from_slice(&tag.to_be_bytes());
        }
        if wish & 0x80 == 0 {
            header[24..28].copy_from_slice(&number.to_be_bytes());
            number = number.wrapping_add(u32::from(is_numbered(header[0])));
        }
        likely_command(&mut header, len as u32);
        stream.extend(header);
        stream.extend(data);
        stream.resize(stream.len().next_multiple_of(4), 0);
    }
    stream.extend(rest);
    stream
}

/// Commands that noise hardly finds: operation code, service actions, and the byte of the CDB with
/// the low byte of a length.
const COMMANDS: [(u8, u8, usize); 18] = [
    (0x5e, 4, 8),
    (0x5f, 8, 8),
    (0x16, 1, 4),
    (0x17, 1, 4),
    (0x15, 1, 4),
    (0x55, 1, 8),
    (0x89, 1, 13),
    (0x8b, 1, 13),
    (0x8e, 1, 13),
    (0x8f, 1, 13),
    (0x2e, 1, 8),
    (0x2f, 1, 8),
    (0x37, 1, 8),
    (0xb7, 1, 9),
    (0x4d, 1, 8),
    (0x93, 1, 13),
    (0x83, 1, 13),
    (0x84, 4, 13),
];

/// Half of the SCSI commands become one of [`COMMANDS`], on few blocks of a unit that is there. The
/// length fits the `len` bytes of data half of the time.
fn likely_command(header: &mut [u8; HEADER_BYTES], len: u32) {
    let [wish, choice, other] = [header[46], header[32], header[33]];
    if header[0] & 0x3f != 0x01 || wish & 1 == 0 {
        return;
    }
    let (code, actions, length_at) = COMMANDS[usize::from(choice) % COMMANDS.len()];
    header[8..16].copy_from_slice(&[0, 1 + (wish >> 1 & 1), 0, 0, 0, 0, 0, 0]);
    let cdb = &mut header[32..];
    let flags = if actions > 1 { 0 } else { other & 0x1e };
    (cdb[0], cdb[1]) = (code, other % actions | flags);
    // Few types, addresses and lengths.
    let few = cdb[2] & 0x0f;
    cdb[2..14].fill(0);
    (cdb[2], cdb[14], cdb[15]) = (if code == 0x5f { few } else { 0 }, 0, 0);
    let address_at = if code & 0xe0 == 0x80 { 9 } else { 5 };
    if !matches!(code, 0x5e | 0x5f | 0x15 | 0x55 | 0x16 | 0x17 | 0x4d | 0x83 | 0x84) {
        cdb[address_at] = few;
    }
    let blocks = matches!(code, 0x2e..=0x2f | 0x85..=0x93);
    cdb[length_at] = if blocks { other >> 5 } else { len as u8 };
    if wish & 4 == 0 {
        header[20..24].copy_from_slice(&len.to_be_bytes());
    }
}

/// Whether a PDU consumes a number: not immediate ones, data or R2Ts.
fn is_numbered(opcode: u8) -> bool {
    opcode & 0x40 == 0 && !matches!(opcode & 0x3f, 0x05 | 0x25 | 0x31)
}

/// The next StatSN after a stream of whole PDUs; `number` if it is empty.
pub fn next_status(stream: &[u8], number: u32) -> u32 {
    let mut next = number;
    let mut rest = stream;
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let len = u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize;
        let status = u32::from_be_bytes([header[24], header[25], header[26], header[27]]);
        next = if is_numbered(header[0]) { status.wrapping_add(1) } else { next };
        rest = &after[len.next_multiple_of(4).min(after.len())..];
    }
    next
}

/// Header lengths of NVMe/TCP by PDU type; arbitrary for others.
const NVME_HEADER_BYTES: [usize; 10] = [128, 128, 24, 24, 72, 24, 24, 24, 0, 24];

/// Splits `noise` into NVMe/TCP PDUs with short data, and fixes their lengths and most command
/// identifiers.
pub fn polite_nvme(noise: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(noise.len() * 2);
    let mut rest = noise;
    while let [kind, flags, wish, after @ ..] = rest {
        let kind = kind % NVME_HEADER_BYTES.len() as u8;
        let header_len = NVME_HEADER_BYTES[usize::from(kind)].max(8);
        let data_len = usize::from(wish & 0x3f) * DATA_STEP_BYTES;
        let offset = if data_len > 0 { header_len as u8 } else { 0 };
        let total = (header_len + data_len) as u32;
        // No digests: they would have to be valid.
        stream.extend([kind, flags & !3, header_len as u8, offset]);
        stream.extend(total.to_le_bytes());
        let taken = (header_len - 8 + data_len).min(after.len());
        let (body, after) = after.split_at(taken);
        let start = stream.len();
        stream.extend(body);
        stream.resize(start + header_len - 8 + data_len, 0);
        // Few identifiers, so that PDUs match commands in flight: bytes 2 and 3 of an SQE, 12 and
        // 13 of a CQE, 0 and 1 elsewhere.
        let at = match kind {
            4 => start + 2,
            5 => start + 12,
            _ => start,
        };
        if let Some(id) = stream.get_mut(at..at + 2).filter(|_| wish & 0x40 == 0) {
            id.copy_from_slice(&[id[0] & 7, 0]);
        }
        rest = after;
    }
    stream
}
