//! A device's place on the agent: free, held by one client, or out of order.

use super::Factory;
use crate::device::{Arena, Board, BoardError, Containment, DeviceInfo};
use crate::wire::message::{DeviceState, LeaseReply};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use trace_core::PhysAddr;

/// One device.
pub(crate) struct Slot {
    info: DeviceInfo,
    factory: Factory,
    state: Mutex<State>,
}

enum State {
    Free(Box<dyn Board>),
    Held { holder: String, since: Instant },
    OutOfOrder(String),
}

/// What became of a board that was not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostBoard {
    /// It panicked: its thread is over.
    Panicked,
    /// It hangs: its thread still holds it.
    Hangs,
}

impl Slot {
    /// Makes the device.
    pub fn new(factory: Factory) -> Result<Self, BoardError> {
        let board = guarded(&factory)?;
        Ok(Self {
            info: board.info(),
            factory,
            state: Mutex::new(State::Free(board)),
        })
    }

    /// The place of a device that could not be made. It has no windows and no memory, which tells it from one that
    /// went out of order later.
    pub fn missing(name: String, reason: String) -> Self {
        let (failed, why) = (
            BoardError::Failed(reason.clone()),
            format!("it could not be opened: {reason}"),
        );
        Self {
            info: DeviceInfo {
                description: "a device that could not be opened".into(),
                name,
                gpu_id: 0,
                gpu_name: String::new(),
                register_map: String::new(),
                containment: Containment::None,
                hardware: None,
                windows: Vec::new(),
                arena: Arena {
                    base: PhysAddr(0),
                    pages: 0,
                },
                virtual_time: false,
                computes: false,
            },
            factory: Arc::new(move || Err(failed.clone())),
            state: Mutex::new(State::OutOfOrder(why)),
        }
    }

    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device and who holds it.
    pub fn describe(&self) -> DeviceState {
        let (holder, out_of_order) = match &*self.state() {
            State::Free(_) => (None, None),
            State::Held { holder, .. } => (Some(holder.clone()), None),
            State::OutOfOrder(why) => (None, Some(why.clone())),
        };
        DeviceState {
            info: self.info.clone(),
            holder,
            out_of_order,
        }
    }

    /// Takes the device for one client.
    pub fn take(self: &Arc<Self>, holder: &str) -> Result<Hold, Box<LeaseReply>> {
        let mut state = self.state();
        match &*state {
            State::Held { holder, since } => {
                return Err(Box::new(LeaseReply::Busy {
                    holder: holder.clone(),
                    since_s: since.elapsed().as_secs(),
                }));
            }
            State::OutOfOrder(why) => return Err(Box::new(LeaseReply::OutOfOrder(why.clone()))),
            State::Free(_) => {}
        }
        let held = State::Held {
            holder: holder.to_owned(),
            since: Instant::now(),
        };
        let State::Free(board) = std::mem::replace(&mut *state, held) else {
            return Err(Box::new(LeaseReply::OutOfOrder(
                "its state changed under a lock".into(),
            )));
        };
        Ok(Hold {
            slot: Arc::clone(self),
            board: Some(board),
        })
    }

    /// A board in place of one that was lost, where that is safe: a software board has nothing that a hanging
    /// thread could still touch.
    fn replace(&self, lost: LostBoard) -> Result<Box<dyn Board>, String> {
        if lost == LostBoard::Hangs && self.info.containment != Containment::Software {
            return Err("it hung in a run and may still be at work; restart the agent".into());
        }
        guarded(&self.factory).map_err(|e| e.to_string())
    }
}

/// Calls a factory; a panic in it is an error.
fn guarded(factory: &Factory) -> Result<Box<dyn Board>, BoardError> {
    catch_unwind(AssertUnwindSafe(|| factory())).unwrap_or_else(|p| Err(BoardError::Failed(panic_text(&*p))))
}

/// What a panic said.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("it panicked: {}", text.unwrap_or("no message"))
}

/// A device held by one client; dropping it brings the device to its power-on state and frees it.
pub(crate) struct Hold {
    slot: Arc<Slot>,
    board: Option<Box<dyn Board>>,
}

impl Hold {
    pub fn info(&self) -> &DeviceInfo {
        &self.slot.info
    }

    /// The board, to be given back by [`Hold::give_back`] or told lost by [`Hold::lose`].
    pub fn borrow(&mut self) -> Option<Box<dyn Board>> {
        self.board.take()
    }

    pub fn give_back(&mut self, board: Box<dyn Board>) {
        self.board = Some(board);
    }

    /// The board is lost: puts another in its place, where that is safe.
    pub fn lose(&mut self, lost: LostBoard) {
        match self.slot.replace(lost) {
            Ok(board) => self.board = Some(board),
            Err(why) => {
                tracing::error!(device = self.slot.info.name, "out of order: {why}");
                *self.slot.state() = State::OutOfOrder(why);
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(mut board) = self.board.take() else { return };
        let reset = catch_unwind(AssertUnwindSafe(move || board.reset().map(|()| board)));
        let next = match reset {
            Ok(Ok(board)) => Ok(board),
            Ok(Err(e)) => Err(format!("it could not be reset: {e}")),
            Err(_) => self.slot.replace(LostBoard::Panicked),
        };
        *self.slot.state() = match next {
            Ok(board) => State::Free(board),
            Err(why) => {
                tracing::error!(device = self.slot.info.name, "out of order: {why}");
                State::OutOfOrder(why)
            }
        };
    }
}
