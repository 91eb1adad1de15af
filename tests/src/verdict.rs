//! Verdicts of a result.

use serde_json::Value;

/// Verdict of a check, by its code, and its evidence; both empty if the check is missing.
pub fn check(result: &Value, code: &str) -> (String, String) {
    let checks = result["checks"].as_array().expect("a list of checks");
    let found = checks.iter().find(|check| check["code"] == code);
    let text =
        |name: &str| found.and_then(|check| check[name].as_str()).unwrap_or_default().to_owned();
    (text("verdict"), text("evidence"))
}
