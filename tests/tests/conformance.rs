//! libiscsi's conformance suite, family by family, with every case counted.
//!
//! The suite counts a case that it skipped as passed. Here a case that printed `[SKIPPED]` is
//! recorded as skipped, and appears in the summary with its reason.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Case, Drumfire, case, require, run, skip};

/// Time limit of a family, which takes some seconds: it waits for responses that must not come.
const LIMIT: Duration = Duration::from_secs(300);

/// Result of each case in the suite's output.
///
/// A case is `  Test: NAME ...`, its output lines, then `passed` or `FAILED`, which may be at the
/// end of the first line.
fn cases(output: &str) -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    let mut suite = "";
    // Truncated at the summary, which repeats these words.
    let output = output.split("Run Summary:").next().unwrap_or_default();
    for part in output.split("Suite: ").skip(1) {
        let mut tests = part.split("  Test: ");
        suite = tests.next().map_or(suite, str::trim);
        for test in tests {
            let (name, said) = test.split_once(" ...").unwrap_or((test, ""));
            cases.push((format!("{suite}.{name}"), judge(said)));
        }
    }
    cases
}

/// Cases that fail at every target, with the fault of the suite.
const FAULTS: [(&str, &str); 2] = [
    ("GetLBAStatus.UnmapSingle", "the suite expects the address of another descriptor"),
    ("WriteSame10.UnmapUntilEnd", "the suite writes ones, and expects zeroes"),
];

/// The result of a case, with faults of the suite as skips. One that passes is no fault any more.
fn without_faults(name: &str, outcome: Case) -> Case {
    let Some((_, why)) = FAULTS.iter().find(|fault| fault.0 == name) else { return outcome };
    match outcome {
        Case::Failed(_) => Case::Skipped((*why).to_owned()),
        Case::Passed => Case::Failed("it passes: remove it from the list of faults".to_owned()),
        skipped @ Case::Skipped(_) => skipped,
    }
}

fn judge(said: &str) -> Case {
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    let verdict = |line: &&str| line.starts_with("passed") || line.starts_with("FAILED");
    let Some(end) = lines.iter().position(verdict) else {
        return Case::Failed("it did not come to its end".into());
    };
    // The lines after the verdict are the failed assertion, or cleanup.
    let (before, after) = lines.split_at(end);
    // Newer versions begin these lines with the time.
    let reason = |mark| before.iter().find_map(|line| line.split_once(mark)).map(|it| it.1.trim());
    if lines[end].starts_with("FAILED") {
        let assertion = after.iter().find(|line| line.starts_with("1. ")).copied();
        let why = [reason("[FAILED]"), assertion].into_iter().flatten().collect::<Vec<_>>();
        return Case::Failed(why.join("; "));
    }
    reason("[SKIPPED]").map_or(Case::Passed, |why| Case::Skipped(why.into()))
}

/// Runs a family against a fresh target and records each of its cases.
fn family(name: &str) {
    // Two sessions, for the cases about several.
    family_of(name, "--volume disk=ram:256m", 2);
}

/// Runs a family against a target whose medium can be ejected. The suite's second session would
/// find unit attentions of the cases before.
fn removable(name: &str) {
    family_of(name, "--volume disk=ram:256m --removable disk", 1);
}

fn family_of(name: &str, args: &str, sessions: usize) {
    let Some(suite) = require("iscsi-test-cu") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let list = run(Command::new(&suite).arg("--list"), LIMIT).ok().stdout;
    if !list.lines().any(|line| line == name) {
        return skip(&format!("this iscsi-test-cu has no family {name}"));
    }
    // Below 2^21 blocks, or cases about the end of the disk are skipped.
    let served = drumfire.serve_with(args);
    let mut command = Command::new(&suite);
    command.args(["--dataloss", &format!("--test={name}")]);
    command.args((0..sessions).map(|_| served.uri("disk")));
    let finished = run(&mut command, LIMIT);
    let cases = cases(&finished.stdout).into_iter().map(|(name, outcome)| {
        let outcome = without_faults(&name, outcome);
        (name, outcome)
    });
    let cases: Vec<(String, Case)> = cases.collect();
    assert!(!cases.is_empty(), "no case of {name} ran: {finished:?}");
    for (name, outcome) in &cases {
        case("libiscsi", name, outcome);
    }
    let failed = cases.iter().filter(|(_, outcome)| matches!(outcome, Case::Failed(_))).count();
    assert_eq!(failed, 0, "{}", finished.stdout);
}

#[test]
fn removable_prevent_allow() {
    removable("SCSI.PreventAllow");
}

#[test]
fn removable_start_stop_unit() {
    removable("SCSI.StartStopUnit");
}

#[test]
fn removable_no_media() {
    removable("SCSI.NoMedia");
}

macro_rules! families {
    ($($test:ident $name:literal)*) => {$(
        #[test]
        fn $test() {
            family($name);
        }
    )*};
}

families! {
    compare_and_write "SCSI.CompareAndWrite"
    extended_copy "SCSI.ExtendedCopy"
    get_lba_status "SCSI.GetLBAStatus"
    inquiry "SCSI.Inquiry"
    mandatory "SCSI.Mandatory"
    mode_sense_6 "SCSI.ModeSense6"
    no_media "SCSI.NoMedia"
    or_write "SCSI.OrWrite"
    prefetch_10 "SCSI.Prefetch10"
    prefetch_16 "SCSI.Prefetch16"
    prin_read_keys "SCSI.PrinReadKeys"
    prin_serviceaction_range "SCSI.PrinServiceactionRange"
    prin_report_capabilities "SCSI.PrinReportCapabilities"
    prout_register "SCSI.ProutRegister"
    prout_reserve "SCSI.ProutReserve"
    prout_clear "SCSI.ProutClear"
    prout_preempt "SCSI.ProutPreempt"
    read_6 "SCSI.Read6"
    read_10 "SCSI.Read10"
    read_12 "SCSI.Read12"
    read_16 "SCSI.Read16"
    read_capacity_10 "SCSI.ReadCapacity10"
    read_capacity_16 "SCSI.ReadCapacity16"
    read_defect_data_10 "SCSI.ReadDefectData10"
    read_defect_data_12 "SCSI.ReadDefectData12"
    receive_copy_results "SCSI.ReceiveCopyResults"
    report_luns "SCSI.ReportLUNs"
    report_target_port_groups "SCSI.ReportTargetPortGroups"
    report_supported_opcodes "SCSI.ReportSupportedOpcodes"
    reserve_6 "SCSI.Reserve6"
    start_stop_unit "SCSI.StartStopUnit"
    test_unit_ready "SCSI.TestUnitReady"
    unmap "SCSI.Unmap"
    verify_10 "SCSI.Verify10"
    verify_12 "SCSI.Verify12"
    verify_16 "SCSI.Verify16"
    write_10 "SCSI.Write10"
    write_12 "SCSI.Write12"
    write_16 "SCSI.Write16"
    write_same_10 "SCSI.WriteSame10"
    write_same_16 "SCSI.WriteSame16"
    write_verify_10 "SCSI.WriteVerify10"
    write_verify_12 "SCSI.WriteVerify12"
    write_verify_16 "SCSI.WriteVerify16"
    multipath_io "SCSI.MultipathIO"
    command_numbers "iSCSI.iSCSIcmdsn"
    data_numbers "iSCSI.iSCSIdatasn"
    residuals "iSCSI.iSCSIResiduals"
    task_management "iSCSI.iSCSITMF"
    nop "iSCSI.iSCSINop"
    send_targets "iSCSI.iSCSISendTargets"
}

#[test]
fn output_of_the_suite_is_understood() {
    let output = "\n\n     CUnit - A unit testing framework for C\n\nSuite: Inquiry\n\
        \x20 Test: Standard ...passed\n\
        \x20 Test: BlockLimits ...    [SKIPPED] Logical unit is fully provisioned.\npassed\n\
        \x20 Test: Late ...    2026-12-01 04:34:28.36     [SKIPPED] No media.\npassed\n\
        \x20 Test: Range ...    [FAILED] PRIN failed\nFAILED\n    1. test.c:50  - CU_ASSERT(ret)\n\
        Suite: Read10\n  Test: Simple ...passed    [SKIPPED] RESERVE is not implemented.\n\
        \x20 Test: Cut ...\n\n\
        Run Summary:    Type  Total    Ran Passed Failed Inactive\n";
    let cases = cases(output);
    let expected = [
        ("Inquiry.Standard", Case::Passed),
        ("Inquiry.BlockLimits", Case::Skipped("Logical unit is fully provisioned.".into())),
        ("Inquiry.Late", Case::Skipped("No media.".into())),
        ("Inquiry.Range", Case::Failed("PRIN failed; 1. test.c:50  - CU_ASSERT(ret)".into())),
        ("Read10.Simple", Case::Passed),
        ("Read10.Cut", Case::Failed("it did not come to its end".into())),
    ];
    assert_eq!(cases, expected.map(|(name, case)| (name.to_string(), case)));
}
