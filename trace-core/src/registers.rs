//! Register maps: data in `assets/registers/`, and the decoder of registers, entries and descriptors.
//!
//! A map consists of TOML files, one block per file, as `docs/register-map.md` specifies. The project's maps are
//! embedded; [`RegisterMap::parse`] reads others.

mod access;
mod accesses;
mod array;
mod bus;
mod bus_parser;
mod description;
mod device;
mod embedded;
mod entry;
mod field_parser;
mod guess;
pub mod history;
mod layout;
mod lookup;
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
pub use array::{
    ArrayLevel, ArrayPart, ArrayShape, MAX_COMPARED, MAX_LEVEL_MEMBERS, MAX_LEVELS, count_marks, fix_numbers, skeleton,
};
pub use bus::{AddressRegister, BusCommand, BusEngine, BusEntries, BusMaster, CopyEngine, QueueEngine};
pub use description::ValueDescriber;
pub use embedded::{device_name, gpu_name};
pub use guess::{Follower, Guess, Hint, Poller, guess};
pub use layout::{Decoded, Direction, Field, FieldKind, FieldValue, Layout, NamedValues, Unknown};
pub use map::RegisterMap;
pub use map_error::RegisterMapError;
pub use map_selection::{MapScope, choose, recorded_name};
pub use memory::NamedMemory;
pub use recorded::{NO_SPACE, RecordedRegisters, format_location, has_several_spaces, register_space};
pub use register::{AccessRule, Half, ReadRule, Register, Replay, Role};
pub use screen::{ScreenFact, ScreenSource};
