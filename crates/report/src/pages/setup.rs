//! Setup of a run: job, host, versions, and the command that repeats it.

use serde_json::Value;
use stats::RunResult;
use stats::sweep::SweepResult;

use super::subject;
use crate::figure;
use crate::job;
use crate::page::{Content, Section, Table};

fn section_of(rows: Vec<(&'static str, String)>, job: &Value) -> Section {
    let rows = rows.into_iter().filter(|(_, said)| !said.is_empty());
    let rows = rows.map(|(what, said)| vec![what.to_owned(), said]).collect();
    let mut content = vec![Content::Table(Table { head: vec!["what", "here"], rows })];
    if let Some(command) = command(job) {
        content.push(Content::Text("Command:".to_owned()));
        content.push(Content::Code(block::printable(&command).into_owned()));
    }
    if !job.is_null() {
        content.push(Content::Text("The whole job:".to_owned()));
        content.push(Content::Code(serde_json::to_string_pretty(job).unwrap_or_default()));
    }
    Section { title: "set up".to_owned(), content }
}

fn command(job: &Value) -> Option<String> {
    let command = job.get("command")?.as_str()?;
    (!command.is_empty()).then(|| command.to_owned())
}

fn version(tool: &stats::Tool) -> String {
    let git = tool.git.as_ref().map(|git| format!(" ({git})")).unwrap_or_default();
    format!("{} {}{git}", tool.name, tool.version)
}

/// Setup of a run.
pub(super) fn section(result: &RunResult) -> Section {
    let host = &result.host;
    let cores = |cores: &[u32]| cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let memory = match host.memory_bytes {
        0 => String::new(),
        bytes => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    };
    let placement = &result.placement;
    let mut rows = vec![
        ("job", job::kind(&result.job)),
        ("extent", job::extent(&result.job)),
        ("seed", result.seed.to_string()),
        ("begun", result.started.clone()),
        ("length", figure::seconds(result.totals.seconds)),
        ("host", host.name.clone()),
        ("processor", host.cpu.clone()),
        ("cores", host.cores.to_string()),
        ("memory", memory),
        ("kernel", host.kernel.clone()),
        (
            "namespaces",
            host.more.get("namespaces").and_then(Value::as_str).unwrap_or("").to_owned(),
        ),
        ("hypervisor", host.hypervisor.clone().unwrap_or_default()),
        ("workers on cores", cores(&placement.initiator)),
        ("targets on cores", cores(&placement.target)),
        ("made by", version(&result.tool)),
    ];
    if let Some(cost) = &result.cost {
        let share = cost.initiator_percent.map(|p| format!(", {p:.1} % of the workers' time"));
        let cores = cost.collector_cores.map(|c| format!("; collecting and showing {c:.3} cores"));
        let (share, cores) = (share.unwrap_or_default(), cores.unwrap_or_default());
        rows.push(("cost of measuring", format!("{:.0} ns per I/O{share}{cores}", cost.ns_per_io)));
    }
    section_of(rows, &result.spec)
}

/// Setup of a sweep.
pub(super) fn of_sweep(sweep: &SweepResult) -> Section {
    let plan = &sweep.plan;
    let mut rows: Vec<(&str, String)> = vec![
        ("runs of a cell", plan.repeats.to_string()),
        ("seed", plan.seed.to_string()),
        ("made by", version(&sweep.tool)),
    ];
    rows.insert(0, ("hosts", subject::hosts(sweep).join("; ")));
    rows.insert(0, ("volumes", subject::volumes(&plan.job)));
    let axes = plan.axes.iter().map(|axis| format!("{}={}", axis.word, axis.values.join(",")));
    rows.insert(0, ("axes", axes.collect::<Vec<_>>().join("; ")));
    section_of(rows, &plan.job)
}
