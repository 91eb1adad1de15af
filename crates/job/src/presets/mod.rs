//! Jobs by name: the shapes that the trade measures by, as data. `docs/load.md` says where each
//! comes from.

/// A job without volumes.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is like, in a line.
    pub says: &'static str,
    /// The document of a [`JobSpec`](crate::spec::JobSpec) in TOML. Groups without volumes get
    /// those of the user; a step called [`PRECONDITION`] ends after two capacities.
    pub job: &'static str,
}

/// The step that writes a volume twice before it is measured.
pub const PRECONDITION: &str = "precondition";

/// Every preset.
pub const PRESETS: [Preset; 6] = [
    Preset {
        name: "oltp-4k",
        says: "4 KiB, 70 % reads, all random",
        job: include_str!("oltp-4k.toml"),
    },
    Preset {
        name: "oltp-8k",
        says: "8 KiB, 70 % reads, all random",
        job: include_str!("oltp-8k.toml"),
    },
    Preset {
        name: "file-server",
        says: "512 B to 64 KiB, 80 % reads, all random",
        job: include_str!("file-server.toml"),
    },
    Preset {
        name: "web-server",
        says: "512 B to 512 KiB, reads only, all random",
        job: include_str!("web-server.toml"),
    },
    Preset {
        name: "backup",
        says: "256 KiB, reads only, sequential",
        job: include_str!("backup.toml"),
    },
    Preset {
        name: "steady-state",
        says: "shaped like the SNIA test of 4 KiB random writes in steady state, and not that test",
        job: include_str!("steady-state.toml"),
    },
];

/// The preset of a name.
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
        let manual = include_str!("../../../../docs/load.md");
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
        // Means of the published tables, summed apart from this code.
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
