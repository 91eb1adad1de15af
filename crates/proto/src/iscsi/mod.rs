//! iSCSI, both ends.
