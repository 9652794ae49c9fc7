//! A request for something that does not exist is reported, never ignored.

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
    ended.assert_refused("cannot read 20000000000 bytes at once: the maximum is 1073741824");
    assert!(!out.exists());
}

#[test]
fn unmapped_bytes_printed_as_zero_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let file = sample("vecadd.kine");
    let out = dir.path().join("h.bin");
    let read_memory = |extra: &[&str]| run(["memory", &file, "0x1000", "--bytes", "32"].iter().chain(extra));
    let message = "kinescope: 0x1000: 32 bytes not mapped, printed as 0\n";
    let written = read_memory(&["-o", out.to_str().unwrap()]);
    assert_eq!((written.code, written.err.as_str()), (Some(0), message));
    assert_eq!(std::fs::read(&out).unwrap(), [0; 32]);
    assert_eq!(read_memory(&["--type", "u32"]).err, message);
    // The hexdump shows the unmapped bytes at their address.
    let hex = read_memory(&[]);
    assert!(hex.err.is_empty() && hex.out.contains("32 bytes not mapped"), "{hex:?}");
    let json = read_memory(&["--json", "-o", out.to_str().unwrap()]);
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
fn repeat_limit_is_documented_and_enforced() {
    let help = run(["replay", "--help"]);
    assert!(help.out.contains("at most 10000"), "{help:?}");
    let target = [
        "replay",
        &sample("vecadd.kine"),
        "--on",
        "software:mali-g71",
        "--repeat",
    ];
    let over = run(target.iter().chain(&["10001"]));
    assert_eq!(over.code, Some(2));
    assert!(over.err.contains("10000"), "{over:?}");
}

#[test]
fn plan_output_option_takes_names_only() {
    let file = sample("vecadd.kine");
    let plan = |output: &str| run(["plan", &file, "--on", "software:mali-g71", "--json", "--output", output]);
    let named = plan("a");
    assert_eq!(named.code, Some(0), "{named:?}");
    let outputs = named.json()["outputs"].clone();
    assert!(outputs.as_array().unwrap().contains(&"a".into()), "{outputs}");
    plan("a=o.bin").assert_refused("no buffer 'a=o.bin'");
}

#[test]
fn invalid_agent_addresses_are_refused_before_connecting() {
    for nonsense in ["nonsense", "host:", ":7117", "host:port", "host:0", "host:70000"] {
        run(["pair", nonsense, "x"]).assert_refused(&format!("'{nonsense}' is not an address (expected HOST:PORT"));
    }
}

#[test]
fn counts_of_one_use_the_singular() {
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

/// The error for a missing item begins with the name of the recording.
#[test]
fn missing_items_are_named_with_the_recording() {
    let file = sample("vecadd.kine");
    for (line, message) in [
        (
            &["shader", &file, "--job", "9"][..],
            "job 9 does not exist (the recording has 1 job, counted from 0)",
        ),
        (
            &["memory", &file, "0", "--space", "7"],
            "address space 7 does not exist (the recording has 1)",
        ),
        (
            &["memory", &file, "0", "--event", "999999"],
            "event 999999 does not exist",
        ),
        (&["memory", &file, "--buffer", "x"], "the recording has no buffer 'x'"),
        (
            &["plan", &file, "--on", "software:mali-g71", "--output", "x"],
            "the recording has no buffer 'x'",
        ),
        (
            &["shader", &file, "--job", "0", "--thread", "0", "--position", "3"],
            "position 3 does not exist in the chain of job 0 (it has 1 job, counted from 0)",
        ),
        (
            &["shader", &file, "--job", "0", "--thread", "999,0,0"],
            "each workgroup of the job has [",
        ),
    ] {
        let ended = run(line);
        ended.assert_refused(message);
        assert!(ended.err.starts_with(&format!("kinescope: {file}: ")), "{ended:?}");
    }
}

#[test]
fn mistyped_verb_is_refused_with_a_suggestion() {
    let ended = run(["inof", &sample("vecadd.kine")]);
    ended.assert_refused("there is no verb `inof`: did you mean `info`?");
    run(["--screenshot", "x.jpg", &sample("vecadd.kine")])
        .assert_refused("x.jpg: unknown picture format (expected .png or .svg)");
}

#[test]
fn invalid_input_argument_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let (file, digit) = (sample("digits.kine"), sample("digits/digit.npy"));
    let replay = |inputs: &[String]| {
        let options = inputs.iter().flat_map(|i| ["--input", i]);
        run(["replay", &file, "--on", "software:mali-g71"]
            .into_iter()
            .chain(options))
    };
    // An array with the same number of elements and another shape is accepted, with a message.
    let npy = |name: &str, header: &str, data: &[u8]| {
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend_from_slice(format!("{header:<117}\n").as_bytes());
        bytes.extend_from_slice(data);
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let form = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let wide = npy("wide.npy", &form("(4, 16)"), &[0; 256]);
    let output = replay(&[format!("image={wide}")]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(
        output
            .err
            .contains(&format!("{wide}: shape 4x16 for 8x8 of buffer 'image'")),
        "{output:?}"
    );
    for shape in ["(64,)", "(8, 8)", "(1, 8, 8)"] {
        let fine = replay(&[format!("image={}", npy("fine.npy", &form(shape), &[0; 256]))]);
        assert_eq!((fine.code, fine.err.as_str()), (Some(0), ""), "{shape}");
    }
    let folder = dir.path().display().to_string();
    replay(&[format!("image={folder}")]).assert_refused(&format!("{folder}: is a folder"));
    let twice = format!("image={digit}");
    replay(&[twice.clone(), twice]).assert_refused("--input image is given twice");
}

#[test]
fn output_extension_of_another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = sample("digits.kine");
    let to = dir.path().join("l.csv");
    let to = to.to_str().unwrap();
    let output = format!("logits={to}");
    for line in [
        &["memory", &file, "--buffer", "logits", "-o", to][..],
        &["replay", &file, "--on", "software:mali-g71", "--output", &output],
    ] {
        run(line).assert_refused("l.csv: files of this extension cannot be written (expected .npy");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
