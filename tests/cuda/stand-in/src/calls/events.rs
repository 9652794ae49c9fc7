//! Events, positions in streams that others wait for and that measure time, and the calls on them.

use crate::call::Call;
use crate::capture::{Capture, refuse_implicit};
use crate::codes::{CAPTURED_EVENT, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::handles::{Handles, pointer};
use crate::pointers::give;
use crate::streams::Completion;
use crate::{Answer, capture, lock};
use cuda_driver::{CuEvent, CuStream, EVENT_NO_TIMING};
use std::sync::{Arc, Mutex};

/// The position of an event.
#[derive(Clone, Default)]
pub enum EventPosition {
    /// The event was never recorded.
    #[default]
    NotRecorded,
    /// After this work.
    After(Arc<Completion>),
    /// After these nodes of a captured graph.
    Captured(Arc<Capture>, Vec<usize>),
}

/// An event.
pub struct Event {
    handle: usize,
    flags: u32,
    position: Mutex<EventPosition>,
}

static EVENTS: Handles<Event> = Handles::new(5);

impl Event {
    fn done(&self) -> Answer<Option<Arc<Completion>>> {
        match &*lock(&self.position) {
            EventPosition::NotRecorded => Ok(None),
            EventPosition::After(done) => Ok(Some(Arc::clone(done))),
            EventPosition::Captured(..) => Err(CAPTURED_EVENT),
        }
    }
}

pub fn cuEventCreate(call: &Call, to: *mut CuEvent, flags: u32) -> Answer {
    call.context()?;
    if to.is_null() || flags > 7 {
        return Err(INVALID_VALUE);
    }
    let event = EVENTS.put(|handle| Event {
        handle,
        flags,
        position: Mutex::default(),
    });
    give(to, pointer(event.handle))
}

pub fn cuEventDestroy_v2(call: &Call, event: CuEvent) -> Answer {
    call.context()?;
    EVENTS.take(event).map(drop)
}

pub fn cuEventRecordWithFlags(call: &Call, event: CuEvent, stream: CuStream, _flags: u32) -> Answer {
    cuEventRecord(call, event, stream)
}

pub fn cuEventRecord(call: &Call, event: CuEvent, stream: CuStream) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let event = EVENTS.get(event)?;
    refuse_implicit(&context, &stream)?;
    let capture = capture::find_capture(&stream);
    let position = match capture {
        Some(capture) => {
            let heads = capture.heads(&stream);
            EventPosition::Captured(capture, heads)
        }
        None => EventPosition::After(context.submit(&stream, Vec::new(), |_| Ok(()))),
    };
    *lock(&event.position) = position;
    Ok(())
}

pub fn cuStreamWaitEvent(call: &Call, stream: CuStream, event: CuEvent, _flags: u32) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let event = EVENTS.get(event)?;
    let position = lock(&event.position).clone();
    match position {
        EventPosition::Captured(other, nodes) => capture::join(&stream, &other, &nodes),
        EventPosition::After(done) => {
            capture::refuse_outside(&stream)?;
            refuse_implicit(&context, &stream)?;
            context.submit(&stream, vec![done], |_| Ok(()));
            Ok(())
        }
        EventPosition::NotRecorded => Ok(()),
    }
}

pub fn cuEventSynchronize(call: &Call, event: CuEvent) -> Answer {
    let context = call.context()?;
    if let Some(done) = EVENTS.get(event)?.done()? {
        done.wait();
    }
    context.check()
}

pub fn cuEventQuery(call: &Call, event: CuEvent) -> Answer {
    let context = call.context()?;
    match EVENTS.get(event)?.done()? {
        Some(done) if done.at().is_none() => Err(NOT_READY),
        _ => context.check(),
    }
}

pub fn cuEventElapsedTime(call: &Call, to: *mut f32, from: CuEvent, until: CuEvent) -> Answer {
    let context = call.context()?;
    let (from, until) = (EVENTS.get(from)?, EVENTS.get(until)?);
    if (from.flags | until.flags) & EVENT_NO_TIMING != 0 {
        return Err(INVALID_HANDLE);
    }
    let from = from.done()?.ok_or(INVALID_HANDLE)?;
    let until = until.done()?.ok_or(INVALID_HANDLE)?;
    let (Some(from), Some(until)) = (from.at(), until.at()) else {
        return Err(NOT_READY);
    };
    context.check()?;
    let seconds = match until.checked_duration_since(from) {
        Some(time) => time.as_secs_f32(),
        None => -from.saturating_duration_since(until).as_secs_f32(),
    };
    give(to, seconds * 1000.0)
}

pub fn cuEventElapsedTime_v2(call: &Call, to: *mut f32, from: CuEvent, until: CuEvent) -> Answer {
    cuEventElapsedTime(call, to, from, until)
}
