//! `drumfire volume`: creates, shows, changes and checks arrays.

mod check;

use anyhow::Result;
use block::{parse_size, print_size};
use volume::array::{self, Change};
use volume::{ArrayUri, Uri};

use crate::exit::{Exit, UsageError};
use crate::output::{print, print_line};

/// `drumfire volume`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// Subcommands.
#[derive(clap::Subcommand, Clone, Debug)]
enum What {
    /// Create a zeroed array, and print its URI.
    Create {
        /// mirror: each leg holds all data; raid10: stripes over pairs of legs.
        #[arg(value_enum)]
        kind: Kind,
        /// Name of the array, here and in its superblocks.
        name: String,
        /// A leg; two or more.
        #[arg(long, value_name = "URI", required = true)]
        leg: Vec<Uri>,
        /// A hot spare.
        #[arg(long, value_name = "URI")]
        spare: Vec<Uri>,
        /// Stripe size of raid10.
        #[arg(long, value_name = "SIZE", default_value = "64k")]
        chunk: String,
        /// Overwrite this leg; without a name, all files.
        #[arg(long, value_name = "LEG", num_args = 0..=1, require_equals = true)]
        #[arg(default_missing_value = "")]
        destroy: Vec<String>,
    },
    /// Show what the legs say of their array.
    #[command(alias = "status")]
    Show {
        /// array:NAME?leg=URI&leg=URI
        array: Uri,
    },
    /// Add a leg, which resyncs when the array is opened; prints the new URI of the array.
    Add {
        /// array:NAME?leg=URI&leg=URI
        array: Uri,
        /// The leg.
        leg: Uri,
        /// Add it as a hot spare.
        #[arg(long)]
        spare: bool,
        /// Overwrite the leg.
        #[arg(long, value_name = "LEG", num_args = 0..=1, require_equals = true)]
        #[arg(default_missing_value = "")]
        destroy: Vec<String>,
    },
    /// Remove a leg by its number; prints the new URI of the array.
    Remove {
        /// array:NAME?leg=URI&leg=URI
        array: Uri,
        /// Number of the leg, from 1, as in `show`.
        number: usize,
    },
    /// Replace a leg by another; prints the new URI of the array.
    Replace {
        /// array:NAME?leg=URI&leg=URI
        array: Uri,
        /// Number of the leg to replace, from 1.
        number: usize,
        /// The new leg.
        leg: Uri,
        /// Overwrite the leg.
        #[arg(long, value_name = "LEG", num_args = 0..=1, require_equals = true)]
        #[arg(default_missing_value = "")]
        destroy: Vec<String>,
    },
    /// Compare the legs of an array: exit code 5 if they differ.
    Check {
        /// array:NAME?leg=URI&leg=URI, or a stripe over several
        array: Uri,
        /// Resync legs that differ, from the majority, or from the first of two legs.
        #[arg(long)]
        repair: bool,
        /// Bytes to compare in a second, at most.
        #[arg(long, value_name = "SIZE")]
        rate: Option<String>,
    },
    /// Grow an array whose legs were replaced by larger ones or became larger.
    Grow {
        /// array:NAME?leg=URI&leg=URI, or a stripe over several
        array: Uri,
        /// New capacity in bytes [default: the maximum for its legs].
        #[arg(long, value_name = "SIZE")]
        size: Option<String>,
    },
}

/// How data lie on the legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// All data on each leg.
    Mirror,
    /// Stripes over pairs.
    Raid10,
}

/// Runs the subcommand.
pub fn main(args: &Args) -> Result<Exit> {
    match args.what.clone() {
        What::Create { kind, name, leg, spare, chunk, destroy } => {
            let made = match kind {
                Kind::Mirror => Uri::Array(array::create(&name, &leg, &spare, &destroy)?),
                Kind::Raid10 => raid10(&name, &leg, &spare, &chunk, &destroy)?,
            };
            print_line(made)?;
        }
        What::Show { array } => {
            let lines = array::show(&array_of(array)?)?;
            print(&lines.into_iter().collect())?;
        }
        What::Add { array, leg, spare, destroy } => {
            changed(array, Change::Add { leg, spare }, &destroy)?;
        }
        What::Remove { array, number } => changed(array, Change::Remove { number }, &[])?,
        What::Replace { array, number, leg, destroy } => {
            changed(array, Change::Replace { number, leg }, &destroy)?;
        }
        What::Check { array, repair, rate } => return check::main(array, repair, rate.as_deref()),
        What::Grow { array, size } => grow(array, size.as_deref())?,
    }
    Ok(Exit::Good)
}

/// Stripes over arrays of two legs each.
fn raid10(
    name: &str,
    legs: &[Uri],
    spares: &[Uri],
    chunk: &str,
    destroy: &[String],
) -> Result<Uri> {
    let wrong = |why: &str| UsageError(why.to_owned());
    if legs.len() < 4 || !legs.len().is_multiple_of(2) {
        return Err(wrong("raid10 needs an even number of legs, at least 4").into());
    }
    if !spares.is_empty() {
        return Err(wrong(
            "in raid10, a spare belongs to one pair: add it with `volume add --spare`",
        )
        .into());
    }
    let chunk_bytes = parse_size(chunk).map_err(|error| wrong(&error.to_string()))?;
    // Checked before anything is written: the URI must be valid.
    format!("stripe:{}(ram:1g,ram:1g)", print_size(chunk_bytes)).parse::<Uri>()?;
    array::suit(name, legs)?;
    let pair = |(number, pair): (usize, &[Uri])| {
        let name = format!("{name}-{}", number + 1);
        array::create(&name, pair, &[], destroy).map(Uri::Array)
    };
    let parts = legs.chunks(2).enumerate().map(pair).collect::<Result<_, _>>()?;
    Ok(Uri::Stripe { chunk_bytes, parts })
}

fn changed(array: Uri, change: Change, destroy: &[String]) -> Result<()> {
    let now = array::change(&array_of(array)?, change, destroy)?;
    print_line(Uri::Array(now))
}

/// Enlarges an array, or each array of a stripe set.
fn grow(uri: Uri, size: Option<&str>) -> Result<()> {
    let wrong = |why: String| UsageError(why);
    let bytes = size.map(parse_size).transpose().map_err(|error| wrong(error.to_string()))?;
    let (arrays, each) = match uri {
        Uri::Stripe { parts, .. } => {
            let count = parts.len() as u64;
            if bytes.is_some_and(|bytes| !bytes.is_multiple_of(count)) {
                return Err(wrong(format!(
                    "--size must be a multiple of {count}, for {count} parts"
                ))
                .into());
            }
            (parts, bytes.map(|bytes| bytes / count))
        }
        one => (vec![one], bytes),
    };
    let arrays = arrays.into_iter().map(array_of).collect::<Result<Vec<_>>>()?;
    for array in arrays {
        let bytes = array::grow(&array, each)?;
        print_line(format_args!("array {} has {bytes} bytes", array.name))?;
    }
    Ok(())
}

fn array_of(uri: Uri) -> Result<ArrayUri> {
    match uri {
        Uri::Array(array) => Ok(array),
        other => {
            Err(UsageError(format!("{other} is not an array: write array:NAME?leg=URI&leg=URI"))
                .into())
        }
    }
}
