//! Turns arbitrary bytes into NBD messages that pass the first checks.

/// Splits `noise` into requests: with valid magic numbers, mostly known commands, mostly offsets
/// inside the volume, and data of writes.
pub fn polite_requests(noise: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(noise.len() * 4);
    let mut rest = noise;
    while let [kind, flags, cookie, block, wish, after @ ..] = rest {
        rest = after;
        let kind = u16::from(if kind & 0x80 == 0 { kind % 8 } else { *kind });
        let blocks = if wish & 0x80 == 0 { u32::from(wish & 0x0f) } else { 1 << (wish & 0x1f) };
        let len = if kind == 3 { 0 } else { blocks.wrapping_mul(512) };
        let offset = if kind == 3 { 0 } else { u64::from(*block) * 4096 };
        stream.extend(0x2560_9513_u32.to_be_bytes());
        stream.extend(u16::from(flags & 11).to_be_bytes());
        stream.extend(kind.to_be_bytes());
        stream.extend(u64::from(*cookie).to_be_bytes());
        stream.extend(offset.to_be_bytes());
        stream.extend(len.to_be_bytes());
        if kind == 1 {
            // Writes of excessive length get no data.
            let come = len.min(16 * 512) as usize;
            stream.resize(stream.len() + come, *cookie);
        }
    }
    stream.extend(rest);
    stream
}

/// Splits `noise` into replies: simple ones and chunks with the cookies and offsets of the first
/// requests, and short data.
pub fn polite_answers(noise: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(noise.len() * 4);
    let mut rest = noise;
    while let [kind, wish, slot, place, count, after @ ..] = rest {
        rest = after;
        // A cookie of our initiator: command number in the upper half, slot in the lower.
        let turn = if wish & 0x80 == 0 { (slot & 15) + 1 } else { wish >> 3 };
        let cookie = u64::from(turn) << 32 | u64::from(slot & 15);
        // Or that of a question about allocation, its first command.
        let query = 1 << 32 | 0xffff_fffe;
        let cookie = if kind & 0x40 == 0 { cookie } else { query };
        let mut data = Vec::new();
        let number: u16 = match kind & 7 {
            1 | 2 if kind & 0x40 != 0 => 5,
            0 => 0,
            1 | 2 => 1,
            3 => 2,
            4 => 1 << 15 | 1,
            5 => 1 << 15 | 2,
            6 => 1 << 15 | u16::from(*count),
            _ => u16::from(*count),
        };
        let offset = u64::from(*place) * 512;
        match number {
            1 => {
                data.extend(offset.to_be_bytes());
                data.resize(8 + usize::from(count & 15) * 512, *place);
            }
            2 => {
                data.extend(offset.to_be_bytes());
                data.extend((u32::from(*count) * 512).to_be_bytes());
            }
            5 => {
                // Lengths in blocks, now and then none, and all kinds of flags.
                data.extend(u32::from(1 + (wish >> 6 & wish >> 5 & 1)).to_be_bytes());
                for at in 0..count & 31 {
                    let blocks = u32::from(place.rotate_left(at.into()) & 63) * 512;
                    data.extend(blocks.to_be_bytes());
                    data.extend(u32::from(at & 3).to_be_bytes());
                }
                data.resize(data.len() + usize::from(slot >> 7), 0);
            }
            0x8001.. => {
                data.extend(u32::from(*count).to_be_bytes());
                data.extend([0, wish & 7]);
                data.resize(6 + usize::from(wish & 7), *place);
                if number == 0x8002 {
                    data.extend(offset.to_be_bytes());
                }
            }
            _ => {}
        }
        if kind & 0x80 != 0 {
            stream.extend(0x6744_6698_u32.to_be_bytes());
            stream.extend(u32::from(count & 31).to_be_bytes());
            stream.extend(cookie.to_be_bytes());
            continue;
        }
        stream.extend(0x668e_33ef_u32.to_be_bytes());
        stream.extend(u16::from(wish & 1).to_be_bytes());
        stream.extend(number.to_be_bytes());
        stream.extend(cookie.to_be_bytes());
        stream.extend((data.len() as u32).to_be_bytes());
        stream.extend(data);
    }
    stream.extend(rest);
    stream
}
