//! Tables of `docs/reference/job-toml.md`: their keys are those that the reader accepts.

use std::collections::BTreeSet;

use super::JobSpec;

const PAGE: &str = include_str!("../../../../docs/reference/job-toml.md");
const STEP: &str = "[[steps]]\nseconds = 1\n";
const ACCESS: &str = "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = ['ram:1m']\n\
                      [steps.groups.workload.access]\n";

/// Returns the keys that the reader names in its error about an unknown one.
fn known(text: &str) -> BTreeSet<String> {
    let error = toml::from_str::<JobSpec>(text).unwrap_err().to_string();
    let (_, list) = error.rsplit_once("expected").unwrap_or_else(|| panic!("{text}: {error}"));
    let keys: BTreeSet<String> = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(keys.len() > 1, "{text}: {error}");
    keys
}

/// Returns the first column of the table below a heading.
fn listed(heading: &str) -> Vec<String> {
    let start = format!("# {heading}\n");
    let (_, rest) = PAGE.split_once(&start).unwrap_or_else(|| panic!("no heading {heading}"));
    let table = rest.lines().skip_while(|line| !line.starts_with('|'));
    let rows = table.take_while(|line| line.starts_with('|')).skip(2);
    let first = rows.map(|row| row.split('|').nth(1).unwrap_or_default());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn the_page_has_each_key_of_a_job_and_no_other() {
    let group = format!("{STEP}[[steps.groups]]\n");
    let workload = format!("{group}[steps.groups.workload]\n");
    for (heading, before) in [
        ("The job", String::new()),
        ("Steps", STEP.to_owned()),
        ("Steady", format!("{STEP}[steps.steady]\n")),
        ("Groups", group.clone()),
        ("When", format!("{group}[steps.groups.when]\n")),
        ("Cache", format!("{group}[steps.groups.cache]\n")),
        ("Logs", format!("{group}[steps.groups.logs]\n")),
        ("Figures", format!("{group}[steps.groups.figures]\n")),
        ("Workload", workload.clone()),
        ("Access", ACCESS.to_owned()),
        ("Lines", format!("{ACCESS}[[steps.groups.workload.access.lines]]\n")),
        ("Trace", format!("{ACCESS}[steps.groups.workload.access.trace]\n")),
        ("Zoned", format!("{ACCESS}[steps.groups.workload.access.zoned]\n")),
        ("Content", format!("{workload}[steps.groups.workload.content]\n")),
        ("Verify", format!("{workload}[steps.groups.workload.verify]\n")),
        ("Think", format!("{workload}[steps.groups.workload.think]\n")),
        ("Demands", format!("{workload}[steps.groups.workload.demands]\n")),
        ("Depth search", format!("{workload}[steps.groups.workload.depth_search]\n")),
        ("Files", "[[laid_out]]\n".to_owned()),
        ("Serve", "[[serve]]\n".to_owned()),
    ] {
        let keys = listed(heading);
        let unique: BTreeSet<String> = keys.iter().cloned().collect();
        assert_eq!(unique.len(), keys.len(), "{heading}: a key is listed twice in {keys:?}");
        let known = known(&format!("{before}nosuch = 1\n"));
        assert_eq!(unique, known, "{heading}: the page on the left, the reader on the right");
    }
}
