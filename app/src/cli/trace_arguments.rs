//! Verbs that ask a board for what a recording of calls does not hold: memory between launches.

use super::failure::complain;
use super::replay_arguments::Keys;
use super::source::{Opened, number};
use super::{Failure, progress_line};
use crate::document::boards::factories;
use crate::document::memory_trace::{self, SECOND};
use clap::Args;
use replay_engine::memory_trace::{MAX_BYTES, MemoryTraceRequest, USUAL_BYTES};
use std::collections::BTreeMap;
use std::path::Path;
use trace_core::calls::Calls;

/// Which board is asked, and for how much.
#[derive(Args, Clone, Debug)]
pub struct TraceArguments {
    /// In a recording of calls: ask this board, which plays the recording and watches memory between launches (cuda:N,
    /// agent:NAME/cudaN; the verb `boards` lists those there are)
    #[arg(long, value_name = "BOARD")]
    on: Option<String>,
    /// Most bytes of memory that the board may tell, pages before and behind launches; watching ends behind the launch
    /// that reaches it
    #[arg(long, value_name = "N", value_parser = number, default_value_t = USUAL_BYTES, requires = "on")]
    most: u64,
    /// Seconds that the board may watch, beside what it does before the first launch that is watched (five minutes at
    /// most)
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=3000), requires = "on")]
    time_limit: u64,
    #[command(flatten)]
    keys: Keys,
}

impl TraceArguments {
    /// Whether a board is to be asked.
    pub fn is_requested(&self) -> bool {
        self.on.is_some()
    }

    /// A board is to be asked of a recording that is none of calls: it says that it cannot be.
    pub fn reject_register_trace(&self, file: &Path) -> Result<(), Failure> {
        match &self.on {
            Some(_) => Err(Failure::file(
                file,
                "this is no recording of a driver's calls; --on asks a board about launches, which are in recordings of calls",
            )),
            None => Ok(()),
        }
    }

    /// The board begins what takes a while to begin, while the recording is still being read.
    pub fn prestart(&self) {
        if let Some(on) = &self.on {
            factories().prestart_worker(on);
        }
    }

    /// Returns the shortest time of each launch on the board in nanoseconds, by its event; nothing where no board is
    /// asked. A board that does not tell is a message, and no error.
    pub fn launch_times(&self, opened: &Opened, repeat: u32) -> Result<BTreeMap<u64, u64>, Failure> {
        let Some(on) = &self.on else {
            return Ok(BTreeMap::new());
        };
        let result = progress_line::run_with_progress("measuring launches", |progress, _| {
            let mut lease = self.keys.open_target(on)?;
            let time_ns = self.time_limit * SECOND;
            Ok(memory_trace::measure_launches(
                &mut lease,
                &opened.recording,
                repeat,
                time_ns,
                progress,
            ))
        })?;
        Ok(result.unwrap_or_else(|e| {
            complain(format_args!("board {on}: launches are not measured: {e}"));
            BTreeMap::new()
        }))
    }

    /// What is known of a recording's calls once the board has told what is asked, and whether that is all that was
    /// asked; as it was where nobody is asked.
    pub fn trace_memory(
        &self,
        opened: &Opened,
        calls: Calls,
        ask: MemoryTraceRequest,
    ) -> Result<(Calls, bool), Failure> {
        let Some(on) = &self.on else { return Ok((calls, true)) };
        let ask = MemoryTraceRequest {
            most: self.most,
            time_ns: self.time_limit * SECOND,
            ..ask
        };
        if let Some(why) = ask.find_error() {
            return Err(Failure::usage(format!("board {on}: {why}")));
        }
        let answer = progress_line::run_with_progress("watching memory", |progress, _| {
            let mut lease = self.keys.open_target(on)?;
            memory_trace::trace_memory(&mut lease, on, &opened.recording, ask, progress)
                .map_err(|e| Failure::usage(format!("board {on}: {e}")))
        })?;
        let whole = answer.is_complete();
        for why in answer.missing() {
            complain(format_args!("board {on}: {why}"));
        }
        if answer.result.full.is_some() || answer.result.looked_until.is_some() {
            complain(format_args!("--most takes up to {MAX_BYTES} bytes"));
        }
        progress_line::run_with_progress("taking in what it saw", |progress, _| {
            let taken = calls.with_memory_trace(answer.trace, progress);
            taken.map_err(|e| Failure::file(&opened.file, e))
        })
        .map(|calls| (calls, whole))
    }
}
