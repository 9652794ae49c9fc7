//! Register maps: data in `assets/registers/`, and the decoder of registers, entries and descriptors.
//!
//! A map consists of TOML files, one block per file, as `docs/register-map.md` specifies. The project's maps are
//! embedded; [`RegisterMap::parse`] reads others.

mod access;
mod accesses;
mod bus;
mod bus_parser;
mod device;
mod embedded;
mod guess;
pub mod history;
mod layout;
mod map;
mod map_error;
mod map_selection;
mod memory;
mod overlay;
mod parse;
mod raw;
mod recorded;
mod register;
mod rules;
mod screen;
#[cfg(test)]
mod tests;
mod weight;

pub use access::{CoveredRegisters, Part};
pub(crate) use accesses::gallop;
pub use accesses::{AccessList, Accesses, Cursor, RegisterAccess};
pub use bus::{AddressRegister, BusCommand, BusEngine, BusEntries, BusMaster, CopyEngine, QueueEngine};
pub use embedded::{device_name, gpu_name};
pub use guess::{Follower, Guess, Hint, Poller, guess};
pub use layout::{Decoded, Field, FieldKind, FieldValue, Layout, Unknown};
pub use map::RegisterMap;
pub use map_error::RegisterMapError;
pub use map_selection::{MapScope, choose, recorded_name};
pub use memory::NamedMemory;
pub use recorded::{NO_SPACE, RecordedRegisters, format_location, has_several_spaces, register_space};
pub use register::{AccessRule, Half, ReadRule, Register, Replay, Role};
pub use screen::{ScreenFact, ScreenSource};
