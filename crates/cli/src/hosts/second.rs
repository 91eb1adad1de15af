//! Seconds of hosts on their way to rank 0, and the drafts of parts that a lost host leaves.

use block::Nanos;
use stats::RunResult;
use stats::live::HostSecond;

/// Share of the time that drafts may take: 1/100 of a core. CPU time counts, as a busy host makes
/// each take longer.
const SHARE: u64 = 100;

/// Reads a second; `None` if no host can have sent it.
pub(super) fn read(bytes: &[u8]) -> Option<HostSecond> {
    serde_json::from_slice::<HostSecond>(bytes).ok().filter(HostSecond::is_sound)
}

/// Bytes of a second.
pub(super) fn bytes(second: &HostSecond) -> Vec<u8> {
    serde_json::to_vec(second).unwrap_or_default()
}

/// Bytes of a part.
pub(super) fn part(result: &RunResult) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory fails only without memory.
    let _ = report::json::write(result, &mut bytes);
    bytes
}

/// Times at which drafts are made: each second, unless they take long.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    /// CPU time of this thread when one was asked for.
    asked: Nanos,
    next: Nanos,
}

impl Drafts {
    /// Whether a draft is due now; `used` is the CPU time of this thread.
    pub fn are_due(&mut self, now: Nanos, used: Nanos) -> bool {
        self.asked = used;
        now >= self.next
    }

    /// Schedules the next draft after one was made and sent.
    pub fn sent(&mut self, now: Nanos, used: Nanos) {
        self.next = now + Nanos(used.since(self.asked).0 * SHARE).min(Nanos::from_secs(60));
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_second_is_read_back_and_nothing_else() {
        let second = HostSecond { iops: 5.0, ..HostSecond::default() };
        assert_eq!(read(&bytes(&second)), Some(second));
        assert_eq!(read(b"{\"iops\":-3}"), None);
        assert_eq!(read(b"second"), None);
    }

    #[test]
    fn drafts_are_made_each_second_unless_they_take_long() {
        let made = |takes: Nanos| {
            let mut drafts = Drafts::default();
            let each = (1..=60).map(Nanos::from_secs);
            each.filter(|now| {
                let due = drafts.are_due(*now, Nanos(7));
                if due {
                    // The thread waited for its core as long as it used it.
                    drafts.sent(*now + takes + takes, Nanos(7) + takes);
                }
                due
            })
            .count()
        };
        assert_eq!((made(Nanos::from_millis(9)), made(Nanos::from_millis(39))), (60, 15));
    }
}
