//! A folder for one test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty folder, open to all users, removed on drop.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder in the temporary folder.
    #[expect(clippy::new_without_default, reason = "it has a side effect")]
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("drumfire-test-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Folder(path)
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file into it and returns its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("the temporary folder can be written");
        path
    }

    /// The `result.json` of the one run started here, if there is one.
    pub fn result(&self) -> Option<serde_json::Value> {
        let runs = std::fs::read_dir(self.0.join("drumfire-runs")).ok()?;
        let mut results = runs.flatten().map(|run| run.path().join("result.json"));
        let text = results.find_map(|path| std::fs::read_to_string(path).ok())?;
        Some(serde_json::from_str(&text).expect("result.json is JSON"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover in the temporary folder is harmless.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
