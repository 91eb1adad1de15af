//! Opens volumes, and prints what their user should know before using them.

use std::sync::Arc;

use volume::{OpenError, Purpose, Uri, Volume};

use crate::output::note;

/// Opens a volume.
pub fn open(uri: &Uri, purpose: Purpose) -> Result<Arc<dyn Volume>, OpenError> {
    let volume = volume::open(uri, purpose)?;
    print_remarks(&*volume);
    Ok(volume)
}

/// Opens several at once.
pub fn open_all(wanted: &[(Uri, Purpose)]) -> Result<Vec<Arc<dyn Volume>>, OpenError> {
    let volumes = volume::open_all(wanted)?;
    volumes.iter().for_each(|volume| print_remarks(&**volume));
    Ok(volumes)
}

fn print_remarks(volume: &dyn Volume) {
    for line in volume.remarks() {
        note(format_args!("drumfire: {line}"));
    }
}
