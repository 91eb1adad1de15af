//! `drumfire discover`: which targets a portal has.

use anyhow::Result;

use crate::args::Discover;
use crate::exit::Exit;

const ISCSI_PORT: u16 = 3260;

/// Prints a line for each target and address: `iscsi://ADDRESS/NAME`.
pub fn main(discover: &Discover) -> Result<Exit> {
    let portal = discover.portal.trim_start_matches("iscsi://").trim_end_matches('/');
    let bare = !portal.rsplit(']').next().unwrap_or_default().contains(':');
    let portal = if bare { format!("{portal}:{ISCSI_PORT}") } else { portal.to_owned() };
    for (name, addresses) in volume::discover_iscsi(&portal)? {
        for address in addresses {
            // The group tag after the comma says which portals may share a session.
            let address = address.split(',').next().unwrap_or_default();
            println!("iscsi://{address}/{name}");
        }
    }
    Ok(Exit::Good)
}
