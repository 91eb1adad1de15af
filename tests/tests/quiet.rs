//! System tests that need a quiet host: they measure shares of the CPUs, an otherwise idle host,
//! the accuracy of an emulated drive, shares of a latency, eleven hosts on one machine, or the
//! time that a command takes to end. They run last, one file at a time.

mod busy_host;
mod classes;
mod client;
mod emulated;
mod fair;
mod interrupted;
mod ranks_founding;
mod whose_time;
