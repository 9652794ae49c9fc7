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

const RUN: &str =
    r#"{"target":"software:mali-g71","repeat":1,"work":"00112233445566778899aabbccddeeff","queued_ms":5,"position":7}"#;
const WORK: &str = r#"{"kind":"replay","recording":{"path":"/a.kine","name":"a.kine","digest":"00"},"tolerance":["exact"],"without_containment":false,"keep_outcomes":"none"}"#;
const LEASE: &str = r#"{"worker":"w","token":3,"deadline_ms":9}"#;
const ATTEMPTS: &str = r#"{"count":1,"reasons":["lost"]}"#;
const RESULT: &str = r#"{"run":"00112233445566778899aabbccddeeff","verdict":"diverged","computed":true,"divergence":{"event":3,"text":"x"},"failure":null,"on_target":"software:mali-g71","gpu":"Mali-G71","queued_ms":1,"started_ms":2,"ended_ms":3,"compile_ns":4,"upload_ns":5,"run_ns":6,"device_ns":7,"memory_bytes":4096,"pushed_bytes":10,"attempt":1,"earlier_attempts":[],"worker":"w","fingerprint":"","outcome":null}"#;

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    add("campaign_description", "whole", DESCRIPTION.into());
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
    ] {
        add("campaign_entry", name, text.into());
    }
}
