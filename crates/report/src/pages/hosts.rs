//! Charts over the hosts of a measurement: their rates, and what those that served used.

use stats::{HostResult, RunResult, ServerResult};

use super::section;
use crate::chart::{Parts, Row};
use crate::figure;
use crate::page::{Content, Section};

/// Hosts of a chart: of more, the slowest ones.
const ROWS_MAX: usize = 48;

/// Rates of hosts, and CPU time of servers; `None` for the result of one process.
pub(super) fn over_hosts(result: &RunResult) -> Option<Section> {
    if result.hosts.is_empty() {
        return None;
    }
    let mut content = vec![Content::Parts(rates(&result.hosts))];
    if !result.servers.is_empty() {
        content.push(Content::Parts(servers(&result.servers)));
    }
    Some(section("hosts", content))
}

fn rates(hosts: &[HostResult]) -> Parts {
    let mut all: Vec<&HostResult> = hosts.iter().collect();
    all.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    all.truncate(ROWS_MAX);
    let row = |host: &&HostResult| {
        let off = host.apart.as_ref().map(|apart| {
            let than = if apart.off_percent < 0.0 { "slower" } else { "faster" };
            format!(", {:.0} % {than} than the others: {}", apart.off_percent.abs(), apart.why)
        });
        let cpu = host.cpu_percent.map(|cpu| format!(", {cpu:.0} % of its CPUs busy"));
        let lost = host.partial.as_ref().map(|why| format!(", {why}"));
        let more = [off, cpu, lost].into_iter().flatten().collect::<String>();
        let text = format!("{}{more}", figure::iops(host.iops));
        // A host that is apart has the second colour.
        let lengths = if host.apart.is_some() { [0.0, host.iops] } else { [host.iops, 0.0] };
        Row::stacked(host.name.clone(), text, &lengths)
    };
    let about = match hosts.len() > all.len() {
        true => format!("The slowest {ROWS_MAX} of {} hosts, the slowest first.", hosts.len()),
        false => "The slowest first; a host that noise does not explain is marked.".to_owned(),
    };
    Parts {
        title: "Rate of each host".to_owned(),
        about,
        full: None,
        names: ["as the others", "apart from the others"].map(str::to_owned).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

fn servers(servers: &[ServerResult]) -> Parts {
    let row = |server: &ServerResult| {
        let text = match (&server.lost, server.target_cores) {
            (Some(why), _) => why.clone(),
            (None, Some(cores)) => format!("{cores:.2} of {} CPUs", server.cores),
            (None, None) => "not known".to_owned(),
        };
        Row::stacked(server.name.clone(), text, &[server.target_cores.unwrap_or(0.0)])
    };
    Parts {
        title: "CPUs of the hosts that served".to_owned(),
        about: "CPU time of each server in the window, in CPUs.".to_owned(),
        full: None,
        names: vec!["server".to_owned()],
        rows: servers.iter().take(ROWS_MAX).map(row).collect(),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use stats::HostApart;

    #[test]
    fn a_chart_has_the_slowest_hosts_first_and_marks_those_apart() {
        let host = |name: &str, iops: f64| HostResult {
            name: name.to_owned(),
            iops,
            ..HostResult::default()
        };
        let why = "its CPUs are 99 % busy".to_owned();
        let apart = Some(HostApart { off_percent: -50.0, noise_percent: 1.0, why });
        let hosts = vec![host("a", 1000.0), HostResult { apart, ..host("b", 500.0) }];
        let server = ServerResult { name: "z".to_owned(), cores: 4, ..ServerResult::default() };
        let servers = vec![ServerResult { target_cores: Some(1.5), ..server }];
        let result = RunResult { hosts, servers, ..RunResult::default() };
        let section = over_hosts(&result).unwrap();
        let [Content::Parts(rates), Content::Parts(served)] = &section.content[..] else {
            panic!("{section:?}")
        };
        assert_eq!(rates.rows[0].label, "b");
        assert!(rates.rows[0].text.contains("50 % slower than the others: its CPUs"), "{rates:?}");
        assert_eq!(rates.rows[1].parts[0], (0, 0.0, 1000.0));
        assert_eq!(served.rows[0].text, "1.50 of 4 CPUs");
        let many = (0..100).map(|at| host(&format!("n{at}"), f64::from(at))).collect();
        let section = over_hosts(&RunResult { hosts: many, ..RunResult::default() }).unwrap();
        let Content::Parts(rates) = &section.content[0] else { panic!("{section:?}") };
        assert_eq!((rates.rows.len(), &*rates.rows[0].label), (48, "n0"));
        assert_eq!(over_hosts(&RunResult::default()), None);
    }
}
