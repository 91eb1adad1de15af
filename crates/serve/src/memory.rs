//! Memory budget of a server, and the memory reserved from it at the start.

use block::{Account, Budget, Pool};

use crate::config::Limits;
use crate::server::ServeError;

/// The default budget: this part of the available memory, up to a maximum.
const PART: u64 = 4;
const MOST_BYTES: u64 = 4 << 30;

/// Fixed memory of a core: receive buffers, ring, stack.
const CORE_BYTES: u64 = 10 << 20;

/// Memory of a connection without its buffers: socket, state, command slots.
pub(crate) const CONNECTION_BYTES: u64 = 32 << 10;

/// Fixed memory of the process: code, threads.
const PROCESS_BYTES: u64 = 8 << 20;

/// Minimum left for connections on each core: a step for buffers of each size, and one for
/// everything else.
const LEAST_LEFT_BYTES: u64 = 4 * Budget::STEP_BYTES;

/// Budget of a server with `cores` cores, minus its fixed memory.
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

/// The account of a new connection; `None` if memory is used up.
pub(crate) fn account(pool: &Pool) -> Option<Account> {
    pool.fair_account(CONNECTION_BYTES)
}

/// Further connections that memory allows.
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
            "40m of memory are too little for the number of cores: minimum 44m"
        );
        let small = budget(&with(Some(44 << 20)), 2).unwrap();
        assert_eq!((small.held_bytes(), small.left_bytes()), (28 << 20, 16 << 20));
        // Connections are admitted with this little memory, too.
        let pools = [(); 2].map(|()| Pool::within(small.clone()));
        let accounts = pools.each_ref().map(|pool| account(pool).unwrap());
        assert!(accounts.iter().all(|account| account.held_bytes() == 0));
        let usual = budget(&with(None), 2).unwrap();
        assert!((44 << 20..=4 << 30).contains(&usual.limit_bytes()));
    }
}
