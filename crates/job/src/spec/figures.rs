//! Which figures of a group the forms of fio show. The result always has all of them.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;

/// Most percentiles of a group, as with fio.
pub const PERCENTILES_MAX: usize = 20;

/// What is shown of the latencies of a group, and how its directions stand together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Which percentiles, each above 0 to 100, in rising order and at most 20; those that fio
    /// shows by default if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<f64>,
    /// Latencies from submission to completion (`clat_ns`) have percentiles.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub of_completion: bool,
    /// Whole latencies (`lat_ns`) have percentiles.
    #[serde(default, skip_serializing_if = "is_default")]
    pub of_whole: bool,
    /// Whether reads, writes and trims are shown apart.
    #[serde(default, skip_serializing_if = "is_default")]
    pub directions: Directions,
    /// With it groups of figures begin anew, within a step: what is reported as one with others
    /// is so with those from here on, and fio's forms have another `groupid`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begins: bool,
    /// Flushes between its writes are shown: fio counts those of `fsync`, and none of `fdatasync`.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub flushes: bool,
    /// What the block devices below its volumes did is shown.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub disks: bool,
    /// What a job file of fio sets for it alone, in its words: each a name and a value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// What is said of it, for people; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// How reads, writes and trims are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Each by itself.
    #[default]
    Apart,
    /// Only what they are together.
    Mixed,
    /// Each by itself, and what they are together.
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
    /// What is wrong with its percentiles, if anything is.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let all = &self.percentiles;
        let inside = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
        if all.len() > PERCENTILES_MAX {
            return Some("at most 20 percentiles are shown");
        }
        let rises = all.windows(2).all(|pair| pair[0] < pair[1]);
        (!rises || !all.iter().all(inside))
            .then_some("percentiles are above 0 and at most 100, each above the one before it")
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
