//! `drumfire doctor`: what on this host will spoil a measurement.

use anyhow::Result;
use os::{Clock, Features};

use crate::exit::Exit;

/// Prints what it finds; fails if nothing can run here.
pub fn main() -> Result<Exit> {
    let features = Features::probe()?;
    println!("kernel     Linux {}", os::sample::kernel_release());
    println!("processor  {}, {} usable", os::cpu::model(), os::cpu::allowed().len());
    for (name, has, since) in [
        ("deferred task work", features.defer_taskrun, "6.1"),
        ("cooperative task work", features.coop_taskrun, "5.19"),
        ("multishot receive", features.multishot_receive, "6.0"),
        ("registered files", features.registered_files, "5.19"),
        ("sends by reference", features.send_by_reference, "6.5"),
    ] {
        let state = match has {
            true => "yes".to_owned(),
            false => format!("no: a slower path is used; Linux {since} or newer has it"),
        };
        println!("kernel     {name}: {state}");
    }
    let clock = match Clock::get().uses_counter() {
        true => "time-stamp counter".to_owned(),
        false => "system call, slower: the kernel's clock source is not tsc".to_owned(),
    };
    println!("clock      {clock}");
    Ok(Exit::Good)
}
