//! The superblock on each leg of an array: its identity, the other members and their states.
//!
//! Two copies, in the first and the last 4 KiB of the leg. Each change writes both, one after the
//! other, so that one of them is always intact.

use proto::crc32c::crc32c;

/// Bytes of a copy.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Offset of the data, after the first copy and the map.
pub const DATA_OFFSET: u64 = 1 << 20;
/// Bytes reserved at the end, for the second copy.
pub const TAIL_BYTES: u64 = 1 << 20;
/// Maximum number of members, spares included.
pub const MEMBERS_MAX: usize = 16;
/// Longest name in bytes.
pub const NAME_MAX_BYTES: usize = 64;
/// Past generations that a leg remembers.
pub const HISTORY_MAX: usize = 64;

const MAGIC: [u8; 8] = *b"DRUMARR\x1a";
const VERSION: u32 = 1;
const MEMBERS_AT: usize = 256;
const MEMBER_BYTES: usize = 48;
const HISTORY_AT: usize = MEMBERS_AT + MEMBERS_MAX * MEMBER_BYTES;
const CRC_AT: usize = 8;
const _: () = assert!(HISTORY_AT + HISTORY_MAX * 16 <= SUPERBLOCK_BYTES);

/// A generation of an array: a number and a random tag, so that two legs that were used alone never
/// have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Number, increased with each change of membership.
    pub number: u64,
    /// Random, new for each.
    pub tag: u64,
}

/// State of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegState {
    /// In sync: the leg has every acknowledged write.
    In,
    /// Out: the leg may have missed writes and is not read.
    Out,
    /// Syncing: the leg gets writes and is not read.
    Syncing,
    /// A hot spare.
    Spare,
}

/// A member as the superblock lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// UUID of the leg.
    pub uuid: u128,
    /// State of the leg.
    pub state: LegState,
    /// The leg has no data: everything ever written must be copied to it.
    pub empty: bool,
    /// Last generation in which the leg was an active member.
    pub left: Generation,
}

/// The content of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// UUID of the array.
    pub array: u128,
    /// Name of the array.
    pub name: String,
    /// UUID of the leg with this copy.
    pub leg: u128,
    /// The current generation.
    pub generation: Generation,
    /// Capacity of the array in bytes.
    pub bytes: u64,
    /// Bytes of a logical block, 512 to 4096.
    pub block_bytes: u32,
    /// Bytes of a region of the map, a power of two from 64 KiB.
    pub region_bytes: u64,
    /// Number of legs that should be in.
    pub copies: u32,
    /// All members, by number.
    pub members: Vec<Member>,
    /// Past generations, the newest first.
    pub history: Vec<Generation>,
}

/// Why a copy cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The copy has no superblock.
    Absent,
    /// Made by another version of the format.
    Version(u32),
    /// Wrong checksum.
    Checksum,
    /// Right checksum, inconsistent content.
    Nonsense,
}

/// Offset of the second copy on a leg of `leg_bytes`.
pub fn second_copy(leg_bytes: u64) -> u64 {
    (leg_bytes & !(SUPERBLOCK_BYTES as u64 - 1)).saturating_sub(SUPERBLOCK_BYTES as u64)
}

/// Data capacity of a leg of `leg_bytes`, in whole granules of 64 KiB; 0 if it is too small.
pub fn data_bytes(leg_bytes: u64) -> u64 {
    let usable = leg_bytes & !(SUPERBLOCK_BYTES as u64 - 1);
    usable.saturating_sub(DATA_OFFSET + TAIL_BYTES) & !0xffff
}

impl Superblock {
    /// The number of a leg among the members.
    pub fn number_of(&self, leg: u128) -> Option<usize> {
        self.members.iter().position(|member| member.uuid == leg)
    }

    /// A bit for each member in this state.
    pub fn in_state(&self, state: LegState) -> u32 {
        let bits = self.members.iter().enumerate().filter(|(_, member)| member.state == state);
        bits.fold(0, |all, (number, _)| all | 1 << number)
    }

    /// Starts a new generation and appends the current one to the history.
    pub fn advance(&mut self, tag: u64) {
        self.history.insert(0, self.generation);
        if self.history.len() > HISTORY_MAX {
            // Generations that an absent leg may hold stay in the history: without them the leg
            // would seem to have been used alone.
            let may_stand = |past: &Generation| {
                let near = |member: &Member| {
                    let left = member.left.number;
                    (left.saturating_sub(1)..left + 3).contains(&past.number)
                };
                self.members.iter().any(|member| member.state != LegState::In && near(member))
            };
            let drop = self.history.iter().rposition(|past| !may_stand(past));
            self.history.remove(drop.unwrap_or(HISTORY_MAX));
        }
        self.generation = Generation { number: self.generation.number + 1, tag };
    }

    /// Whether this history contains the other leg's generation: that leg then acknowledged nothing
    /// that is unknown here.
    pub fn knows(&self, other: &Superblock) -> bool {
        let theirs = other.generation;
        let left = self.number_of(other.leg).map(|number| self.members[number].left);
        // A superblock that lists this leg as in has acknowledged no write that is missing here.
        let lists_us =
            other.number_of(self.leg).is_some_and(|us| other.members[us].state == LegState::In);
        theirs == self.generation
            || self.history.contains(&theirs)
            || left == Some(theirs)
            || lists_us
    }

    /// Whether this lists the other leg as in, and the other has never had this generation.
    pub fn lacks(&self, other: &Superblock) -> bool {
        let lists_it = self
            .number_of(other.leg)
            .is_some_and(|number| self.members[number].state == LegState::In);
        let ours = self.generation;
        lists_it && ours != other.generation && !other.history.contains(&ours)
    }

    /// [`knows`](Self::knows) for an open array, whose legs that are in all have this generation.
    pub fn knows_while_open(&self, other: &Superblock) -> bool {
        let lists = |member: &Member| {
            let theirs = other.number_of(member.uuid).map(|number| other.members[number].state);
            member.state == LegState::In && member.uuid != other.leg && theirs == Some(LegState::In)
        };
        self.knows(other) || self.members.iter().any(lists)
    }

    /// Encodes the copy for the leg `leg`.
    pub fn encode(&self, leg: u128) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC);
        put(12, &VERSION.to_le_bytes());
        put(16, &self.array.to_le_bytes());
        put(32, &leg.to_le_bytes());
        put(48, &self.name.as_bytes()[..self.name.len().min(NAME_MAX_BYTES)]);
        put(112, &self.copies.to_le_bytes());
        put(116, &(self.members.len() as u32).to_le_bytes());
        put(120, &(self.history.len() as u32).to_le_bytes());
        put(124, &self.block_bytes.to_le_bytes());
        put(128, &self.bytes.to_le_bytes());
        put(136, &self.region_bytes.to_le_bytes());
        put(144, &self.generation.number.to_le_bytes());
        put(152, &self.generation.tag.to_le_bytes());
        for (number, member) in self.members.iter().enumerate() {
            let at = MEMBERS_AT + number * MEMBER_BYTES;
            put(at, &member.uuid.to_le_bytes());
            put(at + 16, &[member.state.code(), u8::from(member.empty)]);
            put(at + 24, &member.left.number.to_le_bytes());
            put(at + 32, &member.left.tag.to_le_bytes());
        }
        for (index, past) in self.history.iter().enumerate() {
            let at = HISTORY_AT + index * 16;
            put(at, &past.number.to_le_bytes());
            put(at + 8, &past.tag.to_le_bytes());
        }
        let crc = crc32c(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a copy.
    ///
    /// # Errors
    ///
    /// The damage that makes the copy unusable.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, Damage> {
        let mut bytes: [u8; SUPERBLOCK_BYTES] = match bytes.get(..SUPERBLOCK_BYTES) {
            Some(bytes) if bytes.starts_with(&MAGIC) => bytes.try_into().expect("4 KiB"),
            _ => return Err(Damage::Absent),
        };
        let crc = u32_at(&bytes, CRC_AT);
        bytes[CRC_AT..CRC_AT + 4].fill(0);
        if crc32c(&bytes) != crc {
            return Err(Damage::Checksum);
        }
        // After the checksum: a flipped bit is not another version.
        match u32_at(&bytes, 12) {
            VERSION => read(&bytes).ok_or(Damage::Nonsense),
            version => Err(Damage::Version(version)),
        }
    }
}

/// The content of a copy of this version, if consistent.
fn read(bytes: &[u8; SUPERBLOCK_BYTES]) -> Option<Superblock> {
    let name = &bytes[48..48 + NAME_MAX_BYTES];
    let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX_BYTES)];
    let (members, history) = (u32_at(bytes, 116) as usize, u32_at(bytes, 120) as usize);
    if members == 0 || members > MEMBERS_MAX || history > HISTORY_MAX {
        return None;
    }
    let generation_at =
        |at: usize| Generation { number: u64_at(bytes, at), tag: u64_at(bytes, at + 8) };
    let member = |number: usize| {
        let at = MEMBERS_AT + number * MEMBER_BYTES;
        let state = LegState::of(bytes[at + 16])?;
        let (uuid, empty) = (u128_at(bytes, at), bytes[at + 17] != 0);
        Some(Member { uuid, state, empty, left: generation_at(at + 24) })
    };
    let superblock = Superblock {
        array: u128_at(bytes, 16),
        name: std::str::from_utf8(name).ok()?.to_owned(),
        leg: u128_at(bytes, 32),
        generation: generation_at(144),
        bytes: u64_at(bytes, 128),
        block_bytes: u32_at(bytes, 124),
        region_bytes: u64_at(bytes, 136),
        copies: u32_at(bytes, 112),
        members: (0..members).map(member).collect::<Option<_>>()?,
        history: (0..history).map(|index| generation_at(HISTORY_AT + index * 16)).collect(),
    };
    superblock.makes_sense().then_some(superblock)
}

impl Superblock {
    /// Whether sizes are consistent and each leg is listed once.
    fn makes_sense(&self) -> bool {
        let block = u64::from(self.block_bytes);
        let each_once = self
            .members
            .iter()
            .enumerate()
            .all(|(number, member)| self.number_of(member.uuid) == Some(number));
        block.is_power_of_two()
            && (512..=4096).contains(&block)
            && self.bytes > 0
            && self.bytes.is_multiple_of(1 << 16)
            && self.bytes <= u64::MAX >> 1
            && self.region_bytes == super::map::region_bytes(self.bytes)
            && (1..=self.members.len()).contains(&(self.copies as usize))
            && self.number_of(self.leg).is_some()
            && each_once
            && self.generation.number < u64::MAX >> 1
    }
}

impl LegState {
    fn code(self) -> u8 {
        match self {
            LegState::In => 1,
            LegState::Out => 2,
            LegState::Syncing => 3,
            LegState::Spare => 4,
        }
    }

    fn of(code: u8) -> Option<LegState> {
        [LegState::In, LegState::Out, LegState::Syncing, LegState::Spare]
            .into_iter()
            .find(|state| state.code() == code)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"))
}

#[cfg(test)]
pub(super) mod test {
    use super::*;

    pub(crate) fn example() -> Superblock {
        let member = |uuid, state| Member { uuid, state, empty: false, left: id(3) };
        Superblock {
            array: 7,
            name: "disk".to_owned(),
            leg: 11,
            generation: id(9),
            bytes: 1 << 20,
            block_bytes: 512,
            region_bytes: 1 << 16,
            copies: 2,
            members: vec![member(11, LegState::In), member(12, LegState::Out)],
            history: vec![id(8), id(7)],
        }
    }

    pub(crate) fn id(number: u64) -> Generation {
        Generation { number, tag: number * 1000 }
    }

    #[test]
    fn comes_back_as_it_was_written_and_every_damaged_bit_is_seen() {
        let block = example();
        let bytes = block.encode(12);
        assert_eq!(Superblock::decode(&bytes), Ok(Superblock { leg: 12, ..block }));
        for bit in 0..SUPERBLOCK_BYTES * 8 {
            let mut wrong = bytes;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&wrong).is_err(), "bit {bit}");
        }
        assert_eq!(Superblock::decode(&[0; 4096]), Err(Damage::Absent));
        assert_eq!(Superblock::decode(&bytes[..4095]), Err(Damage::Absent));
    }

    #[test]
    fn its_first_bytes_are_fixed() {
        let bytes = example().encode(11);
        assert_eq!(bytes[..8], *b"DRUMARR\x1a");
        assert_eq!(bytes[12..20], [1, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(bytes[48..54], *b"disk\0\0");
        assert_eq!(u32_at(&bytes, CRC_AT), 0xa4fe_47fb, "{:x}", u32_at(&bytes, CRC_AT));
    }

    #[test]
    fn another_version_and_nonsense_are_told_apart() {
        let sealed = |change: fn(&mut [u8; 4096])| {
            let mut bytes = example().encode(11);
            change(&mut bytes);
            bytes[CRC_AT..CRC_AT + 4].fill(0);
            let crc = crc32c(&bytes);
            bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
            Superblock::decode(&bytes)
        };
        assert_eq!(sealed(|bytes| bytes[12] = 2), Err(Damage::Version(2)));
        let wrong: [fn(&mut [u8; 4096]); 7] = [
            |bytes| bytes[116] = 17,
            |bytes| bytes[120] = 65,
            |bytes| bytes[112] = 3,
            |bytes| bytes[32] = 13,
            |bytes| bytes[MEMBERS_AT + 16] = 9,
            |bytes| bytes[MEMBERS_AT + MEMBER_BYTES] = 11,
            |bytes| bytes[138] = 2,
        ];
        for (index, change) in wrong.into_iter().enumerate() {
            assert_eq!(sealed(change), Err(Damage::Nonsense), "{index}");
        }
    }

    #[test]
    fn whatever_stands_behind_a_right_checksum_is_refused_or_comes_back_the_same() {
        let (mut rng, mut taken) = (block::Rng::new(1, 1), 0);
        for _ in 0..20_000 {
            let mut bytes = example().encode(11);
            for _ in 0..=rng.below(4) {
                // Mostly within the used part.
                let reach = if rng.below(4) == 0 { 4084 } else { 300 };
                let at = 12 + rng.below(reach) as usize;
                bytes[at] = rng.next_u64() as u8 >> rng.below(8);
            }
            bytes[CRC_AT..CRC_AT + 4].fill(0);
            let crc = crc32c(&bytes);
            bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
            if let Ok(block) = Superblock::decode(&bytes) {
                taken += 1;
                assert_eq!(Superblock::decode(&block.encode(block.leg)), Ok(block));
            }
        }
        assert!(taken > 1000, "{taken}");
    }

    #[test]
    fn the_history_is_what_was_and_not_what_another_leg_did_alone() {
        let now = example();
        let other = |generation, state| {
            let mut other = Superblock { leg: 12, generation, ..example() };
            other.members[0].state = state;
            other
        };
        assert!(now.knows(&other(id(7), LegState::Out)), "in the history");
        assert!(now.knows(&other(id(9), LegState::Out)), "the same");
        assert!(now.knows(&other(id(3), LegState::Out)), "the one with which it left");
        let alone = Generation { number: 8, tag: 1 };
        assert!(!now.knows(&other(alone, LegState::Out)));
        assert!(now.knows(&other(alone, LegState::In)), "it told nobody without us");
    }

    #[test]
    fn what_may_stand_on_a_leg_that_is_away_stays_in_the_history() {
        let mut now = example();
        for tag in 0..1000 {
            now.advance(tag);
        }
        assert_eq!((now.history.len(), now.generation.number), (HISTORY_MAX, 1009));
        let held = |number| now.history.iter().any(|past| past.number == number);
        assert!(!held(7) && !held(8), "nobody may have these");
        let mut now = example();
        now.members[1].left = id(8);
        (0..1000).for_each(|tag| now.advance(tag));
        let held = |number| now.history.iter().any(|past| past.number == number);
        assert!(held(7) && held(8) && held(9) && held(10) && !held(11) && held(1008));
    }

    #[test]
    fn places_on_a_leg_do_not_overlap() {
        for leg in [0, 4096, 2 << 20, (2 << 20) + 65_535, (2 << 20) + 65_536, 1 << 40] {
            let data = data_bytes(leg);
            assert!(data == 0 || DATA_OFFSET + data <= second_copy(leg), "{leg}");
        }
        assert_eq!(data_bytes((2 << 20) + 65_536), 65_536);
    }
}
