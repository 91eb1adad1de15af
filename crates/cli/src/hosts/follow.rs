//! A rank that does what rank 0 hands out.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use block::Nanos;
use fleet::{Follow, Heard, Message};
use job::spec::JobSpec;
use load::{Gate, Prepared, Stop};
use os::{Clock, sample};
use stats::live::{Action, HostSecond, Live, Snapshot};
use stats::{RunResult, ServerResult};

use super::order::{Handed, Order};
use super::probe::{self, Ask, Rank};
use super::read_back::ReadBack;
use super::second::{self, Drafts};
use super::serving::Held;
use crate::bench::{Allowed, Bench};
use crate::exit::Exit;
use crate::folder::{self, Folder};
use crate::layout::{self, Manner};
use crate::{exit, output, signal};

/// Interval at which a rank that serves looks for the end, and that of its figures.
const LOOK: Duration = Duration::from_millis(5);
const SECOND: Nanos = Nanos::from_secs(1);

/// The way to rank 0, and what it said of the round under way.
#[derive(Debug)]
struct Way {
    follow: Mutex<Follow>,
    said: Mutex<Said>,
    /// Jobs whose files are removed once the work is over, if they ask for it.
    done: Mutex<Vec<JobSpec>>,
}

#[derive(Debug, Default)]
struct Said {
    round: u32,
    start: Option<Nanos>,
    /// Words of rank 0 before the start.
    words: VecDeque<Vec<u8>>,
    /// The work is over, and why if rank 0 is gone.
    end: Option<Option<String>>,
}

/// Follows until the work is over.
pub(super) fn main(follow: Follow) -> Exit {
    let rank = follow.rank();
    let mut held = None;
    let (follow, done) = (Mutex::new(follow), Mutex::default());
    let way = Arc::new(Way { follow, said: Mutex::default(), done });
    let end = loop {
        if let Some(end) = way.said().end.clone() {
            break end;
        }
        let heard = way.follow().next(Duration::from_millis(100));
        match heard {
            Some(Heard::Order { round, body }) => {
                *way.said() = Said { round, ..Said::default() };
                if let Err(error) = work(&way, rank, round, &body, &mut held) {
                    let why = exit::words(&error);
                    way.say(Message::Refused { round, why });
                }
            }
            Some(heard) => way.hear(heard, None),
            None => {}
        }
    };
    let done = std::mem::take(&mut *way.done.lock().unwrap_or_else(PoisonError::into_inner));
    done.iter().for_each(layout::unlink);
    let exit = match end {
        None => Exit::Good,
        Some(_) => Exit::Partial,
    };
    if let Ok(way) = Arc::try_unwrap(way) {
        way.follow.into_inner().unwrap_or_else(PoisonError::into_inner).leave();
    }
    exit
}

/// Does a round.
fn work(way: &Arc<Way>, rank: u32, round: u32, body: &[u8], held: &mut Option<Held>) -> Result<()> {
    match serde_json::from_slice(body).context("rank 0 sent no order")? {
        Handed::Serve(order) => {
            // The one before has the ports and volumes that this one may need.
            *held = None;
            *held = Held::start(&order, rank)?;
            let served = held.as_ref().map(|held| serde_json::to_vec(&held.served));
            let body = served.transpose()?.unwrap_or_default();
            way.say(Message::Ready { round });
            way.say(Message::Part { round, window: (Nanos(0), Nanos(0)), body });
            Ok(())
        }
        Handed::Drive(order) => match held.as_ref() {
            Some(held) if order.serving().contains(&rank) => serve(way, round, &order, held),
            _ => drive(way, rank, round, &order),
        },
    }
}

/// Serves in a round that others drive.
fn serve(way: &Arc<Way>, round: u32, order: &Order, held: &Held) -> Result<()> {
    let step = order.job.steps.first().context("an order without a step")?;
    let stop = Stop::default();
    signal::stop_on_signal(&stop)?;
    let gate = AtTheStart(Arc::clone(way));
    let Some(at) = gate.wait(&stop, &mut || ()) else { return Ok(()) };
    let clock = Clock::get();
    let end = at + Nanos((step.seconds * 1e9) as u64);
    // Ranks that drive ramp up before the window.
    let (mut first, mut last) = (held.used(), None);
    let mut second = first;
    let (mut begun, mut connections) = (false, 0);
    while stop.asked() == 0 {
        way.look(&stop);
        let now = clock.now();
        connections = held.connections().max(connections);
        if !begun && now >= at {
            (first, begun) = (held.used(), true);
        }
        if begun && now >= end && last.is_none() {
            last = Some(held.used());
        }
        if now.since(second.at) >= SECOND {
            let body = second::bytes(&held.second(second));
            way.say(Message::Second { round, body });
            second = held.used();
        }
        std::thread::sleep(LOOK);
    }
    let row = held.row(first, last.unwrap_or_else(|| held.used()));
    let row = ServerResult { connections, ..row };
    let body = serde_json::to_vec(&row)?;
    way.say(Message::Part { round, window: (at, end.min(clock.now())), body });
    Ok(())
}

/// Drives this rank's part of a job.
fn drive(way: &Arc<Way>, rank: u32, round: u32, order: &Order) -> Result<()> {
    let job = order.part_of(rank)?;
    let step = job.steps.first().context("an order without a step")?;
    if step.groups.is_empty() {
        way.say(Message::Ready { round });
        way.say(Message::Part { round, window: (Nanos(0), Nanos(0)), body: Vec::new() });
        return Ok(());
    }
    let mut allowed = Allowed { destroy: order.destroy_of(rank)?, ..Allowed::default() };
    if let Some(manner) = order.layout {
        let there = order.files_of(rank);
        way.done.lock().unwrap_or_else(PoisonError::into_inner).push(there.clone());
        let Some(made) = laid_out(way, &there, manner, &allowed.destroy)? else { return Ok(()) };
        let made = made.iter().filter(|_| layout::only_files(&job));
        allowed.destroy.extend(made.map(|path| path.display().to_string()));
    }
    let mut bench = Bench::new(allowed, job.steps.iter());
    bench.cold_reads = order.cold_reads;
    bench.check(&job)?;
    signal::stop_on_signal(&bench.stop)?;
    let _measuring = signal::Measuring::begin();
    bench.gate = Some(Arc::new(AtTheStart(Arc::clone(way))));
    let mut ready = bench.prepare_here(&job, step)?;
    let read_back = ReadBack::of(&mut ready.run, order.samples)?;
    probed(way, round, &ready.run, &bench.stop);
    let mut live = Told { way, round, stop: bench.stop.clone(), drafts: Drafts::default() };
    let mut result = ready.run(&mut live)?;
    result.tool = crate::show::tool();
    if bench.stop.asked() == 0 {
        read_back.iter().for_each(|of| of.judge(&mut result));
    }
    let window = result.part.as_ref().and_then(|part| part.window);
    let end = way.said().end.clone();
    match (window, end) {
        (_, Some(Some(why))) => keep(&mut result, &why),
        (Some((from, to)), _) => {
            let window = (Nanos(from), Nanos(to));
            way.say(Message::Part { round, window, body: second::part(&result) });
        }
        (None, _) => {
            way.say(Message::Refused { round, why: "stopped before it began".to_owned() });
        }
    }
    Ok(())
}

/// Lays out the files of this rank. `None` if rank 0 ends the round.
fn laid_out(
    way: &Way,
    job: &JobSpec,
    manner: Manner,
    destroy: &[String],
) -> Result<Option<Vec<PathBuf>>> {
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let making = scope.spawn(|| layout::on_this_rank(job, manner, destroy, &stop));
        while !making.is_finished() {
            way.look(&stop);
            std::thread::sleep(LOOK);
        }
        making.join().unwrap_or_else(|_| bail!("files could not be laid out"))
    })
}

/// Does what rank 0 asks to find out which volumes all ranks share.
fn probed(way: &Way, round: u32, run: &Prepared, stop: &Stop) {
    let mut rank = Rank::of(run);
    let say = |said: &probe::Said| {
        let body = serde_json::to_vec(said).unwrap_or_default();
        way.say(Message::Word { round, body });
    };
    say(&rank.volumes());
    while stop.asked() == 0 && way.said().end.is_none() {
        way.look(stop);
        let word = way.said().words.pop_front();
        let ask = word.map(|body| serde_json::from_slice::<Ask>(&body));
        match ask {
            None => std::thread::sleep(LOOK),
            Some(Ok(Ask::Begin) | Err(_)) => return,
            Some(Ok(ask)) => say(&rank.answer(&ask)),
        }
    }
}

/// Keeps the part of a rank whose leader is gone.
fn keep(result: &mut RunResult, why: &str) {
    result.partial = Some(format!("rank 0 is lost: {why}"));
    let kept = Folder::new(None, "part", false).and_then(|folder| {
        folder::write(&folder, result)?;
        Ok(folder.to_path_buf())
    });
    match kept {
        Ok(folder) => output::note(format_args!(
            "drumfire: rank 0 is lost: {why}; the part of this host is in {}",
            folder.display()
        )),
        Err(error) => output::note(format_args!("drumfire: {}", exit::words(&error))),
    }
}

impl Way {
    fn follow(&self) -> std::sync::MutexGuard<'_, Follow> {
        self.follow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, message: Message) {
        self.follow().say(message);
    }

    /// Takes what rank 0 said; `stop` ends the run under way.
    fn hear(&self, heard: Heard, stop: Option<&Stop>) {
        let mut said = self.said();
        match heard {
            Heard::Start { round, at } if round == said.round => said.start = Some(at),
            Heard::Word { round, body } if round == said.round => said.words.push_back(body),
            Heard::Stop { round } if round == said.round => stop.iter().for_each(|stop| stop.ask()),
            // An order while one is being done comes from no leader that waits for parts.
            Heard::Start { .. } | Heard::Word { .. } | Heard::Stop { .. } | Heard::Order { .. } => {
            }
            Heard::Leave => {
                said.end = Some(None);
                stop.iter().for_each(|stop| stop.ask());
            }
            Heard::LeaderLost { why } => {
                said.end = Some(Some(why));
                stop.iter().for_each(|stop| stop.ask());
            }
        }
    }

    /// Takes all that rank 0 said by now.
    fn look(&self, stop: &Stop) {
        loop {
            let heard = self.follow().next(Duration::ZERO);
            match heard {
                Some(heard) => self.hear(heard, Some(stop)),
                None => return,
            }
            if self.said().end.is_some() {
                return;
            }
        }
    }
}

/// Holds this rank's workers back until the instant that rank 0 names.
#[derive(Debug)]
struct AtTheStart(Arc<Way>);

impl Gate for AtTheStart {
    fn wait(&self, stop: &Stop, _: &mut dyn FnMut()) -> Option<Nanos> {
        let round = self.0.said().round;
        self.0.say(Message::Ready { round });
        while stop.asked() == 0 {
            self.0.look(stop);
            if let Some(at) = self.0.said().start {
                return Some(at);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

/// Tells rank 0 each second.
struct Told<'a> {
    way: &'a Way,
    round: u32,
    stop: Stop,
    drafts: Drafts,
}

impl Live for Told<'_> {
    fn wants_buckets(&mut self) -> bool {
        true
    }

    fn wants_result(&mut self) -> bool {
        self.drafts.are_due(Clock::get().now(), used())
    }

    fn poll(&mut self) -> Action {
        self.way.look(&self.stop);
        Action::Continue
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        let body = second::bytes(&HostSecond::of(snapshot));
        self.way.say(Message::Second { round: self.round, body });
        Action::Continue
    }

    fn keep(&mut self, mut so_far: RunResult) {
        so_far.tool = crate::show::tool();
        if let Some((from, to)) = so_far.part.as_ref().and_then(|part| part.window) {
            let window = (Nanos(from), Nanos(to));
            let body = second::part(&so_far);
            self.way.say(Message::Draft { round: self.round, window, body });
        }
        self.drafts.sent(Clock::get().now(), used());
    }
}

/// CPU time of this thread.
fn used() -> Nanos {
    sample::thread_cpu(sample::thread_id()).unwrap_or_default()
}
