//! The job's settings as fio options: access pattern, block size, depth.

use serde_json::Value;
use stats::RunResult;

use crate::group::Group;

/// The settings of a group: as the file of fio that it is from has them, if it is; none where that
/// file has none but those of all jobs.
pub(super) fn options(result: &RunResult, group: &Group<'_>) -> Option<Vec<(String, String)>> {
    let made_up = |(name, value): (&str, String)| (name.to_owned(), value);
    match (group.figures.get("options"), result.spec.get("options")) {
        (own @ Some(_), _) => Some(written(own)),
        (None, Some(_)) => None,
        (None, None) => Some(made_of(group).into_iter().map(made_up).collect()),
    }
}

/// Names and values in the document of a job; as in fio's, none without a value.
pub(super) fn written(options: Option<&Value>) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let pair = |pair: &Value| Some((text(pair.get(0)?)?, text(pair.get(1)?)?));
    let all = options.and_then(Value::as_array).into_iter().flatten().filter_map(pair);
    all.filter(|(_, value)| !value.is_empty()).collect()
}

/// Returns whether a fio job continues after errors.
pub(super) fn goes_on(result: &RunResult, group: &Group<'_>) -> bool {
    let own = written(group.figures.get("options"));
    let all = written(result.spec.get("options"));
    own.iter().chain(&all).any(|(name, value)| name == "continue_on_error" && value != "none")
}

/// Returns the options of a native job in fio's words.
pub(super) fn made_of(group: &Group<'_>) -> Vec<(&'static str, String)> {
    let mut options = vec![("name", group.name.clone())];
    let lines = lines(group.workload);
    if !lines.is_empty() {
        options.push(("rw", word(group.workload)));
        let read = mean(lines, "read_percent");
        if read > 0.0 && read < 100.0 {
            options.push(("rwmixread", format!("{read:.0}")));
        }
        let size = |line: &Value| line.get("size_bytes").and_then(Value::as_u64);
        let sizes: Vec<u64> = lines.iter().filter_map(size).collect();
        match &sizes[..] {
            [first, rest @ ..] if rest.iter().all(|size| size == first) => {
                options.push(("bs", block::print_size(*first)));
            }
            _ => {
                let entry = |(line, size): (&Value, &u64)| {
                    format!("{}/{:.0}", block::print_size(*size), share(line))
                };
                let split: Vec<String> = lines.iter().zip(&sizes).map(entry).collect();
                options.push(("bssplit", split.join(":")));
            }
        }
        options.push(("iodepth", depth(group).to_string()));
    }
    if let Some(trace) = group.workload.pointer("/access/trace/file").and_then(Value::as_str) {
        options.push(("read_iolog", trace.replace(':', "\\:")));
        options.push(("iodepth", depth(group).to_string()));
    }
    let volumes: Vec<&str> = group.workers.iter().map(|worker| worker.volume.as_str()).collect();
    if let [volume, ..] = volumes[..]
        && volumes.iter().all(|other| *other == volume)
    {
        options.push(("filename", path(volume).replace(':', "\\:")));
    }
    // Tools that draw charts always need this option.
    options.push(("numjobs", group.per_volume.to_string()));
    options
}

/// Returns the path of a file, which is its name in fio; for other volumes, their name.
fn path(volume: &str) -> &str {
    let file = volume.strip_prefix("file:");
    file.map_or(volume, |file| file.split_once('?').map_or(file, |(path, _)| path))
}

/// I/Os that each worker may have in flight.
pub(super) fn depth(group: &Group<'_>) -> u32 {
    let depth = group.workload.get("outstanding").and_then(Value::as_u64);
    depth.and_then(|depth| u32::try_from(depth).ok()).unwrap_or(1)
}

/// Returns the settings of a latency-target search: the depth that was found or tried last, the
/// target in nanoseconds, the share in percent, and the window in microseconds.
pub(super) fn search(group: &Group<'_>) -> (u32, u64, f64, u64) {
    let found = group.workers.iter().filter_map(|worker| worker.searched);
    let depth = found.map(|searched| searched.depth).max().unwrap_or_else(|| depth(group));
    let Some(search) = group.workload.get("depth_search") else { return (depth, 0, 100.0, 0) };
    let whole = |key: &str| search.get(key).and_then(Value::as_u64).unwrap_or(0);
    let target_ns = whole("latency_us").saturating_mul(1000);
    (depth, target_ns, number(search, "percent", 100.0), whole("window_us"))
}

/// Returns whether the group trims: other operations than reads and writes are then trims, not
/// flushes.
pub(crate) fn trims(workload: &Value) -> bool {
    trims_first(workload) || lines(workload).iter().any(trims_some)
}

fn trims_some(line: &Value) -> bool {
    number(line, "trim_percent", 0.0) > 0.0
}

/// Returns whether each write follows a trim of the same range.
fn trims_first(workload: &Value) -> bool {
    workload.pointer("/access/trims_first").and_then(Value::as_bool).unwrap_or(false)
}

fn lines(workload: &Value) -> &[Value] {
    let lines = workload.pointer("/access/lines").and_then(Value::as_array);
    lines.map_or(&[], Vec::as_slice)
}

fn number(line: &Value, key: &str, default: f64) -> f64 {
    line.get(key).and_then(Value::as_f64).unwrap_or(default)
}

fn share(line: &Value) -> f64 {
    number(line, "share_percent", 100.0)
}

fn mean(lines: &[Value], key: &str) -> f64 {
    let weighted = lines.iter().map(|line| share(line) * number(line, key, 100.0)).sum::<f64>();
    weighted / lines.iter().map(share).sum::<f64>().max(f64::MIN_POSITIVE)
}

fn word(workload: &Value) -> String {
    let lines = lines(workload);
    let random = if mean(lines, "random_percent") > 0.0 { "rand" } else { "" };
    let trims = lines.iter().any(trims_some);
    let what = match mean(lines, "read_percent") {
        _ if trims_first(workload) => "trimwrite",
        _ if trims => "trim",
        read if read >= 100.0 => "read",
        read if read <= 0.0 => "write",
        _ => "rw",
    };
    format!("{random}{what}")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn files_have_their_paths() {
        assert_eq!(path("file:/a/b?size=64m&direct=1"), "/a/b");
        assert_eq!(path("file:a"), "a");
        assert_eq!(path("iscsi://host/iqn.x:y/1"), "iscsi://host/iqn.x:y/1");
    }
}
