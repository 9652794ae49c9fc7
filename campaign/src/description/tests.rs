//! Tests of descriptions: entries, defaults, and mistakes with their lines.

use super::*;

const WHOLE: &str = "\
version = 1
name = \"nightly\"
targets = [\"software:mali-g71\", \"agent:lab/mali\"]
repeats = 3
keep-outcomes = \"diverged\"

[[recordings]]
path = \"traces/*.kine\"

[[recordings]]
path = \"digits.kine\"
targets = [\"cuda:0\"]
repeats = 1
time-limit = 20
tolerance = [\"out0=f32:1e-5\"]
inputs = { image = \"digit.npy\" }
without-containment = true
";

fn error(text: &str) -> (usize, String) {
    match Campaign::parse(text, Path::new("/c")) {
        Err(DescriptionError::Line { line, reason }) => (line, reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_take_defaults_and_replace_them() {
    let campaign = Campaign::parse(WHOLE, Path::new("/c")).unwrap();
    assert_eq!((campaign.name.as_str(), campaign.entries.len()), ("nightly", 2));
    assert_eq!(campaign.keep_outcomes, KeptOutcomes::Diverged);
    let [first, second] = &campaign.entries[..] else {
        panic!()
    };
    assert_eq!((first.repeats, first.targets.len(), first.line), (3, 2, 7));
    assert_eq!((second.repeats, second.time_limit_s, second.line), (1, Some(20), 10));
    assert_eq!(second.targets, ["cuda:0"]);
    let EntryWork::Recordings(replay) = &second.work else {
        panic!()
    };
    assert_eq!(replay.inputs["image"], Path::new("/c/digit.npy"));
    assert!(second.without_containment && !first.without_containment);
}

#[test]
fn each_mistake_has_its_line() {
    let with =
        |line: &str| format!("version = 1\ntargets = [\"software:mali-g71\"]\n[[recordings]]\npath = \"a\"\n{line}\n");
    for (text, line, part) in [
        (
            "version = 2\n[[recordings]]\npath = \"a\"\n".to_owned(),
            1,
            "version 2 is unknown",
        ),
        ("version = 1\n".to_owned(), 1, "no work"),
        ("version = 1\n[[recordings]]\npath = \"a\"\n".to_owned(), 2, "no target"),
        (with("targets = [\"lab\"]"), 5, "`lab` is not a target name"),
        (with("targets = [\"cuda:0\", \"cuda:0\"]"), 5, "listed twice"),
        (with("repeats = 0"), 5, "repeats is 0 (expected 1 to"),
        (with("time-limit = 99999"), 5, "time-limit is 99999"),
        (with("tolerance = [\"f32:x\"]"), 5, "f32:x"),
        (with("inputs = { a = \"\" }"), 5, "has no file"),
        (with("repeat = 3"), 5, "unknown field"),
        (with("path = \"b\""), 5, "duplicate key"),
        ("version = 1\nname = \"a/b\"\n".to_owned(), 2, "a name has"),
        ("version = \n".to_owned(), 1, ""),
    ] {
        let (at, reason) = error(&text);
        assert_eq!(at, line, "{text}: {reason}");
        assert!(reason.contains(part), "{text}: {reason}");
    }
}

/// A description with every table but `[[recordings]]`.
const KINDS: &str = "\
version = 1
targets = [\"software:mali-g71\"]
time-limit = 30

[[bisect]]
path = \"broken.kine\"
producers = \"bytes\"
max-candidates = 20

[[fuzz]]
path = \"digits.kine\"
inputs = [\"image\"]
seeds = \"10..=19\"
step = 5
mutations = [\"special\", \"bits\"]

[[wasm]]
path = \"words.wasm\"
targets = [\"cpu\", \"cuda:0\", \"agent:lab/cpu\"]
inputs = \"texts\"
batch = 10
environment = { LANG = \"C\" }

[[tuning]]
path = \"saxpy.kine\"
targets = [\"cuda:0\"]
block = \"64..=512\"
tolerance = [\"arg0=f32:1e-5\"]
launch-limit = 2

[[pipelines]]
path = \"a.kpipe\"
labels = { second = \"software:mali-g52\" }
";

#[test]
fn tables_come_in_the_order_of_the_description() {
    let campaign = Campaign::parse(KINDS, Path::new("/c")).unwrap();
    let lines: Vec<usize> = campaign.entries.iter().map(|e| e.line).collect();
    assert_eq!(lines, [5, 10, 17, 24, 31]);
    let [bisect, fuzz, wasm, tuning, pipelines] = &campaign.entries[..] else {
        panic!()
    };
    assert!(matches!(&bisect.work, EntryWork::Bisect(e) if e.max_candidates == 20 && !e.jobs_only));
    let EntryWork::Fuzz(entry) = &fuzz.work else { panic!() };
    assert_eq!((entry.seeds.clone(), entry.step), (10..20, 5));
    assert_eq!(
        entry.mutations,
        [crate::MutationKind::Bits, crate::MutationKind::Special]
    );
    assert!(matches!(&wasm.work, EntryWork::Wasm(e) if e.batch == 10) && wasm.targets.len() == 3);
    let EntryWork::Tuning(entry) = &tuning.work else {
        panic!()
    };
    assert_eq!(entry.options.launch_limit_ms, Some(2000));
    assert!(matches!(&pipelines.work, EntryWork::Pipelines(e) if e.labels.len() == 1));
    assert!(campaign.entries.iter().all(|e| e.time_limit_s == Some(30)));
}

#[test]
fn each_mistake_of_a_table_has_its_line() {
    let with =
        |table: &str, lines: &str| format!("version = 1\ntargets = [\"cuda:0\"]\n[[{table}]]\npath = \"a\"\n{lines}\n");
    let fuzz = |lines: &str| with("fuzz", &format!("inputs = [\"a\"]\nseeds = \"0..9\"\n{lines}"));
    for (text, line, part) in [
        (with("fuzz", "inputs = [\"a\"]"), 3, "missing field `seeds`"),
        (with("fuzz", "inputs = []\nseeds = \"0..1\""), 5, "`inputs` is empty"),
        (
            with("fuzz", "inputs = [\"a\", \"a\"]\nseeds = \"0..1\""),
            5,
            "listed twice",
        ),
        (with("fuzz", "inputs = [\"a\"]\nseeds = \"9..1\""), 6, "no seeds"),
        (
            with("fuzz", "inputs = [\"a\"]\nseeds = \"0..90000000\""),
            6,
            "raise `step`",
        ),
        (fuzz("step = 0"), 7, "step is 0 (expected 1 to 4096)"),
        (fuzz("mutations = [\"melt\"]"), 7, "`melt` is no kind of mutation"),
        (fuzz("mutations = []"), 7, "`mutations` is empty"),
        (fuzz("seed = 3"), 7, "unknown field"),
        (with("wasm", "inputs = \"\""), 5, "`inputs` is empty"),
        (with("wasm", "inputs = \"x\"\nbatch = 5000"), 6, "batch is 5000"),
        (with("wasm", "inputs = \"x\"\nlimit-memory = 3"), 6, "limit-memory is 3"),
        (
            with("wasm", "inputs = \"x\"\nenvironment = { \"a=b\" = \"c\" }"),
            6,
            "has no `=`",
        ),
        (
            with("wasm", "inputs = \"x\"\ntargets = [\"nvidia:0\"]"),
            3,
            "run on cpu",
        ),
        (
            with("wasm", "inputs = \"x\"\nwithout-containment = true"),
            6,
            "unknown field",
        ),
        (with("tuning", "block = \"x\""), 5, "'x' is not a value"),
        (with("tuning", "block = \"1..=2000000+1\""), 5, "more than"),
        (with("tuning", "shared = \"\""), 5, "`shared` has 1 to"),
        (with("tuning", "cache = [\"l3\"]"), 5, "not a cache preference"),
        (with("tuning", "search = \"walk\""), 5, "not a search strategy"),
        (with("tuning", "tolerance = [\"x=1\"]"), 5, "x"),
        (with("tuning", "repeat = 0"), 5, "repeat is 0"),
        (with("tuning", "launch-limit = nan"), 5, "launch-limit is NaN"),
        (with("bisect", "max-candidates = 0"), 5, "max-candidates is 0"),
        (with("bisect", "producers = \"all\""), 5, "unknown variant"),
        (with("bisect", "other = \"b\""), 5, "unknown field"),
        (
            with("pipelines", "labels = { x = \"cpu\" }"),
            5,
            "only runs WebAssembly",
        ),
        (with("pipelines", "tolerance = [\"exact\"]"), 5, "unknown field"),
        (with("pipelines", "inputs = { a = \"\" }"), 5, "has no file"),
        (with("kernels", ""), 3, "unknown field"),
    ] {
        let (at, reason) = error(&text);
        assert_eq!(at, line, "{text}: {reason}");
        assert!(reason.contains(part), "{text}: {reason}");
    }
}

#[test]
fn long_texts_are_refused_before_they_are_parsed() {
    let text = " ".repeat(MAX_DESCRIPTION_BYTES + 1);
    assert_eq!(Campaign::parse(&text, Path::new("/")), Err(DescriptionError::TooLong));
}
