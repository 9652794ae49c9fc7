//! A whole range made one graph of the device, so that doing it again is one launch.
//!
//! The steps are captured as the driver captures streams. What the host waited for becomes an edge: whatever was called
//! behind a wait runs behind what the wait was for. So do the rules of the default stream, which cannot be captured itself.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use super::script::{Script, Step};
use super::stage::{Stage, stop_error};
use cuda_driver::{CuEvent, CuGraphExec, CuStream, CudaError, Driver, EVENT_NO_TIMING, STREAM_NON_BLOCKING};
use std::collections::BTreeSet;
use trace_core::progress::Progress;
use trace_core::recording::{OrderKind, OrderRow};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: what other threads do is their business.
const RELAXED: u32 = 2;
/// Steps between two looks whether somebody still wants it.
const LOOK_EVERY: usize = 256;

/// A range as a graph that can be launched. Given back when dropped.
#[derive(Debug)]
pub(super) struct Graph {
    driver: Driver,
    exec: CuGraphExec,
    origin: CuStream,
    /// Launches of functions in it.
    pub launches: u64,
    last: u64,
    /// Events that the capture made: they are given back when it has ended.
    own: Vec<CuEvent>,
}

/// How far a stream has been told what it has to wait for.
#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    /// The stream is part of the capture.
    joined: bool,
    /// Waits of the host that it is behind.
    host: u64,
    /// Pieces of work of the default stream that it is behind.
    default: u64,
}

/// A capture that goes on.
struct Capture<'s, 'a> {
    stage: &'s mut Stage<'a>,
    driver: Driver,
    origin: CuStream,
    /// Behind what the host has waited for: recorded in the origin.
    host: CuEvent,
    host_waits: u64,
    /// Behind the last piece of work of the default stream.
    default: CuEvent,
    default_work: u64,
    streams: Vec<StreamState>,
    /// Numbers of events that were recorded in the capture.
    recorded: BTreeSet<u32>,
    /// Events of our own.
    own: Vec<CuEvent>,
}

impl Graph {
    /// Captures the steps of a stage behind what memory holds at first. The stage's streams are of the form for graphs.
    pub fn build(stage: &mut Stage<'_>, progress: &Progress) -> Result<Self, CudaReplayError> {
        let driver = stage.driver();
        let script = stage.script();
        let mut origin = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { driver.cuStreamCreateWithPriority(&raw mut origin, STREAM_NON_BLOCKING, 0)? };
        let mut graph = Self {
            driver,
            exec: std::ptr::null_mut(),
            origin,
            launches: 0,
            last: script.steps.get(..script.last).and_then(<[_]>::last).map_or(0, |s| s.0),
            own: Vec::new(),
        };
        let mut made = std::ptr::null_mut();
        // SAFETY: a stream of our own, captured until the end of the capture below.
        unsafe { driver.cuStreamBeginCapture_v2(origin, RELAXED)? };
        let captured = graph.capture(stage, script, progress);
        // SAFETY: the stream is captured. Whatever came of it, the capture ends here.
        let ended = unsafe { driver.cuStreamEndCapture(origin, &raw mut made) };
        for event in std::mem::take(&mut graph.own) {
            // SAFETY: made by the capture, whose graph keeps no events.
            let _ = unsafe { driver.cuEventDestroy_v2(event) };
        }
        captured?;
        ended.map_err(|e| CudaReplayError::NoGraph {
            event: graph.last,
            why: e.to_string(),
        })?;
        // SAFETY: a graph that was just made, and a place for the answer; the graph is not needed afterwards.
        let ready = unsafe {
            let ready = driver.cuGraphInstantiateWithFlags(&raw mut graph.exec, made, 0);
            let _ = driver.cuGraphDestroy(made);
            ready
        };
        ready.map_err(|e| CudaReplayError::NoGraph {
            event: graph.last,
            why: e.to_string(),
        })?;
        Ok(graph)
    }

    fn capture(&mut self, stage: &mut Stage<'_>, script: &Script, progress: &Progress) -> Result<(), CudaReplayError> {
        let count = stage.streams.len();
        let mut capture = Capture {
            driver: self.driver,
            origin: self.origin,
            host: std::ptr::null_mut(),
            host_waits: 0,
            default: std::ptr::null_mut(),
            default_work: 0,
            streams: vec![StreamState::default(); count],
            recorded: BTreeSet::new(),
            own: Vec::new(),
            stage,
        };
        let done = self.steps(&mut capture, script, progress);
        self.own = std::mem::take(&mut capture.own);
        done
    }

    fn steps(
        &mut self,
        capture: &mut Capture<'_, '_>,
        script: &Script,
        progress: &Progress,
    ) -> Result<(), CudaReplayError> {
        capture.begin()?;
        let steps = script.steps.iter().enumerate().take(script.last);
        for (n, (event, step)) in steps.skip(script.first) {
            if n.is_multiple_of(LOOK_EVERY) && progress.check().is_err() {
                return Err(CudaReplayError::Cancelled);
            }
            self.launches += u64::from(matches!(step, Step::Launch(..)));
            capture.take(script, step).map_err(|e| CudaReplayError::NoGraph {
                event: *event,
                why: e.to_string(),
            })?;
        }
        capture.end().map_err(|e| CudaReplayError::NoGraph {
            event: self.last,
            why: e.to_string(),
        })
    }

    /// Does the whole range, and waits for it.
    pub fn launch(&self) -> Result<(), CudaReplayError> {
        // SAFETY: a graph that is ready, whose memory and code stay with the stage.
        let done = unsafe {
            self.driver
                .cuGraphLaunch(self.exec, self.origin)
                .and_then(|()| self.driver.cuStreamSynchronize(self.origin))
        };
        done.map_err(|e| stop_error(self.last, &e))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by this value, and nothing runs any more.
        unsafe {
            if !self.exec.is_null() {
                let _ = self.driver.cuGraphExecDestroy(self.exec);
            }
            let _ = self.driver.cuStreamDestroy_v2(self.origin);
        }
    }
}

impl Capture<'_, '_> {
    fn begin(&mut self) -> Result<(), CudaError> {
        self.host = self.event()?;
        self.default = self.event()?;
        // SAFETY: an event and a stream of ours.
        unsafe { self.driver.cuEventRecord(self.host, self.origin) }
    }

    fn event(&mut self) -> Result<CuEvent, CudaError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: a place for the answer.
        unsafe { self.driver.cuEventCreate(&raw mut event, EVENT_NO_TIMING)? };
        self.own.push(event);
        Ok(event)
    }

    /// Stream `n` waits for what it has to before its next piece of work.
    fn ready(&mut self, script: &Script, n: u32) -> Result<(), CudaError> {
        let stream = self.stage.streams.get(n);
        let (host_waits, default_work) = (self.host_waits, self.default_work);
        let is_default = n == 0;
        if is_default {
            // The default stream waits for all that does not say otherwise.
            for m in self.blocking(script) {
                if self.streams.get(m as usize).is_some_and(|s| s.joined) {
                    self.wait_for(stream, self.stage.streams.get(m))?;
                }
            }
        }
        let waits_for_default = !is_default && !is_apart(script, n);
        let Some(seen) = self.streams.get_mut(n as usize) else {
            return Ok(());
        };
        let joins = !seen.joined || seen.host < host_waits;
        let behind_default = waits_for_default && seen.default < default_work;
        *seen = StreamState {
            joined: true,
            host: host_waits,
            default: default_work,
        };
        // SAFETY: events that were recorded in the capture, and streams of the stage.
        unsafe {
            if joins {
                self.driver.cuStreamWaitEvent(stream, self.host, 0)?;
            }
            if behind_default {
                self.driver.cuStreamWaitEvent(stream, self.default, 0)?;
            }
        }
        Ok(())
    }

    /// Streams that the default stream waits for, and that wait for it.
    fn blocking(&self, script: &Script) -> Vec<u32> {
        let all = 1..u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        all.filter(|n| !is_apart(script, *n)).collect()
    }

    /// `later` waits for all that `earlier` has.
    fn wait_for(&mut self, later: CuStream, earlier: CuStream) -> Result<(), CudaError> {
        let event = self.event()?;
        // SAFETY: streams of the capture and an event of ours.
        unsafe {
            self.driver.cuEventRecord(event, earlier)?;
            self.driver.cuStreamWaitEvent(later, event, 0)
        }
    }

    /// Stream `n` was given a piece of work.
    fn note_work(&mut self, n: u32) -> Result<(), CudaError> {
        if n != 0 {
            return Ok(());
        }
        self.default_work += 1;
        // SAFETY: an event of ours and a stream of the stage.
        unsafe { self.driver.cuEventRecord(self.default, self.stage.streams.get(0)) }
    }

    /// The host has waited: what comes from now on is behind what the origin has.
    fn host_waited(&mut self) -> Result<(), CudaError> {
        self.host_waits += 1;
        // An event of its own each time: streams that joined before wait for the one that they were given.
        self.host = self.event()?;
        // SAFETY: an event and a stream of ours.
        unsafe { self.driver.cuEventRecord(self.host, self.origin) }
    }

    fn host_waits_for(&mut self, n: u32) -> Result<(), CudaError> {
        if self.streams.get(n as usize).is_some_and(|s| s.joined) {
            self.wait_for(self.origin, self.stage.streams.get(n))?;
            self.host_waited()?;
        }
        Ok(())
    }

    fn take(&mut self, script: &Script, step: &Step) -> Result<(), CudaError> {
        let stream = match step {
            Step::Order(row) => return self.order(script, row),
            Step::Input(n) => script.inputs.get(*n).map(|t| t.row.stream),
            Step::Output(n) => script.outputs.get(*n).map(|t| t.row.stream),
            Step::Copy(row) => Some(row.stream),
            Step::Fill(row) => Some(row.stream),
            Step::Launch(row, _) => Some(row.stream),
        };
        let n = stream.filter(|n| (*n as usize) < self.streams.len()).unwrap_or(0);
        self.ready(script, n)?;
        self.stage.do_step(step)?;
        self.note_work(n)?;
        match script.waited_stream(step) {
            Some(_) => self.host_waits_for(n),
            None => Ok(()),
        }
    }

    fn order(&mut self, script: &Script, row: &OrderRow) -> Result<(), CudaError> {
        let n = row.stream;
        match OrderKind::from_raw(row.kind) {
            Some(OrderKind::Record) => {
                self.ready(script, n)?;
                let event = self.stage.streams.event(row.event)?;
                self.recorded.insert(row.event);
                // SAFETY: a stream and an event of the stage.
                unsafe { self.driver.cuEventRecord(event, self.stage.streams.get(n)) }
            }
            // What was recorded before the range is done.
            Some(OrderKind::StreamWaits) if self.recorded.contains(&row.event) => {
                self.ready(script, n)?;
                match self.stage.streams.find_event(row.event) {
                    // SAFETY: as above.
                    Some(event) => unsafe { self.driver.cuStreamWaitEvent(self.stage.streams.get(n), event, 0) },
                    None => Ok(()),
                }
            }
            Some(OrderKind::StreamDone) => self.host_waits_for(n),
            Some(OrderKind::EventDone) if self.recorded.contains(&row.event) => {
                if let Some(event) = self.stage.streams.find_event(row.event) {
                    // SAFETY: an event of the capture and a stream of ours.
                    unsafe { self.driver.cuStreamWaitEvent(self.origin, event, 0)? };
                    self.host_waited()?;
                }
                Ok(())
            }
            Some(OrderKind::ContextDone) => {
                self.join()?;
                self.host_waited()
            }
            _ => Ok(()),
        }
    }

    /// The origin waits for all streams.
    fn join(&mut self) -> Result<(), CudaError> {
        for n in 0..u32::try_from(self.streams.len()).unwrap_or(u32::MAX) {
            if self.streams.get(n as usize).is_some_and(|s| s.joined) {
                self.wait_for(self.origin, self.stage.streams.get(n))?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), CudaError> {
        self.join()
    }
}

/// Whether a stream was made to go its own way beside the default stream.
fn is_apart(script: &Script, n: u32) -> bool {
    let flags = script.facts.streams.get(n as usize).map_or(0, |s| s.flags);
    flags & STREAM_NON_BLOCKING != 0
}
