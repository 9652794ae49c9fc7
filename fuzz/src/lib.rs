//! One fuzz target a byte reader: each takes any bytes and must come back, without a panic and in bounded memory.
//!
//! The programs under `fuzz_targets/` hand them to libFuzzer; `tests/corpus.rs` replays the committed inputs as an
//! ordinary test. To add a target, add a function here, its line in [`TARGETS`], a file in `fuzz_targets/` with its
//! `[[bin]]`, and seeds in `examples/seeds.rs`.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a broken promise of a reader must stop the fuzzer")]

use replay_core::{Actions, Budget, Device, DeviceError, Encoder, MAX_ACTION_BYTES, WaitResult};

pub mod seeds;

use kinescope_files::buffers::npy;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets by name; the name is also that of the corpus folder and of the file in `fuzz_targets/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("actions", actions),
    ("container", container),
    ("gpureplay_integrated", gpureplay_integrated),
    ("gpureplay_io", gpureplay_io),
    ("gpureplay_memory", gpureplay_memory),
    ("gpureplay_pgt", gpureplay_pgt),
    ("gpureplay_sync", gpureplay_sync),
    ("npy", npy_file),
    ("plan_bytes", plan_bytes),
    ("plan_text", plan_text),
    ("raw_memory", raw_memory),
    ("wire", wire),
];

mod recordings;

pub use recordings::{
    container, gpureplay_integrated, gpureplay_io, gpureplay_memory, gpureplay_pgt, gpureplay_sync, raw_memory,
};

/// A plan's body: decodes in place, encodes back to the same bytes, and runs within its budget on any device.
pub fn actions(data: &[u8]) {
    let mut out = vec![0; data.len() + MAX_ACTION_BYTES];
    let mut encoder = Encoder::new(&mut out);
    let mut sound = true;
    for action in Actions::new(data) {
        match action {
            Ok(action) => {
                assert!(
                    encoder.push(&action).is_ok(),
                    "a decoded action does not encode: {action:?}"
                );
            }
            Err(_) => {
                sound = false;
                break;
            }
        }
    }
    if sound {
        let used = encoder.len();
        assert_eq!(
            out.get(..used),
            Some(data),
            "the encoding is not the only one of its actions"
        );
    }
    let budget = Budget {
        actions: 10_000,
        time_ns: 10_000_000,
        ..Budget::default()
    };
    let _ = replay_core::execute(
        &mut Registers {
            values: [0; 64],
            now: 0,
            waits: 0,
        },
        Actions::new(data),
        &budget,
        &mut (),
    );
}

/// A device of 64 registers whose interrupts come at every other wait.
struct Registers {
    values: [u64; 64],
    now: u64,
    waits: u32,
}

impl Device for Registers {
    fn read(&mut self, space: u8, offset: u64, _width: u8) -> Result<u64, DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        usize::try_from(offset / 8)
            .ok()
            .and_then(|i| self.values.get(i))
            .copied()
            .ok_or(DeviceError::OutOfRange)
    }

    fn write(&mut self, space: u8, offset: u64, _width: u8, value: u64) -> Result<(), DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        let slot = usize::try_from(offset / 8).ok().and_then(|i| self.values.get_mut(i));
        *slot.ok_or(DeviceError::OutOfRange)? = value;
        Ok(())
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        self.waits = self.waits.wrapping_add(1);
        self.now = self.now.saturating_add(limit_ns.min(1_000));
        Ok(if self.waits.is_multiple_of(2) {
            WaitResult::Raised { lines }
        } else {
            WaitResult::TimedOut
        })
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.now = self.now.saturating_add(ns);
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.now
    }
}

/// A plan as it goes over the wire: what decodes must verify or be refused, print as text and read back the same.
pub fn plan_bytes(data: &[u8]) {
    let Ok(plan) = replay_engine::plan::Plan::from_bytes(data) else {
        return;
    };
    text_comes_back(&plan);
    let none = std::collections::BTreeMap::new();
    let _ = replay_engine::verify::verify(&plan, &none, &device());
}

/// A plan as text.
pub fn plan_text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(plan) = replay_engine::plan::text::parse(text) {
        text_comes_back(&plan);
    }
}

fn text_comes_back(plan: &replay_engine::plan::Plan) {
    let text = replay_engine::plan::text::print(plan);
    // A body that does not decode cannot be printed as actions; such a text need not read back.
    if Actions::new(&plan.body).all(|a| a.is_ok())
        && let Ok(again) = replay_engine::plan::text::parse(&text)
    {
        assert_eq!(&again, plan, "a printed plan reads back as another one");
    }
}

/// The device that plans are verified for: as large as a plan may ask for.
fn device() -> replay_engine::device::DeviceInfo {
    use replay_engine::device::{Arena, Containment, DeviceInfo};
    DeviceInfo {
        name: "fuzz".into(),
        description: String::new(),
        gpu_id: 0x60a0_0002,
        gpu_name: "Mali-G71".into(),
        register_map: "mali-jm".into(),
        containment: Containment::Software,
        window: 0x4000,
        arena: Arena {
            base: trace_core::PhysAddr(0x1_0000_0000),
            pages: 1 << 20,
        },
        virtual_time: true,
        computes: false,
    }
}

/// What a peer sends: the first byte says whether the rest is a preamble, a message of some kind, or pieces of
/// frames (each with its length before it) as they come out of the encrypted channel.
pub fn wire(data: &[u8]) {
    use replay_engine::wire::message::{
        LeaseReply, LeaseRequest, PagesReply, PagesRequest, PairMessage, RunReply, RunRequest, SessionReply,
    };
    use replay_engine::wire::{Limits, PREAMBLE_BYTES, Pieces, Preamble};
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 10 {
        0 => {
            if let Some(Ok(preamble)) = rest.first_chunk::<PREAMBLE_BYTES>().map(Preamble::from_bytes) {
                let own = Preamble::own(replay_engine::wire::Word::Session);
                let _ = (
                    own.common(&preamble),
                    replay_engine::wire::mismatch(&own, &preamble),
                    preamble.known_word(),
                );
            }
        }
        1 => comes_back::<SessionReply>(rest),
        2 => comes_back::<PairMessage>(rest),
        3 => comes_back::<LeaseRequest>(rest),
        4 => comes_back::<LeaseReply>(rest),
        5 => comes_back::<PagesRequest>(rest),
        6 => comes_back::<PagesReply>(rest),
        7 => comes_back::<RunRequest>(rest),
        8 => comes_back::<RunReply>(rest),
        _ => {
            let mut pieces = Pieces::new(if kind & 0x80 == 0 {
                Limits::FromClient
            } else {
                Limits::FromAgent
            });
            let mut left = rest;
            while let Some((length, after)) = left.split_first_chunk::<2>() {
                let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
                let (piece, after) = after.split_at(length);
                left = after;
                match pieces.push(piece) {
                    Ok(Some(frame)) => {
                        let _ = frame.message::<RunReply>();
                    }
                    Ok(None) => {}
                    Err(_) => break,
                }
            }
        }
    }
}

/// A message that decodes is the same after it was encoded and decoded once more.
fn comes_back<T>(data: &[u8])
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    if let Ok(message) = trace_core::encode::from_bytes::<T>(data) {
        let again = trace_core::encode::to_bytes(&message).unwrap_or_else(|e| panic!("it does not encode: {e}"));
        assert_eq!(trace_core::encode::from_bytes::<T>(&again).ok(), Some(message));
    }
}

/// An NPY file: what reads has as much data as its shape says.
pub fn npy_file(data: &[u8]) {
    if let Ok(file) = npy::Npy::read(data) {
        let again = npy::write(file.element, file.data);
        assert_eq!(
            npy::Npy::read(&again).map(|n| (n.element, n.data)),
            Ok((file.element, file.data))
        );
    }
}
