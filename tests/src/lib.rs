//! Helpers of the system tests.
#![forbid(unsafe_code)]
