//! Options of two jobs, from their documents: all differences are reported, so later options are
//! included.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Difference;

/// Options that may differ between runs of the same job: names, the seed, volumes (compared by
/// kind) and options that only change the report.
const LEFT_OUT: [&str; 6] = ["command", "name", "seed", "volumes", "reported", "figures"];
/// The contents of files, which are too long to be shown.
const LONG: &str = "files";

/// The options that differ between two jobs.
pub(super) fn differences(a: &Value, b: &Value) -> Vec<Difference> {
    let (a, b) = (options(a), options(b));
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let differ = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    let said = |of: &BTreeMap<String, &Value>, name: &String| match of.get(name) {
        Some(_) if name.ends_with(LONG) => "other contents".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => "not set".to_owned(),
    };
    differ
        .map(|name| Difference { what: name.clone(), a: said(&a, name), b: said(&b, name) })
        .collect()
}

/// Every option of a job by its name. Those of the first group of the first step go without
/// numbers, as there are no others in most jobs.
fn options(job: &Value) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    take(job, "", &["steps"], &mut found);
    for (number, step) in each(job, "steps") {
        let step_prefix = prefix("step", number);
        take(step, &step_prefix, &["groups"], &mut found);
        for (number, group) in each(step, "groups") {
            let prefix = step_prefix.clone() + &prefix("group", number);
            take(group, &prefix, &["workload"], &mut found);
            let Some(workload) = group.get("workload") else { continue };
            take(workload, &prefix, &["access"], &mut found);
            if let Some(access) = workload.get("access") {
                take(access, &format!("{prefix}access."), &[], &mut found);
            }
        }
    }
    found
}

/// The options of one object, but for those that are looked into or left out.
fn take<'a>(of: &'a Value, prefix: &str, inner: &[&str], found: &mut BTreeMap<String, &'a Value>) {
    let Some(object) = of.as_object() else { return };
    for (name, value) in object {
        if !inner.contains(&name.as_str()) && !LEFT_OUT.contains(&name.as_str()) {
            found.insert(format!("{prefix}{name}"), value);
        }
    }
}

fn each<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    of.get(name).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn prefix(what: &str, number: usize) -> String {
    if number == 0 { String::new() } else { format!("{what} {} ", number + 1) }
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    fn job(workload: &Value) -> Value {
        json!({ "seed": 1, "steps": [{ "seconds": 10.0, "groups": [{
            "volumes": ["null:1g"], "workload": workload,
        }] }] })
    }

    #[test]
    fn whatever_differs_is_told() {
        let one = json!({ "outstanding": 1, "access": { "lines": [1], "turns": 2 } });
        let two = json!({ "outstanding": 1, "until_full": true, "access": { "lines": [1, 2] } });
        let found = differences(&job(&one), &job(&two));
        let told: Vec<_> = found.iter().map(|d| (&*d.what, &*d.a, &*d.b)).collect();
        let expected = [
            ("access.lines", "[1]", "[1,2]"),
            ("access.turns", "2", "not set"),
            ("until_full", "not set", "true"),
        ];
        assert_eq!(told, expected);
        assert!(differences(&job(&one), &job(&one)).is_empty());
    }

    #[test]
    fn further_groups_have_numbers_and_names_are_left_out() {
        let (one, mut two) = (job(&json!({})), job(&json!({})));
        two["steps"][0]["groups"].as_array_mut().unwrap().push(json!({ "workers": 4 }));
        (two["seed"], two["name"]) = (json!(2), json!("other"));
        two["files"] = json!({ "profile": "long" });
        let found = differences(&one, &two);
        let told: Vec<_> = found.iter().map(|d| (&*d.what, &*d.b)).collect();
        assert_eq!(told, [("files", "other contents"), ("group 2 workers", "4")]);
    }

    #[test]
    fn what_is_no_job_has_no_options() {
        for odd in [json!(null), json!([1]), json!({ "steps": 7 }), json!({ "steps": [[], 3] })] {
            assert!(differences(&odd, &json!(null)).iter().all(|d| d.what == "steps"));
        }
    }
}
