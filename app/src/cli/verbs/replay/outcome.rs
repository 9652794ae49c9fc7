//! Text output of a replay outcome on the terminal.

use crate::cli::findings::json_name;
use crate::cli::out::{format_count, format_duration};
use crate::cli::{Failure, Out, format_hex};
use kinescope_files::values;
use kinescope_session::replay::describe_uncompared;
use replay_engine::run::{ApiOutcome, FaultReport, JobOutcome, Outcome, OutputBuffer};
use trace_core::families::Family;
use trace_core::finding::FindingKind;
use trace_core::recording::{ChainReport, ElementType};
use trace_core::registers::RegisterMap;

/// Maximum number of divergences shown; JSON has up to a thousand.
const MAX_SHOWN_DIVERGENCES: usize = 20;
/// Maximum number of outputs shown for a replay of an API trace; JSON has all.
const MAX_SHOWN_OUTPUTS: usize = 24;

/// Maximum number of findings shown of one kind; JSON has all.
const MAX_SHOWN_FINDINGS: usize = 3;
/// Maximum number of characters shown of a finding.
const MAX_FINDING_CHARS: usize = 160;
/// Maximum number of elements of an output that is shown by value.
const MAX_SHOWN_VALUES: usize = 16;

/// Replay details that an outcome does not contain.
pub struct OutcomeContext<'a> {
    /// Target name as the user gave it.
    pub target: &'a str,
    /// Number of events of the recording.
    pub events: usize,
    /// Register map of the recording.
    pub map: Option<&'static RegisterMap>,
    /// GPU family of the recording.
    pub family: &'static dyn Family,
    /// For which model the plan was, if not for the recorded one.
    pub model: Option<String>,
    /// Whether to show every job, not only those that did not succeed.
    pub jobs: bool,
    /// Description of the screen at the end and how it differs from the expected one; `None` if there is no screen.
    pub screen: Option<String>,
}

/// Prints an outcome; `time` describes the duration of the runs.
pub fn print(o: &Outcome, of: &OutcomeContext<'_>, time: String, out: &mut Out) -> Result<(), Failure> {
    // Reads are a small part of the work if no shader ran, so the verdict itself includes that.
    let verdict = o.verdict_line();
    let what = if o.api().is_some() {
        "compared outputs"
    } else {
        "compared reads"
    };
    match o.api().and_then(describe_free_outputs) {
        Some(text) if o.reads.compared == 0 => out.line(format_args!("{verdict}: {text}"))?,
        message => match describe_uncompared(o) {
            Some(text) => out.line(format_args!("{verdict}: {text}"))?,
            None => print_counts(o, &verdict, what, message, out)?,
        },
    }
    if let Some(why) = &o.failure {
        out.line(format_args!("  {why}"))?;
    }
    if let Some(calls) = o.api() {
        return print_api_outcome(o, calls, of, time, out);
    }
    print_divergences(o, of.map, out)?;
    for e in o.effects().iter().filter(|e| e.matched != Some(true)) {
        out.line(format_args!(
            "  {}: {} expected ({}), {}",
            e.kind, e.expected, e.source, e.got
        ))?;
    }
    print_findings(o, out)?;
    for f in &o.faults {
        print_fault(f, out)?;
    }
    out.line("")?;
    out.table(&summary(o, of, time))?;
    print_jobs(o, of, out)
}

/// Prints how many values were as recorded. `what` names them, and `more` adds a sentence.
fn print_counts(o: &Outcome, verdict: &str, what: &str, more: Option<String>, out: &mut Out) -> Result<(), Failure> {
    let more = more.map_or_else(String::new, |t| format!("; {t}"));
    let (matched, compared) = (o.reads.matched, o.reads.compared);
    Ok(out.line(format_args!(
        "{verdict}: {matched} of {compared} {what} as recorded{more}"
    ))?)
}

/// Prints the findings of the replay: the first few of each kind, cut to one line, and the number of the others.
fn print_findings(o: &Outcome, out: &mut Out) -> Result<(), Failure> {
    let mut seen: Vec<(FindingKind, usize)> = Vec::new();
    for f in o.findings() {
        let at = seen.iter().position(|s| s.0 == f.kind).unwrap_or_else(|| {
            seen.push((f.kind, 0));
            seen.len() - 1
        });
        let Some((_, count)) = seen.get_mut(at) else { continue };
        *count += 1;
        if *count > MAX_SHOWN_FINDINGS {
            continue;
        }
        // A user knows a job by its number and a device by its address.
        let job = o.jobs().iter().find(|j| Some(j.submit_event) == f.event);
        let place = match job.zip(f.place.strip_prefix("job ")) {
            Some((job, at)) => format!("job {} ({at})", job.index),
            None => f.place.clone(),
        };
        out.line(format_args!("  {}", truncate_line(&format!("{place}: {}", f.message))))?;
    }
    for (kind, count) in seen.iter().filter(|s| s.1 > MAX_SHOWN_FINDINGS) {
        let more = format_count((count - MAX_SHOWN_FINDINGS) as u64, "more finding");
        out.line(format_args!("  {more} of kind {} (--json lists them)", json_name(kind)))?;
    }
    Ok(())
}

/// Truncates a line with `…` if it is too long.
fn truncate_line(line: &str) -> String {
    match line.char_indices().nth(MAX_FINDING_CHARS) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or(line)),
        None => line.to_owned(),
    }
}

/// Describes an output: its values if there are few, and the digest of its bytes.
fn describe_output(b: &OutputBuffer) -> String {
    let bytes = format!(
        "{}, blake3 {}",
        format_count(b.data.len() as u64, "byte"),
        blake3::Hash::from_bytes(b.blake3).to_hex()
    );
    let size = b.element.bytes().max(1);
    match b.data.len() / size {
        1..=MAX_SHOWN_VALUES => {
            let values = b.data.chunks_exact(size).map(|v| value(b.element, v));
            format!("{} ({bytes})", values.collect::<Vec<_>>().join(" "))
        }
        _ => bytes,
    }
}

/// Formats a value for display.
fn value(element: ElementType, bytes: &[u8]) -> String {
    match values::element_f64(element, bytes) {
        Some(v) if v.fract() != 0.0 && (1e-3..1e6).contains(&v.abs()) => format!("{v:.4}"),
        _ => values::format_element(element, bytes),
    }
}

/// Describes outputs without an expected value, because the user changed the inputs; `None` if there are none.
fn describe_free_outputs(calls: &ApiOutcome) -> Option<String> {
    let (differ, all) = calls.free_outputs();
    let verb = if differ == 1 { "differs" } else { "differ" };
    (all > 0).then(|| {
        format!(
            "with your inputs {differ} of {} {verb} from the recording",
            format_count(all, "output")
        )
    })
}

/// Prints a replay of an API trace: its outputs and its costs.
fn print_api_outcome(
    o: &Outcome,
    calls: &ApiOutcome,
    of: &OutcomeContext<'_>,
    time: String,
    out: &mut Out,
) -> Result<(), Failure> {
    let differ = calls.outputs.iter().filter(|s| s.differs_at.is_some());
    for seen in differ.clone().take(MAX_SHOWN_DIVERGENCES) {
        let largest = seen.largest.map_or_else(String::new, |l| format!(", by {l} at most"));
        out.line(format_args!(
            "  event {}: {} differs from byte {} on, {} in all{largest}",
            seen.event,
            seen.name,
            seen.differs_at.unwrap_or(0),
            format_count(seen.differing, "element"),
        ))?;
    }
    let more = differ.count().saturating_sub(MAX_SHOWN_DIVERGENCES);
    if more > 0 {
        out.line(format_args!("  and {more} more (--json lists them)"))?;
    }
    out.line("")?;
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("Target", of.target.to_owned()),
        row("Device", o.device.clone()),
        row(
            "Launches",
            format!("{}{}", calls.launches, if calls.graph { ", as one graph" } else { "" }),
        ),
        row("Memory", format!("{} mapped", format_count(calls.mapped, "byte"))),
        row("Ready", describe_ready_time(calls)),
        row("Time", time),
        row("Uploaded", format_count(o.pushed_bytes, "byte")),
    ];
    if let (Some(max), Some(min)) = (calls.restored.iter().max(), calls.restored.iter().min()) {
        let pages = if max == min {
            max.to_string()
        } else {
            format!("{min} to {max}")
        };
        rows.push(row(
            "Restored",
            format!("{pages} pages of 4 KiB before each run but the first"),
        ));
    }
    for words in &calls.left_out {
        rows.push(row("Omitted", words.clone()));
    }
    for b in o.outputs.iter().take(MAX_SHOWN_OUTPUTS) {
        let seen = calls.outputs.iter().find(|s| s.name == b.name);
        let how = match seen {
            Some(s) if s.differs_at.is_some() => "differs",
            Some(s) if s.held => "as recorded",
            _ => "not in the recording",
        };
        rows.push(row(
            &format!("Output {}", b.name),
            format!(
                "{}, {how}, blake3 {}",
                format_count(b.data.len() as u64, "byte"),
                blake3::Hash::from_bytes(b.blake3).to_hex()
            ),
        ));
    }
    if o.outputs.len() > MAX_SHOWN_OUTPUTS {
        let more = o.outputs.len() - MAX_SHOWN_OUTPUTS;
        rows.push(row("Outputs", format!("{more} more (--json lists them)")));
    }
    Ok(out.table(&rows)?)
}

fn print_divergences(o: &Outcome, map: Option<&RegisterMap>, out: &mut Out) -> Result<(), Failure> {
    let means = |register: &str, value: u64| {
        let register = map.and_then(|m| m.find_by_name(register));
        match register.map(|r| r.describe(value)).filter(|m| !m.is_empty()) {
            Some(meaning) => format!("{} ({meaning})", format_hex(value)),
            None => format_hex(value),
        }
    };
    for d in o.divergences.iter().take(MAX_SHOWN_DIVERGENCES) {
        let job = d.job.map_or_else(String::new, |j| format!(", in job {j}"));
        let how = if d.class == "until" {
            "the poll ended on"
        } else {
            "recorded"
        };
        out.line(format_args!(
            "  event {}: {} read {}, {how} {}{job}",
            d.event,
            d.register,
            means(&d.register, d.got),
            means(&d.register, d.expected),
        ))?;
    }
    let more = o
        .divergence_count
        .saturating_sub(o.divergences.len().min(MAX_SHOWN_DIVERGENCES) as u64);
    if more > 0 {
        out.line(format_args!("  and {more} more (--json lists up to 1000)"))?;
    }
    Ok(())
}

fn print_fault(f: &FaultReport, out: &mut Out) -> Result<(), Failure> {
    out.line("")?;
    let job = f.job.map_or_else(String::new, |j| format!("job {j}, "));
    out.line(format_args!("Fault or hang, {job}seen at event {}", f.event))?;
    out.line(format_args!("  exception {}", f.exception))?;
    if let Some(at) = f.address {
        let near = match &f.nearest_buffer {
            Some((name, 0)) => format!(", inside buffer '{name}'"),
            Some((name, distance)) => format!(", {} from buffer '{name}'", format_count(*distance, "byte")),
            None => String::new(),
        };
        out.line(format_args!("  at {at}{near}"))?;
    }
    let mut rows = Vec::new();
    for r in &f.registers {
        rows.push(vec![format!("    {}", r.name), format_hex(r.value), r.means.clone()]);
    }
    if !rows.is_empty() {
        out.line("  registers")?;
        out.table(&rows)?;
    }
    if !f.walk.is_empty() {
        out.line("  how the address translates")?;
        for line in &f.walk {
            out.line(format_args!("    {line}"))?;
        }
    }
    Ok(())
}

fn summary(o: &Outcome, of: &OutcomeContext<'_>, time: String) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let done = o.jobs().iter().filter(|j| j.done).count();
    let rewrites: Vec<String> = o.rewrites.iter().map(|(k, n)| format!("{} {n}", k.name())).collect();
    let mut rows = vec![row("Target", of.target.to_owned())];
    rows.extend(of.model.as_ref().map(|model| row("Model", model.clone())));
    rows.extend([
        row("Jobs", format!("{done} of {} done", o.jobs().len())),
        row("Computed", describe_computed(o)),
        row(
            "Actions",
            format!(
                "{} for {}, {}",
                o.actions,
                format_count(of.events as u64, "event"),
                format_count(o.interrupts(), "interrupt")
            ),
        ),
        row(
            "Rewrites",
            if rewrites.is_empty() {
                "none".into()
            } else {
                rewrites.join(", ")
            },
        ),
        row("Effects", describe_effects(o)),
        row("Device", format!("{} on its own clock", format_duration(o.device_ns))),
        row("Time", time),
        row("Uploaded", format_count(o.pushed_bytes, "byte")),
    ]);
    if o.accesses().is_some_and(|a| a.mastered_bus) {
        let message = "the device read and wrote memory by itself while the plan ran; it was stopped again";
        rows.push(row("Bus", message.to_owned()));
    }
    if let Some(screen) = &of.screen {
        rows.push(row("Screen", screen.clone()));
    }
    for b in &o.outputs {
        rows.push(row(&format!("Output {}", b.name), describe_output(b)));
    }
    rows
}

/// Describes how many expected effects occurred, and which ones could not be checked.
fn describe_effects(o: &Outcome) -> String {
    let there = o.effects().iter().filter(|e| e.matched == Some(true)).count();
    let unseen = o.effects().iter().filter(|e| e.matched.is_none()).count();
    let mut message = match o.effects().len() {
        0 => "none expected besides the reads".to_owned(),
        all => format!("{there} of {all} as expected"),
    };
    if unseen > 0 {
        message.push_str(&format!(", {unseen} not checked"));
    }
    for what in o.accesses().map_or(&[][..], |a| &a.unchecked) {
        message.push_str("; ");
        message.push_str(what);
    }
    message
}

/// Describes whether the outputs contain the results of the jobs, and if not, why.
fn describe_computed(o: &Outcome) -> String {
    if o.computed {
        let ran = o.jobs().iter().any(|j| j.computed == Some(true));
        return if ran {
            "yes, every shader ran"
        } else {
            "yes, no job runs a shader"
        }
        .to_owned();
    }
    let of = o.count_uncomputed();
    let mut why = Vec::new();
    if of.unfinished > 0 {
        let all = format_count(o.jobs().len() as u64, "job");
        why.push(format!("{} of {all} did not end as done", of.unfinished));
    }
    if of.unrun > 0 {
        why.push(format!("the shaders of {} did not run", format_count(of.unrun, "job")));
    }
    if why.is_empty() {
        return "no: the run did not end".to_owned();
    }
    format!("no: {}, so their results are not in the outputs", why.join(", "))
}

fn print_jobs(o: &Outcome, of: &OutcomeContext<'_>, out: &mut Out) -> Result<(), Failure> {
    let shown: Vec<&JobOutcome> = o.jobs().iter().filter(|j| of.jobs || !j.done).collect();
    if shown.is_empty() {
        return Ok(());
    }
    let head = ["Job", "Submit", "Head", "Ended", "Shaders", "Device time"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for j in shown {
        let ended = match j.status {
            Some(ChainReport::DONE) => "done".to_owned(),
            Some(code) => format!("{code:#04x} {}", of.family.status_name(code)),
            None => "never".to_owned(),
        };
        let shaders = match j.computed {
            Some(true) => "ran",
            Some(false) => "not run",
            None => "-",
        };
        let time = match j.duration_ns {
            0 if !j.done => "-".to_owned(),
            ns => format_duration(ns),
        };
        rows.push(vec![
            j.index.to_string(),
            j.submit_event.to_string(),
            format_hex(j.head_va.get()),
            ended,
            shaders.to_owned(),
            time,
        ]);
    }
    out.line("")?;
    out.table(&rows)?;
    Ok(())
}

/// Describes how long the device took to become ready, and for what.
fn describe_ready_time(calls: &ApiOutcome) -> String {
    let p = calls.parts;
    let parts = [
        ("the driver", p.driver_ns),
        ("memory", p.memory_ns.saturating_add(p.first_ns)),
        ("code", p.code_ns),
        ("the plan", p.read_ns),
    ];
    // Leaves out parts that took no time, or that an agent did not report.
    let messages: Vec<String> = parts
        .iter()
        .filter(|(_, ns)| *ns > 0)
        .map(|(what, ns)| format!("{what} {}", format_duration(*ns)))
        .collect();
    match messages.is_empty() {
        true => format!("in {}", format_duration(calls.ready_ns)),
        false => format!("in {}: {}", format_duration(calls.ready_ns), messages.join(", ")),
    }
}

#[cfg(test)]
mod tests;
