//! Activity of the cores, as a file of trace events that Perfetto and `chrome://tracing` open.
//!
//! One process has a thread for each core, with its stretches as slices that nest, and counters of
//! rate and outstanding I/Os; a second one has sampled I/Os, which overlap. Times are microseconds
//! since the recording began.

use std::io::{self, Write};

use block::{Doing, Nanos, Op, Stretch};
use serde_json::{Value, json};
use stats::{CoreActivity, Counted, SampledIo};

/// Numbers of the two processes.
const CORES: u32 = 1;
const IOS: u32 = 2;

/// Writes the activity of the cores of one run as one JSON document.
pub fn write(cores: &[CoreActivity], out: &mut impl Write) -> io::Result<()> {
    let origin = cores.iter().map(|core| core.span.0).min().unwrap_or_default();
    let mut file = File { out, origin, first: true };
    write!(file.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{},", told(cores))?;
    write!(file.out, "\"traceEvents\":[")?;
    file.name("process_name", CORES, 0, "cores")?;
    file.name("process_name", IOS, 0, "I/Os, some of them")?;
    for core in cores {
        file.core(core)?;
    }
    file.counters(cores)?;
    writeln!(file.out, "\n]}}")
}

/// Returns the trace's metadata: tool, and for each core its CPU, seconds, slices and I/Os.
fn told(cores: &[CoreActivity]) -> Value {
    let core = |core: &CoreActivity| {
        json!({
            "cpu": core.cpu,
            "seconds": core.span.1.since(core.span.0).as_secs_f64(),
            "slices": core.stretches.len(),
            "slices_left_out": core.left_out,
            "ios": core.counts.last().map_or(0, |last| last.ios),
            "ios_shown": core.ios.len(),
        })
    };
    json!({ "tool": "drumfire", "cores": cores.iter().map(core).collect::<Vec<_>>() })
}

/// The word for it.
fn word(doing: Doing) -> &'static str {
    match doing {
        Doing::Step => "workers",
        Doing::Poll => "poll",
        Doing::Submit => "submit",
        Doing::Turn => "turn",
        Doing::Companion => "target",
        Doing::Enter => "kernel",
        Doing::Reap => "reap",
        Doing::Wait => "wait",
        Doing::Yield => "yield",
        Doing::Sleep => "sleep",
    }
}

fn verb(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        _ => "other",
    }
}

/// A document that is being written.
struct File<'a, W> {
    out: &'a mut W,
    origin: Nanos,
    first: bool,
}

impl<W: Write> File<'_, W> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) { "" } else { "," };
        write!(self.out, "{comma}\n{event}")
    }

    fn name(&mut self, what: &str, pid: u32, tid: usize, name: &str) -> io::Result<()> {
        let args = json!({ "name": name });
        self.event(&json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": args }))
    }

    /// A time as a number of microseconds.
    fn at(&self, time: Nanos) -> f64 {
        time.since(self.origin).0 as f64 / 1e3
    }

    fn core(&mut self, core: &CoreActivity) -> io::Result<()> {
        let tid = core.cpu + 1;
        self.name("thread_name", CORES, tid, &format!("core {}", core.cpu))?;
        if core.left_out > 0 {
            let what = format!("the {} oldest slices of this core are left out", core.left_out);
            let from = core.stretches.iter().map(|stretch| stretch.start).min();
            let ts = self.at(from.unwrap_or(core.span.0));
            self.event(&json!({
                "ph": "i", "s": "t", "name": what, "pid": CORES, "tid": tid, "ts": ts,
            }))?;
        }
        let mut stretches: Vec<&Stretch> = core.stretches.iter().collect();
        // Enclosing slices come before the slices that they hold.
        stretches.sort_by_key(|stretch| (stretch.start, std::cmp::Reverse(stretch.end)));
        for stretch in stretches {
            let ts = self.at(stretch.start);
            let dur = stretch.end.since(stretch.start).0 as f64 / 1e3;
            let mut event = json!({
                "ph": "X", "name": word(stretch.doing), "pid": CORES, "tid": tid,
                "ts": ts, "dur": dur,
            });
            let worker = core.workers.get(stretch.worker as usize);
            let is_of_worker = matches!(stretch.doing, Doing::Poll | Doing::Submit);
            if let Some(worker) = worker.filter(|_| is_of_worker) {
                event["args"] = json!({ "worker": worker });
            }
            self.event(&event)?;
        }
        core.ios.iter().enumerate().try_for_each(|(number, io)| self.io(core, number, io))
    }

    /// Writes the start and the end of an I/O as separate events, because I/Os overlap.
    fn io(&mut self, core: &CoreActivity, number: usize, io: &SampledIo) -> io::Result<()> {
        let id = format!("{:x}-{number:x}", core.cpu);
        let worker = core.workers.get(io.worker as usize).map_or("", |name| name);
        let name = format!("{worker}: {}", verb(io.op));
        let args = json!({
            "offset": io.offset, "bytes": io.len, "failed": io.failed, "one_of": io.every,
        });
        // An I/O that started before the recording is shown from the recording's start.
        let start = io.start.max(self.origin);
        for (ph, at) in [("b", start), ("e", io.end)] {
            self.event(&json!({
                "ph": ph, "cat": "io", "id": id, "name": name, "pid": IOS, "tid": core.cpu + 1,
                "ts": self.at(at), "args": if ph == "b" { &args } else { &Value::Null },
            }))?;
        }
        Ok(())
    }

    /// Rate and outstanding I/Os of each core, and of all together.
    fn counters(&mut self, cores: &[CoreActivity]) -> io::Result<()> {
        let mut points: Vec<(Nanos, usize, f64, u64)> = Vec::new();
        for (index, core) in cores.iter().enumerate() {
            let each = core.counts.windows(2).filter_map(|pair| rate(&pair[0], &pair[1]));
            points.extend(each.map(|(at, iops, outstanding)| (at, index, iops, outstanding)));
        }
        points.sort_by_key(|point| point.0);
        let mut latest = vec![(0.0, 0); cores.len()];
        for (at, index, iops, outstanding) in points {
            latest[index] = (iops, outstanding);
            let all = latest.iter().fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let cpu = cores[index].cpu;
            self.counter("IOPS", at, json!(all.0))?;
            self.counter("outstanding", at, json!(all.1))?;
            if cores.len() > 1 {
                self.counter(&format!("core {cpu}: IOPS"), at, json!(iops))?;
                self.counter(&format!("core {cpu}: outstanding"), at, json!(outstanding))?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, at: Nanos, value: Value) -> io::Result<()> {
        let ts = self.at(at);
        let args = json!({ "value": value });
        self.event(&json!({ "ph": "C", "name": name, "pid": CORES, "ts": ts, "args": args }))
    }
}

/// Returns time, IOPS and queue depth at the later count; `None` if no time passed.
fn rate(from: &Counted, to: &Counted) -> Option<(Nanos, f64, u64)> {
    let seconds = to.at.since(from.at).as_secs_f64();
    (seconds > 0.0).then(|| {
        let iops = (to.ios - from.ios) as f64 / seconds;
        (to.at, iops.round(), to.outstanding)
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn stretch(doing: Doing, start: u64, end: u64) -> Stretch {
        Stretch { start: Nanos(start), end: Nanos(end), doing, worker: 1 }
    }

    fn core(cpu: usize) -> CoreActivity {
        let io = SampledIo {
            worker: 1,
            every: 8,
            op: Op::Read,
            offset: 4096,
            len: 512,
            start: Nanos(500),
            end: Nanos(2500),
            failed: false,
        };
        let counted = |at, ios, outstanding| Counted { at: Nanos(at), ios, outstanding };
        CoreActivity {
            cpu,
            workers: vec!["a".to_owned(), "b \"c\"".to_owned()],
            span: (Nanos(1000), Nanos(3000)),
            stretches: vec![
                stretch(Doing::Poll, 1000, 1200),
                stretch(Doing::Step, 1000, 1500),
                stretch(Doing::Sleep, 1700, 2900),
                stretch(Doing::Turn, 1500, 3000),
            ],
            left_out: 7,
            ios: vec![io],
            counts: vec![counted(1000, 0, 4), counted(3000, 10, 3)],
        }
    }

    fn document(cores: &[CoreActivity]) -> Value {
        let mut text = Vec::new();
        write(cores, &mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn slices_ios_and_counters_are_told_in_microseconds() {
        let all = document(&[core(0), core(3)]);
        let events = all["traceEvents"].as_array().unwrap();
        let of = |ph: &str| events.iter().filter(|event| event["ph"] == ph).collect::<Vec<_>>();
        let slices: Vec<_> =
            of("X").iter().map(|e| (e["name"].clone(), e["dur"].clone())).collect();
        let one = [("workers", 0.5), ("poll", 0.2), ("turn", 1.5), ("sleep", 1.2)];
        let both = one.iter().chain(&one).map(|(name, dur)| (json!(name), json!(dur)));
        assert_eq!(slices, both.collect::<Vec<_>>());
        assert_eq!(of("X")[1]["args"]["worker"], "b \"c\"");
        assert_eq!(of("X")[2]["args"], Value::Null);
        let (begun, ended) = (of("b"), of("e"));
        assert_eq!((begun[0]["ts"].clone(), ended[0]["ts"].clone()), (json!(0.0), json!(1.5)));
        assert_eq!(begun[0]["id"], ended[0]["id"]);
        assert_ne!(begun[0]["id"], begun[1]["id"]);
        let last = |name: &str| {
            let all = of("C").into_iter().rfind(|event| event["name"] == name).unwrap();
            all["args"]["value"].clone()
        };
        assert_eq!((last("IOPS"), last("outstanding")), (json!(10e6), json!(6)));
        assert_eq!(last("core 3: IOPS"), json!(5e6));
        assert_eq!(all["otherData"]["cores"][1]["slices_left_out"], 7);
        assert!(of("i")[0]["name"].as_str().unwrap().starts_with("the 7 oldest slices"));
    }

    #[test]
    fn nothing_recorded_is_a_document_too() {
        let all = document(&[]);
        assert_eq!(all["traceEvents"].as_array().unwrap().len(), 2);
    }
}
