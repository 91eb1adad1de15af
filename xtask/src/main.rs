//! The task runner of this repository: `cargo xtask COMMAND`.
//!
//! All work on the code uses these commands, so that developers and CI do the same. Each command
//! has one file or folder. Programs are found by name; there are no shell scripts.
#![forbid(unsafe_code)]

mod aa;
mod dist;
mod kernel;
mod miri;
mod perf;
mod prepush;
mod process;
mod say;
mod sim;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy      check what compilers do not: imports, unsafe code, words, widths, links, lies
  test      run every test: unit, interoperability, kernel, fuzz smoke; list what was skipped
              --changed          only unit tests of what differs from main and of what needs that,
                                 and system tests that differ
              --fuzz-seconds N   time for each fuzz target (default 10)
              --checked          system tests and the guest drive the debug build, which asserts
                                 more and is made with the tests
              --lint             clippy too
              --no-install       do not install missing programs, even as root
  kernel    let the Linux kernel of a virtual machine use our target over both protocols
              --drumfire FILE    this program instead of the release build
              --no-install       as above
  miri      let Miri run what is unsafe and makes no system calls, where it is installed
  sim       whole servers in virtual time, from seeds
              --rig              runs whose truth is known, and what their results say
              --seeds N          worlds or situations (default 10000)
              --from S           first seed (default 0)
              --plants           plant each known mistake and look whether it is found
              'seed=7 cores=1 …' one of them, as a failure prints it
  prepush   fmt, clippy, tidy, test, deny: everything that CI wants
  dist      packages of the commit, in target/dist
              --test             install, use and remove them in a clean root, as root on Debian
              --quick            try packages of the debug build, as test does; with --static
                                 FILE its archive and image too
              --twice            build again in another folder: all files must be the same
              --dirty            although the working tree differs from the commit
              --only KIND        build one program alone: shared or static
              --drumfire FILE    pack this program, built before
              --static FILE      pack this static program, built before
              --base-url URL     where the files will be, for Homebrew's formula
  perf      measure beside the peers and write raw tables to target/perf
              [ROW…]             rows to measure (default all; `--list` names them)
              --runs N           runs per contender (default 5)
              --seconds S        length of a run (default 5)
              --profile          where the time of races goes, with Linux's perf
              --dry              canned outputs instead of programs; print, write nothing
  aa        compare a job with itself, and with one that does a fifth less, on memory and a file
              --pairs N          pairs of each of the four kinds (default 200, about 20 hours); a
                                 later call continues
              --seconds S        length of a run (default 1)
              --rounds N, --control N   as of compare (default 6 and 3)
              --drumfire FILE    this program instead of the release build
              --out DIR          where finished pairs are saved (default target/aa)
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", &[][..]),
    };
    let result = match command {
        "tidy" => tidy::main(rest),
        "test" => test::main(rest),
        "kernel" => kernel::main(rest),
        "miri" => miri::main(rest),
        "sim" => sim::main(rest),
        "dist" => dist::main(rest),
        "prepush" => prepush::main(rest),
        "perf" => perf::main(rest),
        "aa" => aa::main(rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: the parent of this package.
fn root() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("xtask lies in the repository").to_path_buf()
}

/// Cargo's target directory.
fn target_folder() -> PathBuf {
    let elsewhere = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    elsewhere.map_or_else(|| root().join("target"), |folder| root().join(folder))
}
