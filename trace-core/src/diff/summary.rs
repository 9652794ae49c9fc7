//! Summary of a comparison in one sentence: the earliest cause, what follows from it, and what is the same.

use super::causes::Link;
use super::{BufferDiff, Cause, Diff, Effect, EventAlignment, JobPair};
use crate::recording::{BufferRole, Recording};
use serde::{Deserialize, Serialize};

/// Maximum number of names in a sentence; the rest are counted.
const MAX_LISTED_NAMES: usize = 3;

/// A part of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Events.
    Events,
    /// Matching driver calls, and code of launched functions.
    Calls,
    /// CPU writes.
    HostWrites,
    /// Descriptors of jobs.
    Descriptors,
    /// Page table mappings.
    Mappings,
    /// Named buffers.
    Buffers,
    /// Memory at the end.
    Pages,
}

/// The summary of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Whether nothing that is compared differs.
    pub same: bool,
    /// The part that contains the earliest cause; `None` if nothing differs.
    pub part: Option<Part>,
    /// One sentence: the earliest cause, what follows from it, and what is the same.
    pub sentence: String,
    /// A sentence on what could not be compared; empty if everything was.
    pub not_compared: String,
}

/// Formats a number with a comma between groups of three digits.
#[must_use]
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn format_count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", group_digits(n), if n == 1 { one } else { many })
}

/// Formats a list: `a`, `a and b`, `a, b and c`, `a, b, c and 2 more`.
fn format_list(names: &[&str]) -> String {
    let shown = names.get(..names.len().min(MAX_LISTED_NAMES)).unwrap_or_default();
    let more = names.len() - shown.len();
    match (shown, more) {
        ([], _) => String::new(),
        (shown, 1..) => format!("{} and {more} more", shown.join(", ")),
        ([one], 0) => (*one).to_owned(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
    }
}

/// Summarizes a comparison by its causes, which [`super::find_causes()`] returns.
#[must_use]
pub fn summarize(
    (a, b): (&Recording, &Recording),
    (diff, aligned): (&Diff, &EventAlignment),
    causes: &[Cause],
) -> Summary {
    let same = diff.is_empty();
    let telling = Summarizer {
        a,
        b,
        diff,
        aligned,
        causes,
    };
    let not_compared = not_compared(diff);
    let (part, sentence) = match telling.find_earliest() {
        _ if same && not_compared.is_empty() => (None, "No difference.".to_owned()),
        _ if same => (None, "No difference in the compared parts.".to_owned()),
        Some((part, cause)) => {
            let sentence = format!(
                "{cause}{}{}.",
                telling.describe_follow_up(part),
                telling.describe_equal()
            );
            (Some(part), sentence)
        }
        None => (None, "They differ.".to_owned()),
    };
    Summary {
        same,
        part,
        sentence,
        not_compared,
    }
}

/// Describes which outputs were not compared, and why.
fn not_compared(diff: &Diff) -> String {
    let n = diff.not_computed;
    let side = |n: u64, all: u64, of: &str| (n > 0).then(|| format!("{} of {} of {of}", group_digits(n), jobs(all)));
    let sides = [
        side(n.a, diff.jobs.0, "the first"),
        side(n.b, diff.jobs.1, "the second"),
    ];
    let sides: Vec<String> = sides.into_iter().flatten().collect();
    if sides.is_empty() {
        return String::new();
    }
    format!("Outputs not compared: not computed ({}).", sides.join(", "))
}

fn jobs(n: u64) -> String {
    format_count(n, "job", "jobs")
}

/// Returns the job of an interval in the usual numbering; `None` before the first job.
fn job_index(pair: JobPair) -> Option<u32> {
    pair.a.or(pair.b)?.checked_sub(1)
}

struct Summarizer<'r> {
    a: &'r Recording,
    b: &'r Recording,
    diff: &'r Diff,
    aligned: &'r EventAlignment,
    causes: &'r [Cause],
}

impl<'r> Summarizer<'r> {
    fn role(&self, name: &str) -> BufferRole {
        let of = |r: &Recording| r.buffer(name).map(|b| b.role);
        of(self.a).or_else(|| of(self.b)).unwrap_or(BufferRole::Shared)
    }

    fn differing(&self) -> impl Iterator<Item = &'r BufferDiff> + '_ {
        self.diff.buffers.iter().filter(|d| d.differs())
    }

    /// Returns the steps that lead to the difference in a buffer, if they are known.
    fn steps_to(&self, name: &str) -> Option<&'r [super::CauseStep]> {
        let of_buffer = |c: &&Cause| matches!(&c.effect, Effect::Byte { buffer: Some(b), .. } if b == name);
        self.causes.iter().find(of_buffer).map(|c| c.steps.as_slice())
    }

    /// Returns the buffers that differ from the start: no job and no later store caused that.
    fn differing_at_start(&self) -> Vec<&'r BufferDiff> {
        let held = |name: &str| {
            let steps = self.causes.iter().flat_map(|c| &c.steps);
            steps
                .filter(|s| s.link == Link::Held)
                .any(|s| s.buffer.as_deref() == Some(name))
        };
        let begins = |d: &&BufferDiff| {
            let known = self.steps_to(&d.name);
            held(&d.name) || known.is_some_and(<[_]>::is_empty) && self.role(&d.name) != BufferRole::Output
        };
        self.differing().filter(begins).collect()
    }

    /// Returns the part with the earliest difference, and a description of that difference.
    fn find_earliest(&self) -> Option<(Part, String)> {
        let d = self.diff;
        let given = self.differing_at_start();
        if !given.is_empty() {
            return Some((Part::Buffers, self.buffers_differ(&given)));
        }
        let place = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min().unwrap_or(u64::MAX);
        let mut found: Vec<(u64, Part, String)> = Vec::new();
        if let Some(h) = d.host_writes.list.first() {
            let bytes = d.host_writes.changed + d.host_writes.only_a + d.host_writes.only_b;
            let when = describe_job(h.job, d.jobs);
            let what = format!("CPU writes {when} differ ({})", format_count(bytes, "byte", "bytes"));
            found.push((place(h.a, h.b), Part::HostWrites, what));
        }
        if let Some(e) = d.events.list.first() {
            let at = place(e.a, e.b);
            let what = match d.calls.find(e.a, e.b) {
                Some(_) => (Part::Calls, format!("Calls differ from event {} on", group_digits(at))),
                None => (Part::Events, self.events_differ(at, e.job)),
            };
            found.push((at, what.0, what.1));
        }
        if let Some(x) = d.descriptors.list.first() {
            let n = d.descriptors.count_differing();
            let of = job_index(x.job).map_or_else(String::new, |job| format!(" of job {job}"));
            let verb = if n == 1 { "differs" } else { "differ" };
            let what = match n {
                1 => format!("A descriptor ({}){of} {verb}", x.layout),
                n => format!("{} descriptors {verb}, first a {}{of}", group_digits(n), x.layout),
            };
            // Without different CPU writes, the buffers differ from the start.
            let at = match d.host_writes.list.is_empty() {
                true => 0,
                false => x.events.0.min(x.events.1),
            };
            found.push((at, Part::Descriptors, what));
        }
        let m = &d.mappings;
        let pages = m.changed + m.only_a + m.only_b + m.moved;
        if pages > 0 {
            let since = self.causes.iter().find(|c| matches!(c.effect, Effect::Mapping { .. }));
            let at = since.and_then(|c| c.steps.first()).map_or(0, |s| place(s.a, s.b));
            let verb = if pages == 1 { "differs" } else { "differ" };
            let what = format!("{} {verb}", format_count(pages, "mapped page", "mapped pages"));
            found.push((at, Part::Mappings, what));
        }
        // Of the differences at one position, the others follow from the first.
        let first = found
            .into_iter()
            .min_by_key(|f| f.0)
            .map(|(_, part, what)| (part, what));
        first.or_else(|| self.find_end_difference())
    }

    fn events_differ(&self, at: u64, job: JobPair) -> String {
        let of = job_index(job).map_or_else(|| " (before any job)".to_owned(), |job| format!(" (job {job})"));
        let n = self.diff.events.count_differing();
        let verb = if n == 1 { "differs" } else { "differ" };
        format!(
            "{} {verb}, first event {}{of}",
            format_count(n, "event", "events"),
            group_digits(at)
        )
    }

    /// Returns a difference at the end, if no event differs.
    fn find_end_difference(&self) -> Option<(Part, String)> {
        let d = self.diff;
        let buffers: Vec<&BufferDiff> = self.differing().collect();
        let p = &d.pages;
        let pages = p.changed + p.only_a + p.only_b;
        if !buffers.is_empty() {
            let mut what = self.buffers_differ(&buffers);
            if let Some(job) = self.find_producing_job(&buffers) {
                what.push_str(&format!(" after job {job}"));
            }
            return Some((Part::Buffers, what));
        }
        if pages > 0 {
            let what = format!("Memory at the end differs ({})", format_count(pages, "page", "pages"));
            return Some((Part::Pages, what));
        }
        if d.calls.count_differing() > 0 {
            return Some((Part::Calls, "The code of launched functions differs".to_owned()));
        }
        (d.jobs.0 != d.jobs.1).then(|| {
            let what = format!(
                "The first has {}, the second {}",
                jobs(d.jobs.0),
                group_digits(d.jobs.1)
            );
            (Part::Events, what)
        })
    }

    /// Formats differing buffers: `Input a differs (1,024 of 1,024)`.
    fn buffers_differ(&self, of: &[&BufferDiff]) -> String {
        let [one] = of else {
            let names: Vec<&str> = of.iter().map(|d| d.name.as_str()).collect();
            let role = of.first().map(|d| self.role(&d.name));
            let same_roles = of.iter().all(|d| Some(self.role(&d.name)) == role);
            let what = match role.filter(|_| same_roles) {
                Some(BufferRole::Input) => "Inputs",
                Some(BufferRole::Output) => "Outputs",
                _ => "Buffers",
            };
            return format!("{what} {} differ", format_list(&names));
        };
        let what = match self.role(&one.name) {
            BufferRole::Input => "Input",
            BufferRole::Output => "Output",
            _ => "Buffer",
        };
        match (&one.elements, one.a, one.b) {
            (Some(e), ..) if e.differ > 0 => {
                let (differ, all) = (group_digits(e.differ), group_digits(e.compared));
                format!("{what} {} differs ({differ} of {all})", one.name)
            }
            (_, Some(_), None) => format!("{what} {} is only in the first", one.name),
            (_, None, Some(_)) => format!("{what} {} is only in the second", one.name),
            _ => format!("{what} {} has another size", one.name),
        }
    }

    /// Returns the job after which all of these buffers differ, if the causes give one.
    fn find_producing_job(&self, of: &[&BufferDiff]) -> Option<u32> {
        let ran = |d: &&BufferDiff| {
            let steps = self.steps_to(&d.name)?;
            let step = steps.first().filter(|s| s.link == Link::Ran)?;
            let course = self
                .aligned
                .job_intervals()
                .iter()
                .find(|c| c.submits() == (step.a, step.b))?;
            job_index(course.job)
        };
        let all: Vec<Option<u32>> = of.iter().map(ran).collect();
        let first = all.first().copied().flatten()?;
        all.iter().all(|job| *job == Some(first)).then_some(first)
    }

    /// Describes what follows from the earliest cause: outputs, or memory if no output is named.
    fn describe_follow_up(&self, part: Part) -> String {
        let given: Vec<String> = self.differing_at_start().iter().map(|d| d.name.clone()).collect();
        let outputs: Vec<&BufferDiff> = self
            .differing()
            .filter(|d| self.role(&d.name) == BufferRole::Output && !given.contains(&d.name))
            .collect();
        let named_already = part == Part::Buffers && given.is_empty();
        if !outputs.is_empty() && !named_already {
            let names: Vec<&str> = outputs.iter().map(|d| d.name.as_str()).collect();
            let (noun, verb) = match names.len() {
                1 => ("output", "differs"),
                _ => ("outputs", "differ"),
            };
            let behind = self
                .find_producing_job(&outputs)
                .map_or_else(String::new, |job| format!(" after job {job}"));
            return format!(", so {noun} {} {verb}{behind}", format_list(&names));
        }
        let p = &self.diff.pages;
        let pages = p.changed + p.only_a + p.only_b;
        if pages > 0 && !matches!(part, Part::Pages | Part::Buffers) {
            return format!(
                ", and memory at the end differs ({})",
                format_count(pages, "page", "pages")
            );
        }
        String::new()
    }

    /// Describes the parts that are the same.
    fn describe_equal(&self) -> String {
        let d = self.diff;
        let m = &d.mappings;
        let h = &d.host_writes;
        let written = h.same + h.already;
        let same = [
            (d.events.count_differing() == 0 && d.events.equal > 0, "events"),
            (h.changed + h.only_a + h.only_b == 0 && written > 0, "the CPU's writes"),
            (
                d.descriptors.count_differing() == 0 && d.descriptors.same > 0,
                "descriptors",
            ),
            (
                m.changed + m.only_a + m.only_b + m.moved == 0 && m.same > 0,
                "page tables",
            ),
        ];
        let names: Vec<&str> = same.iter().filter(|s| s.0).map(|s| s.1).collect();
        match names.as_slice() {
            [] => String::new(),
            [one] if !one.ends_with('s') => format!("; {one} is the same"),
            [first @ .., last] if !first.is_empty() => format!("; {} and {last} are the same", first.join(", ")),
            names => format!("; {} are the same", names.join(", ")),
        }
    }
}

/// Describes between which jobs something happens that no job caused.
fn describe_job(pair: JobPair, jobs: (u64, u64)) -> String {
    let (n, all) = match (pair.a, pair.b) {
        (Some(n), _) => (n, jobs.0),
        (None, Some(n)) => (n, jobs.1),
        (None, None) => return "before any job".to_owned(),
    };
    match n.checked_sub(1) {
        Some(last) if u64::from(n) >= all => format!("after job {last}"),
        _ => format!("before job {n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_lists_are_formatted_for_reading() {
        for (n, text) in [(0, "0"), (999, "999"), (1024, "1,024"), (1_234_567, "1,234,567")] {
            assert_eq!(group_digits(n), text);
        }
        assert_eq!(format_list(&["a"]), "a");
        assert_eq!(format_list(&["a", "b"]), "a and b");
        assert_eq!(format_list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(format_list(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }

    #[test]
    fn uncomputed_jobs_are_reported_per_side() {
        let mut d = Diff {
            jobs: (60, 60),
            ..Diff::default()
        };
        assert_eq!(not_compared(&d), "");
        d.not_computed.b = 60;
        assert_eq!(
            not_compared(&d),
            "Outputs not compared: not computed (60 of 60 jobs of the second)."
        );
        d.not_computed.a = 1;
        assert_eq!(
            not_compared(&d),
            "Outputs not compared: not computed (1 of 60 jobs of the first, 60 of 60 jobs of the second)."
        );
    }
}
