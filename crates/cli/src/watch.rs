//! `--listen`: a live page, metrics and JSON of what this program does, for browsers and
//! collectors.
//!
//! The page is read-only: no request changes anything. The cost is one copy per second in the
//! collecting thread; separate threads render the page, only while there are viewers. These threads
//! end with the process and never keep the process alive.

mod http;
mod places;
mod token;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args as Flags;
use report::watch::{Moment, Progress, Served};
use stats::RunResult;
use stats::live::{About, Action, Live, Snapshot};

use crate::exit::UsageError;
use crate::output;

use self::token::Token;

/// Address of the live page.
#[derive(Flags, Clone, Debug, Default)]
pub struct Watching {
    /// Show a live page at this address, metrics for Prometheus at /metrics and JSON at /api/state:
    /// 127.0.0.1:8080; port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// File with the token that viewers must send, as ?token=… or Authorization: Bearer; needed if
    /// the address is not loopback.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub listen_token: Option<PathBuf>,
}

/// Live page; without `--listen`, none.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<Shared>>);

/// State shared by the driving thread and the page.
struct Shared {
    state: Mutex<PageState>,
    news: Condvar,
}

struct PageState {
    /// Version, increased by each change.
    number: u64,
    moment: Arc<Moment>,
    /// Viewers with a stream; `up_to_date` counts those that have the latest state.
    streams: usize,
    up_to_date: usize,
}

/// Time for which the end of a run waits until viewers have its verdict.
const LAST_WORD: Duration = Duration::from_millis(200);

impl Watching {
    /// Listens if `--listen` is given, and prints the address.
    pub fn open(&self) -> Result<Watch> {
        let Some(address) = self.listen else { return Ok(Watch::default()) };
        let token = self.listen_token.as_deref().map(Token::read).transpose()?;
        if token.is_none() && !address.ip().is_loopback() {
            let why = format!(
                "--listen {address} is reachable from the network: add --listen-token FILE, or \
                listen on 127.0.0.1"
            );
            return Err(UsageError(why).into());
        }
        let listener = TcpListener::bind(address)
            .with_context(|| format!("--listen {address}: cannot listen"))?;
        let address = listener.local_addr().context("--listen")?;
        let state = PageState { number: 1, moment: Arc::default(), streams: 0, up_to_date: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), news: Condvar::new() });
        http::start(listener, Arc::clone(&shared), token).context("--listen")?;
        output::note(format_args!("drumfire: watch http://{address}/"));
        Ok(Watch(Some(shared)))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, PageState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes viewers.
    fn change(&self, how: impl FnOnce(&mut Moment)) {
        let mut state = self.state();
        how(Arc::make_mut(&mut state.moment));
        state.number += 1;
        state.up_to_date = 0;
        drop(state);
        self.news.notify_all();
    }

    /// Current state.
    fn moment(&self) -> Arc<Moment> {
        Arc::clone(&self.state().moment)
    }

    /// State newer than `number`, as soon as there is one; `None` after `patience`.
    fn newer(&self, number: u64, patience: Duration) -> Option<(u64, Arc<Moment>)> {
        let old = |state: &mut PageState| state.number <= number;
        let waited = self.news.wait_timeout_while(self.state(), patience, old);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state.number > number).then(|| (state.number, Arc::clone(&state.moment)))
    }

    /// Counts a viewer that connects.
    fn joins(&self) {
        self.state().streams += 1;
    }

    fn leaves(&self) {
        self.state().streams -= 1;
        self.news.notify_all();
    }

    /// Records that one viewer has everything up to `number`.
    fn has(&self, number: u64) {
        let mut state = self.state();
        state.up_to_date += usize::from(state.number == number);
        drop(state);
        self.news.notify_all();
    }

    /// Waits until all viewers have the latest state, at most [`LAST_WORD`].
    fn last_word(&self) {
        let behind = |state: &mut PageState| state.up_to_date < state.streams;
        // Ignores a timeout: the program ends now.
        let _ = self.news.wait_timeout_while(self.state(), LAST_WORD, behind);
    }
}

impl Watch {
    /// Wraps a view so that its input also goes to the viewers of the page.
    pub fn beside(&self, view: Box<dyn Live>) -> Box<dyn Live> {
        match &self.0 {
            None => view,
            Some(shared) => Box::new(Watched { view, shared: Arc::clone(shared) }),
        }
    }

    /// Shows the progress of a sweep.
    pub fn progress(&self, done: usize, planned: usize, cell: &str) {
        let Some(shared) = &self.0 else { return };
        let cell = cell.to_owned();
        shared.change(|moment| moment.sweep = Some(Progress { done, planned, cell }));
    }

    /// Shows the volumes that a server serves now.
    pub fn serves(&self, served: Served) {
        let Some(shared) = &self.0 else { return };
        shared.change(|moment| moment.serve(served));
    }

    /// Whether anybody may look on.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

/// A view that also feeds the page.
struct Watched {
    view: Box<dyn Live>,
    shared: Arc<Shared>,
}

impl Live for Watched {
    fn inner(&mut self) -> Option<&mut dyn Live> {
        Some(&mut *self.view)
    }

    fn start(&mut self, about: &About) {
        self.shared.change(|moment| moment.begin(about));
        self.view.start(about);
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.shared.change(|moment| moment.second(snapshot));
        self.view.update(snapshot)
    }

    fn wants_workers(&mut self) -> bool {
        // Workers are sampled only if there are viewers.
        self.shared.state().streams > 0 || self.view.wants_workers()
    }

    fn judged(&mut self, so_far: &RunResult) {
        self.shared.change(|moment| moment.judge(so_far));
        self.view.judged(so_far);
    }

    fn finished(&mut self, result: &RunResult) {
        self.shared.change(|moment| moment.end(result));
        self.view.finished(result);
        self.shared.last_word();
    }
}
