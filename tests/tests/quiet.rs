//! System tests that say something of shares of the processors, of a host on which nothing else
//! runs, or of how near an emulated drive is to its law. They run last, one file at a time.

mod busy_host;
mod classes;
mod emulated;
mod fair;
