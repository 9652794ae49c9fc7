//! Seeds of campaigns.

use super::seed::Add;

const DESCRIPTION: &str = "version = 1
name = \"nightly\"
targets = [\"software:mali-g71\", \"agent:lab/mali-g71\"]
repeats = 2
keep-outcomes = \"diverged\"
target-wait = 5

[[recordings]]
path = \"traces/*.kine\"

[[recordings]]
path = \"digits.kine\"
targets = [\"cuda:0\"]
time-limit = 20
tolerance = [\"out0=f32:1e-5\"]
inputs = { image = \"digit.npy\" }
without-containment = true
";

const HELD: &str = "broker \"nats://broker\"
+ 7 $JS.ACK.kinescope-runs.word.1.7.7.1790000000000000000.3
+ 8 $JS.ACK.kinescope-runs.word.1.8.8.1790000000000000000.2
- 7
+ 9 elsewhere
";

const REPORT: &str =
    r#"{"worker":"a","targets":[{"name":"software:mali-g71","labels":{"gpu":"mali-g71","memory":"64"}}]}"#;

const NOTED: &str = r#"{"count":2,"holder":"b","start":7,"reasons":["a ended without a result"],"done":null}"#;

const KINDS: &str = "version = 1
targets = [\"software:mali-g71\"]
[[pipelines]]
path = \"*.kpipe\"
labels = { second = \"software:mali-g52\" }
inputs = { image = \"digit.npy\" }
[[tuning]]
path = \"saxpy.kine\"
targets = [\"cuda:0\"]
launch = \"saxpy:1\"
block = \"32..=1024\"
grid-y = \"1,2\"
cache = [\"l1\"]
launch-bounds = [\"256,4\"]
search = \"halving:9\"
tolerance = [\"arg0=f32:1e-5\"]
launch-limit = 0.5
modules = [\"a.ptx\"]
[[wasm]]
path = \"words.wasm\"
targets = [\"cpu\", \"agent:lab/interpreter\"]
inputs = \"texts/*\"
batch = 10
expected = \"out\"
arguments = [\"-v\"]
environment = { LANG = \"C\" }
limit-fuel = 1000
[[fuzz]]
path = \"digits.kine\"
inputs = [\"image\"]
seeds = \"0..1000\"
step = 50
mutations = [\"bits\", \"special\"]
[[bisect]]
path = \"broken.kine\"
producers = \"bytes\"
max-candidates = 20
";

const FUZZ_WORK: &str = r#"{"kind":"fuzz","recording":{"path":"/a.kine","name":"a.kine","digest":"00"},"inputs":["image"],"first_seed":5,"seeds":3,"mutations":["bits","special"]}"#;
const FUZZ_RESULT: &str = r#"{"run":"00112233445566778899aabbccddeeff","verdict":"failed","computed":true,"divergence":null,"failure":"x","on_target":"software:mali-g71","gpu":"","queued_ms":1,"started_ms":2,"ended_ms":3,"compile_ns":4,"upload_ns":5,"run_ns":6,"device_ns":7,"memory_bytes":4096,"pushed_bytes":10,"attempt":1,"earlier_attempts":[],"worker":"w","fingerprint":"","outcome":null,"details":{"kind":"fuzz","first_seed":5,"digests":["0011"],"diverged":0,"failed_count":1,"failed":[{"seed":5,"reason":"fault","files":{"image":"outcomes/x.bin"}}]}}"#;
const RUN: &str =
    r#"{"target":"software:mali-g71","repeat":1,"work":"00112233445566778899aabbccddeeff","queued_ms":5,"position":7}"#;
const WORK: &str = r#"{"kind":"replay","recording":{"path":"/a.kine","name":"a.kine","digest":"00"},"tolerance":["exact"],"without_containment":false,"keep_outcomes":"none"}"#;
const LEASE: &str = r#"{"worker":"w","token":3,"deadline_ms":9}"#;
const ATTEMPTS: &str = r#"{"count":1,"reasons":["lost"]}"#;
const RESULT: &str = r#"{"run":"00112233445566778899aabbccddeeff","verdict":"diverged","computed":true,"divergence":{"event":3,"text":"x"},"failure":null,"on_target":"software:mali-g71","gpu":"Mali-G71","queued_ms":1,"started_ms":2,"ended_ms":3,"compile_ns":4,"upload_ns":5,"run_ns":6,"device_ns":7,"memory_bytes":4096,"pushed_bytes":10,"attempt":1,"earlier_attempts":[],"worker":"w","fingerprint":"","outcome":null}"#;

const RUN_MESSAGE: &str = r#"{"version":1,"campaign":"00112233445566778899aabbccddeeff","publication":0,"queued_ms":5,"run":{"id":"dc9848c397309cd63e7bdfe5a17c810f","target":"software:mali-g71","repeat":2,"work":{"kind":"replay","recording":{"path":"/a.kine","name":"/a.kine","digest":"abababababababababababababababababababababababababababababababab"},"tolerance":["exact"],"without_containment":false,"keep_outcomes":"none"}}}"#;
const RESULT_MESSAGE: &str = r#"{"message":"result","version":1,"result":{"run":"00112233445566778899aabbccddeeff","verdict":"diverged","computed":true,"divergence":{"event":3,"text":"x"},"failure":null,"on_target":"software:mali-g71","gpu":"Mali-G71","queued_ms":1,"started_ms":2,"ended_ms":3,"compile_ns":4,"upload_ns":5,"run_ns":6,"device_ns":7,"memory_bytes":4096,"pushed_bytes":10,"attempt":1,"earlier_attempts":[],"worker":"w","fingerprint":"","outcome":null},"files":[{"suffix":".kine","digest":"abababababababababababababababababababababababababababababababab","bytes":7}]}"#;
const REFUSED_MESSAGE: &str =
    r#"{"message":"refused","version":1,"worker":"w","sequence":3,"reason":"the message is damaged"}"#;
const LOGGED: &str = r#"{"kind":"replay","recording":"a.kine","path":"/a.kine","digest":"00","options":"","target":"software:mali-g71","repeat":1,"result":{"run":"00112233445566778899aabbccddeeff","verdict":"match","computed":true,"divergence":null,"failure":null,"on_target":"software:mali-g71","gpu":"Mali-G71","queued_ms":1,"started_ms":2,"ended_ms":3,"compile_ns":4,"upload_ns":5,"run_ns":6,"device_ns":7,"memory_bytes":4096,"pushed_bytes":10,"attempt":1,"earlier_attempts":[],"worker":"w","fingerprint":"","outcome":null}}"#;

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    add("campaign_description", "whole", DESCRIPTION.into());
    add("campaign_description", "kinds", KINDS.into());
    add(
        "campaign_description",
        "small",
        b"version = 1\n[[recordings]]\npath = \"a\"\ntargets = [\"cuda:0\"]\n".to_vec(),
    );
    add(
        "metrics_request",
        "get",
        b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
    );
    for (name, text) in [
        ("run", RUN),
        ("work", WORK),
        ("lease", LEASE),
        ("attempts", ATTEMPTS),
        ("result", RESULT),
        ("fuzz-work", FUZZ_WORK),
        ("fuzz-result", FUZZ_RESULT),
        ("run_message", RUN_MESSAGE),
        ("result_message", RESULT_MESSAGE),
        ("refused_message", REFUSED_MESSAGE),
        ("logged", LOGGED),
    ] {
        add("campaign_entry", name, text.into());
    }
    for (name, text) in [("held", HELD), ("report", REPORT), ("noted", NOTED)] {
        add("worker_entry", name, text.into());
    }
}
