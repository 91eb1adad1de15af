//! Latency of the first I/O to a sleeping target.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::probe;
use super::super::programs::{Call, Programs};
use super::{Bench, Contender, Row, Sample};

/// One I/O at a time, 100 ms apart. Two threads on two cores with blocking system calls show the
/// machine's limit, and waking one of them without data is the minimum added to an I/O.
pub const ROW: Row = Row {
    name: "nvme-after-idle",
    title: "NVMe/TCP: a 4 KiB read after 100 ms of idling, mean service time",
    unit: "µs",
    contenders: &[
        Contender { name: OURS, run: one_queue },
        Contender { name: OF_FIFTY, run: fifty_queues },
        Contender { name: "two blocking sockets, the same bytes", run: bare },
        Contender { name: "one sleeping thread woken, nothing sent", run: wake },
    ],
};

const OURS: &str = "drumfire race --rate 10";
/// Contender with fifty queues: each I/O goes to the next queue, idle for five seconds.
const OF_FIFTY: &str = "drumfire race --rate 10, 50 queues in turn";
const PAUSE: Duration = Duration::from_millis(100);
/// Lengths of a command capsule, and of 4 KiB with a C2HData header.
const THERE: usize = 72;
const BACK: usize = 4120;

fn one_queue(bench: &Bench) -> Result<Sample> {
    ours(bench, 1, 1)
}

fn fifty_queues(bench: &Bench) -> Result<Sample> {
    // Longer than until each queue has had its first I/O.
    ours(bench, 50, 6)
}

fn ours(bench: &Bench, targets: u32, ramp_seconds: u64) -> Result<Sample> {
    let args = format!(
        "race --protocol nvme-tcp --targets {targets} --volumes 1 --outstanding 1 --size 4096 \
         --rate 10 --json --ramp {ramp_seconds} --seconds {}",
        bench.seconds
    );
    let call = Call { program: "drumfire", args, core: None };
    Sample::of_service(&bench.programs.run(&call, ramp_seconds + bench.seconds)?)
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
    // A separate thread, because pinning lasts as long as the thread.
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

/// Time from waking a thread on the other core until it runs.
fn wake(bench: &Bench) -> Result<Sample> {
    if matches!(bench.programs, Programs::Dry) {
        return Ok(Sample::of(100.0));
    }
    let start = Instant::now();
    let now_ns = move || start.elapsed().as_nanos() as u64;
    // Time at which the sleeper last ran; the maximum value ends it.
    let ran_ns = Arc::new(AtomicU64::new(0));
    let told = ran_ns.clone();
    let sleeper = std::thread::spawn(move || {
        probe::pin(0);
        loop {
            std::thread::park();
            let before = told.load(Ordering::Acquire);
            if before == u64::MAX {
                return;
            }
            let _ = told.compare_exchange(before, now_ns(), Ordering::Release, Ordering::Relaxed);
        }
    });
    let seconds = bench.seconds;
    let waking = std::thread::spawn(move || {
        probe::pin(1);
        let (mut taken_ns, mut count) = (0, 0);
        while start.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(PAUSE);
            let begin_ns = now_ns();
            sleeper.thread().unpark();
            while ran_ns.load(Ordering::Acquire) < begin_ns {
                std::hint::spin_loop();
            }
            taken_ns += ran_ns.load(Ordering::Acquire) - begin_ns;
            count += 1;
        }
        ran_ns.store(u64::MAX, Ordering::Release);
        sleeper.thread().unpark();
        let _ = sleeper.join();
        taken_ns as f64 / 1e3 / f64::from(count)
    });
    let mean = waking.join().map_err(|_| anyhow::anyhow!("the waking thread failed"))?;
    Ok(Sample::of(mean))
}
