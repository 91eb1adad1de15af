//! Runs the steps of a scenario as processes of this program, and keeps what each came to: an
//! interrupted scenario goes on where it was cut.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use load::Stop;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::file::{Step, Way, fill};
use crate::bench::Failed;
use crate::companion;
use crate::gate::Gate;

/// How often processes and the user are looked after.
const POLL: Duration = Duration::from_millis(20);

/// Rates of processes add up when they were measured at once for this share of the time.
const TOGETHER_PERCENT: f64 = 75.0;

/// What all steps of a command share.
pub struct Session {
    /// Where results stay.
    pub out: PathBuf,
    /// Length of each live run.
    pub seconds: f64,
    /// Ends it early.
    pub stop: Stop,
}

impl Session {
    /// The result of a step: from its file where the same step was run before. `None` when the
    /// user has stopped it.
    pub fn result(&self, scenario: &str, step: &Step) -> Result<Option<Value>> {
        let folder = self.out.join(scenario);
        let kept = folder.join(format!("{}.json", step.id));
        let key = self.key(step);
        if let Some(found) = read_kept(&kept, &key) {
            return Ok(Some(found));
        }
        let work = folder.join(&step.id);
        fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
        for (name, text) in &step.files {
            let file = work.join(name);
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        let server = (!step.serve.is_empty()).then(|| Server::start(&step.serve, &work));
        let server = server.transpose()?;
        let words = server.as_ref().map(|server| server.portals.clone()).unwrap_or_default();
        let documents = self.run(step, &work, &words)?;
        drop(server);
        let Some(documents) = documents else { return Ok(None) };
        if step.way == Way::Live {
            documents
                .iter()
                .try_for_each(believe)
                .and_then(|()| if documents.len() > 1 { overlap(&documents) } else { Ok(()) })
                .map_err(|why| Failed(format!("step {}: {why}", step.id)))?;
        }
        let mut found = merged(documents);
        if imitates(step) {
            // The process that drives does not see what is behind a target.
            found["origin"] = json!("emulated");
        }
        let text = json!({ "key": key, "result": found });
        let part = kept.with_extension("part");
        fs::write(&part, text.to_string())
            .and_then(|()| fs::rename(&part, &kept))
            .with_context(|| format!("cannot write {}", kept.display()))?;
        Ok(Some(found))
    }

    /// What decides a step's result, beside chance and the machine.
    fn key(&self, step: &Step) -> Value {
        let timed = step.way == Way::Live && runs_for_a_time(step);
        let seconds = timed.then_some(self.seconds);
        json!([env!("CARGO_PKG_VERSION"), step.run, step.files, step.serve, step.clients, seconds])
    }

    fn run(
        &self,
        step: &Step,
        work: &Path,
        words: &BTreeMap<String, String>,
    ) -> Result<Option<Vec<Value>>> {
        let mut clients = Vec::new();
        for client in 1..=step.clients {
            let mut words = words.clone();
            words.insert("client".to_owned(), client.to_string());
            let mut command = program(work)?;
            command.args(step.run.iter().map(|word| fill(word, &words)));
            if step.way == Way::Live && runs_for_a_time(step) {
                command.args(["--seconds", &self.seconds.to_string(), "--no-ceiling"]);
                command.args(["--replace", "--out", &format!("client-{client}")]);
            }
            command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
            let many = step.clients > 1 && runs_for_a_time(step);
            let gate = many.then(|| Gate::before(&mut command)).transpose()?;
            clients.push(Client::start(command, gate)?);
        }
        let mut told = 0;
        let mut closed = true;
        while clients.iter_mut().any(Client::is_running) {
            if self.stop.asked() > told {
                told = self.stop.asked();
                clients.iter().for_each(Client::interrupt);
            }
            let all = clients.iter_mut().all(Client::has_arrived);
            if closed && (all || told > 0) {
                clients.iter_mut().flat_map(|client| &mut client.gate).for_each(Gate::open);
                closed = false;
            }
            std::thread::sleep(POLL);
        }
        if self.stop.asked() > 0 {
            return Ok(None);
        }
        let documents = clients.into_iter().map(|client| client.document(&step.id));
        documents.collect::<Result<Vec<Value>>>().map(Some)
    }
}

/// Whether its target serves something that only behaves like what it is called.
fn imitates(step: &Step) -> bool {
    step.serve.iter().any(|word| word.contains("delay:") || word.contains("fault:"))
}

/// Whether a step takes a length and a folder; a backup is over when all is written.
fn runs_for_a_time(step: &Step) -> bool {
    step.run.first().is_some_and(|command| command != "backup")
}

fn read_kept(file: &Path, key: &Value) -> Option<Value> {
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
    (kept["key"] == *key).then(|| kept["result"].take())
}

fn program(work: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    // In a group of its own: Ctrl-C comes to us, and from us once.
    command.current_dir(work).process_group(0).stdin(Stdio::null());
    command.env(companion::VARIABLE, std::process::id().to_string());
    Ok(command)
}

/// A process that drives or computes.
struct Client {
    child: Child,
    out: JoinHandle<String>,
    words: JoinHandle<String>,
    /// Where it waits until others are there.
    gate: Option<Gate>,
}

impl Client {
    fn start(mut command: Command, gate: Option<Gate>) -> Result<Client> {
        let mut child = command.spawn().context("cannot start another process of this program")?;
        let out = child.stdout.take().expect("it was asked for");
        let words = child.stderr.take().expect("it was asked for");
        Ok(Client { child, out: gather(out), words: gather(words), gate })
    }

    /// Whether nobody has to wait for it to begin.
    fn has_arrived(&mut self) -> bool {
        self.gate.as_mut().is_none_or(Gate::has_arrived)
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn interrupt(&self) {
        // It may have ended by now: then there is nobody to tell.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    fn document(mut self, step: &str) -> Result<Value> {
        let status = self.child.wait().context("cannot wait for a step's process")?;
        let out = self.out.join().unwrap_or_default();
        let words = self.words.join().unwrap_or_default();
        let last = words.lines().last().unwrap_or("it printed no reason").trim();
        let last = last.trim_start_matches("drumfire: ");
        if !status.success() {
            return Err(
                Failed(format!("step {step}: its process ended with {status}: {last}")).into()
            );
        }
        serde_json::from_str(&out).map_err(|_| {
            Failed(format!("step {step}: its process printed no result: {last}")).into()
        })
    }
}

/// Refuses a result that is not to be believed: what failed, and the first evidence of it.
fn believe(document: &Value) -> Result<(), String> {
    let errors = document.pointer("/totals/errors").and_then(Value::as_f64);
    match errors {
        None => return Err("its result says nothing of errors".to_owned()),
        Some(errors) if errors > 0.0 => return Err(format!("{errors:.0} I/Os failed")),
        Some(_) => {}
    }
    if let Some(why) = document["partial"].as_str() {
        return Err(format!("its result is partial: {why}"));
    }
    let checks = document["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let failed = checks.iter().find(|check| check["verdict"] == "fail");
    if document["class"] == "invalid" || failed.is_some() {
        let of = |key: &str| failed.and_then(|check| check[key].as_str()).unwrap_or("?");
        return Err(format!("its result is invalid: {} ({})", of("evidence"), of("code")));
    }
    Ok(())
}

/// Refuses rates that add up to none: of windows that lie apart.
fn overlap(documents: &[Value]) -> Result<(), String> {
    let window = |one: &Value| {
        let begin: jiff::Timestamp = one["started"].as_str()?.parse().ok()?;
        let begin = begin.as_nanosecond() as f64 / 1e9;
        Some((begin, begin + one.pointer("/totals/seconds")?.as_f64()?))
    };
    let windows: Option<Vec<(f64, f64)>> = documents.iter().map(window).collect();
    let windows = windows.ok_or("its results do not say when they were measured")?;
    let first = windows.iter().fold(f64::MAX, |first, (begin, _)| first.min(*begin));
    let late = windows.iter().fold(f64::MIN, |late, (begin, _)| late.max(*begin));
    let early = windows.iter().fold(f64::MAX, |early, (_, end)| early.min(*end));
    let last = windows.iter().fold(f64::MIN, |last, (_, end)| last.max(*end));
    let share = 100.0 * (early - late) / (last - first);
    if share < TOGETHER_PERCENT {
        return Err(format!(
            "its {} processes were measured at once for {:.0} % of the time, less than \
             {TOGETHER_PERCENT:.0} %: their rates do not add up; more --seconds help",
            documents.len(),
            share.max(0.0)
        ));
    }
    Ok(())
}

fn gather(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // What came before it broke is told.
        let _ = from.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Targets that are there for a step.
struct Server {
    child: Child,
    portals: BTreeMap<String, String>,
}

impl Server {
    fn start(args: &[String], work: &Path) -> Result<Server> {
        let mut command = program(work)?;
        command.arg("serve").args(args).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let child = command.spawn().context("cannot start a target")?;
        let mut server = Server { child, portals: BTreeMap::new() };
        let mut line = String::new();
        let out = server.child.stdout.take().expect("it was asked for");
        BufReader::new(out).read_line(&mut line).context("cannot read what the target says")?;
        let words = line.strip_prefix("ready").ok_or_else(|| {
            Failed("its target ended before it was ready: stderr says why".to_owned())
        })?;
        let portals = words.split_whitespace().filter_map(|word| word.split_once('='));
        server.portals = portals.map(|(name, at)| (name.to_owned(), at.to_owned())).collect();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A target ends cleanly on this; it may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// One result of those of all clients: rates add up, the mean time is that of all I/Os.
fn merged(mut documents: Vec<Value>) -> Value {
    if documents.len() == 1 {
        return documents.remove(0);
    }
    let of = |at: &str| -> Vec<f64> {
        documents.iter().map(|one| one.pointer(at).and_then(Value::as_f64).unwrap_or(0.0)).collect()
    };
    let sum = |at: &str| of(at).iter().sum::<f64>();
    let (ios, means) = (of("/totals/ios"), of("/totals/latency_ns/mean"));
    let all: f64 = ios.iter().sum();
    let mean = ios.iter().zip(&means).map(|(ios, mean)| ios * mean).sum::<f64>() / all.max(1.0);
    // Where one has not recorded it, it is not known.
    let busy: Option<Vec<f64>> =
        documents.iter().map(|one| one.pointer("/cpu/host_percent")?.as_f64()).collect();
    let busy = busy.map(|busy| busy.into_iter().fold(f64::MAX, f64::min));
    let driving: Option<f64> =
        documents.iter().map(|one| one.pointer("/cpu/initiator_cores")?.as_f64()).sum();
    json!({
        "origin": documents[0]["origin"],
        "clients": documents.len(),
        "totals": {
            "ios": all,
            "errors": sum("/totals/errors"),
            "iops": sum("/totals/iops"),
            "bytes_per_second": sum("/totals/bytes_per_second"),
            "latency_ns": { "mean": mean },
        },
        "cpu": { "host_percent": busy, "initiator_cores": driving },
        "host": documents[0]["host"],
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_of_clients_add_up_and_means_are_weighed() {
        let one = |ios: f64, mean: f64| {
            json!({ "origin": "measured",
                "cpu": { "host_percent": ios, "initiator_cores": 0.25 },
                "totals": { "ios": ios, "iops": ios, "errors": 0,
                    "latency_ns": { "mean": mean } } })
        };
        let all = merged(vec![one(30.0, 100.0), one(10.0, 500.0)]);
        assert_eq!(all["totals"]["iops"], 40.0);
        assert_eq!(all["totals"]["latency_ns"]["mean"], 200.0);
        // A process that was not limited all the time is no evidence of a limit.
        assert_eq!(all["cpu"]["host_percent"], 10.0);
        assert_eq!(all["cpu"]["initiator_cores"], 0.5);
        let silent = json!({ "totals": { "ios": 1.0 } });
        assert!(merged(vec![one(1.0, 1.0), silent])["cpu"]["host_percent"].is_null());
    }

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
    fn what_is_not_to_be_believed_is_refused() {
        let good = json!({ "class": "indicative", "checks": [], "totals": { "errors": 0 } });
        assert_eq!(believe(&good), Ok(()));
        let with = |key: &str, value: Value| {
            let mut bad = good.clone();
            bad[key] = value;
            believe(&bad).unwrap_err()
        };
        assert!(with("totals", json!({ "errors": 3 })).contains("3 I/Os failed"));
        assert!(with("totals", json!({})).contains("nothing of errors"));
        assert!(with("class", json!("invalid")).contains("invalid"));
        assert!(with("partial", json!("interrupted")).contains("partial"));
        let failed = json!([{ "code": "H02", "verdict": "fail", "evidence": "a hole" }]);
        assert!(with("checks", failed).contains("a hole (H02)"));
    }

    #[test]
    fn rates_of_windows_that_lie_apart_do_not_add_up() {
        let at = |second: u32| {
            let started = format!("2026-01-01T00:00:0{second}Z");
            json!({ "started": started, "totals": { "seconds": 3.0 } })
        };
        assert_eq!(overlap(&[at(1), at(1)]), Ok(()));
        assert!(overlap(&[at(1), at(3)]).unwrap_err().contains("20 %"));
        assert!(overlap(&[at(1), at(5)]).unwrap_err().contains("0 %"));
        assert!(overlap(&[at(1), json!({})]).is_err());
    }
}
