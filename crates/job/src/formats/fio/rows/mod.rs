//! Rows of options whose settings have no module of their own: volumes, mix, times and CPUs.

pub(super) mod mix;
pub(super) mod turn;
pub(super) mod volumes;
