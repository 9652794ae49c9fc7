//! What is asked for and is not there is said, and never passed over.

use whole_program_tests::{root, run};

fn sample(name: &str) -> String {
    root().join("sample-traces").join(name).to_str().unwrap().to_owned()
}

#[test]
fn more_memory_than_is_read_at_once_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("h.bin");
    let ended = run([
        "memory",
        &sample("vecadd.kine"),
        "0",
        "--bytes",
        "20000000000",
        "-o",
        out.to_str().unwrap(),
    ]);
    ended.assert_refused("20000000000 bytes are more than are read at once: 1073741824");
    assert!(!out.exists());
}

#[test]
fn bytes_that_the_recording_does_not_hold_are_told_where_zeros_stand_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = sample("vecadd.kine");
    let out = dir.path().join("h.bin");
    let of = |extra: &[&str]| run(["memory", &file, "0x1000", "--bytes", "32"].iter().chain(extra));
    let told = "kinescope: 0x1000: 32 bytes not mapped, given as 0\n";
    let written = of(&["-o", out.to_str().unwrap()]);
    assert_eq!((written.code, written.err.as_str()), (Some(0), told));
    assert_eq!(std::fs::read(&out).unwrap(), [0; 32]);
    assert_eq!(of(&["--type", "u32"]).err, told);
    // Hex shows it in its place.
    let hex = of(&[]);
    assert!(hex.err.is_empty() && hex.out.contains("32 bytes not mapped"), "{hex:?}");
    let json = of(&["--json", "-o", out.to_str().unwrap()]);
    assert!(json.err.is_empty(), "{json:?}");
    let holes = &json.json()["holes"];
    assert_eq!(holes[0]["va"], "0x1000");
    assert_eq!(
        (&holes[0]["bytes"], &holes[0]["state"]),
        (&32.into(), &"not mapped".into())
    );
}

#[test]
fn events_that_are_not_there_are_refused() {
    let file = sample("vecadd.kine");
    for line in [
        &["map", &file, "--event", "99999"][..],
        &["memory", &file, "0", "--event", "99999"],
        &["events", &file, "--range", "99999.."],
    ] {
        run(line).assert_refused("event 99999 does not exist (the recording has ");
    }
    let backwards = run(["events", &file, "--range", "5..3"]);
    assert_eq!(backwards.code, Some(2));
    assert!(backwards.err.contains("'5..3' ends before it begins"), "{backwards:?}");
    let events = run(["info", &file, "--json"]).json()["events"].as_u64().unwrap();
    let last = run(["events", &file, "--range", &format!("{events}.."), "--json"]);
    assert_eq!((last.code, last.out.as_str()), (Some(0), "[]\n"));
    assert_eq!(run(["map", &file, "--event", &events.to_string()]).code, Some(0));
}

#[test]
fn one_limit_of_repetitions_is_said_and_held() {
    let help = run(["replay", "--help"]);
    assert!(help.out.contains("at most 10000"), "{help:?}");
    let board = [
        "replay",
        &sample("vecadd.kine"),
        "--on",
        "software:mali-g71",
        "--repeat",
    ];
    let over = run(board.iter().chain(&["10001"]));
    assert_eq!(over.code, Some(2));
    assert!(over.err.contains("10000"), "{over:?}");
}

#[test]
fn a_plan_takes_the_names_of_outputs_and_no_files() {
    let file = sample("vecadd.kine");
    let plan = |output: &str| run(["plan", &file, "--on", "software:mali-g71", "--json", "--output", output]);
    let named = plan("a");
    assert_eq!(named.code, Some(0), "{named:?}");
    let outputs = named.json()["outputs"].clone();
    assert!(outputs.as_array().unwrap().contains(&"a".into()), "{outputs}");
    plan("a=o.bin").assert_refused("no buffer 'a=o.bin'");
}

#[test]
fn what_is_no_address_is_told_before_anything_is_tried() {
    for nonsense in ["nonsense", "host:", ":7117", "host:port", "host:0", "host:70000"] {
        run(["pair", nonsense, "x"]).assert_refused(&format!("'{nonsense}' is no address (expected HOST:PORT"));
    }
}

#[test]
fn one_thing_is_said_in_the_singular() {
    for sample in whole_program_tests::samples() {
        let file = sample.to_str().unwrap();
        for verb in ["info", "check", "map", "verify"] {
            let ended = run([verb, file]);
            for word in ended.out.split(['\n', ',', ';', '(', ':']) {
                let word = word.trim();
                let one = word.strip_prefix("1 ").or_else(|| word.split(" in 1 ").nth(1));
                let noun = one.and_then(|w| w.split_whitespace().next()).unwrap_or_default();
                assert!(
                    !noun.ends_with('s') || noun == "address",
                    "{verb}: '{word}' in {}",
                    ended.out
                );
            }
        }
    }
}
