//! Results of steps in the folder of a scenario: `STEP.json` next to the step's working folder,
//! which has the files of an unfinished run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use job::formats::read_text;
use serde_json::{Value, json};

use crate::folder;

/// Result of a step, with its time and its command.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Key of everything that determines the result.
    pub key: Value,
    /// Start time of the `scenario run` that ran the step.
    pub run: String,
    /// Time at which the step was done.
    pub ended: String,
    /// Result of the step.
    pub result: Value,
}

impl Kept {
    /// Path of the result of a step with this working folder.
    pub fn file(work: &Path) -> PathBuf {
        // Not `with_extension`: names of steps may have dots.
        let mut name = work.as_os_str().to_owned();
        name.push(".json");
        PathBuf::from(name)
    }

    /// Reads a result, if its key is that of the same step.
    pub fn read(file: &Path, key: &Value) -> Option<Kept> {
        let text = file.is_file().then(|| fs::read_to_string(file));
        let mut kept: Value = serde_json::from_str(&text?.ok()?).ok()?;
        let text = |kept: &Value, name: &str| kept[name].as_str().map(str::to_owned);
        let (run, ended) = (text(&kept, "run")?, text(&kept, "ended")?);
        let is_it = kept["key"] == *key && !kept["result"].is_null();
        is_it.then(|| Kept { key: key.clone(), run, ended, result: kept["result"].take() })
    }

    /// Writes the result, atomically.
    pub fn write(&self, file: &Path) -> Result<()> {
        let Kept { key, run, ended, result } = self;
        let text = json!({ "key": key, "run": run, "ended": ended, "result": result });
        folder::write_file(file, |out| Ok(serde_json::to_writer(out, &text)?))
    }

    /// Records the start of a step in its folder. Returns whether the same step was started there
    /// before.
    pub fn begin(work: &Path, key: &Value) -> Result<bool> {
        let file = work.join("begun.json");
        let before = read_text(&file).ok();
        let before: Option<Value> = before.and_then(|text| serde_json::from_str(&text).ok());
        if before.as_ref() == Some(key) {
            return Ok(true);
        }
        folder::write_file(&file, |out| Ok(serde_json::to_writer(out, key)?))?;
        Ok(false)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_the_same_step_is_taken_from_its_file() {
        let place = std::env::temp_dir().join(format!("drumfire-kept-{}", std::process::id()));
        let work = place.join("s-1.5");
        fs::create_dir_all(&work).unwrap();
        let file = Kept::file(&work);
        assert!(file.ends_with("s-1.5.json"));
        let key = json!(["0.1.0", 3.1]);
        let kept = Kept {
            key: key.clone(),
            run: "2026-01-01T00:00:00Z".to_owned(),
            ended: "2026-01-01T00:01:00Z".to_owned(),
            result: json!({ "totals": 1 }),
        };
        kept.write(&file).unwrap();
        let found = Kept::read(&file, &key).unwrap();
        assert_eq!((&found.run, &found.result), (&kept.run, &kept.result));
        assert!(Kept::read(&file, &json!(["0.1.0", 4.0])).is_none());
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, &text[..text.len() / 2]).unwrap();
        assert!(Kept::read(&file, &key).is_none(), "half a file is none");
        let begun = [&key, &key, &json!(7), &key].map(|key| Kept::begin(&work, key).unwrap());
        assert_eq!(begun, [false, true, false, false]);
        fs::remove_dir_all(&place).unwrap();
    }
}
