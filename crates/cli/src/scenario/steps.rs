//! Runs the steps of a scenario as processes of this program, and saves the result of each: an
//! interrupted scenario is resumed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use block::Nanos;
use load::Stop;
use os::Clock;
use serde_json::{Value, json};

use super::believed::{believe, merged, overlap};
use super::cast::Cast;
use super::file::{Step, Way, is_plain};
use super::kept::Kept;
use super::processes::{Client, program};
use super::swing::swing;
use super::targets::Targets;
use crate::bench::Failed;
use crate::gate::Gate;
use crate::{folder, hosts, sweep};

/// Interval at which processes and stop requests are polled.
const POLL: Duration = Duration::from_millis(20);

/// State shared by all steps of a command.
pub struct Session {
    /// Folder of the results.
    pub out: PathBuf,
    /// Length of each live run.
    pub seconds: f64,
    /// Ends the command early.
    pub stop: Stop,
    /// Start time of this command, saved in its results.
    pub begun: String,
    /// Fingerprint of the machine: results of another one do not count here.
    pub host: Value,
    /// Roles of several ranks in the scenario that is run.
    pub cast: Option<Cast>,
}

impl Session {
    /// Working folder of a step; its result is next to it.
    fn work(&self, scenario: &str, step: &Step) -> PathBuf {
        self.out.join(scenario).join(&step.id)
    }

    /// Saved result of a step, if it was run before.
    pub fn kept(&self, scenario: &str, step: &Step) -> Option<Kept> {
        Kept::read(&Kept::file(&self.work(scenario, step)), &self.key(step))
    }

    /// Runs a step and saves its result. `None` if the user has stopped the step.
    pub fn result(&self, scenario: &str, step: &Step) -> Result<Option<Kept>> {
        if self.stop.asked() > 0 {
            return Ok(None);
        }
        let work = self.work(scenario, step);
        os::Folder::make_trusted(&work)
            .with_context(|| format!("cannot make {}", work.display()))?;
        for (name, text) in &step.files {
            let file = work.join(name);
            folder::write_file(&file, |out| Ok(out.write_all(text.as_bytes())?))?;
        }
        let key = self.key(step);
        let was_cut = Kept::begin(&work, &key)?;
        let named = |error: anyhow::Error| error.context(format!("step {}", step.id));
        let (documents, about) = match self.cast_of(step) {
            Some(cast) => {
                let how = (self.seconds, &self.stop, &*work);
                let document = cast.run(step, how).map_err(named)?;
                (document.map(|one| vec![one]), Some(cast.network(step)))
            }
            None => {
                // Ranks that served in the step before share no host with this one's processes.
                hosts::ranks().map_or(Ok(()), |ranks| ranks.rest())?;
                let targets = Targets::start(step, &work).map_err(named)?;
                let documents = self.run(step, &work, targets.as_ref(), was_cut)?;
                (documents, targets.and_then(|targets| targets.about))
            }
        };
        let Some(documents) = documents else { return Ok(None) };
        if step.way == Way::Live {
            documents
                .iter()
                .try_for_each(believe)
                .and_then(|()| if documents.len() > 1 { overlap(&documents) } else { Ok(()) })
                .map_err(|why| Failed(format!("step {}: {why}", step.id)))?;
        }
        let swing = swing(&documents);
        let mut found = merged(documents);
        found["swing"] = json!(swing);
        found["network"] = json!(about);
        if imitates(step) || step.wire_bits.is_some() {
            // The client process cannot see the medium behind a target.
            found["origin"] = json!("emulated");
        }
        let ended = jiff::Timestamp::now().to_string();
        let kept = Kept { key, run: self.begun.clone(), ended, result: found };
        kept.write(&Kept::file(&work))?;
        Ok(Some(kept))
    }

    /// Roles of several ranks, for a step that they do.
    fn cast_of(&self, step: &Step) -> Option<&Cast> {
        self.cast.as_ref().filter(|_| step.is_for_ranks())
    }

    /// Key of everything that determines a step's result, except chance.
    fn key(&self, step: &Step) -> Value {
        let timed = step.way == Way::Live && step.runs_for_a_time();
        let seconds = timed.then_some(self.seconds);
        let host = (step.way == Way::Live).then_some(&self.host);
        let version = env!("CARGO_PKG_VERSION");
        let several = (step.hosts > 1).then_some((step.hosts, &step.each_client));
        let base = json!([version, step.run, step.files, step.serve, step.clients, seconds, host]);
        let base = match (several, step.wire_bits, step.times) {
            (None, None, 1.0) => base,
            more => json!([base, more]),
        };
        match self.cast_of(step) {
            None => base,
            Some(cast) => json!([base, cast.names]),
        }
    }

    fn run(
        &self,
        step: &Step,
        work: &Path,
        targets: Option<&Targets>,
        was_cut: bool,
    ) -> Result<Option<Vec<Value>>> {
        let mut clients = Vec::new();
        let is_timed = step.runs_for_a_time();
        for client in 1..=step.clients {
            let mut command = program(work, &targets.map_or_else(Vec::new, Targets::driving))?;
            let portals = targets.map(|targets| targets.portals.clone()).unwrap_or_default();
            command.args(step.words(client, &portals).map_err(Failed)?);
            if step.way == Way::Live && is_timed {
                command.args([
                    "--seconds",
                    &(self.seconds * step.times).to_string(),
                    "--no-ceiling",
                ]);
                let out = format!("client-{client}");
                // An interrupted sweep is resumed; any other run starts again.
                if !(was_cut && sweep::is_one(&work.join(&out))) {
                    command.arg("--replace");
                }
                command.args(["--out", &out]);
            }
            if step.writes_here() {
                command.arg("--replace");
            }
            let gate = (step.clients > 1 && is_timed).then(|| Gate::before(&mut command));
            clients.push(Client::start(command, gate.transpose()?)?);
        }
        let load = self.wait(&mut clients, targets);
        if self.stop.asked() > 0 {
            return Ok(None);
        }
        let documents = clients.into_iter().map(|client| client.document(&step.id));
        let mut documents = documents.collect::<Result<Vec<Value>>>()?;
        if let (Some(load), Some(first)) = (load, documents.first_mut()) {
            let cores = first.pointer("/host/cores").and_then(Value::as_f64);
            first["cpu"]["target_cores"] = json!(load);
            first["cpu"]["target_percent"] = json!(cores.map(|cores| 100.0 * load / cores));
        }
        Ok(Some(documents))
    }

    /// Waits until all clients have ended. Returns the cores that the target used from the start
    /// until the first client ended.
    fn wait(&self, clients: &mut [Client], targets: Option<&Targets>) -> Option<f64> {
        let clock = Clock::get();
        let now = || Some((clock.now(), targets?.processor_time()?));
        let (mut told, mut is_closed) = (0, true);
        let (mut begun, mut load) = (None, None);
        let used = |(from, before): (Nanos, Nanos), (to, after): (Nanos, Nanos)| {
            let seconds = to.since(from).as_secs_f64();
            (seconds > 0.0).then(|| after.since(before).as_secs_f64() / seconds)
        };
        while clients.iter_mut().any(Client::is_running) {
            if self.stop.asked() > told {
                told = self.stop.asked();
                clients.iter().for_each(Client::interrupt);
            }
            let all = clients.iter_mut().all(Client::has_arrived);
            if is_closed && (all || told > 0) {
                clients.iter_mut().flat_map(|client| &mut client.gate).for_each(Gate::open);
                is_closed = false;
                begun = now();
            }
            if !is_closed && load.is_none() && !clients.iter_mut().all(Client::is_running) {
                load = begun.zip(now()).and_then(|(from, to)| used(from, to));
            }
            std::thread::sleep(POLL);
        }
        // All may have ended between two looks.
        load.or_else(|| used(begun?, now()?))
    }
}

/// Whether the target serves an emulated or faulty volume.
fn imitates(step: &Step) -> bool {
    step.serve.iter().any(|word| word.contains("delay:") || word.contains("fault:"))
}

impl Step {
    /// Whether the command has a duration and a folder; a backup ends when all is written.
    fn runs_for_a_time(&self) -> bool {
        self.run.first().is_some_and(|command| command != "backup")
    }

    /// Whether the step is a backup to a file in its own folder: an interrupted one is replaced.
    fn writes_here(&self) -> bool {
        let to = self.run.iter().skip_while(|word| *word != "--to").nth(1);
        let is_asked = self.run.iter().any(|word| word == "--replace");
        !self.runs_for_a_time() && !is_asked && to.is_some_and(|to| to != "null" && is_plain(to))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_behind_a_target_counts_as_emulated() {
        let step = |serve: &str| -> Step {
            let text = format!("id='s'\nway='live'\nrun=['run','ram:1m']\nserve=['{serve}']\n");
            toml::from_str(&text).unwrap()
        };
        assert!(imitates(&step("--volume=port=delay:port.toml(ram:4m)")));
        assert!(imitates(&step("a=stripe:64k(ram:1m,fault:f.toml(ram:1m))")));
        assert!(!imitates(&step("iris=ram:64m")));
    }

    #[test]
    fn a_backup_that_was_cut_is_replaced_only_in_its_own_folder() {
        let writes = |words: &str| {
            let words: Vec<String> = words.split(' ').map(|word| format!("'{word}'")).collect();
            let text = format!("id='s'\nway='live'\nrun=[{}]\n", words.join(","));
            toml::from_str::<Step>(&text).unwrap().writes_here()
        };
        assert!(writes("backup a --to out.bak"));
        for other in [
            "backup a --to /srv/out",
            "backup a --to ../out",
            "backup a --to null",
            "backup a --to ram:4m",
            "backup a --to out --replace",
            "backup --from out",
            "run --to x",
        ] {
            assert!(!writes(other), "{other}");
        }
    }
}
