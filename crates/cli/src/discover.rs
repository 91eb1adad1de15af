//! `drumfire discover`: which targets a portal has, or exports a server.

use anyhow::Result;
use block::{Text, hint};

use crate::args::Discover;
use crate::exit::{Exit, UsageError};
use crate::output;

/// Prints a line for each target and address: `iscsi://ADDRESS/NAME`, `nvme+tcp://ADDRESS/NAME`,
/// `nbd://ADDRESS/NAME`.
pub fn main(discover: &Discover) -> Result<Exit> {
    let (scheme, portal) = discover.portal.split_once("://").unwrap_or(("iscsi", &discover.portal));
    let portal = portal.trim_end_matches('/');
    if portal.is_empty() || portal.contains('/') {
        let message = format!("'{}' is not a portal: write HOST or HOST:PORT", discover.portal);
        return Err(UsageError(message).into());
    }
    if portal.starts_with('[') && !portal.contains(']') {
        return Err(UsageError(format!("']' is missing after the address {portal}")).into());
    }
    let port = portal.rsplit(']').next().unwrap_or_default().split_once(':');
    if let Some((_, port)) = port
        && port.parse::<u16>().is_err()
    {
        return Err(UsageError(format!("{portal}: '{port}' is not a port")).into());
    }
    let with_port = |default: u16| match port.is_none() {
        true => format!("{portal}:{default}"),
        false => portal.to_owned(),
    };
    let found = match scheme {
        "iscsi" => volume::discover_iscsi(&with_port(3260), discover.chap.as_deref())?,
        _ if discover.chap.is_some() => {
            return Err(UsageError("--chap is for iscsi:// portals only".to_owned()).into());
        }
        // The port of discovery services, by the standard.
        "nvme+tcp" => volume::discover_nvme(&with_port(8009))?,
        "nbd" => {
            let address = with_port(10809);
            let exports = volume::discover_nbd(&address)?;
            exports.into_iter().map(|name| (name, vec![address.clone()])).collect()
        }
        _ => {
            let near = hint(scheme, ["iscsi", "nvme+tcp", "nbd"]);
            let message = format!(
                "'{scheme}://' has no discovery: write iscsi://, nvme+tcp:// or nbd://{near}"
            );
            return Err(UsageError(message).into());
        }
    };
    if found.is_empty() {
        output::note(format_args!("drumfire: {portal} lists no target for this host"));
    }
    let mut text = Text::new();
    for (name, addresses) in &found {
        for address in addresses {
            // The group tag after the comma groups portals that may share a session.
            let address = address.split(',').next().unwrap_or_default();
            writeln!(text, "{scheme}://{address}/{name}")?;
        }
    }
    output::print(&text)?;
    Ok(Exit::Good)
}
