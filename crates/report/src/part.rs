//! Part of the volumes that a job uses, and reducible part of its data: both decide what a number
//! means, and the number shows neither.

use serde_json::Value;

use crate::figure;

/// Describes the used part of the volumes, and data that are not all unique; empty for a job that
/// uses whole volumes and writes incompressible data.
pub(crate) fn words(job: &Value) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for workload in workloads(job) {
        for word in ranges(workload).into_iter().chain(contents(workload)) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    words
}

fn workloads(job: &Value) -> impl Iterator<Item = &Value> {
    let steps = job.get("steps").and_then(Value::as_array).into_iter().flatten();
    let groups = steps.filter_map(|step| step.get("groups")?.as_array()).flatten();
    groups.filter_map(|group| group.get("workload"))
}

/// The part of each volume that is used: `only 4 KiB of each volume`.
fn ranges(workload: &Value) -> Option<String> {
    let range = workload.get("range")?;
    let extent = |key: &str| range.get(key).and_then(extent);
    let start = extent("start").map(|start| format!(" from {start} on"));
    match (extent("length"), start) {
        (Some(length), start) => {
            Some(format!("only {length} of each volume{}", start.unwrap_or_default()))
        }
        (None, Some(start)) => Some(format!("each volume{start}")),
        (None, None) => None,
    }
}

/// Bytes, or a share as "25%".
fn extent(value: &Value) -> Option<String> {
    match value {
        Value::String(share) => Some(share.replace('%', " %")),
        bytes => bytes.as_u64().map(figure::size),
    }
}

/// Describes which written data a compressing or deduplicating device can reduce.
fn contents(workload: &Value) -> Vec<String> {
    let writes = workload.pointer("/access/lines").and_then(Value::as_array).is_none_or(|lines| {
        let reads = |line: &Value| line.get("read_percent").and_then(Value::as_f64);
        lines.iter().any(|line| reads(line).is_some_and(|read| read < 100.0))
    });
    // Reads that verify need data, which were written first.
    let writes = writes || workload.get("verify").is_some_and(|verify| !verify.is_null());
    let Some(content) = workload.get("content").filter(|_| writes) else { return Vec::new() };
    let percent = |key: &str| content.get(key).and_then(Value::as_f64).filter(|share| *share > 0.0);
    let is = |key: &str| content.get(key).is_some_and(|value| !value.is_null());
    [
        percent("compress_percent").map(|share| format!("data compressible by {share} %")),
        percent("dedupe_percent").map(|share| format!("{share} % of the data are duplicates")),
        is("pattern").then(|| "data repeat a pattern".to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use serde_json::json;

    fn of(workload: Value) -> Vec<String> {
        words(&json!({ "steps": [{ "groups": [{ "workload": workload }] }] }))
    }

    #[test]
    fn a_part_of_a_volume_is_said() {
        let range = |range: Value| of(json!({ "range": range })).join("; ");
        assert_eq!(range(json!({ "length": 4096 })), "only 4 KiB of each volume");
        assert_eq!(range(json!({ "start": 1048576 })), "each volume from 1 MiB on");
        let both = range(json!({ "start": "50%", "length": "2.5%" }));
        assert_eq!(both, "only 2.5 % of each volume from 50 % on");
        assert_eq!((range(json!({})), range(json!(7))), (String::new(), String::new()));
        // Groups that do the same are one word.
        let group = json!({ "workload": { "range": { "length": 512 } } });
        let job = json!({ "steps": [{ "groups": [group, group] }] });
        assert_eq!(words(&job), ["only 512 B of each volume"]);
    }

    #[test]
    fn data_that_can_be_reduced_are_said_where_they_are_written() {
        let content = json!({ "compress_percent": 50, "dedupe_percent": 100.0, "pattern": "x" });
        let line = |read: u32| json!({ "lines": [{ "read_percent": read }] });
        let job = |read| json!({ "content": content, "access": line(read) });
        let said = of(job(70));
        assert_eq!(said[..2], ["data compressible by 50 %", "100 % of the data are duplicates"]);
        assert_eq!(said[2], "data repeat a pattern");
        assert!(of(job(100)).is_empty());
        let mut verified = job(100);
        verified["verify"] = json!({});
        assert_eq!(of(verified).len(), 3);
        assert!(of(json!({ "access": line(0) })).is_empty());
    }

    #[test]
    fn what_is_no_job_says_nothing() {
        for odd in [json!(null), json!([1]), json!({ "steps": 7 }), json!({ "steps": [[], 3] })] {
            assert!(words(&odd).is_empty());
        }
    }
}
