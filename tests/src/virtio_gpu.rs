//! Replay of the virtio-gpu sample recording on a target: QEMU captures the picture while the run waits at its end.

#![allow(clippy::unwrap_used, reason = "a test helper panics on failure")]

use crate::board::Board;
use crate::root;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Returns a plan's text with a 10 s pause after its last action.
fn add_pause(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line.strip_prefix("counts actions ").and_then(|l| l.split_once(' ')) {
            Some((actions, rest)) => {
                let actions: u64 = actions.parse().unwrap();
                out.push_str(&format!("counts actions {} {rest}\n", actions + 1));
            }
            None => out.push_str(&format!("{line}\n")),
        }
    }
    let last = text.lines().last().and_then(|l| l.split(' ').next()).unwrap();
    format!("{out}{last} pause 10000000000\n")
}

/// Replays the recording as a plan that waits at its end, and checks QEMU's screen meanwhile. The agent cannot read
/// this device's screen and therefore cannot report it. The run ends with a reset of the device. `number` is the
/// device's number on the board, and `device` is its name. `replay` replays a file there and returns the result.
///
/// # Panics
/// Panics if the picture differs or is still there after the run, or if the outcome is not the expected one.
pub fn assert_draws(board: &Board, number: u8, device: &str, replay: impl Fn(&Path) -> Value + Sync) {
    let folder = tempfile::tempdir().unwrap();
    let waiting = folder.path().join("virtio-gpu.txt");
    let recorded = root().join("sample-traces/qemu/virtio-gpu.kine");
    let printed = board.kinescope(&["plan", recorded.to_str().unwrap(), "--on", device, "--text"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    std::fs::write(&waiting, add_pause(&printed.out)).unwrap();
    let recording = trace_core::container::open(&recorded).unwrap();
    let drawn = recording.expected_screen().unwrap().unwrap();
    let shows = || board.screendump(number.into()) == drawn;
    let (json, shown) = std::thread::scope(|scope| {
        let run = scope.spawn(|| replay(&waiting));
        let mut shown = false;
        while !run.is_finished() && !shown {
            shown = shows();
            std::thread::sleep(Duration::from_millis(50));
        }
        (run.join().unwrap(), shown)
    });
    assert!(shown, "QEMU did not show the recorded picture");
    assert!(!shows(), "the device still shows the picture after the run");
    assert_eq!(json["outcome"], "match");
    let effects = json["effects"].as_array().unwrap().iter();
    let others: Vec<&Value> = effects.filter(|e| e["matched"] != true).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    assert_eq!(
        (&others[0]["kind"], &others[0]["matched"]),
        (&"screen".into(), &Value::Null)
    );
    let why = others[0]["got"].as_str().unwrap();
    assert!(why.starts_with("not checked: "), "{why}");
}
