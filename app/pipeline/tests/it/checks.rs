//! Checks of pipeline files: each defect has its line and names both ends.

use crate::support::{ALLOCATOR, TestFolder, sample};
use kinescope_pipeline::{
    DefectKind, Defects, FolderResources, ModuleDefect, Pipeline, PipelineError, Resources, Severity, StageRecording,
};
use std::path::Path;
use trace_core::progress::Progress;

/// One recording, `vecadd.kine`, and two modules: `m.wat`, and `bad.wat`, which exports nothing.
struct TestResources;

impl Resources for TestResources {
    fn open_recording(&self, path: &Path) -> Result<StageRecording, String> {
        match path.to_str() {
            Some("vecadd.kine") => Ok(StageRecording::new(
                trace_core::container::open(&sample("vecadd.kine")).unwrap(),
            )),
            _ => Err(format!("{}: no such file", path.display())),
        }
    }

    fn read_module(&self, path: &Path) -> Result<Vec<u8>, ModuleDefect> {
        let functions = r#"(func (export "one") (param i32 i32 i32 i32)) (func (export "none") (param i32 i32))"#;
        match path.to_str() {
            Some("m.wat") => Ok(format!("(module {ALLOCATOR} {functions})").into_bytes()),
            Some("bad.wat") => Ok(b"(module)".to_vec()),
            _ => Err(ModuleDefect::File(format!("{}: no such file", path.display()))),
        }
    }

    fn check_input(&self, path: &Path) -> Result<(), String> {
        match path.to_str() {
            Some("a.npy") => Ok(()),
            _ => Err(format!("{}: no such file", path.display())),
        }
    }
}

fn check(text: &str) -> Result<Pipeline, Defects> {
    Pipeline::check(text, &TestResources)
}

/// Returns the defects of a text, one a line.
fn defects(text: &str) -> String {
    match check(text) {
        Ok(pipeline) => pipeline.warnings.iter().map(|w| format!("{w}\n")).collect(),
        Err(defects) => format!("{defects}\n"),
    }
}

/// A pipeline of one replay and one module, without defects. Line numbers of tests count from it.
const GOOD: &str = r#"version = 1
[inputs.a]
type = "f32"
shape = [1024]
file = "a.npy"
[stages.add]
recording = "vecadd.kine"
inputs = { a = "inputs.a" }
outputs = ["c"]
[stages.one]
module = "m.wat"
function = "one"
inputs.x = { from = "add.c", type = "f32", shape = [1024] }
outputs.y = { type = "f32", shape = [4] }
[outputs]
y = "one.y"
"#;

/// Replaces one text of the good pipeline by another, and returns the defects.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from}");
    defects(&GOOD.replace(from, to))
}

#[test]
fn pipeline_without_defects_has_types() {
    let pipeline = check(GOOD).unwrap();
    assert_eq!(pipeline.warnings, []);
    assert_eq!(pipeline.stages[0].outputs[0].to_string(), "1024 f32");
    assert_eq!(pipeline.graph.order, [0, 1]);
    assert_eq!(
        pipeline.graph.stages.iter().map(|s| s.depth).collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn wrong_shapes_and_contents_are_described_as_they_are() {
    let shape = |new: &str| changed("shape = [1024]\nfile", &format!("shape = {new}\nfile"));
    assert_eq!(
        shape("[4000000000]"),
        "line 4: 'shape' of input 'a' is 4000000000 (expected lengths of 1 to 1073741824)\n"
    );
    assert_eq!(
        shape("[1, 1, 1, 1, 1, 1, 1, 1, 1]"),
        "line 4: 'shape' of input 'a' is an array of 9 lengths (expected 1 to 8 lengths of dimensions)\n"
    );
    assert_eq!(
        changed("file = \"a.npy\"", "file = \"a.npy\"\nvalues = [1.0]"),
        "line 6: 'values' of input 'a' is given beside 'file' (expected one of them)\n"
    );
}

#[test]
fn a_missing_file_of_an_input_is_a_warning() {
    assert_eq!(
        changed("a.npy", "b.npy"),
        "line 2: the file of input 'a' cannot be read: b.npy: no such file; a run needs --input a=FILE\n"
    );
    // The same with real files.
    let folder = tempfile::tempdir().unwrap();
    let progress = Progress::new();
    let resources = FolderResources::new(&folder.path().join("p.kpipe"), &progress);
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    assert_eq!(resources.check_input(Path::new("file")), Ok(()));
    for name in ["folder", "none"] {
        let reason = resources.check_input(Path::new(name)).unwrap_err();
        assert!(
            reason.contains(&folder.path().join(name).display().to_string()),
            "{reason}"
        );
    }
}

#[test]
fn both_ends_of_a_connection_have_the_same_type() {
    assert_eq!(
        changed(
            r#"from = "add.c", type = "f32", shape = [1024]"#,
            r#"from = "add.c", type = "f32", shape = [10]"#
        ),
        "line 13: input 'x' of stage 'one' takes 10 f32, 'add.c' gives 1024 f32\n"
    );
    assert_eq!(
        changed("shape = [1024]\nfile", "shape = [16, 16]\nfile"),
        "line 8: input 'a' of stage 'add' takes 1024 f32, 'inputs.a' gives 256 f32 (16x16)\n"
    );
    assert_eq!(
        changed(
            "type = \"f32\"\nshape = [1024]\nfile",
            "type = \"u32\"\nshape = [1024]\nfile"
        ),
        "line 8: input 'a' of stage 'add' takes 1024 f32, 'inputs.a' gives 1024 u32\n"
    );
    assert_eq!(changed("shape = [1024]\nfile", "shape = [32, 32]\nfile"), "");
}

#[test]
fn unknown_names_are_defects_with_the_known_ones() {
    assert_eq!(
        changed("from = \"add.c\"", "from = \"add.d\""),
        "line 13: stage 'one' uses 'add.d', and there is no output 'd' of stage 'add' (there are: c)\n"
    );
    assert_eq!(
        changed("from = \"add.c\"", "from = \"sub.c\""),
        "line 13: stage 'one' uses 'sub.c', and there is no stage or loop 'sub' (there are: add, one)\n"
    );
    assert_eq!(
        changed("a = \"inputs.a\"", "a = \"inputs.b\""),
        "line 8: stage 'add' uses 'inputs.b', and there is no input 'b' (there are: a)\n"
    );
    assert_eq!(
        changed("y = \"one.y\"", "y = \"one.z\""),
        "line 16: output 'y' uses 'one.z', and there is no output 'z' of stage 'one' (there are: y)\n"
    );
    assert!(changed("from = \"add.c\"", "from = \"add\"").starts_with("line 13: 'add' names no value"));
    assert_eq!(
        changed("outputs = [\"c\"]", "outputs = [\"c\", \"d\"]"),
        "line 9: stage 'add' gives buffer 'd', which its recording does not have (it has: a, b, c, shader0)\n"
    );
    assert_eq!(
        changed("inputs = { a = ", "inputs = { q = "),
        "line 8: stage 'add' replaces buffer 'q', which its recording does not have (it has: a, b, c, shader0)\n"
    );
}

#[test]
fn circles_name_their_stages() {
    let text = r#"version = 1
[stages.x]
module = "m.wat"
function = "one"
inputs.i = { from = "y.o", type = "f32", shape = [4] }
outputs.o = { type = "f32", shape = [4] }
[stages.y]
module = "m.wat"
function = "one"
inputs.i = { from = "x.o", type = "f32", shape = [4] }
outputs.o = { type = "f32", shape = [4] }
[outputs]
o = "y.o"
"#;
    assert_eq!(
        defects(text),
        "line 2: stages wait for one another in a circle: x -> y -> x\n"
    );
    let own = text.replace("from = \"y.o\"", "from = \"x.o\"");
    assert_eq!(
        defects(&own),
        "line 2: stages wait for one another in a circle: x -> x\n"
    );
}

#[test]
fn unused_stages_and_inputs_are_warnings() {
    let text = GOOD.replace("y = \"one.y\"", "c = \"add.c\"");
    let pipeline = check(&text).unwrap();
    assert_eq!(pipeline.warnings.len(), 1);
    assert_eq!(pipeline.warnings[0].severity(), Severity::Warning);
    assert_eq!(
        pipeline.warnings[0].to_string(),
        "line 10: stage 'one' is not used: no output of the pipeline depends on it"
    );
    assert_eq!(
        changed("inputs = { a = \"inputs.a\" }", "inputs = { }"),
        "line 2: input 'a' is not used\n"
    );
}

#[test]
fn keys_and_values_are_checked() {
    for (from, to, expected) in [
        (
            "version = 1",
            "version = 2",
            "line 1: version 2 of pipelines is not known",
        ),
        ("version = 1", "", "line 1: the pipeline has no 'version'"),
        (
            "version = 1",
            "version = 1\nfoo = 3",
            "line 2: 'foo' is no key of the pipeline",
        ),
        ("version = 1", "version =", "line 1: not TOML: "),
        (
            "file = \"a.npy\"",
            "file = 3",
            "line 5: 'file' of input 'a' is 3 (expected a path",
        ),
        (
            "file = \"a.npy\"",
            "values = [1]",
            "line 2: 'values' of input 'a' is a list of 1 elements (expected 1024",
        ),
        (
            "file = \"a.npy\"",
            "file = \"a.npy\"\nvalues = [1]",
            "line 6: 'values' of input 'a' is given beside 'file' (expected one of them)",
        ),
        (
            "shape = [1024]\nfile",
            "shape = [0]\nfile",
            "line 4: 'shape' of input 'a' is 0 (expected lengths",
        ),
        (
            "shape = [1024]\nfile",
            "shape = []\nfile",
            "line 4: 'shape' of input 'a' is an array of 0 lengths (expected 1 to 8",
        ),
        (
            "type = \"f32\"\nshape = [1024]\nfile",
            "type = \"f31\"\nshape = [1024]\nfile",
            "line 3: 'type' of input 'a' is \"f31\"",
        ),
        (
            "recording = \"vecadd.kine\"",
            "",
            "line 6: stage 'add' must have either 'recording' or 'module'",
        ),
        (
            "recording = \"vecadd.kine\"",
            "recording = \"no.kine\"",
            "line 7: the recording of stage 'add' cannot be used: no.kine: no such file",
        ),
        (
            "outputs = [\"c\"]",
            "outputs = [\"c\", \"c\"]",
            "line 9: 'c' is the name of an output already, in line 9",
        ),
        (
            "outputs = [\"c\"]",
            "outputs = [\"c\"]\ntarget = \"a b\"",
            "line 10: 'target' of stage 'add' is \"a b\"",
        ),
        (
            "[stages.one]",
            "[stages.\"a.b\"]",
            "line 10: 'a.b' cannot be the name of stage",
        ),
        (
            "[stages.one]",
            "[stages.inputs]",
            "line 10: 'inputs' cannot be the name of stage",
        ),
        (
            "module = \"m.wat\"",
            "module = \"n.wat\"",
            "line 11: the module of stage 'one' cannot be used: n.wat: no such file",
        ),
        (
            "module = \"m.wat\"",
            "module = \"bad.wat\"",
            "line 11: the module of stage 'one' cannot be used: it exports no memory",
        ),
        (
            "function = \"one\"",
            "function = \"two\"",
            "line 11: the module of stage 'one' cannot be used: it exports no function 'two'",
        ),
        (
            "function = \"one\"",
            "function = \"none\"",
            "line 11: the module of stage 'one' cannot be used: its function 'none' is (i32, i32) -> () (expected (i32, i32, i32, i32) -> ()",
        ),
        (
            "function = \"one\"",
            "function = \"one\"\nlimits = { fuel = 0 }",
            "line 13: 'fuel' of the limits of stage 'one' is 0",
        ),
        (
            "function = \"one\"",
            "function = \"one\"\nlimits = { memory = 100 }",
            "line 10: stage 'one' has 4112 bytes of tensors, and its module has a limit of 100",
        ),
        (
            "function = \"one\"",
            "function = \"one\"\nlimits = { memory = 5000 }",
            "line 11: the module of stage 'one' cannot be used: its memory has 65536 bytes at the start",
        ),
        (
            "y = \"one.y\"",
            "y = { from = \"one.y\", file = \"../y.npy\" }",
            "line 16: 'file' of output 'y' is \"../y.npy\"",
        ),
        (
            "y = \"one.y\"",
            "y = { from = \"one.y\", file = \"y.csv\" }",
            "line 16: 'file' of output 'y' is \"y.csv\"",
        ),
        (
            "y = \"one.y\"",
            "y = { from = \"one.y\", file = \"report.json\" }",
            "line 16: 'file' of output 'y' is \"report.json\"",
        ),
        (
            "y = \"one.y\"",
            "y = \"one.y\"\nz = { from = \"one.y\", file = \"Y.npy\" }",
            "line 17: 'Y.npy' is the name of the file of output 'y' already, in line 16",
        ),
        (
            "y = \"one.y\"",
            "",
            "line 15: 'outputs' of the pipeline is a table (expected at least one output",
        ),
    ] {
        let got = changed(from, to);
        assert!(got.starts_with(expected), "{from} -> {to}: {got}");
    }
}

#[test]
fn stated_buffers_fit_their_recording() {
    let with = |buffer: &str| changed("outputs = [\"c\"]", &format!("outputs = [\"c\"]\nbuffers.{buffer}"));
    assert_eq!(with("c = { type = \"f32\", shape = [32, 32] }"), "");
    for (buffer, expected) in [
        (
            "c = { type = \"f32\", shape = [3] }",
            "line 10: buffer 'c' of stage 'add' has 4096 bytes in the recording, 3 f32 has 12\n",
        ),
        (
            "c = { type = \"f32\", shape = [4], address = 0x1000 }",
            "line 10: buffer 'c' of stage 'add' cannot have an address: the recording has a buffer of this name\n",
        ),
        (
            "d = { type = \"f32\", shape = [4] }",
            "line 10: stage 'add' states the type of buffer 'd', which its recording does not have (it has: a, b, c, shader0)\n",
        ),
        (
            "d = { type = \"f32\", shape = [4], address = 0x1000, address_space = 9 }",
            "line 10: buffer 'd' of stage 'add' cannot have an address: there is no address space 9 (the recording has 1)\n",
        ),
        (
            "d = { type = \"f32\", shape = [4], address = -1 }",
            "line 10: 'address' of buffer 'd' of stage 'add' is -1 (expected a GPU address, 0x...)\n",
        ),
    ] {
        assert_eq!(with(buffer), expected, "{buffer}");
    }
}

/// A loop of one stage. Its first line is 10.
const LOOP: &str = r#"version = 1
[inputs.a]
type = "f32"
values = [0, 0, 0, 0]
[stages.s]
module = "m.wat"
function = "one"
inputs.i = { from = "l.v", type = "f32", shape = [4] }
outputs.o = { type = "f32", shape = [4] }
[loops.l]
stages = ["s"]
rounds = 3
carry.v = { start = "inputs.a", next = "s.o" }
until = { value = "s.o", equals = 0 }
[outputs]
o = "l.v"
"#;

#[test]
fn loops_are_checked() {
    let changed = |from: &str, to: &str| {
        assert_eq!(LOOP.matches(from).count(), 1, "{from}");
        // Only this test needs a condition of one number.
        let text = LOOP.replace(from, to);
        defects(&text).replace("line 14: loop 'l' ends by one number, 's.o' gives 4 f32\n", "")
    };
    assert_eq!(
        defects(LOOP),
        "line 14: loop 'l' ends by one number, 's.o' gives 4 f32\n"
    );
    for (from, to, expected) in [
        (
            "rounds = 3",
            "",
            "line 10: loop 'l' has no 'rounds' (expected the maximum number of rounds)\n",
        ),
        (
            "rounds = 3",
            "rounds = 0",
            "line 12: 'rounds' of loop 'l' is 0 (expected 1 to 1000000 rounds)\n",
        ),
        (
            "stages = [\"s\"]",
            "stages = [\"t\"]",
            "line 11: loop 'l' uses 't', and there is no stage 't' (there are: s)\n",
        ),
        (
            "next = \"s.o\"",
            "next = \"inputs.a\"",
            "line 13: loop 'l' uses 'inputs.a' of its rounds, which no stage of the loop gives\n",
        ),
        (
            "until = { value = \"s.o\", equals = 0 }",
            "",
            "line 10: loop 'l' has no 'until' (expected the condition that ends the loop)\n",
        ),
        (
            ", equals = 0",
            "",
            "line 14: 'until' of the condition of loop 'l' is a condition with 0 tests (expected exactly one of 'equals', 'below' and 'above')\n",
        ),
        (
            ", equals = 0",
            ", equals = 0, below = 3",
            "line 14: 'until' of the condition of loop 'l' is a condition with 2 tests (expected exactly one of 'equals', 'below' and 'above')\n",
        ),
        (
            "start = \"inputs.a\"",
            "start = \"s.o\"",
            "line 10: stages wait for one another in a circle: l -> l\n",
        ),
        (
            "values = [0, 0, 0, 0]",
            "values = [0, 0]",
            "line 8: input 'i' of stage 's' takes 4 f32, 'l.v' gives 2 f32\nline 13: carried value 'l.v' takes 2 f32, 's.o' gives 4 f32\n",
        ),
        (
            "[loops.l]",
            "[loops.m]\nstages = [\"s\"]\nrounds = 1\nuntil = { value = \"s.o\", equals = 0 }\n[loops.l]",
            "line 15: stage 's' is in loop 'm' already; a stage is in one loop at most\n",
        ),
        (
            "[loops.l]",
            "[loops.s]",
            "line 10: 's' is the name of a stage already, in line 5\n",
        ),
    ] {
        let got = changed(from, to);
        assert!(got.contains(expected), "{from} -> {to}: {got}");
    }
}

#[test]
fn defects_are_bounded_and_hostile_texts_end() {
    let many = format!(
        "version = 1\n{}",
        "[stages.\"ü\"]\n[stages.\"ä\"]\n".replace('\n', "\nx = 1\n")
    );
    assert!(defects(&many).lines().count() <= 100);
    let keys: String = (0..5000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(defects(&format!("version = 1\n{keys}")).lines().count(), 100);
    for deep in [
        "[".repeat(100_000),
        format!("a = {}", "[".repeat(100_000)),
        "a.".repeat(100_000),
    ] {
        assert!(defects(&deep).contains("not TOML"));
    }
    let large = "#".repeat(5 << 20);
    let Err(defects) = check(&large) else {
        panic!("a text of 5 MiB")
    };
    assert!(matches!(defects.all()[0].kind, DefectKind::FileSize { .. }));
}

#[test]
fn errors_name_the_file() {
    let folder = TestFolder::new(&GOOD.replace("vecadd.kine", "gone.kine"), "");
    std::fs::write(folder.path().with_file_name("a.npy"), "").unwrap();
    let error = Pipeline::open(&folder.path(), &Progress::new()).unwrap_err();
    assert!(matches!(error, PipelineError::Defects { .. }));
    let text = error.to_string();
    let path = folder.path();
    assert!(
        text.starts_with(&format!(
            "{}, line 7: the recording of stage 'add' cannot be used: ",
            path.display()
        )),
        "{text}"
    );
    let gone = Pipeline::open(&path.with_file_name("q.kpipe"), &Progress::new()).unwrap_err();
    assert!(gone.to_string().contains("q.kpipe: "), "{gone}");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let binary = Pipeline::open(&path, &Progress::new()).unwrap_err();
    assert!(
        binary.to_string().contains("line 1: not TOML: byte 0 is no text"),
        "{binary}"
    );
}
