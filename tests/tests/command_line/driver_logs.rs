//! Logs of kernel drivers on the command line: clocks that count ticks, queues of jobs, and the family of the GPU.

use serde_json::Value;
use whole_program_tests::run;

/// A log of xe whose clock counts: two jobs and an access.
const TICKS: &str = "\
 a-1 [001] ..... 1000: xe_sched_job_run: dev=0000:03:00.0, fence=00000000c0ffee01, seqno=1, guc_id=2, batch_addr=0x1000, flags=0x8
 a-1 [001] ..... 2500: xe_reg_rw: dev=0000:03:00.0, write reg=0xa188, len=4, val=(0x10001, 0x0)
 a-1 [001] ..... 4000: xe_reg_rw: dev=0000:03:00.0, write reg=0xa188, len=4, val=(0x10002, 0x0)
 a-1 [001] ..... 9000: xe_hw_fence_signal: dev=0000:03:00.0, ctx=0x12, fence=00000000c0ffee01, seqno=1
";

#[test]
fn ticks_are_never_shown_as_nanoseconds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ticks.txt");
    std::fs::write(&file, TICKS).unwrap();
    let path = file.to_str().unwrap();
    let json = |arguments: &[&str]| -> Value {
        let ended = run([arguments[0], path].iter().chain(&arguments[1..]).chain(&["--json"]));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        ended.json()
    };
    let text = |arguments: &[&str]| -> String {
        let ended = run([arguments[0], path].iter().chain(&arguments[1..]));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        ended.out
    };
    let info = json(&["info"]);
    assert_eq!((&info["span_ns"], &info["span_ticks"]), (&Value::Null, &8000.into()));
    assert_eq!(
        (&info["family"], &info["queues"][0]),
        (&"intel".into(), &"exec queue 2".into())
    );
    let shown = text(&["info"]);
    assert!(shown.contains("8000 ticks") && shown.contains("Intel GPU"), "{shown}");
    let events = json(&["events"]);
    assert_eq!(
        (&events[1]["time_ns"], &events[1]["time_ticks"]),
        (&Value::Null, &2500.into())
    );
    let shown = text(&["events"]);
    assert!(
        shown.contains("Ticks") && shown.contains("queue exec queue 2"),
        "{shown}"
    );
    let jobs = json(&["jobs"]);
    assert_eq!(
        (&jobs[0]["duration_ns"], &jobs[0]["duration_ticks"]),
        (&Value::Null, &8000.into())
    );
    assert_eq!(jobs[0]["queue"], "exec queue 2");
    assert!(text(&["jobs"]).contains("8000 ticks"));
    let stats = json(&["stats"]);
    assert_eq!(
        (&stats[0]["gap_ns"], &stats[0]["rate_per_s"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(stats[0]["gap_ticks"]["max"], 1500);
    let between = json(&["stats", "--between", "submit", "irq.line = job"]);
    assert_eq!((&between["ns"], &between["ticks"]["max"]), (&Value::Null, &8000.into()));
    let to = folder.path().join("events.csv");
    let ended = run(["export", path, "-o", to.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let csv = std::fs::read_to_string(&to).unwrap();
    assert!(csv.starts_with("event,kind,time_ticks,"), "{csv}");
    let to = folder.path().join("a.vcd");
    let ended = run(["export", path, "-o", to.to_str().unwrap()]);
    assert!(ended.err.contains("counts ticks"), "{}", ended.err);
    assert!(std::fs::read_to_string(&to).unwrap().contains("is one tick"));
}
