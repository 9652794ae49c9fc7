//! The integration tests of this crate, in one program: it links once.

mod chains;
mod common;
mod debug;
mod differential;
mod hostile;
mod modifiers;
mod oracle;
mod outcome;
mod placement;
mod recorded_reads;
mod refusals;
mod replay;
mod state_before;
mod textures;
mod trim;
