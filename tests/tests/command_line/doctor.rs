//! `doctor`: each area has its rows, the last line counts the areas, and the exit code reflects `basis`.

use whole_program_tests::{kinescope, run};

/// Areas in the order of the report.
const AREAS: [&str; 11] = [
    "simulators",
    "drawing",
    "file dialogs",
    "hardware",
    "driver recording",
    "nvidia",
    "qemu",
    "compilers",
    "limits",
    "folders",
    "agents",
];

#[test]
fn the_report_has_every_area_and_counts_those_that_are_ready() {
    let ended = run(["doctor", "--json"]);
    let report = ended.json();
    let code = if report["basis"] == true { 0 } else { 1 };
    assert_eq!(ended.code, Some(code), "{ended:?}");
    let areas = report["areas"].as_array().unwrap();
    let names: Vec<&str> = areas.iter().map(|a| a["area"].as_str().unwrap()).collect();
    assert_eq!(names, AREAS);
    assert_eq!(
        areas[0]["ready"], true,
        "the simulators need no other software: {ended:?}"
    );
    for area in areas {
        let checks = area["checks"].as_array().unwrap();
        let broken = checks.iter().filter(|c| c["state"] == "missing").count();
        assert_eq!(area["ready"], broken == 0, "{area}");
        for check in checks {
            let is_known = ["ok", "note", "missing"].iter().any(|s| check["state"] == *s);
            assert!(is_known, "{check}");
            assert!(check["state"] != "missing" || check["mend"].is_string(), "{check}");
        }
    }
    let ready = areas.iter().filter(|a| a["ready"] == true).count();
    assert_eq!(report["areas_ready"], ready);
}

#[test]
fn the_text_has_a_heading_for_each_area_and_ends_with_the_count() {
    let ended = run(["doctor"]);
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let headings: Vec<&str> = ended.out.lines().filter(|l| !l.starts_with(' ')).collect();
    for area in AREAS {
        let heading = format!("{area}: ");
        assert!(headings.iter().any(|l| l.starts_with(&heading)), "{area}: {ended:?}");
    }
    let last = ended.out.lines().last().unwrap();
    let (ready, all) = last.split_once(" of ").unwrap();
    assert!(ready.parse::<usize>().is_ok_and(|n| n <= AREAS.len()), "{last}");
    assert_eq!(all, format!("{} areas ready", AREAS.len()));
}

#[test]
fn nothing_is_written() {
    let keys = tempfile::tempdir().unwrap();
    let ended = kinescope(keys.path(), ["doctor"]);
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    assert_eq!(std::fs::read_dir(keys.path()).unwrap().count(), 0, "{ended:?}");
}
