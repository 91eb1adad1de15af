//! Frequencies and thermal throttling of CPUs.

use std::fs;

/// Frequency state of a CPU at an instant. `None` if unknown, as in most virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Frequency in kHz.
    pub khz: Option<u64>,
    /// Frequency governor, such as `performance`.
    pub governor: Option<String>,
    /// Thermal throttle events of its core or package since boot.
    pub throttled: Option<u64>,
}

impl Pace {
    /// The current state of a CPU.
    pub fn of(cpu: usize) -> Pace {
        Pace::read(|file| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/{file}")).ok()
        })
    }

    fn read(file: impl Fn(&str) -> Option<String>) -> Pace {
        let number = |name: &str| file(name)?.trim().parse::<u64>().ok();
        let counts = ["core_throttle_count", "package_throttle_count"]
            .map(|name| number(&format!("thermal_throttle/{name}")));
        Pace {
            khz: number("cpufreq/scaling_cur_freq"),
            governor: file("cpufreq/scaling_governor").map(|text| text.trim().to_owned()),
            throttled: counts.into_iter().flatten().reduce(u64::saturating_add),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_what_there_is() {
        let pace = Pace::read(|file| {
            let text = match file {
                "cpufreq/scaling_cur_freq" => "2400000\n",
                "cpufreq/scaling_governor" => "powersave\n",
                "thermal_throttle/core_throttle_count" => "3\n",
                "thermal_throttle/package_throttle_count" => "4\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        assert_eq!((pace.khz, pace.throttled), (Some(2_400_000), Some(7)));
        assert_eq!(pace.governor.as_deref(), Some("powersave"));
        assert_eq!(Pace::read(|_| None), Pace::default());
    }
}
