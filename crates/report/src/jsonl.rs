//! JSON Lines while a run is in progress: one object per line and second, for programs.

use std::io::Write;

use serde_json::{Value, json};
use stats::live::{About, Action, Live, Snapshot};
use stats::{Failure, RunResult};

use crate::reason;

/// Writes a line when a run starts, one each second, at its end one for each kind of failed I/O,
/// and a last one with the result.
#[derive(Debug)]
pub struct JsonLines<W: Write> {
    out: W,
    /// The last line waits for the result; without one it goes out at the end.
    owed: bool,
}

impl<W: Write> JsonLines<W> {
    /// Writes to `out`; each line goes out at once.
    pub fn new(out: W) -> JsonLines<W> {
        JsonLines { out, owed: false }
    }

    fn write(&mut self, line: &Value) {
        // A reader that went away must not end the run. One piece, so that no half of it is left.
        let line = format!("{line}\n");
        let _ = self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Live for JsonLines<W> {
    fn start(&mut self, about: &About) {
        let origin = about.origin.word();
        let mut start = json!({
            "type": "start", "schema_version": stats::SCHEMA_VERSION, "origin": origin,
            "job": about.job, "cores": about.cores,
        });
        if let Some(kind) = about.kind {
            start["kind"] = json!(kind);
        }
        self.write(&start);
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.write(&second(snapshot));
        Action::Continue
    }

    fn failed(&mut self, failures: &[Failure]) {
        for failure in failures {
            let mut line = json!(failure);
            line["type"] = json!("failure");
            self.write(&line);
        }
    }

    fn end(&mut self) {
        self.owed = true;
    }

    fn finished(&mut self, result: &RunResult) {
        self.owed = false;
        self.write(&end(result));
    }
}

impl<W: Write> Drop for JsonLines<W> {
    fn drop(&mut self) {
        if self.owed {
            self.write(&json!({ "type": "end" }));
        }
    }
}

/// The last line: the figures of the whole window, and how far to believe them.
fn end(result: &RunResult) -> Value {
    json!({
        "type": "end",
        "class": result.class,
        "reason": reason::verdict(result),
        "checks": reason::verdicts(result),
        "gates": result.bounds,
        "partial": result.partial,
        "totals": result.totals,
    })
}

/// The object of one second.
fn second(snapshot: &Snapshot) -> Value {
    let targets = snapshot.targets.iter();
    let targets: Vec<Value> =
        targets.map(|target| json!({ "name": target.name, "iops": target.iops })).collect();
    json!({
        "type": "second",
        "t": snapshot.t_s,
        "phase": snapshot.phase.word(),
        "iops": snapshot.iops,
        "flush_iops": snapshot.flush_iops,
        "bytes_per_second": snapshot.bytes_per_second,
        "outstanding": snapshot.outstanding,
        "oldest_ns": snapshot.oldest_ns,
        "errors": snapshot.errors,
        "connections_lost": snapshot.connections_lost,
        "reconnects": snapshot.reconnects,
        "latency_ns": snapshot.latency_ns,
        "targets": targets,
        "slower": snapshot.slower,
        "cpu": {
            "initiator_cores": snapshot.cpu.initiator_cores,
            "target_cores": snapshot.cpu.target_cores,
            "host_percent": snapshot.cpu.host_percent,
        },
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    #[test]
    fn each_line_is_an_object() {
        let mut out = Vec::new();
        let mut lines = JsonLines::new(&mut out);
        lines.start(&sample::about());
        assert_eq!(lines.update(&sample::snapshot()), Action::Continue);
        lines.failed(&sample::failures());
        lines.end();
        lines.finished(&sample::race());
        drop(lines);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
        assert_eq!(kinds, ["start", "second", "failure", "failure", "end"]);
        assert_eq!(lines[0]["job"]["size_bytes"], 512);
        assert_eq!(lines[2]["status"], "EIO (5): Input/output error");
        assert_eq!(lines[2]["first"]["offset_bytes"], 1 << 20);
        let second = &lines[1];
        assert_eq!((&second["t"], &second["phase"]), (&json!(3.0), &json!("run")));
        assert_eq!(second["latency_ns"]["p99"], 690_000);
        assert_eq!(second["targets"][1]["name"], "target 2");
        let end = &lines[4];
        assert_eq!((&end["class"], &end["checks"]["H19"]), (&json!("indicative"), &json!("warn")));
        assert_eq!(end["reason"], "indicative: loopback, no wire (H19)");
        assert_eq!((&end["totals"]["ios"], &end["partial"]), (&json!(34_123_456), &Value::Null));
    }

    #[test]
    fn a_run_without_a_result_ends_too() {
        let mut out = Vec::new();
        let mut lines = JsonLines::new(&mut out);
        lines.end();
        drop(lines);
        assert_eq!(out, b"{\"type\":\"end\"}\n");
    }
}
