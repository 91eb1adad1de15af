//! Whether a launcher of MPI started this process, and as which of how many.

use std::env;
use std::process::Command;

/// Rank and size by which a launcher started this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Number of this process, from 0.
    pub rank: u32,
    /// Number of processes.
    pub size: u32,
    /// The launcher.
    pub by: &'static str,
}

/// Variables of launchers: rank, size, and whose they are. `srun` sets its own for every program:
/// they count only beside those of a process manager of MPI.
const LAUNCHERS: [(&str, &str, &str); 3] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun of Open MPI"),
    ("PMI_RANK", "PMI_SIZE", "mpiexec of MPICH, or srun"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"),
];

/// Returns how a launcher of MPI started this process; `None` if none did.
pub fn launched() -> Option<Launched> {
    of(&|name| env::var(name).ok())
}

/// Prefixes of the variables by which launchers and their programs find each other.
const PREFIXES: [&str; 4] = ["OMPI_", "PMIX_", "PMI_", "PRTE_"];

/// Hides from a program that is about to be started that a launcher started this process: the
/// program is no rank.
pub fn forget_launcher(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}

fn of(variable: &dyn Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    let by_slurm_alone = variable("PMIX_RANK").is_none() && variable("PMI_RANK").is_none();
    LAUNCHERS.iter().find_map(|(rank, size, by)| {
        if *rank == "SLURM_PROCID" && by_slurm_alone {
            return None;
        }
        let (rank, size) = (number(rank)?, number(size)?);
        (rank < size).then_some(Launched { rank, size, by })
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn by(variables: &[(&str, &str)]) -> Option<Launched> {
        of(&|name| {
            let found = variables.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        let found = by(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]).unwrap();
        assert_eq!((found.rank, found.size), (2, 4));
        let found = by(&[("PMI_RANK", "0"), ("PMI_SIZE", "3")]).unwrap();
        assert_eq!((found.rank, found.size), (0, 3));
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2"), ("PMIX_RANK", "1")];
        assert_eq!(by(&slurm).map(|found| (found.rank, found.size)), Some((1, 2)));
    }

    #[test]
    fn others_are_none() {
        assert_eq!(by(&[]), None);
        // A task of srun that is no MPI program: a part of a run started at a time.
        assert_eq!(by(&[("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "2")]), None);
        assert_eq!(by(&[("PMI_RANK", "3"), ("PMI_SIZE", "3")]), None);
        assert_eq!(by(&[("PMI_RANK", "x"), ("PMI_SIZE", "3")]), None);
    }
}
