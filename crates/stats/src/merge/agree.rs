//! Settings that parts of one measurement must share, and those that must differ.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Refused, no_part};
use crate::run::{Part, RunResult};

/// Longest name of a host in bytes: that of DNS.
const NAME_MAX_BYTES: usize = 255;

/// The first part without its figures, and the names so far.
#[derive(Debug)]
pub(super) struct Agreed {
    /// First part, as the basis of the merged result.
    pub first: RunResult,
    settings: Value,
    part: Part,
    /// Machine of each name, and name of each seed.
    names: HashMap<String, String>,
    seeds: HashMap<u64, String>,
    /// All have the base seed of the first.
    one_base: bool,
    /// Instant at which seconds of all hosts are counted from.
    pub reference_ns: u64,
}

impl Agreed {
    pub fn new(result: &RunResult) -> Result<Agreed, Refused> {
        let part = result.part.clone().ok_or_else(no_part)?;
        let first = RunResult {
            schema_version: result.schema_version,
            tool: result.tool.clone(),
            origin: result.origin,
            kind: result.kind,
            job: result.job.clone(),
            spec: result.spec.clone(),
            host: result.host.clone(),
            seed: result.seed,
            ..RunResult::default()
        };
        let reference_ns = part.planned_ns.unwrap_or(part.started_ns);
        let mut agreed = Agreed {
            first,
            settings: settings(&result.spec),
            part,
            names: HashMap::new(),
            seeds: HashMap::new(),
            one_base: true,
            reference_ns,
        };
        agreed.enter(result)?;
        Ok(agreed)
    }

    /// Compares one more part with the first, and with all others.
    pub fn check(&mut self, result: &RunResult) -> Result<(), Refused> {
        let part = result.part.as_ref().ok_or_else(no_part)?;
        let (a, b) = (&self.part.host, &part.host);
        let differ = |what: &str, one: &str, other: &str, mend: &str| {
            Err(Refused(format!("{what}: {one} on {a}, {other} on {b}: {mend}")))
        };
        if self.part.build != part.build || self.first.tool != result.tool {
            let build = |part: &Part, tool: &crate::Tool| match &part.build {
                build if build.is_empty() => tool.version.clone(),
                build => build.clone(),
            };
            let builds = (build(&self.part, &self.first.tool), build(part, &result.tool));
            return differ("builds differ", &builds.0, &builds.1, "install one on all hosts");
        }
        if self.part.clock.source != part.clock.source {
            let (one, other) = (&self.part.clock.source, &part.clock.source);
            let mend = "set one in /sys/devices/system/clocksource/clocksource0";
            return differ("clock sources differ", one, other, mend);
        }
        if self.first.origin != result.origin {
            let (one, other) = (self.first.origin.word(), result.origin.word());
            return differ("origins differ", one, other, "only equal ones are one measurement");
        }
        if let Some((path, one, other)) = difference(&self.settings, &settings(&result.spec)) {
            let mend = "run one job on all hosts";
            return differ(&format!("settings differ, {path}"), &one, &other, mend);
        }
        self.enter(result)
    }

    /// Enters a host, which must not be there yet.
    fn enter(&mut self, result: &RunResult) -> Result<(), Refused> {
        let part = result.part.as_ref().ok_or_else(no_part)?;
        let name = &part.host;
        match self.names.get(name) {
            Some(machine) if *machine == part.machine => {
                let why = format!("host {name} twice: name each of its parts once");
                return Err(Refused(format!("{why}, or run its second one with --host NAME")));
            }
            Some(_) => {
                let why = "give each a name of its own: run … --part FILE --host NAME";
                return Err(Refused(format!("two machines are called {name}: {why}")));
            }
            None => drop(self.names.insert(name.clone(), part.machine.clone())),
        }
        if let Some(other) = self.seeds.insert(result.seed, name.clone()) {
            return Err(Refused(format!(
                "seeds collide: {other} and {name} have seed {}, so both accessed the same places: \
                 leave --seed away, or give each host its own",
                result.seed
            )));
        }
        self.one_base &= part.base_seed == self.part.base_seed;
        Ok(())
    }

    /// Returns the seed from which all hosts derived theirs, or that of the first.
    pub fn seed(&self) -> u64 {
        if self.one_base { self.part.base_seed } else { self.first.seed }
    }
}

/// Refuses an invalid name.
pub(super) fn name(name: &str) -> Result<(), Refused> {
    let steers = name.chars().any(block::steers);
    let good = !name.is_empty() && name.len() <= NAME_MAX_BYTES && !steers;
    if good { Ok(()) } else { Err(Refused("the name of its host is none".to_owned())) }
}

/// Returns a job's document without the settings that may differ between hosts: the seed, the
/// command, CPUs, and the choice of volumes of a kind.
fn settings(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(job) = spec.as_object_mut() else { return spec };
    ["seed", "command", "laid_out"].iter().for_each(|name| drop(job.remove(*name)));
    if let Some(setup) = job.get_mut("setup").and_then(Value::as_object_mut) {
        setup.remove("cores");
        if setup.is_empty() {
            job.remove("setup");
        }
    }
    let steps = job.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten();
    let groups = steps.filter_map(|step| step.get_mut("groups")?.as_array_mut()).flatten();
    for group in groups.filter_map(Value::as_object_mut) {
        group.remove("cores");
        kinds(group);
    }
    spec
}

/// Replaces volumes by their kinds.
fn kinds(group: &mut Map<String, Value>) {
    let Some(volumes) = group.get_mut("volumes").and_then(Value::as_array_mut) else { return };
    for volume in volumes {
        let kind = volume.as_str().map(|uri| uri.split(':').next().unwrap_or_default().to_owned());
        if let Some(kind) = kind {
            *volume = kind.into();
        }
    }
}

/// Finds the first difference: its path, and both values.
fn difference(a: &Value, b: &Value) -> Option<(String, String, String)> {
    let both = match (a, b) {
        _ if a == b => return None,
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            let of = |map: &Map<String, Value>, name: &String| {
                map.get(name).cloned().unwrap_or(Value::Null)
            };
            names.map(|name| (name.clone(), of(a, name), of(b, name))).collect::<Vec<_>>()
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.map(|(at, (a, b))| (at.to_string(), a.clone(), b.clone())).collect()
        }
        (Value::Array(a), Value::Array(b)) => {
            return Some(("number".to_owned(), a.len().to_string(), b.len().to_string()));
        }
        _ => return Some((String::new(), short(a), short(b))),
    };
    both.into_iter().find_map(|(name, a, b)| {
        let (path, a, b) = difference(&a, &b)?;
        let path = if path.is_empty() { name } else { format!("{name}.{path}") };
        Some((path, a, b))
    })
}

/// A value in a message.
fn short(value: &Value) -> String {
    const MOST: usize = 60;
    let text = match value {
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_leave_out_what_is_of_a_host() {
        let spec = |seed: u64, volume: &str, depth: u32| {
            json!({ "seed": seed, "command": volume, "setup": { "cores": "0" }, "steps": [{
                "seconds": 3.0,
                "groups": [{
                    "volumes": [volume],
                    "cores": [1],
                    "workload": { "outstanding": depth },
                }],
            }] })
        };
        let of = |seed, volume, depth| settings(&spec(seed, volume, depth));
        let first = of(1, "file:/dev/sda", 4);
        assert_eq!(difference(&first, &of(2, "file:/dev/sdb", 4)), None);
        let depth = difference(&first, &of(1, "file:/dev/sda", 8)).unwrap();
        assert_eq!(depth.0, "steps.0.groups.0.workload.outstanding");
        assert_eq!((&*depth.1, &*depth.2), ("4", "8"));
        assert!(difference(&first, &of(1, "ram:1g", 4)).unwrap().0.ends_with("volumes.0"));
        let mut more = first.clone();
        more["options"] = json!(["x"]);
        assert_eq!(difference(&first, &more).unwrap().1, "nothing");
    }
}
