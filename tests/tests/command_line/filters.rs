//! `--where`, `--by`, `--histogram` and `--between`: filters on the command line, on unchanged recordings.

use serde_json::Value;
use whole_program_tests::{root, run};

fn sample() -> String {
    root().join("sample-traces/chain2.kine").to_str().unwrap().to_owned()
}

fn json(arguments: &[&str]) -> Value {
    let file = sample();
    run([arguments[0], &file, "--json"].iter().chain(&arguments[1..])).json()
}

fn events(filter: &str) -> Vec<u64> {
    let all = json(&["events", "--where", filter]);
    all.as_array()
        .unwrap()
        .iter()
        .map(|e| e["event"].as_u64().unwrap())
        .collect()
}

fn number(v: &Value) -> u64 {
    let text = v.as_str().unwrap();
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn filtered_events_agree_with_the_full_list() {
    let all = json(&["events"]);
    let all = all.as_array().unwrap();
    let select = |passes: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        let passing = all.iter().filter(|e| passes(e));
        passing.map(|e| e["event"].as_u64().unwrap()).collect()
    };
    let register = |e: &Value, start: &str| e["register"].as_str().is_some_and(|r| r.starts_with(start));
    for (filter, expected) in [
        ("write", select(&|e| e["kind"] == "write")),
        (
            "reg =~ '^JS'",
            select(&|e| e["kind"] != "interrupt" && register(e, "JS")),
        ),
        (
            "reg =~ \"^JS\" and write and value & 0x100 != 0",
            select(&|e| e["kind"] == "write" && register(e, "JS") && number(&e["value"]) & 0x100 != 0),
        ),
        (
            "offset in 0x1000..0x2000",
            select(&|e| e["offset"].is_string() && (0x1000..0x2000).contains(&number(&e["offset"]))),
        ),
        ("event in 10..20", (10..20).collect()),
        ("time < 50us", select(&|e| e["time_ns"].as_u64().unwrap() < 50_000)),
    ] {
        assert_eq!(events(filter), expected, "{filter}");
    }
    assert!(events("reg =~ '^JS'").len() > 3 && events("reg =~ 'nothing'").is_empty());
    // The filters agree with the submits and interrupts in the list of jobs.
    let jobs = json(&["jobs"]);
    let job_events = |key: &str| -> Vec<u64> {
        jobs.as_array()
            .unwrap()
            .iter()
            .filter_map(|j| j[key].as_u64())
            .collect()
    };
    assert_eq!(events("submit"), job_events("submit_event"));
    assert_eq!(events("irq.line = job"), job_events("done_event"));
}

#[test]
fn filter_combines_with_other_options_and_text_output() {
    let file = sample();
    let both = json(&["events", "--where", "reg =~ '^JS'", "--writes", "--range", "5..60"]);
    let combined: Vec<u64> = both
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["event"].as_u64().unwrap())
        .collect();
    let single = events("reg =~ '^JS' and write and event in 5..60");
    assert_eq!(combined, single);
    let text = run(["events", &file, "--where", "submit"]);
    // The first line is the heading.
    assert_eq!(text.out.lines().count(), 1 + events("submit").len());
    assert_eq!(
        run(["events", &file, "--where", "value = 0x123456789", "--json"]).out,
        "[]\n"
    );
}

#[test]
fn filter_errors_underline_the_wrong_word() {
    let file = sample();
    for verb in ["events", "stats"] {
        let ended = run([verb, &file, "--where", "write and JS1_COMAND = 1"]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""));
        assert_eq!(
            ended.err,
            "kinescope: --where: no field, kind of event or register is called `JS1_COMAND`; did you mean \
             `JS1_COMMAND`?\n  write and JS1_COMAND = 1\n            ^^^^^^^^^^\n"
        );
    }
    let ended = run(["stats", &file, "--between", "submit", "(read"]);
    assert!(
        ended.err.starts_with("kinescope: --between: `)` is expected here"),
        "{ended:?}"
    );
}

#[test]
fn statistics_count_only_filtered_events() {
    let rows = json(&["stats", "--where", "write and reg =~ '^JS'", "--histogram"]);
    let rows = rows.as_array().unwrap();
    let sum: u64 = rows.iter().map(|r| r["accesses"].as_u64().unwrap()).sum();
    assert_eq!(sum, events("write and reg =~ '^JS'").len() as u64);
    for row in rows {
        assert!(
            row["name"].as_str().unwrap().starts_with("JS") && row["reads"] == 0,
            "{row}"
        );
        let bins = row["histogram"].as_array().unwrap();
        let counts: u64 = bins.iter().map(|b| b["count"].as_u64().unwrap()).sum();
        assert_eq!(row["accesses"], counts);
        assert!(bins.iter().all(|b| number(&b["from"]) <= number(&b["to"])));
    }
    let text = run(["stats", &sample(), "--where", "submit", "--histogram"]);
    assert!(text.out.contains('#') && text.out.contains("Per second"), "{text:?}");
}

#[test]
fn times_from_submit_to_interrupt_match_job_durations() {
    let between = json(&["stats", "--between", "submit", "irq.line = job"]);
    let jobs = json(&["jobs"]);
    let mut durations: Vec<u64> = jobs
        .as_array()
        .unwrap()
        .iter()
        .map(|j| j["duration_ns"].as_u64().unwrap())
        .collect();
    durations.sort_unstable();
    assert_eq!(between["count"], durations.len());
    assert_eq!((&between["repeated"], &between["strays"]), (&0.into(), &0.into()));
    assert!(between["open_event"].is_null());
    assert_eq!(
        (&between["ns"]["min"], &between["ns"]["max"]),
        (&durations[0].into(), &durations[durations.len() - 1].into())
    );
    let text = run(["stats", &sample(), "--between", "submit", "irq.line = job"]);
    assert!(text.out.contains("the longest from event"), "{text:?}");
    let none = json(&["stats", "--between", "submit", "text = never"]);
    assert_eq!((&none["count"], none["ns"].is_null()), (&0.into(), true));
    assert!(none["open_event"].is_u64());
}
