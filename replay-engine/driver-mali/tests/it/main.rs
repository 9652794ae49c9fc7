//! The integration tests of this crate, in one program: it links once.

mod agreement;
mod chains;
mod changes;
mod edited_changes;
mod endless;
mod outcomes;
mod pictures;
mod programs;
mod samples;
