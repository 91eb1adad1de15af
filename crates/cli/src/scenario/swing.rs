//! Variation of the rate of a step from second to second, and its known causes.

use serde::Serialize;
use serde_json::Value;

/// Minimum seconds for a conclusion.
const SECONDS_MIN: usize = 3;

/// Variation of the rate over the seconds of a step.
#[derive(Debug, PartialEq, Serialize)]
pub struct Swing {
    /// Number of seconds.
    pub seconds: usize,
    /// Maximum rate of a second over the mean.
    pub most: f64,
    /// Minimum rate of a second over the mean.
    pub least: f64,
    /// Other observations, in one line.
    pub seen: String,
}

/// Variation from the results of all processes of a step, which started together: their rates are
/// added second by second. `None` if they have no intervals, or too few.
pub fn swing(documents: &[Value]) -> Option<Swing> {
    let each: Option<Vec<&Vec<Value>>> =
        documents.iter().map(|one| one["intervals"].as_array()).collect();
    let each = each?;
    let seconds = each.iter().map(|one| one.len()).min()?;
    if seconds < SECONDS_MIN {
        return None;
    }
    let rate = |second: usize| -> Option<f64> {
        each.iter().map(|one| one[second]["iops"].as_f64()).sum()
    };
    let rates: Vec<f64> = (0..seconds).map(rate).collect::<Option<_>>()?;
    let mean = rates.iter().sum::<f64>() / seconds as f64;
    if mean <= 0.0 {
        return None;
    }
    let most = rates.iter().fold(0.0_f64, |most, rate| most.max(*rate));
    let worst = (0..seconds).min_by(|one, other| rates[*one].total_cmp(&rates[*other]))?;
    let longest = each.iter().filter_map(|one| one[worst]["max_ns"].as_f64()).fold(0.0, f64::max);
    let seen = format!(
        "the rate of single seconds is {:.2} to {:.2} of the mean; in the slowest one an I/O \
        took {:.1} ms; {}",
        rates[worst] / mean,
        most / mean,
        longest / 1e6,
        host(&documents[0])
    );
    Some(Swing { seconds, most: most / mean, least: rates[worst] / mean, seen })
}

/// Other activity of this host: interrupts, the hypervisor.
fn host(document: &Value) -> String {
    let of = |key: &str| document["cpu"][key].as_f64();
    let share = |key: &str, what: &str| of(key).map(|percent| format!("{what} {percent:.1} %"));
    let each = [
        share("steal_percent", "steal"),
        share("irq_percent", "interrupts"),
        share("softirq_percent", "software interrupts"),
    ];
    let each: Vec<String> = each.into_iter().flatten().collect();
    match each.is_empty() {
        true => "other load of the host was not recorded".to_owned(),
        false => format!("CPU time: {}", each.join(", ")),
    }
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    fn document(rates: &[f64]) -> Value {
        let intervals = rates.iter().map(|iops| json!({ "iops": iops, "max_ns": 2e6 }));
        json!({ "intervals": intervals.collect::<Vec<_>>(), "cpu": { "steal_percent": 1.25 } })
    }

    #[test]
    fn rates_of_processes_add_up_second_by_second() {
        let found = swing(&[document(&[50.0, 80.0, 60.0]), document(&[50.0, 40.0, 20.0, 9.0])]);
        let found = found.unwrap();
        assert_eq!((found.seconds, found.most, found.least), (3, 1.2, 0.8));
        assert!(found.seen.contains("0.80 to 1.20"), "{}", found.seen);
        assert!(found.seen.contains("2.0 ms; CPU time: steal 1.2 %"));
    }

    #[test]
    fn too_few_seconds_say_nothing() {
        assert_eq!(swing(&[document(&[1.0, 2.0])]), None);
        assert_eq!(swing(&[document(&[0.0, 0.0, 0.0])]), None);
        assert_eq!(swing(&[json!({})]), None);
        assert_eq!(swing(&[]), None);
    }
}
