//! The manifest for the MPI Operator: keys that its API has, and a command that runs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Folder, Mpi, run};
use yaml_rust2::{Yaml, YamlLoader};

const LIMIT: Duration = Duration::from_secs(240);

/// Keys of the parts of an `MPIJob`, by its definition in version 0.6 of the operator.
const KEYS: [(&str, &[&str]); 3] = [
    (
        "spec",
        &[
            "launcherCreationPolicy",
            "mpiImplementation",
            "mpiReplicaSpecs",
            "runLauncherAsWorker",
            "runPolicy",
            "slotsPerWorker",
            "sshAuthMountPath",
        ],
    ),
    (
        "runPolicy",
        &[
            "activeDeadlineSeconds",
            "backoffLimit",
            "cleanPodPolicy",
            "managedBy",
            "schedulingPolicy",
            "suspend",
            "ttlSecondsAfterFinished",
        ],
    ),
    ("replica", &["replicas", "restartPolicy", "template"]),
];

fn only(part: &str, value: &Yaml) {
    let (_, keys) = KEYS.iter().find(|(name, _)| *name == part).unwrap();
    let map = value.as_hash().unwrap_or_else(|| panic!("{part}: {value:?}"));
    for key in map.keys().filter_map(Yaml::as_str) {
        assert!(keys.contains(&key), "{part} has no {key}");
    }
}

#[test]
fn the_manifest_has_the_operators_keys_and_its_command_runs() {
    let manifest =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubernetes/mpijob.yaml");
    let text = fs::read_to_string(manifest).unwrap();
    let job = YamlLoader::load_from_str(&text).unwrap().remove(0);
    assert_eq!(job["apiVersion"].as_str(), Some("kubeflow.org/v2beta1"));
    assert_eq!(job["kind"].as_str(), Some("MPIJob"));
    let spec = &job["spec"];
    only("spec", spec);
    only("runPolicy", &spec["runPolicy"]);
    assert_eq!(spec["launcherCreationPolicy"].as_str(), Some("WaitForWorkersReady"));
    let (launcher, worker) =
        (&spec["mpiReplicaSpecs"]["Launcher"], &spec["mpiReplicaSpecs"]["Worker"]);
    only("replica", launcher);
    only("replica", worker);
    let container = &launcher["template"]["spec"]["containers"][0];
    assert_eq!(container["command"][0].as_str(), Some("mpirun"));
    let words: Vec<&str> =
        container["args"].as_vec().unwrap().iter().filter_map(Yaml::as_str).collect();
    assert_eq!(words[..3], ["-n", "4", "drumfire"]);
    assert_eq!(worker["replicas"].as_i64(), Some(4));
    // The command, shorter and smaller, in another folder.
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let here = |word: &&str| {
        let word = word.replace("/volume/{host}", "{host}-{rank}").replace("8g", "1m");
        word.replace("/results/", "").replace("60", "1")
    };
    let args: Vec<String> = words[3..].iter().map(here).collect();
    run(&mut mpi.command(folder.path(), 4, &args.join(" ")), LIMIT).ok();
    let result = fs::read_to_string(folder.path().join("run/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["hosts"].as_array().unwrap().len(), 4);
}
