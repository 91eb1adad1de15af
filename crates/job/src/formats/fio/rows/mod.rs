//! Rows of options whose settings have no module of their own: which volumes, which I/Os, when and
//! where.

pub(super) mod mix;
pub(super) mod turn;
pub(super) mod volumes;
