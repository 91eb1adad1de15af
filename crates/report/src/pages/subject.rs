//! Subject of a page's figures: a chart that is copied from its page names volumes and host.

use std::collections::BTreeSet;

use serde_json::Value;
use stats::RunResult;
use stats::sweep::{Cell, SweepResult};

use crate::compare;
use crate::page::{Content, Section};

/// Maximum number of volumes in a title.
const NAMED: usize = 3;

/// The volumes and the host of a run: "file:/data/disk.img on box".
pub(super) fn of_run(result: &RunResult) -> String {
    join(compare::volumes(result), &result.host.name)
}

/// The volumes and the host of a sweep: those of its job, and where its runs come from.
pub(super) fn of_sweep(sweep: &SweepResult) -> String {
    let hosts = hosts(sweep);
    let host = match &hosts[..] {
        [] => String::new(),
        // Processor, kernel and cores follow the name.
        [only] => only.split_once(", ").map_or(&**only, |(name, _)| name).to_owned(),
        several => format!("{} hosts", several.len()),
    };
    join(volumes(&sweep.plan.job), &host)
}

/// The hosts of the runs of a sweep, each once.
pub(super) fn hosts(sweep: &SweepResult) -> Vec<String> {
    let runs = sweep.cells.iter().flat_map(Cell::whole_runs);
    let hosts: BTreeSet<&str> = runs.map(|run| &*run.source.host).collect();
    hosts.into_iter().filter(|host| !host.is_empty()).map(str::to_owned).collect()
}

/// Returns the volumes of a job, each once; for volumes that the run creates, their creator.
pub(super) fn volumes(job: &Value) -> String {
    let setup = |name: &str| job.pointer(&format!("/setup/{name}")).and_then(Value::as_str);
    if let Some(maker) = setup("by") {
        return [Some(maker), setup("system")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    }
    let list = |of: &Value, name: &str| of.get(name).and_then(Value::as_array).cloned();
    let steps = list(job, "steps").unwrap_or_default();
    let groups = steps.iter().filter_map(|step| list(step, "groups")).flatten();
    let uris = groups.filter_map(|group| list(&group, "volumes")).flatten();
    let mut names: Vec<String> = Vec::new();
    for name in uris.filter_map(|uri| uri.as_str().map(str::to_owned)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names.truncate(NAMED);
    names.join(", ") + &more
}

fn join(volumes: String, host: &str) -> String {
    match (volumes.is_empty(), host.is_empty()) {
        (_, true) => volumes,
        (true, false) => host.to_owned(),
        (false, false) => format!("{volumes} on {host}"),
    }
}

/// Adds the subject below each chart.
pub(super) fn name_charts(sections: &mut [Section], subject: &str) {
    if subject.is_empty() {
        return;
    }
    for content in sections.iter_mut().flat_map(|section| &mut section.content) {
        let about = match content {
            Content::Chart(chart) => &mut chart.about,
            Content::Plot(plot) => &mut plot.about,
            Content::Heat(heat) => &mut heat.about,
            Content::Parts(parts) => &mut parts.about,
            Content::Text(_) | Content::Code(_) | Content::Table(_) => continue,
        };
        *about += &format!(" Of {subject}.");
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{generated, pages};
    use serde_json::json;
    use stats::sweep::{CellRun, Source, SweepPlan};

    #[test]
    fn every_chart_of_a_run_names_its_volume_and_host() {
        let mut run = generated::small(1);
        run.host.name = "box".to_owned();
        run.workers.iter_mut().for_each(|worker| worker.volume = "file:/data/a.img".to_owned());
        let html = pages::runs(&[run]).html();
        let figures = html.matches("<figcaption>").count();
        assert!(figures >= 2, "{html}");
        let named = html.matches("Of file:/data/a.img on box.</figcaption>").count();
        assert_eq!(named, figures, "{html}");
    }

    #[test]
    fn a_sweep_names_its_volumes_and_hosts() {
        let job = |volumes: &[&str]| {
            let group = json!({ "volumes": volumes });
            json!({ "steps": [{ "groups": [group.clone(), group] }] })
        };
        let run = |host: &str| CellRun {
            source: Source { host: host.to_owned(), ..Source::default() },
            ..CellRun::default()
        };
        let of = |job: Value, hosts: &[&str]| SweepResult {
            plan: SweepPlan { job, ..SweepPlan::default() },
            cells: vec![Cell {
                runs: hosts.iter().map(|host| run(host)).collect(),
                ..Cell::default()
            }],
            ..SweepResult::default()
        };
        let boxed = "box, some CPU, 6.1, 2 cores";
        assert_eq!(of_sweep(&of(job(&["ram:1m"]), &[boxed, boxed])), "ram:1m on box");
        assert_eq!(of_sweep(&of(job(&["a", "b", "c", "d", "e"]), &[])), "a, b, c and 2 more");
        assert_eq!(of_sweep(&of(job(&["a"]), &[boxed, "other, …"])), "a on 2 hosts");
        let made = json!({ "setup": { "by": "simulate", "system": "x25-m" } });
        assert_eq!(of_sweep(&of(made, &[boxed])), "simulate x25-m on box");
        assert_eq!(of_sweep(&SweepResult::default()), "");
        let page = pages::sweep(&of(job(&["ram:1m"]), &[boxed]));
        assert_eq!(page.title, "sweep of ram:1m on box");
    }
}
