//! A whole range as one CUDA graph, so that one launch repeats it.
//!
//! The steps are recorded by stream capture. A host wait becomes an edge: calls after the wait run after the work that
//! it waited for. The same holds for the rules of the default stream, which cannot be captured itself.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::error::CudaReplayError;
use super::script::{Script, Step};
use super::stage::{Stage, stop_error};
use cuda_driver::{CuEvent, CuGraphExec, CuStream, CudaError, Driver, EVENT_NO_TIMING, STREAM_NON_BLOCKING};
use std::collections::BTreeSet;
use trace_core::progress::Progress;
use trace_core::recording::{OrderKind, OrderRow};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: calls of other threads are not checked.
const RELAXED: u32 = 2;
/// Number of steps between two checks for cancellation.
const LOOK_EVERY: usize = 256;

/// A range as a graph that can be launched. It is destroyed on drop.
#[derive(Debug)]
pub(super) struct Graph {
    driver: Driver,
    exec: CuGraphExec,
    origin: CuStream,
    /// Number of kernel launches in it.
    pub launches: u64,
    last: u64,
    /// Events that the capture created. They are destroyed when it has ended.
    own: Vec<CuEvent>,
}

/// How far a stream already waits for earlier work.
#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    /// The stream is part of the capture.
    joined: bool,
    /// The last host wait that the stream follows.
    host: u64,
    /// The last work item of the default stream that the stream follows.
    default: u64,
}

/// A capture in progress.
struct Capture<'s, 'a> {
    stage: &'s mut Stage<'a>,
    driver: Driver,
    origin: CuStream,
    /// Follows the last host wait; recorded in the origin stream.
    host: CuEvent,
    host_waits: u64,
    /// Follows the last work item of the default stream.
    default: CuEvent,
    default_work: u64,
    streams: Vec<StreamState>,
    /// Numbers of events that were recorded in the capture.
    recorded: BTreeSet<u32>,
    /// Events created by the capture itself.
    own: Vec<CuEvent>,
}

impl Graph {
    /// Captures the steps of a stage after the initial memory contents. The stage must have its streams in the form for
    /// graphs.
    pub fn build(stage: &mut Stage<'_>, progress: &Progress) -> Result<Self, CudaReplayError> {
        let driver = stage.driver();
        let script = stage.script();
        let mut origin = std::ptr::null_mut();
        // SAFETY: a valid output pointer.
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
        // SAFETY: a stream created here, captured until the end of the capture below.
        unsafe { driver.cuStreamBeginCapture_v2(origin, RELAXED)? };
        let captured = graph.capture(stage, script, progress);
        // SAFETY: the stream is captured. The capture ends here in every case.
        let ended = unsafe { driver.cuStreamEndCapture(origin, &raw mut made) };
        for event in std::mem::take(&mut graph.own) {
            // SAFETY: created by the capture; the graph keeps no events.
            let _ = unsafe { driver.cuEventDestroy_v2(event) };
        }
        captured?;
        ended.map_err(|e| CudaReplayError::NoGraph {
            event: graph.last,
            why: e.to_string(),
        })?;
        // SAFETY: a new graph and a valid output pointer; the graph is not needed afterwards.
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

    /// Runs the whole range and waits for it.
    pub fn launch(&self) -> Result<(), CudaReplayError> {
        // SAFETY: an instantiated graph; its memory and code stay with the stage.
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
        // SAFETY: created by this value, and no device work is pending.
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
        // SAFETY: an event and a stream created here.
        unsafe { self.driver.cuEventRecord(self.host, self.origin) }
    }

    fn event(&mut self) -> Result<CuEvent, CudaError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: a valid output pointer.
        unsafe { self.driver.cuEventCreate(&raw mut event, EVENT_NO_TIMING)? };
        self.own.push(event);
        Ok(event)
    }

    /// Makes stream `n` wait for its dependencies before its next work item.
    fn ready(&mut self, script: &Script, n: u32) -> Result<(), CudaError> {
        let stream = self.stage.streams.get(n);
        let (host_waits, default_work) = (self.host_waits, self.default_work);
        let is_default = n == 0;
        if is_default {
            // The default stream waits for all streams that are not non-blocking.
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

    /// Returns the streams that the default stream waits for, and that wait for it.
    fn blocking(&self, script: &Script) -> Vec<u32> {
        let all = 1..u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        all.filter(|n| !is_apart(script, *n)).collect()
    }

    /// Makes `later` wait for all work in `earlier`.
    fn wait_for(&mut self, later: CuStream, earlier: CuStream) -> Result<(), CudaError> {
        let event = self.event()?;
        // SAFETY: streams of the capture and an event created here.
        unsafe {
            self.driver.cuEventRecord(event, earlier)?;
            self.driver.cuStreamWaitEvent(later, event, 0)
        }
    }

    /// Notes that stream `n` got a work item.
    fn note_work(&mut self, n: u32) -> Result<(), CudaError> {
        if n != 0 {
            return Ok(());
        }
        self.default_work += 1;
        // SAFETY: an event created here and a stream of the stage.
        unsafe { self.driver.cuEventRecord(self.default, self.stage.streams.get(0)) }
    }

    /// Notes a host wait: later work follows the work of the origin stream.
    fn host_waited(&mut self) -> Result<(), CudaError> {
        self.host_waits += 1;
        // Each wait has its own event: streams that joined earlier wait for the event that they were given.
        self.host = self.event()?;
        // SAFETY: an event and a stream created here.
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
            // Events that were recorded before the range are already complete.
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
                    // SAFETY: an event of the capture and a stream created here.
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

    /// Makes the origin stream wait for all streams.
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

/// Returns whether a stream was created as non-blocking with respect to the default stream.
fn is_apart(script: &Script, n: u32) -> bool {
    let flags = script.metadata.streams.get(n as usize).map_or(0, |s| s.flags);
    flags & STREAM_NON_BLOCKING != 0
}
