//! `pushbuffer`: decodes the push buffer of a submission into methods and launches, or lists all submissions.

use crate::cli::driver_trace::{JoinedCalls, format_known, load, name_channel, name_object};
use crate::cli::source::{Source, SourceRecording};
use crate::cli::{Exit, Failure, Out, Verb, format_hex, progress_line};
use clap::{Args, FromArgMatches as _};
use serde::{Serialize, Serializer};
use trace_core::channel_names::ChannelNames;
use trace_core::driver_trace::{
    DecodedMethod, DecodedSubmission, DriverTrace, GpuWork, Submission, SubmittedLaunch, SubmittedParameter,
};
use trace_core::families::find_submission_decoder;

pub const VERB: Verb = Verb {
    name: "pushbuffer",
    about: "Decode a push buffer into methods and launches, or list all submissions",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Decode this submission, counted from 0 in event order
    #[arg(long, value_name = "N")]
    submit: Option<u32>,
}

/// A submission in the list of all.
#[derive(Serialize)]
struct SubmissionRow {
    /// Number, and its event.
    submit: u32,
    event: u64,
    /// Handle of the channel; `null` if the recording does not state it.
    channel: Option<String>,
    /// GPU address and size of the commands.
    address: String,
    bytes: u64,
    /// Event of its doorbell; `null` if it is not recorded.
    doorbell_event: Option<u64>,
    /// Number of launches.
    launches: usize,
    /// The call that made it; `null` without one, or if the recording does not hold calls.
    call: Option<CallRow>,
}

/// The call of a submission, with its name.
#[derive(Serialize)]
struct CallRow {
    /// Its event.
    event: u64,
    /// Name of its function, or `launch of KERNEL`, `copy`, `fill`, `order` or `allocation`.
    name: String,
}

/// A method, with a value for an engine. The engine keeps fields as pairs.
#[derive(Serialize)]
struct MethodRow<'a> {
    /// Subchannel.
    subchannel: u8,
    /// Class of the engine; `null` if the subchannel has none.
    class: Option<String>,
    /// Byte address of the method, and its name; `null` if no table has it.
    method: String,
    name: Option<&'a str>,
    /// The value.
    value: String,
    /// Fields of the value by name.
    #[serde(serialize_with = "as_map")]
    fields: &'a [(String, String)],
}

/// A launch, after the method that starts it. The engine keeps the buffer of a parameter as an index.
#[derive(Serialize)]
struct LaunchRow {
    /// Blocks and threads of a block, by dimension.
    grid: [u32; 3],
    block: [u32; 3],
    /// Shared memory of a block, bytes.
    shared: u64,
    /// Registers of a thread.
    registers: u32,
    /// Words of constant bank 0 that are parameters.
    parameters: Vec<ParameterRow>,
    /// Name of the kernel; `null` if it is not certain.
    kernel: Option<String>,
    /// The call that made the submission; `null` without one, or if the recording does not hold calls.
    call: Option<CallRow>,
}

/// A word of the parameters.
#[derive(Serialize)]
struct ParameterRow {
    /// Offset in the parameters, and size: 8 for an address in a buffer, else at most 4.
    offset: u32,
    bytes: u32,
    /// The value.
    value: String,
    /// The buffer that the value points into: its handle, or its number if the source states no handles; else `null`.
    buffer: Option<String>,
}

fn as_map<S: Serializer>(fields: &&[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(fields.iter().map(|(name, value)| (name, value)))
}

/// An element of the output: a method or a launch.
#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    /// A method.
    Method(MethodRow<'a>),
    /// A launch.
    Launch(LaunchRow),
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let trace = load(&opened)?;
    let Some(n) = arguments.submit else {
        return list(&opened, &trace, out);
    };
    let all = trace.submissions();
    let Some(submission) = all.get(n as usize) else {
        let message = format!(
            "submission {n} does not exist (the recording has {}, counted from 0)",
            all.len()
        );
        return Err(Failure::file(&opened.file, message));
    };
    let joined = JoinedCalls::load(&opened, &trace, true)?;
    let mut decoded = DecodedSubmission::default();
    decode(&opened, &trace, n as usize + 1, |s, d| {
        if s.index == n {
            decoded = d;
        }
    })?;
    if out.is_json() {
        let items = decoded.methods.iter().flat_map(|m| {
            let launches = decoded.work.iter().filter_map(|w| match w {
                GpuWork::Launch(l) if l.word == m.word => Some(Item::Launch(launch_row(l, &trace, n, joined.as_ref()))),
                _ => None,
            });
            std::iter::once(Item::Method(method_row(m))).chain(launches.collect::<Vec<_>>())
        });
        out.array(items)?;
    } else {
        let names = ChannelNames::from_recording(&opened.recording);
        print_text(submission, &decoded, (&trace, &names, joined.as_ref()), out)?;
    }
    match decoded.error {
        Some(why) => Err(Failure::file(&opened.file, format!("submission {n}: {why}"))),
        None => Ok(Exit::Good),
    }
}

/// Decodes the first `count` submissions in order.
fn decode(
    opened: &SourceRecording,
    trace: &DriverTrace,
    count: usize,
    mut each: impl FnMut(&Submission, DecodedSubmission),
) -> Result<(), Failure> {
    let Some(mut decoder) = find_submission_decoder(&opened.recording, trace) else {
        return Err(Failure::file(
            &opened.file,
            "the program cannot decode the commands of this GPU",
        ));
    };
    progress_line::run_with_progress("decoding push buffers", |progress, _| {
        progress.set_total(count as u64);
        for submission in trace.submissions().iter().take(count) {
            each(submission, decoder.decode(submission));
            progress.advance(1).map_err(|e| Failure::file(&opened.file, e))?;
        }
        Ok(())
    })
}

/// Returns the call of a submission.
fn call_row(submission: u32, joined: Option<&JoinedCalls<'_>>) -> Option<CallRow> {
    let (event, name) = joined?.call_of(submission)?;
    Some(CallRow { event, name })
}

fn list(opened: &SourceRecording, trace: &DriverTrace, out: &mut Out) -> Result<Exit, Failure> {
    let joined = JoinedCalls::load(opened, trace, false)?;
    let names = ChannelNames::from_recording(&opened.recording);
    let (mut rows, mut channels) = (Vec::new(), Vec::new());
    decode(opened, trace, trace.submissions().len(), |s, decoded| {
        let channel = trace
            .channels()
            .get(s.channel)
            .and_then(|c| trace.objects().get(c.object));
        let launches = decoded.work.iter().filter(|w| matches!(w, GpuWork::Launch(_)));
        channels.push(name_channel(&names, trace, s));
        rows.push(SubmissionRow {
            submit: s.index,
            event: s.event,
            channel: format_known(channel.and_then(|o| o.handle)),
            address: s.va.to_string(),
            bytes: s.bytes,
            doorbell_event: s.doorbell,
            launches: launches.count(),
            call: call_row(s.index, joined.as_ref()),
        });
    })?;
    if out.is_json() {
        out.array(rows)?;
        return Ok(Exit::Good);
    }
    let head = [
        "Submit", "Event", "Channel", "Address", "Bytes", "Doorbell", "Launches", "Call",
    ];
    // Only a recording of both levels has calls.
    let columns = if joined.is_some() { head.len() } else { head.len() - 1 };
    let mut table = vec![head.map(str::to_owned).to_vec()];
    for (r, channel) in rows.iter().zip(channels) {
        let call = r.call.as_ref().map(|c| format!("{} {}", c.event, c.name));
        table.push(vec![
            r.submit.to_string(),
            r.event.to_string(),
            channel.unwrap_or_else(|| "-".to_owned()),
            r.address.clone(),
            r.bytes.to_string(),
            r.doorbell_event.map_or_else(|| "-".to_owned(), |e| e.to_string()),
            r.launches.to_string(),
            call.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table.iter_mut().for_each(|row| row.truncate(columns));
    out.table(&table)?;
    if rows.is_empty() {
        out.line("no submissions: the source holds no ring entries")?;
    }
    Ok(Exit::Good)
}

fn method_row(m: &DecodedMethod) -> MethodRow<'_> {
    MethodRow {
        subchannel: m.subchannel,
        class: m.class.map(|c| format!("{c:#x}")),
        method: format!("{:#06x}", m.method),
        name: m.name.as_deref(),
        value: format_hex(u64::from(m.value)),
        fields: &m.fields,
    }
}

fn launch_row(
    launch: &SubmittedLaunch,
    trace: &DriverTrace,
    submission: u32,
    joined: Option<&JoinedCalls<'_>>,
) -> LaunchRow {
    let kernel = joined.and_then(|j| j.kernel_of(submission, launch.word));
    let parameter = |p: &SubmittedParameter| ParameterRow {
        offset: p.offset,
        bytes: p.bytes,
        value: format_hex(p.value),
        buffer: p
            .buffer
            .and_then(|(n, _)| Some(name_object(trace.objects().get(n)?, n))),
    };
    LaunchRow {
        grid: launch.grid,
        block: launch.block,
        shared: launch.shared,
        registers: launch.registers,
        parameters: launch.parameters.iter().map(parameter).collect(),
        kernel: kernel.map(|(name, _)| name.to_owned()),
        call: call_row(submission, joined),
    }
}

fn print_text(
    submission: &Submission,
    decoded: &DecodedSubmission,
    (trace, names, joined): (&DriverTrace, &ChannelNames, Option<&JoinedCalls<'_>>),
    out: &mut Out,
) -> Result<(), Failure> {
    let channel = trace.channels().get(submission.channel).map(|c| c.object);
    let channel = channel.and_then(|n| Some(name_object(trace.objects().get(n)?, n)));
    let name = name_channel(names, trace, submission).unwrap_or_default();
    out.line(format!(
        "submission {}, event {}, channel {} ({name}): {} bytes at {}",
        submission.index,
        submission.event,
        channel.unwrap_or_default(),
        submission.bytes,
        submission.va
    ))?;
    if let Some(call) = call_row(submission.index, joined) {
        out.line(format!("call: {}, event {}", call.name, call.event))?;
    }
    for m in &decoded.methods {
        let name = m.name.clone().unwrap_or_else(|| format!("method {:#06x}", m.method));
        let class = m.class.map_or_else(|| "no class".to_owned(), |c| format!("{c:04x}"));
        let fields: Vec<String> = m.fields.iter().map(|(n, v)| format!("{n}={v}")).collect();
        out.line(
            format!(
                "{:6}  {} {class}  {name} = {:#x}  {}",
                m.word,
                m.subchannel,
                m.value,
                fields.join(" ")
            )
            .trim_end(),
        )?;
        for work in decoded.work.iter().filter(|w| w.word() == m.word) {
            out.line(format!("        {}", describe_work(work, trace, submission.event)))?;
            if let GpuWork::Launch(launch) = work {
                if let Some((name, kernel)) = joined.and_then(|j| j.kernel_of(submission.index, work.word())) {
                    let event = kernel
                        .event
                        .map_or_else(String::new, |e| format!(", launched at event {e}"));
                    out.line(format!("          kernel {name}{event}"))?;
                }
                for p in &launch.parameters {
                    out.line(format!("          {}", describe_parameter(p, trace)))?;
                }
            }
        }
    }
    Ok(())
}

fn describe_parameter(p: &SubmittedParameter, trace: &DriverTrace) -> String {
    let buffer = p.buffer.and_then(|(n, offset)| {
        let name = name_object(trace.objects().get(n)?, n);
        Some(format!(" -> buffer {name}+{offset:#x}"))
    });
    format!(
        "parameter +{:#x}: {:#x}{}",
        p.offset,
        p.value,
        buffer.unwrap_or_default()
    )
}

/// Describes work of a submission at an event.
fn describe_work(work: &GpuWork, trace: &DriverTrace, event: u64) -> String {
    let three = |d: [u32; 3]| format!("{}x{}x{}", d[0], d[1], d[2]);
    match work {
        GpuWork::Launch(l) => format!(
            "launch: grid {}, block {}, {} bytes of shared memory, {} registers, code at {}",
            three(l.grid),
            three(l.block),
            l.shared,
            l.registers,
            l.program
        ),
        GpuWork::Copy { from, to, bytes, .. } => match from {
            Some(from) => format!("copy: {bytes} bytes, {from} -> {to}"),
            None => format!("fill: {bytes} bytes at {to}"),
        },
        GpuWork::Upload { to, bytes, .. } => {
            let buffer = trace.find_buffer(*to, event);
            let buffer = buffer.and_then(|(n, offset)| Some((name_object(trace.objects().get(n)?, n), offset)));
            let buffer = buffer.map_or_else(String::new, |(name, offset)| format!(", buffer {name}+{offset:#x}"));
            format!("upload: {bytes} bytes to {to}{buffer}")
        }
        GpuWork::Semaphore {
            va, payload, operation, ..
        } => format!("semaphore at {va}: {operation} {payload:#x}"),
        GpuWork::Order { descriptor, kind, .. } => format!("{kind}, descriptor at {descriptor}"),
        GpuWork::Unreadable { reason, .. } => format!("launch that cannot be read: {reason}"),
    }
}
