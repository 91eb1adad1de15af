//! How much memory a server may take, and what of it is spoken for at the start.

use block::{Account, Budget, Pool};

use crate::config::Limits;
use crate::server::ServeError;

/// The part of the available memory that is taken where nobody says how much, and the most.
const PART: u64 = 4;
const MOST_BYTES: u64 = 4 << 30;

/// What a core takes whether anybody is there or not: buffers that sockets receive into, its ring,
/// its stack.
const CORE_BYTES: u64 = 10 << 20;

/// What a connection costs beside its buffers: its socket, its state, slots for its commands.
pub(crate) const CONNECTION_BYTES: u64 = 32 << 10;

/// What the process takes by itself: its code, its threads.
const PROCESS_BYTES: u64 = 8 << 20;

/// So much is left for connections on each core at least: a step for buffers of each size, and one
/// for what is no buffer.
const LEAST_LEFT_BYTES: u64 = 4 * Budget::STEP_BYTES;

/// The budget of a server with so many cores, which are paid for already.
pub(crate) fn budget(limits: &Limits, cores: usize) -> Result<Budget, ServeError> {
    let fixed = PROCESS_BYTES + CORE_BYTES * cores as u64;
    let least = fixed + LEAST_LEFT_BYTES * cores as u64;
    let bytes = match limits.memory_bytes {
        Some(bytes) if bytes < least => return Err(ServeError::LittleMemory { bytes, least }),
        Some(bytes) => bytes,
        None => {
            let room = os::cgroup::memory_room();
            let part = room.map_or(MOST_BYTES, |room| room.available_bytes / PART);
            part.clamp(least, MOST_BYTES.max(least))
        }
    };
    let budget = Budget::new(bytes);
    assert!(budget.take(fixed), "the budget has room for its cores");
    Ok(budget)
}

/// The account of a newcomer; `None` where memory is used up.
pub(crate) fn account(pool: &Pool) -> Option<Account> {
    pool.fair_account(CONNECTION_BYTES)
}

/// For how many connections more there is memory.
pub(crate) fn affordable(budget: &Budget) -> usize {
    let each = CONNECTION_BYTES + Account::PROMISED_BYTES as u64;
    usize::try_from(budget.left_bytes() / each).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_budget_has_room_for_its_cores() {
        let with = |memory_bytes| Limits { memory_bytes, ..Limits::default() };
        let error = budget(&with(Some(40 << 20)), 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "40m of memory are too little for this many cores: give 44m or more"
        );
        let small = budget(&with(Some(44 << 20)), 2).unwrap();
        assert_eq!((small.held_bytes(), small.left_bytes()), (28 << 20, 16 << 20));
        // Connections get in even then.
        let pools = [(); 2].map(|()| Pool::within(small.clone()));
        let accounts = pools.each_ref().map(|pool| account(pool).unwrap());
        assert!(accounts.iter().all(|account| account.held_bytes() == 0));
        let usual = budget(&with(None), 2).unwrap();
        assert!((44 << 20..=4 << 30).contains(&usual.limit_bytes()));
    }
}
