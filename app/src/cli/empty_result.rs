//! One-line messages of verbs for a recording without the items that they list.

use super::Failure;
use super::out::format_count;
use super::source::SourceRecording;
use trace_core::recording::EventKind;

/// Counts the events of some kinds.
fn count(opened: &SourceRecording, is: impl Fn(EventKind) -> bool) -> u64 {
    let kinds = opened.recording.events.kind.iter();
    kinds.filter(|k| EventKind::from_raw(*k).is_some_and(&is)).count() as u64
}

/// Returns the message when no access is counted; `filtered`: a filter selected the accesses.
#[must_use]
pub fn describe_accesses(opened: &SourceRecording, filtered: bool) -> String {
    if opened.recording.api().is_some() {
        return "no register accesses; `launches` and `kernels` count calls".to_owned();
    }
    let undecoded = count(opened, |k| k == EventKind::Undecoded);
    let decoded = count(opened, |k| matches!(k, EventKind::Read | EventKind::Write));
    match (decoded, undecoded) {
        (0, 0) => "no register accesses; `events` lists the events".to_owned(),
        (0, n) => format!(
            "no register accesses with a value; `events --where undecoded` lists {}",
            if n == 1 {
                "1 access without one".to_owned()
            } else {
                format!("{n} accesses without one")
            }
        ),
        _ if filtered => "no access passes the filter".to_owned(),
        _ => "no register accesses".to_owned(),
    }
}

/// Returns the error for a job that does not exist in a recording with `count` jobs.
#[must_use]
pub fn no_such_job(job: u64, count: u64, opened: &SourceRecording) -> Failure {
    let why = match count {
        0 => describe_jobs(opened),
        n => format!("the recording has {}, counted from 0", format_count(n, "job")),
    };
    Failure::file(&opened.file, format!("job {job} does not exist ({why})"))
}

/// Returns the message when there is no job.
#[must_use]
pub fn describe_jobs(opened: &SourceRecording) -> String {
    if opened.recording.api().is_some() {
        let launches = count(opened, |k| k == EventKind::Launch);
        let launches = match launches {
            1 => "1 launch".to_owned(),
            n => format!("{n} launches"),
        };
        return format!("no jobs: this recording is an API trace with {launches}; `launches` lists them");
    }
    let submits = count(opened, |k| k == EventKind::Submit);
    if submits > 0 && opened.map.is_none() {
        let submits = format_count(submits, "submit");
        return format!("no jobs: no register map knows the device, so the {submits} cannot be followed to their ends");
    }
    match opened.map {
        Some(_) => "no jobs".to_owned(),
        None => "no jobs: no register map knows the device".to_owned(),
    }
}
