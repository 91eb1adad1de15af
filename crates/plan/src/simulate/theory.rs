//! Queueing theory for drives of a profile.

use model::device::Profile;
use model::{Method, ModelError, Servers, solve};
use serde::Serialize;

use crate::bill::{DEVICES_MAX, Work};

/// Means of a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Theory {
    /// I/Os per second of all drives.
    pub iops: f64,
    /// Payload per second.
    pub bytes_per_s: f64,
    /// Mean time from issue to done, in seconds.
    pub latency_s: f64,
    /// Utilisation of each station with a queue, 0 to 1, the busiest first.
    pub uses: Vec<(String, f64)>,
}

/// Solves `drives` drives under `work`, whose outstanding I/Os are those of each drive.
///
/// # Errors
///
/// Errors of `model`; no more than 512 drives are solved.
pub fn theory(profile: &Profile, drives: u32, work: &Work) -> Result<Theory, ModelError> {
    if !(1..=DEVICES_MAX).contains(&drives) {
        let problem = format!("{drives} drives: 1 to {DEVICES_MAX} are possible");
        return Err(ModelError::Invalid { place: "profile".to_owned(), problem });
    }
    let size = work.size_bytes.clamp(1.0, f64::from(u32::MAX)) as u32;
    let network = profile.closed(drives, work.outstanding, work.read_share, size);
    let solution = solve(&network, Method::Auto)?;
    let stations = network.stations.iter().zip(&solution.stations);
    let mut uses: Vec<(String, f64)> = stations
        .filter(|(station, _)| station.servers != Servers::Infinite)
        .map(|(station, solved)| (station.name.clone(), solved.utilisation))
        .collect();
    uses.sort_by(|a, b| b.1.total_cmp(&a.1));
    let iops = solution.throughput_per_s();
    let bytes_per_s = iops * work.size_bytes;
    Ok(Theory { iops, bytes_per_s, latency_s: solution.response_s(), uses })
}
