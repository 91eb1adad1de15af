//! System tests that need a quiet host: they measure shares of the CPUs, an otherwise idle host,
//! the accuracy of an emulated drive, or shares of a latency. They run last, one file at a time.

mod busy_host;
mod classes;
mod emulated;
mod fair;
mod whose_time;
