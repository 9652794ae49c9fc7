//! Arguments of verbs that request a memory trace from a target: memory between launches, which an API trace does not
//! contain.

use super::failure::complain;
use super::replay_arguments::Keys;
use super::source::{SourceRecording, number};
use super::{Failure, progress_line};
use clap::Args;
use kinescope_session::launch_times;
use kinescope_session::memory_trace::{self, SECOND, TIME_LIMITS_S, TraceLimits};
use kinescope_session::targets::factories;
use replay_engine::memory_trace::{MAX_BYTES, MemoryTraceRequest, USUAL_BYTES};
use std::collections::BTreeMap;
use std::path::Path;
use trace_core::api_trace::ApiTrace;

/// The target of the trace, and its limits.
#[derive(Args, Clone, Debug)]
pub struct TraceArguments {
    /// For API traces: replay on this target and trace memory between launches (cuda:N, agent:NAME/cudaN; the verb
    /// `targets` lists the available ones)
    #[arg(long, value_name = "TARGET")]
    on: Option<String>,
    /// Maximum size of the trace in bytes: pages before and after launches; tracing ends after the launch that reaches it
    #[arg(long = "max-bytes", alias = "most", value_name = "BYTES", value_parser = number, default_value_t = USUAL_BYTES, requires = "on")]
    most: u64,
    /// Maximum time of the trace in seconds, in addition to the work before the first traced launch (at most five
    /// minutes)
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(TIME_LIMITS_S), requires = "on")]
    time_limit: u64,
    #[command(flatten)]
    keys: Keys,
}

impl TraceArguments {
    /// Returns whether a target is requested.
    pub fn is_requested(&self) -> bool {
        self.on.is_some()
    }

    /// Returns an error if a target is requested for a recording that is not an API trace: only API traces can be
    /// traced on a target.
    pub fn reject_register_trace(&self, file: &Path) -> Result<(), Failure> {
        match &self.on {
            Some(_) => Err(Failure::file(
                file,
                "not an API trace; --on traces the launches of an API trace on a target",
            )),
            None => Ok(()),
        }
    }

    /// Starts the slow part of opening the target while the recording is still being read.
    pub fn prestart(&self) {
        if let Some(on) = &self.on {
            factories().prestart_worker(on);
        }
    }

    /// Returns the shortest time of each launch on the target in nanoseconds, by its event; empty if no target is
    /// requested. A target that reports no times causes a message, not an error.
    pub fn launch_times(&self, opened: &SourceRecording, repeat: u32) -> Result<BTreeMap<u64, u64>, Failure> {
        let Some(on) = &self.on else {
            return Ok(BTreeMap::new());
        };
        let result = progress_line::run_with_progress("measuring launches", |progress, _| {
            let mut lease = self.keys.open_target(on)?;
            let time_ns = self.time_limit * SECOND;
            Ok(launch_times::measure_launches(
                &mut lease,
                &opened.recording,
                repeat,
                time_ns,
                progress,
            ))
        })?;
        Ok(result.unwrap_or_else(|e| {
            complain(format_args!("target {on}: launches are not measured: {e}"));
            BTreeMap::new()
        }))
    }

    /// Adds the memory trace of the target to the API calls of a recording, and returns whether it is complete. Returns
    /// the calls unchanged if no target is requested.
    pub fn trace_memory(
        &self,
        opened: &SourceRecording,
        api_trace: ApiTrace,
        request: MemoryTraceRequest,
    ) -> Result<(ApiTrace, bool), Failure> {
        let Some(on) = &self.on else {
            return Ok((api_trace, true));
        };
        let limits = TraceLimits {
            max_bytes: self.most,
            time_s: self.time_limit,
            ..TraceLimits::default()
        };
        let request = limits.limit(request);
        let traced = progress_line::run_with_progress("tracing memory", |progress, doing| {
            let (targets, calls) = (self.keys.targets(), (&opened.recording, &api_trace));
            let on_traced = || doing.set("reading the trace");
            let traced = memory_trace::trace_on_target(&targets, on, calls, request, progress, on_traced);
            traced.map_err(|e| Failure::usage(e.to_string()))
        })?;
        for why in &traced.missing {
            complain(format_args!("target {on}: {why}"));
        }
        if traced.exceeds_size {
            complain(format_args!("--max-bytes allows up to {MAX_BYTES} bytes"));
        }
        Ok((traced.api_trace, traced.is_complete))
    }
}
