//! `drumfire completions`: scripts with which a shell completes commands and options.

use anyhow::Result;
use clap::ValueEnum;
use clap_complete::generate;

use crate::exit::Exit;
use crate::{help, output};

/// `drumfire completions`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Shells that are completed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shell {
    /// GNU bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
}

/// Prints the script.
pub fn main(args: &Args) -> Result<Exit> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut help::program(), "drumfire", &mut script);
    output::file(&script)?;
    Ok(Exit::Good)
}
