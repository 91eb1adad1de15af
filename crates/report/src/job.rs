//! Kind of a job, in one line.

use stats::Job;

use crate::figure;

/// Returns the line above a result: `512 B · 100 % read · random · iSCSI on loopback · RAM`.
pub fn kind(job: &Job) -> String {
    let size = match job.size_bytes {
        Some(bytes) => figure::size(bytes.into()),
        None => "mixed sizes".to_owned(),
    };
    let order = match job.random_percent {
        p if p >= 100.0 => "random".to_owned(),
        p if p <= 0.0 => "sequential".to_owned(),
        p => format!("{} % random", percent(p)),
    };
    let place = if job.loopback { " on loopback" } else { "" };
    let parts = [
        size,
        format!("{} % read", percent(job.read_percent)),
        order,
        format!("{}{place}", job.transport),
        job.storage.clone(),
    ];
    join(parts)
}

/// Returns a percentage as requested, without superfluous digits.
fn percent(share: f64) -> String {
    let text = format!("{share:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Extent of the job: `10 targets · 50 volumes · 50 workers · 1,600 outstanding`.
pub fn extent(job: &Job) -> String {
    let some = |n: u32, one: &str| match n {
        0 => String::new(),
        n => figure::plural(n.into(), one),
    };
    let load = match (job.outstanding, job.rate_per_s) {
        (_, Some(rate)) => format!("open loop at {}", figure::iops(rate)),
        (Some(outstanding), None) => format!("{} outstanding", figure::count(outstanding)),
        (None, None) => String::new(),
    };
    let parts = [
        some(job.targets, "target"),
        some(job.volumes, "volume"),
        some(job.workers, "worker"),
        load,
    ];
    join(parts)
}

fn join<const N: usize>(parts: [String; N]) -> String {
    let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    known.join(" · ")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn says_what_is_known() {
        let mut job = Job {
            size_bytes: Some(4096),
            read_percent: 70.0,
            random_percent: 50.0,
            transport: "NVMe/TCP".into(),
            workers: 1,
            ..Job::default()
        };
        assert_eq!(kind(&job), "4 KiB · 70 % read · 50 % random · NVMe/TCP");
        assert_eq!(extent(&job), "1 worker");
        for (share, text) in [
            (50.5, "50.5 %"),
            (33.333, "33.33 %"),
            (100.0, "100 %"),
            (99.9, "99.9 %"),
            (0.0, "0 %"),
        ] {
            job.read_percent = share;
            assert!(kind(&job).contains(&format!(" {text} read")), "{}", kind(&job));
        }
        job.read_percent = 70.0;
        job.rate_per_s = Some(1e6);
        assert_eq!(extent(&job), "1 worker · open loop at 1.00M IOPS");
        assert_eq!(kind(&Job::default()), "mixed sizes · 0 % read · sequential");
    }
}
