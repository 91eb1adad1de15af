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

/// How often processes and the user are looked after.
const POLL: Duration = Duration::from_millis(20);

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
        let found = merged(documents);
        let text = json!({ "key": key, "result": found });
        let part = kept.with_extension("part");
        fs::write(&part, text.to_string())
            .and_then(|()| fs::rename(&part, &kept))
            .with_context(|| format!("cannot write {}", kept.display()))?;
        Ok(Some(found))
    }

    /// What decides a step's result, beside chance and the machine.
    fn key(&self, step: &Step) -> Value {
        let seconds = (step.way == Way::Live).then_some(self.seconds);
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
            if step.way == Way::Live {
                command.args(["--seconds", &self.seconds.to_string(), "--no-ceiling"]);
                command.args(["--replace", "--out", &format!("client-{client}")]);
            }
            command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
            clients.push(Client::start(command)?);
        }
        let mut told = 0;
        while clients.iter_mut().any(Client::is_running) {
            if self.stop.asked() > told {
                told = self.stop.asked();
                clients.iter().for_each(Client::interrupt);
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

fn read_kept(file: &Path, key: &Value) -> Option<Value> {
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).ok()?;
    (kept["key"] == *key).then(|| kept["result"].take())
}

fn program(work: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    // In a group of its own: Ctrl-C comes to us, and from us once.
    command.current_dir(work).process_group(0).stdin(Stdio::null());
    Ok(command)
}

/// A process that drives or computes.
struct Client {
    child: Child,
    out: JoinHandle<String>,
    words: JoinHandle<String>,
}

impl Client {
    fn start(mut command: Command) -> Result<Client> {
        let mut child = command.spawn().context("cannot start another process of this program")?;
        let out = child.stdout.take().expect("it was asked for");
        let words = child.stderr.take().expect("it was asked for");
        Ok(Client { child, out: gather(out), words: gather(words) })
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
        serde_json::from_str(&out).map_err(|_| {
            let last = words.lines().last().unwrap_or("it printed no result");
            let last = last.trim_start_matches("drumfire: ");
            Failed(format!("step {step}: its process ended with {status}: {last}")).into()
        })
    }
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
            Failed("the target ended before it was ready: its words are above".to_owned())
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
    let busy = of("/cpu/host_percent").into_iter().fold(0.0, f64::max);
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
        "cpu": { "host_percent": busy },
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_of_clients_add_up_and_means_are_weighed() {
        let one = |ios: f64, mean: f64| {
            json!({ "origin": "measured", "cpu": { "host_percent": ios },
                "totals": { "ios": ios, "iops": ios, "errors": 0, "latency_ns": { "mean": mean } } })
        };
        let all = merged(vec![one(30.0, 100.0), one(10.0, 500.0)]);
        assert_eq!(all["totals"]["iops"], 40.0);
        assert_eq!(all["totals"]["latency_ns"]["mean"], 200.0);
        assert_eq!(all["cpu"]["host_percent"], 30.0);
    }
}
