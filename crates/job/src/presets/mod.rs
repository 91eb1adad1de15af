//! Presets: jobs by name, as data. `docs/reference/job-toml.md` has the source of each.

/// A job without volumes.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    /// Description in one line.
    pub says: &'static str,
    /// Document of a [`JobSpec`](crate::spec::JobSpec) in TOML. Groups without volumes get those of
    /// the user; a step named [`PRECONDITION`] ends after two capacities.
    pub job: &'static str,
}

/// Name of the step that writes a volume twice before it is measured.
pub const PRECONDITION: &str = "precondition";

/// A preset with its description; its job is in the file of its name.
macro_rules! preset {
    ($name:literal, $says:literal) => {
        Preset { name: $name, says: $says, job: include_str!(concat!($name, ".toml")) }
    };
}

/// Every preset.
pub const PRESETS: [Preset; 6] = [
    preset!("oltp-4k", "4 KiB, 70 % reads, all random"),
    preset!("oltp-8k", "8 KiB, 70 % reads, all random"),
    preset!("file-server", "512 B to 64 KiB, 80 % reads, all random"),
    preset!("web-server", "512 B to 512 KiB, reads only, all random"),
    preset!("backup", "256 KiB, reads only, sequential"),
    preset!(
        "steady-state",
        "4 KiB random writes to steady state, similar to the SNIA test but not that test"
    ),
];

/// Returns the preset of a name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::spec::JobSpec;

    fn job(name: &str) -> JobSpec {
        let mut job: JobSpec = toml::from_str(preset(name).unwrap().job).unwrap();
        for group in job.steps.iter_mut().flat_map(|step| &mut step.groups) {
            assert!(group.volumes.is_empty(), "{name}");
            group.volumes.push("null:1t".to_owned());
        }
        job.check().unwrap_or_else(|error| panic!("{name}: {error}"));
        job
    }

    #[test]
    fn every_preset_is_a_job_and_stands_in_the_manual() {
        let manual = include_str!("../../../../docs/reference/job-toml.md");
        for preset in PRESETS {
            assert_eq!(job(preset.name).name, preset.name);
            assert!(manual.contains(&format!("| `{}` |", preset.name)), "{}", preset.name);
        }
    }

    #[test]
    fn shapes_are_those_of_their_sources() {
        let shape = |name| {
            let access = job(name).steps.pop().unwrap().groups[0].workload.access.clone();
            (access.mean_bytes(), access.read_percent(), access.random_percent())
        };
        assert_eq!(shape("oltp-8k"), (8192.0, 70.0, 100.0));
        // Means of the published tables, summed independently of this code.
        let (bytes, read, random) = shape("file-server");
        assert!((bytes - 11_345.92).abs() < 1.0, "{bytes}");
        assert!((read - 80.0).abs() < 1e-9 && (random - 100.0).abs() < 1e-9);
        let (bytes, read, _) = shape("web-server");
        assert!((bytes - 16_035.84).abs() < 1.0, "{bytes}");
        assert!((read - 100.0).abs() < 1e-9);
        assert_eq!(shape("backup"), (262_144.0, 100.0, 0.0));
        assert_eq!(shape("steady-state"), (4096.0, 0.0, 100.0));
        assert_eq!(job("steady-state").steps[0].name, PRECONDITION);
    }
}
