//! Assembles an array from the legs that are present: finds out which are in, which are stale, or
//! why they are not an array. Reads superblocks only and changes nothing.

use block::{Plant, planted};

use super::error::{ArrayError, history};
use super::map::Page;
use super::superblock::{
    DATA_OFFSET, Damage, Generation, LegState, Superblock, TAIL_BYTES, data_bytes, second_copy,
};

/// A leg whose superblocks were read.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name of the leg, for messages.
    pub name: String,
    /// Size of the leg in bytes.
    pub bytes: u64,
    /// Bytes of its blocks.
    pub block_bytes: u32,
    /// Both superblocks of the leg as read; `None` if the read failed.
    pub copies: [Option<Vec<u8>>; 2],
}

/// An array ready to be opened.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The superblock of the newest leg.
    pub newest: Superblock,
    /// For each member its index in `found`, if present.
    pub places: Vec<Option<usize>>,
    /// For each member its generation; for an absent one, the last generation that it is known to
    /// have.
    pub stands: Vec<Generation>,
    /// For each member the array's size in its superblock; for an absent one, that of the newest.
    pub sizes: Vec<u64>,
    /// For each member the superblock copy to write first, 0 or 1: the damaged or older one, so
    /// that a torn write leaves the other intact.
    pub first: Vec<usize>,
    /// Members that were in and are absent.
    pub missing: u32,
    /// Messages for the user.
    pub notes: Vec<String>,
}

/// Offsets of the two superblocks of a leg.
pub fn copies_of(bytes: u64) -> [u64; 2] {
    [0, second_copy(bytes)]
}

/// Assembles the array of this name. `lost` lists legs that could not be opened, with reasons;
/// `degraded` allows assembly without absent members.
///
/// # Errors
///
/// The reason why these legs are not an array.
pub fn assemble(
    array: &str,
    found: &[Found],
    lost: &[String],
    degraded: bool,
) -> Result<Assembly, ArrayError> {
    let mut notes = Vec::new();
    let mut blocks = Vec::new();
    for leg in found {
        blocks.push(own(array, leg, &mut notes)?);
    }
    let worse: Vec<usize> = found.iter().zip(&blocks).map(|(leg, own)| worse(leg, own)).collect();
    all_of_one(array, found, &blocks)?;
    let newest = newest(array, found, &blocks)?.clone();
    let mut places = vec![None; newest.members.len()];
    let mut stands = vec![newest.generation; newest.members.len()];
    let mut first = vec![0; newest.members.len()];
    let mut sizes = vec![newest.bytes; newest.members.len()];
    for (place, (leg, block)) in found.iter().zip(&blocks).enumerate() {
        let Some(number) = newest.number_of(block.leg) else {
            return Err(ArrayError::Removed { array: array.to_owned(), leg: leg.name.clone() });
        };
        fits(array, leg, &newest)?;
        places[number] = Some(place);
        stands[number] = block.generation;
        sizes[number] = block.bytes;
        first[number] = worse[place];
    }
    let missing = (0..places.len())
        .filter(|number| places[*number].is_none())
        .fold(0, |all, number| all | 1 << number)
        & newest.in_state(LegState::In);
    if missing == newest.in_state(LegState::In) {
        return Err(none_is_in(array, &newest, found, &places));
    }
    if missing != 0 && !degraded {
        let number = missing.trailing_zeros() as usize + 1;
        let why = if lost.is_empty() { String::new() } else { format!(" ({})", lost.join(", ")) };
        return Err(ArrayError::Missing { array: array.to_owned(), number, why });
    }
    for (number, place) in places.iter().enumerate() {
        if let (Some(place), LegState::Out | LegState::Syncing) =
            (place, newest.members[number].state)
        {
            let name = &found[*place].name;
            notes.push(format!(
                "leg {} ({name}) is stale: it resyncs while the array is open",
                number + 1
            ));
        }
    }
    Ok(Assembly { newest, places, stands, sizes, first, missing, notes })
}

/// Maps of an array's legs: each member that is in and present, and its pages.
pub type Maps = Vec<(usize, Vec<Option<Page>>)>;

/// Removes legs that are listed as in but hold an older image according to their maps: a snapshot
/// that was rolled back, or a copy that was restored. Keeps the maps of the other legs.
///
/// A leg that lacks only the last write of a page may be an older image, or a crash has interrupted
/// that write. Such a leg is removed, too: its resync copies little. If each of two legs has a page
/// that the other lacks, a crash interrupted a write of several pages.
///
/// # Errors
///
/// Each leg lacks what another one has.
pub fn leave_older_images(
    array: &str,
    assembly: &mut Assembly,
    maps: Maps,
) -> Result<Maps, ArrayError> {
    let is_old = |(member, own): &(usize, Vec<Option<Page>>)| {
        let shorter = assembly.sizes[*member] < assembly.newest.bytes;
        maps.iter().any(|(_, other)| lacks(own, other, shorter))
    };
    let (old, rest): (Maps, Maps) = maps.iter().cloned().partition(is_old);
    if let ([(one, _), .., (other, _)], []) = (&old[..], &rest[..]) {
        let array = array.to_owned();
        return Err(ArrayError::OlderImages { array, one: one + 1, other: other + 1 });
    }
    for (member, _) in &old {
        let left = assembly.stands[*member];
        let listed = &mut assembly.newest.members[*member];
        (listed.state, listed.left) = (LegState::Out, left);
        let number = member + 1;
        assembly.notes.push(format!("leg {number} holds an older image: full resync"));
    }
    Ok(rest)
}

/// Whether a leg with these pages may lack data of a leg with `other`. `shorter`: its superblock
/// has a smaller size; a leg that has grown got the pages of the new size before.
fn lacks(own: &[Option<Page>], other: &[Option<Page>], shorter: bool) -> bool {
    let (mut before, mut after, mut lacks) = (false, false, false);
    for pages in own.iter().zip(other) {
        match pages {
            (Some(own), Some(other)) => {
                let (own, newest) = (own.version(), other.version());
                before |= own.is_before(newest);
                after |= newest.is_before(own);
                lacks |= own.lacks(newest);
            }
            (None, Some(_)) => before |= shorter,
            (_, None) => {}
        }
    }
    lacks || before && (shorter || !after)
}

/// The newer of a leg's two superblocks.
fn own(array: &str, leg: &Found, notes: &mut Vec<String>) -> Result<Superblock, ArrayError> {
    let read = |copy: &Option<Vec<u8>>| match copy {
        Some(bytes) => Superblock::decode(bytes),
        None => Err(Damage::Checksum),
    };
    let both = leg.copies.each_ref().map(read);
    let name = || leg.name.clone();
    let array = array.to_owned();
    match both {
        [Ok(one), Ok(other)] if one.array == other.array && one.leg == other.leg => {
            let newer = one.generation.number >= other.generation.number;
            Ok(if newer { one } else { other })
        }
        // The second copy is left over from an array of another size.
        [Ok(one), Ok(_) | Err(Damage::Absent)] => Ok(one),
        [Ok(one), Err(_)] | [Err(_), Ok(one)] => {
            notes.push(format!("{}: one superblock is damaged, the other is used", leg.name));
            Ok(one)
        }
        [Err(Damage::Version(version)), _] | [_, Err(Damage::Version(version))] => {
            Err(ArrayError::Version { array, leg: name(), version })
        }
        [Err(Damage::Absent), Err(Damage::Absent)] => Err(ArrayError::NoLeg { array, leg: name() }),
        _ => Err(ArrayError::Damaged { array, leg: name() }),
    }
}

/// Copy that does not hold the leg's superblock; the first copy if both do.
fn worse(leg: &Found, own: &Superblock) -> usize {
    let is_own = |copy: &Option<Vec<u8>>| {
        let read = copy.as_ref().and_then(|bytes| Superblock::decode(bytes).ok());
        read.is_some_and(|read| read == *own)
    };
    usize::from(is_own(&leg.copies[0]) && !is_own(&leg.copies[1]))
}

/// Refuses legs of other arrays, and a leg given twice.
fn all_of_one(array: &str, found: &[Found], blocks: &[Superblock]) -> Result<(), ArrayError> {
    for (index, (leg, block)) in found.iter().zip(blocks).enumerate() {
        let (array, other) = (array.to_owned(), &found[0].name);
        if block.name != array {
            let other = block.name.clone();
            return Err(ArrayError::Foreign { array, leg: leg.name.clone(), other });
        }
        if block.array != blocks[0].array {
            let (one, other) = (other.clone(), leg.name.clone());
            return Err(ArrayError::TwoArrays { array, one, other });
        }
        if let Some(at) = blocks[..index].iter().position(|other| other.leg == block.leg) {
            let (one, other) = (leg.name.clone(), found[at].name.clone());
            return Err(ArrayError::Twice { array, one, other });
        }
    }
    Ok(())
}

/// Finds the superblock whose leg has every change that the others acknowledged.
fn newest<'a>(
    array: &str,
    found: &[Found],
    blocks: &'a [Superblock],
) -> Result<&'a Superblock, ArrayError> {
    if planted(Plant::TrustFirst)
        && let Some(first) = blocks.first()
    {
        return Ok(first);
    }
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(blocks[*at].generation.number));
    let knows_all = |at: &&usize| blocks.iter().all(|other| blocks[**at].knows(other));
    if let Some(at) = order.iter().find(knows_all) {
        return Ok(&blocks[*at]);
    }
    // A change is acknowledged only after all legs in its superblock have recorded it: a superblock
    // on a spare alone may be unacknowledged.
    let unheard = |other: &Superblock| blocks.iter().any(|leg| other.lacks(leg));
    let knows_heard = |at: &&usize| {
        let knows = |other: &Superblock| blocks[**at].knows(other) || unheard(other);
        !unheard(&blocks[**at]) && blocks.iter().all(knows)
    };
    if let Some(at) = order.iter().find(knows_heard) {
        return Ok(&blocks[*at]);
    }
    let Some(first) = order.first().copied() else {
        let why = "no leg is named".to_owned();
        return Err(ArrayError::Change { array: array.to_owned(), why });
    };
    let stranger = |at: &&usize| !blocks[first].knows(&blocks[**at]);
    let other = order.iter().find(stranger).copied().unwrap_or(first);
    let told = |at: usize| history(blocks[at].generation, &blocks[at].history);
    Err(ArrayError::SplitBrain {
        array: array.to_owned(),
        one: found[first].name.clone(),
        other: found[other].name.clone(),
        one_history: told(first),
        other_history: told(other),
    })
}

/// Refuses a leg that has shrunk or has larger blocks.
pub(super) fn fits(array: &str, leg: &Found, newest: &Superblock) -> Result<(), ArrayError> {
    if data_bytes(leg.bytes) < newest.bytes {
        return Err(ArrayError::Small {
            array: array.to_owned(),
            leg: leg.name.clone(),
            bytes: leg.bytes,
            wanted: DATA_OFFSET + newest.bytes + TAIL_BYTES,
        });
    }
    if leg.block_bytes > newest.block_bytes {
        return Err(ArrayError::Blocks {
            array: array.to_owned(),
            leg: leg.name.clone(),
            block_bytes: leg.block_bytes,
            wanted: newest.block_bytes,
        });
    }
    Ok(())
}

fn none_is_in(
    array: &str,
    newest: &Superblock,
    found: &[Found],
    places: &[Option<usize>],
) -> ArrayError {
    let here = places.iter().enumerate().filter_map(|(number, place)| Some((number, (*place)?)));
    let each = here.map(|(number, place)| {
        let state = newest.members[number].state.word();
        format!("{} is {state}", found[place].name)
    });
    let legs = each.collect::<Vec<_>>().join(", ");
    ArrayError::NoneIsIn { array: array.to_owned(), legs }
}

impl LegState {
    /// Name of the state.
    pub fn word(self) -> &'static str {
        match self {
            LegState::In => "in",
            LegState::Out => "out",
            LegState::Syncing => "syncing",
            LegState::Spare => "spare",
        }
    }
}

#[cfg(test)]
mod test {
    use super::super::superblock::Member;
    use super::super::superblock::test::{example, id};
    use super::*;

    fn found(name: &str, block: &Superblock, leg: u128) -> Found {
        let copy = Some(block.encode(leg).to_vec());
        Found {
            name: name.to_owned(),
            bytes: 4 << 20,
            block_bytes: 512,
            copies: [copy.clone(), copy],
        }
    }

    /// Two legs, both in.
    fn pair() -> Superblock {
        let mut block = example();
        block.members[1].state = LegState::In;
        block
    }

    fn say(legs: &[Found]) -> String {
        match assemble("disk", legs, &[], false) {
            Ok(assembly) => panic!("{assembly:?}"),
            Err(error) => error.to_string(),
        }
    }

    /// Superblock of this leg after it was used alone, without the other.
    fn alone(block: &Superblock, own: usize, tag: u64) -> Superblock {
        let (mut block, left) = (block.clone(), block.generation);
        block.advance(tag);
        for (number, member) in block.members.iter_mut().enumerate() {
            if number != own {
                *member = Member { state: LegState::Out, left, ..*member };
            }
        }
        block
    }

    #[test]
    fn legs_are_known_by_what_they_say_in_whatever_order_they_are_named() {
        let block = pair();
        let legs = [found("b", &block, 12), found("a", &block, 11)];
        let assembly = assemble("disk", &legs, &[], false).unwrap();
        assert_eq!(assembly.places, [Some(1), Some(0)]);
        assert_eq!((assembly.missing, assembly.notes.len()), (0, 0));
    }

    #[test]
    fn a_leg_that_was_left_behind_is_not_the_newest() {
        let old = pair();
        let new = alone(&alone(&old, 0, 1), 0, 2);
        let legs = [found("a", &new, 11), found("b", &old, 12)];
        for legs in [legs.to_vec(), legs.iter().rev().cloned().collect()] {
            let assembly = assemble("disk", &legs, &[], false).unwrap();
            assert_eq!(assembly.newest.generation, new.generation);
            assert_eq!(assembly.newest.in_state(LegState::In), 1);
            assert_eq!(assembly.notes, ["leg 2 (b) is stale: it resyncs while the array is open"]);
        }
        // A second attempt without `degraded` is refused, too.
        let error = say(&[found("b", &old, 12)]);
        assert!(error.contains("leg 1 is missing, and may have newer data"), "{error}");
        assert!(assemble("disk", &[found("b", &old, 12)], &[], true).is_ok());
        assert!(assemble("disk", &[found("a", &new, 11)], &[], false).is_ok());
    }

    #[test]
    fn legs_that_went_on_without_each_other_are_refused_with_both_histories() {
        let old = pair();
        let (one, two) = (alone(&alone(&old, 0, 0x11), 0, 0x12), alone(&old, 1, 0x21));
        let error = say(&[found("a", &one, 11), found("b", &two, 12)]);
        assert!(error.contains("a was 11.0012 after 10.0011 after 9.2328"), "{error}");
        assert!(error.contains("b was 10.0021 after 9.2328"), "{error}");
        // Equal numbers do not make equal histories.
        let (one, two) = (alone(&old, 0, 1), alone(&old, 1, 2));
        assert!(say(&[found("a", &one, 11), found("b", &two, 12)]).contains("split brain"));
    }

    #[test]
    fn a_crash_in_the_middle_of_a_generation_is_no_split() {
        // The first leg has the next generation, with both in; the second was used alone.
        let old = pair();
        let mut next = old.clone();
        next.advance(5);
        let second = alone(&old, 1, 6);
        let legs = [found("a", &next, 11), found("b", &second, 12)];
        let assembly = assemble("disk", &legs, &[], false).unwrap();
        assert_eq!(assembly.newest.generation, second.generation);
        // Only the first leg has the generation, and no leg was used alone.
        let legs = [found("a", &next, 11), found("b", &old, 12)];
        let assembly = assemble("disk", &legs, &[], false).unwrap();
        assert_eq!(assembly.newest.in_state(LegState::In), 3);
    }

    #[test]
    fn what_is_no_leg_of_the_array_is_named() {
        let block = pair();
        let a = found("a", &block, 11);
        let other = |change: fn(&mut Superblock)| {
            let mut other = block.clone();
            change(&mut other);
            found("b", &other, 12)
        };
        let empty = Found { copies: [Some(vec![0; 4096]), Some(vec![0; 4096])], ..a.clone() };
        let mut torn = other(|_| {});
        torn.copies.iter_mut().flatten().for_each(|copy| copy[200] ^= 1);
        let mut removed = block.clone();
        removed.advance(1);
        removed.members[1].uuid = 99;
        let cases = [
            (vec![empty], "is not a leg of an array"),
            (vec![a.clone(), torn], "both superblocks of b are damaged"),
            (vec![a.clone(), other(|b| b.name = "x".to_owned())], "b is a leg of another array, x"),
            (vec![a.clone(), other(|b| b.array = 8)], "a and b belong to two different arrays"),
            (vec![a.clone(), found("c", &block, 11)], "c and a are the same leg"),
            (vec![found("a", &removed, 11), found("b", &block, 12)], "b was removed"),
            (vec![a.clone(), Found { bytes: 3 << 20, ..found("b", &pair(), 12) }], ""),
            (vec![Found { bytes: 2 << 20, ..a.clone() }], "2097152 bytes, minimum 3145728"),
            (vec![Found { block_bytes: 4096, ..a.clone() }], "blocks of 4096 bytes"),
            (vec![], "no leg is named"),
        ];
        for (legs, part) in cases {
            match part {
                "" => drop(assemble("disk", &legs, &[], false).unwrap()),
                part => assert!(say(&legs).contains(part), "{part}: {}", say(&legs)),
            }
        }
    }

    #[test]
    fn a_damaged_copy_is_replaced_by_the_other_and_the_newer_of_two_counts() {
        let old = pair();
        let mut new = old.clone();
        new.advance(4);
        for damaged in 0..2 {
            let mut leg = found("a", &old, 11);
            leg.copies[damaged] = if damaged == 0 { None } else { Some(vec![1; 4096]) };
            let both = [leg, found("b", &old, 12)];
            let assembly = assemble("disk", &both, &[], false).unwrap();
            assert_eq!(assembly.newest.generation, id(9));
            assert_eq!(assembly.first, [damaged, 0]);
            assert_eq!(assembly.notes.len(), 1 - damaged);
        }
        let mut leg = found("a", &old, 11);
        leg.copies[1] = Some(new.encode(11).to_vec());
        let assembly = assemble("disk", &[leg, found("b", &old, 12)], &[], false).unwrap();
        assert_eq!(assembly.newest.generation, Generation { number: 10, tag: 4 });
        assert_eq!(assembly.first, [0, 0], "the older one");
    }

    #[test]
    fn a_change_that_only_a_spare_took_is_no_split() {
        let mut old = pair();
        old.members.push(Member { uuid: 13, state: LegState::Spare, ..old.members[0] });
        // No active leg took the spare's generation; the first went on, and the second is stale.
        let mut spare = alone(&old, 1, 7);
        spare.members[2].state = LegState::Spare;
        let mut first = alone(&old, 0, 8);
        first.members[2].state = LegState::Spare;
        let legs = [found("a", &first, 11), found("b", &old, 12), found("c", &spare, 13)];
        let assembly = assemble("disk", &legs, &[], false).unwrap();
        assert_eq!(assembly.newest.generation, first.generation);
        // If the second leg has the generation, it may have been used without the first.
        let mut legs = legs;
        legs[1] = found("b", &spare, 12);
        assert!(say(&legs).contains("split brain"));
        // Nor can that be ruled out while the second leg is absent.
        legs[1] = legs[2].clone();
        assert!(say(&legs[..2]).contains("split brain"));
    }

    #[test]
    fn a_leg_that_is_being_made_equal_is_none_that_has_the_data() {
        let mut block = pair();
        block.members[0].state = LegState::Syncing;
        let error = say(&[found("a", &block, 11)]);
        assert!(error.contains("no available leg") && error.contains("a is syncing"), "{error}");
    }
}
