//! Whether a replay ran the shaders of a job, and the reason if it did not.

use crate::Document;
use crate::jobs::JobFact;
use replay_engine::run::{JobOutcome, Outcome};
use trace_core::GpuVa;
use trace_core::families::{Family, JobWork, find_family};
use trace_core::finding::FindingKind;

/// A job of a chain.
#[derive(Clone, Copy, Debug)]
pub struct ChainEntry<'a> {
    /// GPU address of the header.
    pub va: GpuVa,
    /// Name of the type.
    pub kind: &'a str,
    /// Kind of work.
    pub work: JobWork,
}

/// Returns the outcome of a job in the last replay, and why it was not computed, if so.
#[must_use]
pub fn find_job_outcome(doc: &Document, job: &JobFact) -> Option<(JobOutcome, Option<String>)> {
    let o = doc.replay.outcome.as_ref()?;
    let at = o.jobs().binary_search_by_key(&job.submit, |x| x.submit_event).ok()?;
    let j = o.jobs().get(at)?.clone();
    let entries = job.chain.iter().map(|c| ChainEntry {
        va: c.va,
        kind: &c.kind,
        work: c.work,
    });
    let chain: Vec<ChainEntry<'_>> = entries.collect();
    let why = explain_uncomputed(o, &j, &chain, find_family(&doc.recording));
    Some((j, why))
}

/// Explains why the results of a job are not in the outputs. Returns `None` if they are, or if the job runs no shader.
/// `chain` lists the jobs of its chain, `family` is that of the recording.
#[must_use]
pub fn explain_uncomputed(
    o: &Outcome,
    j: &JobOutcome,
    chain: &[ChainEntry<'_>],
    family: &dyn Family,
) -> Option<String> {
    if !j.done {
        let why = match j.status {
            None => "it never ended".to_owned(),
            Some(code) => format!("it ended with {}", family.status_name(code)),
        };
        return Some(why);
    }
    if j.computed != Some(false) {
        return None;
    }
    // A finding names its jobs by address.
    let findings = o.findings().iter().filter(|f| f.kind == FindingKind::ShaderNotRun);
    let names = |place: &str, va: GpuVa| {
        let at = va.to_string();
        place.split([' ', ',']).any(|word| word == at)
    };
    let report = findings
        .filter(|f| names(&f.place, j.head_va) || chain.iter().any(|c| names(&f.place, c.va)))
        // If several jobs share an address, prefer the finding with the submit of this one.
        .max_by_key(|f| f.event == Some(j.submit_event));
    if let Some(f) = report {
        return Some(f.message.clone());
    }
    Some(match chain.iter().find(|c| c.work == JobWork::Draw) {
        Some(ChainEntry { kind, .. }) => format!("{kind} jobs complete without running their shader on this target"),
        None => "the target did not run its shader and gave no reason".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::run::{AccessOutcome, OutcomeBody};
    use trace_core::GpuVa;
    use trace_core::Recording;
    use trace_core::finding::Finding;

    fn job(submit_event: u64, computed: Option<bool>, status: Option<u8>) -> JobOutcome {
        JobOutcome {
            index: 0,
            submit_event,
            head_va: GpuVa::new(0xa0),
            done: status == Some(1),
            status,
            computed,
            duration_ns: 1,
        }
    }

    #[test]
    fn uncomputed_jobs_show_a_reason() {
        let mut o = Outcome::unfinished("board".into(), OutcomeBody::Accesses(AccessOutcome::default()));
        let not_run = |location: &str, why: &str| Finding::new(FindingKind::ShaderNotRun, location, why);
        o.accesses_mut().unwrap().findings = vec![
            not_run("jobs 0xa00, 0xa0 and 3 more", "it holds what is not known").at_event(7),
            not_run("job 0xa0", "its memory is not there").at_event(9),
        ];
        let done = Some(1);
        let family = find_family(&Recording::default());
        let explain = |o: &Outcome, j: JobOutcome, chain: &[ChainEntry<'_>]| explain_uncomputed(o, &j, chain, family);
        assert_eq!(explain(&o, job(7, Some(true), done), &[]), None);
        assert_eq!(explain(&o, job(7, None, done), &[]), None);
        let why = |submit, chain: &[ChainEntry<'_>]| explain(&o, job(submit, Some(false), done), chain).unwrap();
        assert_eq!(why(7, &[]), "it holds what is not known");
        assert_eq!(why(9, &[]), "its memory is not there");
        assert!(
            explain(&o, job(9, Some(false), None), &[])
                .unwrap()
                .contains("never ended")
        );
        o.accesses_mut().unwrap().findings.clear();
        let why = |chain: &[ChainEntry<'_>]| explain(&o, job(7, Some(false), done), chain).unwrap();
        let entry = |va, kind, work| ChainEntry {
            va: GpuVa::new(va),
            kind,
            work,
        };
        let drawn = [
            entry(0xa0, "vertex", JobWork::Draw),
            entry(0xb0, "tiler", JobWork::Draw),
        ];
        assert!(why(&drawn).starts_with("vertex jobs complete"));
        assert!(why(&[entry(0xa0, "compute", JobWork::Compute)]).contains("gave no reason"));
    }
}
