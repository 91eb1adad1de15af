//! Idle states of CPUs, their siblings in a core, and naps of disks.

use std::fs;

use crate::cpu::parse_list;

/// An idle state of a CPU and its usage, by Documentation/admin-guide/pm/cpuidle.rst.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleState {
    /// Name of the state, such as `C6`.
    pub name: String,
    /// Exit latency of the state, in microseconds.
    pub exit_us: u64,
    /// Number of times that the state was entered since boot.
    pub entered: u64,
}

/// Rest of a CPU at an instant. `None` where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Idle states; empty if Linux has no driver for states deeper than the first (`idle=poll`,
    /// `cpuidle.off=1`), and `None` if the system does not report them.
    pub states: Option<Vec<IdleState>>,
    /// CPUs that are threads of the same core, including this one.
    pub siblings: Option<Vec<usize>>,
}

/// The driver of idle states of all CPUs.
const DRIVER: &str = "cpuidle/current_driver";
/// More states than any driver has (`CPUIDLE_STATE_MAX` is 10).
const MOST_STATES: usize = 16;

impl Rest {
    /// The current state of a CPU.
    pub fn of(cpu: usize) -> Rest {
        Rest::read(|file| {
            let file = match file {
                DRIVER => DRIVER.to_owned(),
                file => format!("cpu{cpu}/{file}"),
            };
            fs::read_to_string(format!("/sys/devices/system/cpu/{file}")).ok()
        })
    }

    fn read(file: impl Fn(&str) -> Option<String>) -> Rest {
        let number = |name: &str| file(name)?.trim().parse::<u64>().ok();
        let state = |index: usize| {
            let of = |name: &str| format!("cpuidle/state{index}/{name}");
            Some(IdleState {
                name: file(&of("name"))?.trim().to_owned(),
                exit_us: number(&of("latency"))?,
                entered: number(&of("usage"))?,
            })
        };
        let states: Vec<IdleState> = (0..MOST_STATES).map_while(state).collect();
        let siblings = file("topology/thread_siblings_list");
        let has_none = || file(DRIVER).is_some_and(|driver| driver.trim() == "none");
        Rest {
            states: (!states.is_empty() || has_none()).then_some(states),
            siblings: siblings.and_then(|text| parse_list(text.trim())),
        }
    }
}

/// Driver of idle states, such as `intel_idle`; `haltpoll` is one of virtual machines, whose host
/// chooses the idle state.
pub fn idle_driver() -> Option<String> {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/{DRIVER}")).ok()?;
    Some(text.trim().to_owned()).filter(|driver| !driver.is_empty() && driver != "none")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_what_there_is() {
        let rest = Rest::read(|file| {
            let text = match file {
                "cpuidle/state0/name" => "POLL\n",
                "cpuidle/state0/latency" => "0\n",
                "cpuidle/state0/usage" => "17\n",
                "cpuidle/state1/name" => "C6\n",
                "cpuidle/state1/latency" => "133\n",
                "cpuidle/state1/usage" => "4294967296\n",
                "topology/thread_siblings_list" => "3,35\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        let state =
            |name: &str, exit_us, entered| IdleState { name: name.into(), exit_us, entered };
        assert_eq!(rest.states, Some(vec![state("POLL", 0, 17), state("C6", 133, 1 << 32)]));
        assert_eq!(rest.siblings, Some(vec![3, 35]));
        assert_eq!(Rest::read(|_| None), Rest::default());
        let driver = |driver: &str| {
            Rest::read(|file| (file == DRIVER).then(|| format!("{driver}\n"))).states
        };
        assert_eq!(driver("none"), Some(Vec::new()), "idle=poll");
        assert_eq!(driver("intel_idle"), None);
    }
}
