//! Parts of imported logs of bus devices.

use crate::recordings;
use trace_core::progress::Progress;
use trace_core::trim::{Part, TrimRequest, trim};

#[test]
fn trimmed_device_logs_are_valid() {
    let Some(path) = recordings("mmiotrace").map(|f| f.join("bochs_display-bochs.txt.gz")) else {
        return;
    };
    let r = crate::open(&path);
    let last = r.events.len() as u64 - 1;
    let first_job = TrimRequest::new(Part::Jobs([0].into()), "log");
    let error = trim(&r, &first_job, &Progress::new()).unwrap_err().to_string();
    assert!(error.contains("has no jobs"), "{error}");
    let part = trim(
        &r,
        &TrimRequest::new(Part::Events(0..=last / 2), "log"),
        &Progress::new(),
    )
    .unwrap();
    assert_eq!(part.recording.events.len() as u64, last / 2 + 1);
    assert_eq!(part.recording.metadata.spaces, r.metadata.spaces);
    assert!(part.recording.hardware().is_some());
}
