//! Figures of a group that fio's formats show. The result always has all of them.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;

/// Maximum number of percentiles of a group, as in fio.
pub const PERCENTILES_MAX: usize = 20;

/// Latency figures of a group to show, and the grouping of its directions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Percentiles, each above 0 to 100, in ascending order and at most 20; fio's defaults if
    /// empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<f64>,
    /// True if latencies from submission to completion (`clat_ns`) have percentiles.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub of_completion: bool,
    /// True if total latencies (`lat_ns`) have percentiles.
    #[serde(default, skip_serializing_if = "is_default")]
    pub of_whole: bool,
    /// Grouping of reads, writes and trims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub directions: Directions,
    /// True if a new reporting group begins with this group, within a step: it is reported together
    /// only with those after it, and fio's formats have another `groupid`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begins: bool,
    /// True if flushes between writes are shown: fio counts those of `fsync`, and none of
    /// `fdatasync`.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub flushes: bool,
    /// True if the activity of the block devices below the volumes is shown.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub disks: bool,
    /// Options that a fio job file sets for this job only, each as name and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// Description for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Grouping of reads, writes and trims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Each direction separately.
    #[default]
    Apart,
    /// Only the total of all directions.
    Mixed,
    /// Each direction separately, and the total.
    Both,
}

impl Default for Figures {
    fn default() -> Figures {
        Figures {
            percentiles: Vec::new(),
            of_completion: true,
            of_whole: false,
            directions: Directions::Apart,
            begins: false,
            flushes: true,
            disks: true,
            options: Vec::new(),
            description: String::new(),
        }
    }
}

impl Figures {
    /// Returns the error of the percentiles, if any.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let all = &self.percentiles;
        let inside = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
        if all.len() > PERCENTILES_MAX {
            return Some("more than 20 percentiles");
        }
        let rises = all.windows(2).all(|pair| pair[0] < pair[1]);
        (!rises || !all.iter().all(inside))
            .then_some("percentiles must be above 0, at most 100 and in ascending order")
    }
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn everything_survives_being_kept() {
        for directions in [Directions::Apart, Directions::Mixed, Directions::Both] {
            let (of_completion, of_whole) = (false, true);
            let percentiles = vec![5.0, 99.9];
            let description = "two \"words\"".to_owned();
            let (begins, flushes, disks) = (true, false, false);
            let options = vec![("rw".to_owned(), "read".to_owned())];
            let figures = Figures {
                percentiles,
                of_completion,
                of_whole,
                directions,
                begins,
                flushes,
                disks,
                options,
                description,
            };
            let text = toml::to_string(&figures).unwrap();
            assert_eq!(toml::from_str::<Figures>(&text).unwrap(), figures, "{text}");
        }
        assert_eq!(toml::from_str::<Figures>("").unwrap(), Figures::default());
    }
}
