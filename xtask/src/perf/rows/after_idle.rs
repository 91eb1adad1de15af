//! How much longer the first I/O takes that finds a sleeping target.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::probe;
use super::super::programs::{Call, Programs};
use super::{Bench, Contender, Row, Sample};

/// One I/O at a time, a tenth of a second apart; what two threads on two cores with nothing but
/// blocking system calls take is what the machine allows.
pub const ROW: Row = Row {
    name: "nvme-after-idle",
    title: "NVMe/TCP: a 4 KiB read after 100 ms of idling, mean service time",
    unit: "µs",
    contenders: &[
        Contender { name: OURS, run: ours },
        Contender { name: "two blocking sockets, the same bytes", run: bare },
    ],
};

const OURS: &str = "drumfire race --rate 10";
const PAUSE: Duration = Duration::from_millis(100);
/// A command capsule, and 4 KiB behind the header of a C2HData.
const THERE: usize = 72;
const BACK: usize = 4120;

fn ours(bench: &Bench) -> Result<Sample> {
    let args = format!(
        "race --protocol nvme-tcp --targets 1 --volumes 1 --outstanding 1 --size 4096 --rate 10 \
         --json --ramp 1 --seconds {}",
        bench.seconds
    );
    let call = Call { program: "drumfire", args, core: None };
    Sample::of_service(&bench.programs.run(&call, bench.seconds)?)
}

fn bare(bench: &Bench) -> Result<Sample> {
    if matches!(bench.programs, Programs::Dry) {
        return Ok(Sample::of(150.0));
    }
    let listener = TcpListener::bind("127.0.0.1:0").context("a port")?;
    let mut near = TcpStream::connect(listener.local_addr()?).context("the port")?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let echo = std::thread::spawn(move || {
        probe::pin(0);
        let (mut asked, answer) = ([0; THERE], [0; BACK]);
        while far.read_exact(&mut asked).and_then(|()| far.write_all(&answer)).is_ok() {}
    });
    let seconds = bench.seconds;
    // A thread of its own: the pinning ends with it.
    let asking = std::thread::spawn(move || -> std::io::Result<f64> {
        probe::pin(1);
        let (mut taken, mut count) = (Duration::ZERO, 0);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            std::thread::sleep(PAUSE);
            let begin = Instant::now();
            near.write_all(&[0; THERE])?;
            near.read_exact(&mut [0; BACK])?;
            taken += begin.elapsed();
            count += 1;
        }
        Ok(taken.as_secs_f64() * 1e6 / f64::from(count))
    });
    let mean = asking.join().map_err(|_| anyhow::anyhow!("the asking thread failed"))??;
    let _ = echo.join();
    Ok(Sample::of(mean))
}
