//! The requests to the kernel driver in a recording.

use super::source::SourceRecording;
use super::{Failure, progress_line};
use kinescope_session::api_trace::name_call;
use trace_core::api_trace::ApiTrace;
use trace_core::channel_names::ChannelNames;
use trace_core::driver_trace::{
    DriverObject, DriverTrace, DriverWork, LaunchKernels, LaunchedKernel, Submission, SubmissionCalls,
};
use trace_core::families::find_submission_decoder;
use trace_core::recording::Recording;

/// Loads the objects, channels and submissions of a recording.
///
/// # Errors
/// When the recording has no requests to a kernel driver.
pub fn load(opened: &SourceRecording) -> Result<DriverTrace, Failure> {
    let found = progress_line::run_with_progress("following objects", |progress, _| {
        DriverTrace::from_recording(&opened.recording, progress).map_err(|e| Failure::file(&opened.file, e))
    })?;
    found.ok_or_else(|| {
        Failure::file(
            &opened.file,
            "not a driver trace: it holds no requests to a kernel driver, such as those of a kernel log of nouveau",
        )
    })
}

/// Formats a number that the recording may not state: `0x40`.
#[must_use]
pub fn format_known(number: Option<u32>) -> Option<String> {
    number.map(|n| format!("{n:#x}"))
}

/// Names an object in a table: its handle, or its number if the source states no handle.
#[must_use]
pub fn name_object(object: &DriverObject, index: usize) -> String {
    format_known(object.handle).unwrap_or_else(|| format!("#{index}"))
}

/// The calls of the submissions of a recording that holds both.
pub struct JoinedCalls<'a> {
    recording: &'a Recording,
    api_trace: ApiTrace,
    calls: SubmissionCalls,
    kernels: LaunchKernels,
}

impl<'a> JoinedCalls<'a> {
    /// Joins calls and submissions, or returns `None` if the recording holds no calls. `with_kernels` finds the kernels of
    /// launches too, for which it decodes all submissions.
    ///
    /// # Errors
    /// When the operation was cancelled.
    pub fn load(opened: &'a SourceRecording, trace: &DriverTrace, with_kernels: bool) -> Result<Option<Self>, Failure> {
        let recording = &opened.recording;
        let Some(calls) = SubmissionCalls::from_recording(recording, trace) else {
            return Ok(None);
        };
        let found = progress_line::run_with_progress("joining calls and submissions", |progress, _| {
            let fail = |e| Failure::file(&opened.file, e);
            let api_trace = ApiTrace::from_recording(recording, progress).map_err(fail)?;
            let decoded = match find_submission_decoder(recording, trace).filter(|_| with_kernels) {
                Some(mut decoder) => DriverWork::decode(trace, &mut *decoder, progress).map_err(fail)?,
                None => Vec::new(),
            };
            Ok((api_trace, decoded))
        })?;
        let (Some(api_trace), decoded) = found else {
            return Ok(None);
        };
        let work = DriverWork::new(trace.clone(), decoded);
        let kernels = LaunchKernels::find(recording, &calls, &work);
        Ok(Some(Self {
            recording,
            api_trace,
            calls,
            kernels,
        }))
    }

    /// Returns the event and the name of the call that made a submission.
    #[must_use]
    pub fn call_of(&self, submission: u32) -> Option<(u64, String)> {
        let event = self.calls.call_of(submission)?;
        Some((event, name_call(&self.api_trace, self.recording, event)))
    }

    /// Returns the name of the kernel of a launch, and its call: for a launch of a graph, the one of the graph's node.
    #[must_use]
    pub fn kernel_of(&self, submission: u32, word: u32) -> Option<(&str, LaunchedKernel)> {
        let kernel = self.kernels.kernel_of(submission, word)?;
        Some((self.api_trace.function_name(kernel.function), kernel))
    }
}

/// Names the channel of a submission: `compute 0`.
#[must_use]
pub fn name_channel(names: &ChannelNames, trace: &DriverTrace, submission: &Submission) -> Option<String> {
    let channel = trace.channels().get(submission.channel)?;
    Some(names.find_object(trace.objects().get(channel.object)?)?.format())
}
