//! `drumfire ctl`: orders to a running server.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use block::{Text, print_size};

use crate::exit::{Exit, UsageError};
use crate::output;
use crate::serve::order::{Answer, ConnectionRow, ORDER_MAX_BYTES, Order, VolumeRow};

/// `drumfire ctl`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Control socket of the server.
    socket: PathBuf,
    #[command(subcommand)]
    what: What,
    /// Print lists as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// Subcommands.
#[derive(clap::Subcommand, Clone, Debug)]
enum What {
    /// List the volumes, with their I/Os.
    Volumes,
    /// List the connections, with their hosts.
    Connections,
    /// Serve one more volume.
    Add {
        /// The volume: NAME=URI, or NAME/LUN=URI.
        volume: String,
    },
    /// Remove a volume: its hosts leave, or are disconnected.
    Remove {
        /// NAME, or NAME/LUN.
        volume: String,
    },
    /// Close a connection, or all of a host.
    Disconnect {
        /// Number of the connection, or address, IQN or NQN of the host.
        whom: String,
    },
    /// Make a volume read-only, or writable.
    Set {
        /// NAME, or NAME/LUN.
        volume: String,
        /// Access of its hosts.
        #[arg(value_enum)]
        access: Access,
    },
    /// Open a volume again: its file has grown.
    Reopen {
        /// NAME, or NAME/LUN.
        volume: String,
    },
    /// Read serve.toml again.
    Reload,
    /// Print the state as a serve.toml.
    Dump,
}

/// Access of hosts to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Access {
    /// Read.
    ReadOnly,
    /// Read and write.
    Writable,
}

/// Sends the order, and prints the answer.
pub fn main(args: &Args) -> Result<Exit> {
    let order = match args.what.clone() {
        What::Volumes => Order::Volumes {},
        What::Connections => Order::Connections {},
        What::Add { volume } => Order::Add { volume },
        What::Remove { volume } => Order::Remove { volume },
        What::Disconnect { whom } => Order::Disconnect { whom },
        What::Set { volume, access } => {
            Order::Set { volume, read_only: access == Access::ReadOnly }
        }
        What::Reopen { volume } => Order::Reopen { volume },
        What::Reload => Order::Reload {},
        What::Dump => Order::Dump {},
    };
    match answer(&args.socket, &order)? {
        Answer::Volumes(rows) if args.json => output::document(&rows)?,
        Answer::Volumes(rows) => output::print(&volumes(&rows)?)?,
        Answer::Connections(rows) if args.json => output::document(&rows)?,
        Answer::Connections(rows) => output::print(&connections(&rows)?)?,
        Answer::Done(lines) => output::print(&lines.into_iter().collect())?,
        Answer::Dump(text) => output::file(text.as_bytes())?,
        Answer::Refused { why, usage: true } => return Err(UsageError(why).into()),
        Answer::Refused { why, usage: false } => bail!(why),
    }
    Ok(Exit::Good)
}

fn answer(socket: &Path, order: &Order) -> Result<Answer> {
    let name = socket.display();
    let no_server = |error| {
        UsageError(format!(
            "{name}: no server answers there: {error}; serve --control {name} makes the socket"
        ))
    };
    let mut stream = UnixStream::connect(socket).map_err(no_server)?;
    let mut text = serde_json::to_string(order)?;
    text.push('\n');
    if text.len() as u64 > ORDER_MAX_BYTES {
        return Err(UsageError("the order is too long".to_owned()).into());
    }
    stream.write_all(text.as_bytes()).with_context(|| name.to_string())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).with_context(|| name.to_string())?;
    serde_json::from_str(&line).with_context(|| format!("{name}: the server did not answer"))
}

fn volumes(rows: &[VolumeRow]) -> Result<Text> {
    let mut text = Text::new();
    let wide = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("volume".len());
    writeln!(
        text,
        "{:wide$} {:>9} {:>6} {:>12} {:>12} {:>8}  from",
        "volume", "size", "conns", "reads", "writes", "errors"
    )?;
    for row in rows {
        writeln!(
            text,
            "{:wide$} {:>9} {:>6} {:>12} {:>12} {:>8}  {}",
            row.name,
            print_size(row.bytes),
            row.connections,
            row.read.ios,
            row.write.ios,
            row.read.errors + row.write.errors,
            match row.read_only {
                true => format!("{}, read-only", row.uri),
                false => row.uri.clone(),
            }
        )?;
    }
    Ok(text)
}

fn connections(rows: &[ConnectionRow]) -> Result<Text> {
    let mut text = Text::new();
    writeln!(
        text,
        "{:>6} {:8} {:22} {:>5}  volumes and host",
        "number", "protocol", "peer", "I/Os"
    )?;
    for row in rows {
        let ConnectionRow { number, protocol, peer, in_flight, .. } = row;
        let volumes = match row.volumes.is_empty() {
            true => "none".to_owned(),
            false => row.volumes.join(", "),
        };
        let host = row.host.as_deref().unwrap_or("unnamed");
        writeln!(text, "{number:>6} {protocol:8} {peer:22} {in_flight:>5}  {volumes}: {host}")?;
    }
    Ok(text)
}
