//! Licences, versions and origins of dependencies, by the rules of `deny.toml`.
//!
//! `cargo deny check` reads the same file, and advisories too, but needs an installation and a
//! network. This check needs `cargo metadata` alone, so CI runs it each time. It knows the keys
//! that the file has, and fails at others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Finding;
use super::spdx;

const RULES: &str = "deny.toml";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Finds dependencies that the rules at `root` do not allow, and rules without effect.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(RULES)).with_context(|| RULES.to_owned())?;
    let rules = Rules::parse(&text).with_context(|| RULES.to_owned())?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--all-features", "--format-version", "1"]);
    for target in &rules.targets {
        command.args(["--filter-platform", target]);
    }
    let printed = command.current_dir(root).output().context("cargo metadata")?;
    if !printed.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&printed.stderr).trim_end());
    }
    let metadata = serde_json::from_slice(&printed.stdout).context("cargo metadata")?;
    Ok(found(&rules, &packages(&metadata)))
}

/// The rules of `deny.toml`.
#[derive(Debug, Default)]
struct Rules {
    targets: Vec<String>,
    /// Licences that are allowed for all crates.
    allowed: BTreeSet<String>,
    /// Licences that are allowed for one crate.
    exceptions: BTreeMap<String, BTreeSet<String>>,
    /// Crate and version, such as `syn@2`: a second version that is allowed.
    skipped: BTreeSet<String>,
}

impl Rules {
    fn parse(text: &str) -> Result<Rules> {
        let file: Value = toml::from_str(text)?;
        let mut rules = Rules::default();
        for (path, value) in leaves(&file) {
            match path.as_str() {
                "graph.targets" => rules.targets = words(value).collect(),
                "licenses.allow" => rules.allowed = words(value).collect(),
                "licenses.exceptions" => {
                    for exception in list(value) {
                        let allowed = words(&exception["allow"]).collect();
                        rules.exceptions.insert(word(&exception["crate"]), allowed);
                    }
                }
                "bans.skip" => {
                    rules.skipped = list(value).map(|skip| word(&skip["crate"])).collect();
                }
                "graph.all-features" | "bans.allow-wildcard-paths" if *value == true => {}
                "bans.multiple-versions"
                | "bans.wildcards"
                | "sources.unknown-registry"
                | "sources.unknown-git"
                    if *value == "deny" => {}
                // Only cargo deny can check this.
                "advisories.yanked" => {}
                path => bail!("`{path} = {value}` is not a rule of this check"),
            }
        }
        Ok(rules)
    }
}

/// Values of a file of sections, with `section.key`.
fn leaves(file: &Value) -> impl Iterator<Item = (String, &Value)> {
    let sections = file.as_object().into_iter().flatten();
    sections.flat_map(|(section, keys)| {
        let keys = keys.as_object().into_iter().flatten();
        keys.map(move |(key, value)| (format!("{section}.{key}"), value))
    })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn words(value: &Value) -> impl Iterator<Item = String> {
    list(value).map(word)
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A package of the graph.
#[derive(Clone, Debug)]
struct Package {
    name: String,
    version: String,
    licence: String,
    /// Absent for the packages of this repository.
    source: Option<String>,
    /// Dependencies with the requirement `*`, other than paths.
    wildcards: Vec<String>,
}

fn packages(metadata: &Value) -> Vec<Package> {
    let nodes: BTreeSet<&str> =
        list(&metadata["resolve"]["nodes"]).filter_map(|node| node["id"].as_str()).collect();
    let package = |one: &Value| Package {
        name: word(&one["name"]),
        version: word(&one["version"]),
        licence: word(&one["license"]),
        source: one["source"].as_str().map(str::to_owned),
        wildcards: list(&one["dependencies"])
            .filter(|needed| needed["req"] == "*" && needed["path"].is_null())
            .map(|needed| word(&needed["name"]))
            .collect(),
    };
    let used = |one: &&Value| one["id"].as_str().is_some_and(|id| nodes.contains(id));
    list(&metadata["packages"]).filter(used).map(package).collect()
}

fn found(rules: &Rules, packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |rule: String, remedy| findings.push(Finding::new(RULES, 1, rule, remedy));
    let mut exceptions: BTreeSet<&str> = rules.exceptions.keys().map(String::as_str).collect();
    for one in packages {
        let Package { name, version, licence, .. } = one;
        let is_ok = |more: &BTreeSet<String>| {
            spdx::is_met(licence, |id| rules.allowed.contains(id) || more.contains(id))
        };
        let exception = rules.exceptions.get(name);
        let met = is_ok(&BTreeSet::new()).and_then(|met| match exception {
            Some(more) if !met => {
                exceptions.remove(name.as_str());
                is_ok(more)
            }
            _ => Ok(met),
        });
        match met {
            Ok(true) => {}
            Ok(false) => add(
                format!("{name} {version} has the licence `{licence}`, which is not allowed"),
                "use another crate, or add an exception with its reason",
            ),
            Err(error) => add(
                format!("{name} {version}: the licence `{licence}` is not readable: {error}"),
                "look into the crate, and ask its authors",
            ),
        }
        if one.source.as_deref().is_some_and(|source| source != REGISTRY) {
            add(format!("{name} {version} is not from crates.io"), "use a published version");
        }
        for needed in one.wildcards.iter().filter(|_| one.source.is_none()) {
            add(format!("{name} needs any version of {needed}"), "name a version");
        }
    }
    for name in exceptions {
        add(format!("the exception for {name} has no effect"), "remove it");
    }
    findings.extend(versions(rules, packages));
    findings
}

/// Crates with several versions, but for those that may be skipped.
fn versions(rules: &Rules, packages: &[Package]) -> Vec<Finding> {
    let mut by_name: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in packages.iter().filter(|one| one.source.is_some()) {
        by_name.entry(&one.name).or_default().insert(&one.version);
    }
    let mut skips: BTreeSet<&str> = rules.skipped.iter().map(String::as_str).collect();
    let mut findings = Vec::new();
    for (name, versions) in by_name.iter().filter(|(_, versions)| versions.len() > 1) {
        let skip =
            |version: &&str| rules.skipped.iter().find(|skip| is_skipped(skip, name, version));
        for used in versions.iter().filter_map(skip) {
            skips.remove(used.as_str());
        }
        if versions.iter().filter(|version| skip(version).is_none()).count() > 1 {
            let all: Vec<&str> = versions.iter().copied().collect();
            findings.push(Finding::new(
                RULES,
                1,
                format!("{name} is built in several versions: {}", all.join(", ")),
                "update what needs the older one, or add it to bans.skip with the reason",
            ));
        }
    }
    let idle = |skip| {
        let rule = format!("bans.skip of {skip} has no effect");
        Finding::new(RULES, 1, rule, "remove it")
    };
    findings.extend(skips.into_iter().map(idle));
    findings
}

/// Whether `syn@^2` names a version: all numbers that it has are those of the version.
fn is_skipped(skip: &str, name: &str, version: &str) -> bool {
    let Some((skipped, numbers)) = skip.split_once("@^") else { return false };
    let rest = version.strip_prefix(numbers);
    skipped == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod test {
    use super::*;

    const DENY: &str = include_str!("../../../deny.toml");

    fn package(name: &str, version: &str, licence: &str) -> Package {
        Package {
            name: name.into(),
            version: version.into(),
            licence: licence.into(),
            source: Some(REGISTRY.into()),
            wildcards: Vec::new(),
        }
    }

    /// Rules of a file with one exception and one skip.
    fn rules() -> Rules {
        let text = r#"
            [licenses]
            allow = ["MIT", "Zlib"]
            [[licenses.exceptions]]
            crate = "odd"
            allow = ["BSD-3-Clause"]
            [bans]
            multiple-versions = "deny"
            skip = [{ crate = "two@^0.4", reason = "x" }]
        "#;
        Rules::parse(text).unwrap()
    }

    fn words(packages: &[Package]) -> Vec<String> {
        let ground = [package("odd", "1.0.0", "BSD-3-Clause"), package("two", "0.4.1", "MIT")];
        let other = package("two", "0.5.0", "MIT");
        let all: Vec<Package> =
            ground.into_iter().chain([other]).chain(packages.to_vec()).collect();
        found(&rules(), &all).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn licences_that_are_not_allowed_are_found() {
        assert_eq!(words(&[package("a", "1.0.0", "GPL-3.0 OR Zlib")]), [""; 0]);
        let found = words(&[package("a", "1.0.0", "GPL-3.0-only")]);
        assert_eq!(found, ["a 1.0.0 has the licence `GPL-3.0-only`, which is not allowed"]);
        assert!(words(&[package("a", "1.0.0", "")])[0].contains("not readable"));
        let found = words(&[package("even", "1.0.0", "BSD-3-Clause")]);
        assert_eq!(found.len(), 1, "an exception is for one crate");
    }

    #[test]
    fn versions_and_origins_are_found() {
        let found = words(&[package("two", "0.6.0", "MIT")]);
        assert_eq!(found, ["two is built in several versions: 0.4.1, 0.5.0, 0.6.0"]);
        let git =
            Package { source: Some("git+https://x/a".into()), ..package("a", "1.0.0", "MIT") };
        assert_eq!(words(&[git]), ["a 1.0.0 is not from crates.io"]);
        let own =
            Package { source: None, wildcards: vec!["b".into()], ..package("c", "0.1.0", "MIT") };
        assert_eq!(words(&[own]), ["c needs any version of b"]);
    }

    #[test]
    fn rules_without_effect_are_found() {
        let found = found(&rules(), &[package("two", "0.4.1", "MIT")]);
        let found: Vec<&str> = found.iter().map(|finding| finding.rule.as_str()).collect();
        let [exception, skip] = found[..] else { panic!("{found:?}") };
        assert_eq!(exception, "the exception for odd has no effect");
        assert_eq!(skip, "bans.skip of two@^0.4 has no effect");
    }

    #[test]
    fn this_check_knows_all_rules_of_the_repository() {
        let rules = Rules::parse(DENY).unwrap();
        assert!(rules.allowed.contains("MIT") && rules.targets.len() == 4, "{rules:?}");
        assert!(!rules.allowed.iter().any(|id| id.contains("GPL")));
        let loose = DENY.replace("multiple-versions = \"deny\"", "multiple-versions = \"allow\"");
        assert!(Rules::parse(&loose).is_err());
    }

    #[test]
    fn a_skip_has_whole_numbers() {
        assert!(is_skipped("syn@^2", "syn", "2.0.1") && is_skipped("a@^0.4", "a", "0.4.0"));
        assert!(!is_skipped("syn@^2", "syn", "20.0.1") && !is_skipped("syn@^2", "sin", "2.0.1"));
    }
}
