//! The threads of a run: placement of workers on CPUs, start and end.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use block::Nanos;
use os::{Clock, SharedTime, Waker};

use super::progress::POLL;
use super::{RunError, ledger_path};
use crate::activity::Recording;
use crate::engine::{self, News, Running, Seat, Stop};
use crate::handover::{Directive, Handover, Rest};
use crate::ledger::Ledger;
use crate::records::Desk;
use crate::run::Prepared;
use crate::worker::ties;
use job::spec::{RunSpec, Workload};

/// Time limit of threads to end if one of them failed to start.
const LEAVING: Nanos = Nanos::from_secs(10);

/// The threads of a run.
pub(super) struct Crew {
    pub(super) handovers: Vec<Arc<Handover>>,
    wakers: Vec<Waker>,
    pub(super) ids: Vec<i32>,
    /// SQPOLL threads of the rings.
    pub(super) pollers: Vec<i32>,
    /// Time split with other loops on shared threads.
    pub(super) shared_time: Vec<Arc<SharedTime>>,
    threads: Vec<Running>,
    news: Receiver<News>,
}

impl Crew {
    /// Starts the threads and waits until all lanes are open.
    pub(super) fn start(
        run: &Arc<Prepared>,
        desk: Option<&Desk>,
        recording: Option<&Recording>,
    ) -> Result<Crew, RunError> {
        let spec = &run.spec;
        let seats = seats(spec);
        let count = seats.len();
        let ledgers = ledgers(run)?;
        let mut ties = ties(spec);
        let paced = spec.workers.iter().any(|worker| worker.workload.is_paced());
        let (send, news) = mpsc::channel();
        let mut crew = Crew {
            handovers: Vec::new(),
            wakers: Vec::new(),
            ids: vec![0; count],
            pollers: Vec::new(),
            shared_time: Vec::new(),
            threads: Vec::new(),
            news,
        };
        for (thread, (cpu, workers)) in seats.into_iter().enumerate() {
            let ledgers = workers.iter().map(|index| ledgers[*index].clone()).collect();
            let ties = workers.iter().map(|index| std::mem::take(&mut ties[*index])).collect();
            let recorder = |index: &usize| desk.and_then(|desk| desk.recorder(*index));
            let recorders = workers.iter().map(recorder).collect();
            let handover = Arc::new(Handover::new(workers.len(), paced));
            crew.handovers.push(Arc::clone(&handover));
            let shared = run.targets.as_ref().and_then(|targets| targets.shared_on(cpu));
            let shared_time = Arc::new(SharedTime::default());
            if shared.is_some() {
                crew.shared_time.push(Arc::clone(&shared_time));
            }
            let seat = Seat {
                thread,
                cpu,
                workers,
                ledgers,
                ties,
                recorders,
                handover,
                recording: recording.cloned(),
                shared,
                shared_time,
            };
            crew.threads.push(engine::start(seat, Arc::clone(run), send.clone())?);
        }
        drop(send);
        for _ in 0..count {
            match crew.news.recv() {
                Ok(News::Open { thread, id, pollers, waker }) => {
                    crew.ids[thread] = id;
                    crew.pollers.extend(pollers);
                    crew.wakers.push(waker);
                }
                Ok(News::Failed(error)) => {
                    crew.command(Directive::Leave);
                    crew.join(&Stop::default(), (LEAVING, 0), &mut || ());
                    return Err(RunError::Open(error));
                }
                Ok(News::Ended) | Err(_) => {
                    return Err(RunError::Open("a worker thread ended during startup".to_owned()));
                }
            }
        }
        Ok(crew)
    }

    pub(super) fn command(&self, command: Directive) {
        self.handovers.iter().for_each(|handover| handover.command(command));
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Sets the instant at which the workers start.
    pub(super) fn start_at(&self, at: Nanos) {
        self.handovers.iter().for_each(|handover| handover.start_at(at));
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Whether every worker has finished.
    pub(super) fn is_finished(&self) -> bool {
        self.handovers.iter().all(|handover| handover.is_finished())
    }

    /// Whether every worker has found the depth it searched.
    pub(super) fn has_found(&self) -> bool {
        self.handovers.iter().all(|handover| handover.has_found())
    }

    /// Whether a volume is still being filled.
    pub(super) fn is_filling(&self) -> bool {
        self.handovers.iter().any(|handover| handover.is_filling())
    }

    pub(super) fn ask(&self) {
        self.handovers.iter().for_each(|handover| handover.ask());
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Waits for the threads to drain; ends those late by more than `patience`, and all if the
    /// user, after `asked` requests, requests the end once more, which `poll` may detect. Returns
    /// the rests of the workers, and whether the user did.
    pub(super) fn join(
        &mut self,
        stop: &Stop,
        (patience, asked): (Nanos, u32),
        poll: &mut dyn FnMut(),
    ) -> (Vec<Rest>, bool) {
        let end = Clock::get().now() + patience;
        let hurried = || asked > 1 || stop.asked() > asked;
        let mut running = self.threads.iter().filter(|thread| !thread.is_finished()).count();
        while running > 0 && !hurried() && Clock::get().now() < end {
            poll();
            match self.news.recv_timeout(POLL) {
                Err(RecvTimeoutError::Disconnected) => break,
                _ => {
                    running = self.threads.iter().filter(|thread| !thread.is_finished()).count();
                }
            }
        }
        let hurried = running > 0 && hurried();
        self.command(Directive::Leave);
        for thread in self.threads.drain(..) {
            thread.join();
        }
        (self.handovers.iter().flat_map(|handover| rests(handover)).collect(), hurried)
    }
}

/// Rests of the workers of an ended thread. Intervals too late for the window count as late, too.
fn rests(handover: &Handover) -> Vec<Rest> {
    let mut rests = handover.take_rests();
    while let Some((worker, interval)) = handover.take_full() {
        let rest = rests.iter_mut().find(|rest| rest.worker == worker);
        rest.into_iter().for_each(|rest| rest.late.merge(&interval));
    }
    rests
}

/// CPUs with their workers: assigned in turn, or, for workers limited to some CPUs, to the least
/// loaded of these.
pub(super) fn seats(spec: &RunSpec) -> Vec<(usize, Vec<usize>)> {
    let mut seats: Vec<(usize, Vec<usize>)> =
        spec.cores.iter().map(|cpu| (*cpu, Vec::new())).collect();
    for (index, worker) in spec.workers.iter().enumerate() {
        let allowed = &worker.shift.cores;
        let may = |seat: &&mut (usize, Vec<usize>)| allowed.is_empty() || allowed.contains(&seat.0);
        // The first least loaded one.
        let found = seats.iter_mut().filter(may).min_by_key(|seat| seat.1.len());
        if let Some(seat) = found {
            seat.1.push(index);
        }
    }
    seats.retain(|(_, workers)| !workers.is_empty());
    seats
}

/// The ledger of each worker's volume, if it is verified.
pub(crate) fn ledgers(run: &Prepared) -> Result<Vec<Option<Arc<Ledger>>>, RunError> {
    let spec = &run.spec;
    let mut all = vec![None; spec.workers.len()];
    for (number, workers) in spec.volumes().into_iter().enumerate() {
        let workloads: Vec<&Workload> =
            workers.iter().map(|index| &*spec.workers[*index].workload).collect();
        if !workloads.iter().any(|workload| workload.has_ledger()) {
            continue;
        }
        let path = spec.ledgers.as_ref().map(|folder| ledger_path(folder, number));
        let geometry = run.volume(&spec.workers[workers[0]]).geometry();
        let ledger = Ledger::new(&workloads, geometry, spec.seed, path.as_deref());
        let ledger = Arc::new(ledger.map_err(|error| {
            let path = path.map_or("memory".to_owned(), |path| path.display().to_string());
            RunError::Ledger { path, error }
        })?);
        workers.iter().for_each(|index| all[*index] = Some(Arc::clone(&ledger)));
    }
    Ok(all)
}

#[cfg(test)]
mod test {
    use super::super::check;
    use super::*;
    use crate::content::data_pattern;
    use crate::run::on;
    use job::spec::{Access, Shift, Verify, WorkerSpec};

    /// A run on these cores, with a worker for each list of allowed ones.
    fn spec(cores: &[usize], workers: &[&[usize]]) -> RunSpec {
        let workload = Arc::new(Workload::new(Access::new(512, 100.0, 0.0), 1));
        let worker = |cores: &&[usize]| WorkerSpec {
            shift: Shift { cores: cores.to_vec(), ..Shift::default() },
            ..WorkerSpec::new(workload.clone())
        };
        let workers = workers.iter().map(worker).collect();
        RunSpec { workers, seconds: 1.0, cores: cores.to_vec(), ..RunSpec::default() }
    }

    #[test]
    fn workers_sit_where_they_may() {
        let dealt = seats(&spec(&[4, 6], &[&[], &[], &[]]));
        assert_eq!(dealt, [(4, vec![0, 2]), (6, vec![1])]);
        let own = seats(&spec(&[0, 1, 2], &[&[1], &[1, 2], &[0], &[2, 0]]));
        assert_eq!(own, [(0, vec![2, 3]), (1, vec![0]), (2, vec![1])]);
        let nowhere = check(&on("null:1g", spec(&[0], &[&[3]]))).unwrap_err().to_string();
        assert!(nowhere.contains("no CPU of the run"), "{nowhere}");
    }

    #[test]
    fn what_is_compared_is_not_written_otherwise_meanwhile() {
        let verify = |fill, earlier| Verify { fill, earlier, ..Verify::default() };
        let says = |first: &Workload, second: &Workload| {
            let mut spec = spec(&[0], &[&[], &[]]);
            for (worker, workload) in spec.workers.iter_mut().zip([first, second]) {
                worker.workload = Arc::new(workload.clone());
            }
            check(&on("null:1g", spec)).err().map_or_else(String::new, |error| error.to_string())
        };
        let reads = Workload::new(Access::new(4096, 100.0, 0.0), 1);
        let later = Workload { verify: Some(verify(false, true)), ..reads.clone() };
        let writes = Workload::new(Access::new(4096, 0.0, 0.0), 1);
        assert_eq!((says(&later, &reads), says(&later, &later)), Default::default());
        assert!(says(&writes, &later).contains("without writers"));
        let mut pattern = Workload { verify: Some(verify(true, false)), ..writes.clone() };
        pattern.content.pattern = Some(data_pattern("%o"));
        assert_eq!((says(&pattern, &pattern), says(&pattern, &reads)), Default::default());
        let longer = Workload { access: Access::new(8192, 0.0, 0.0), ..pattern.clone() };
        for other in [&writes, &longer] {
            assert!(says(&pattern, other).contains("must write and verify this pattern"));
        }
    }
}
