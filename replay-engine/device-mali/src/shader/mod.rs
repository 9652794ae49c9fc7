//! Shaders: from the clauses of a job's code to the work of its threads.
//!
//! | file | job |
//! |---|---|
//! | `mods.rs` | modifiers of an operation, read once |
//! | `scalar/` | what every arithmetic operation computes, for one lane |
//! | `float.rs` | roundings and conversions of floats |
//! | `approx.rs` | the approximation tables, which are approximations here too |
//! | `lanes.rs` | the same operations for all lanes of a wave at once |
//! | `block.rs` | clauses in executable form |
//! | `translate.rs` | clauses into that form: operands, writes, timing |
//! | `translate/modes.rs` | what a clause's header makes of its operations |
//! | `translate/message_ops.rs` | messages and branches of a clause |
//! | `vector.rs` | which operations have a form for all lanes |
//! | `program.rs` | all clauses that a shader can reach |
//! | `wave.rs` | the lanes of a wave: where each is, and who goes next |
//! | `bound.rs` | textures, images, attributes |
//! | `warp.rs` | what lanes of a subgroup tell each other |
//! | `message.rs` | loads, stores, atomics, branches |
//! | `group.rs` | the waves of a workgroup, barriers, shared memory |

mod approx;
pub(crate) mod block;
mod descriptor_op;
mod float;
pub(crate) mod group;
pub(crate) mod lanes;
mod message;
mod mods;
pub(crate) mod program;
mod scalar;
pub(crate) mod translate;
mod vector;
mod warp;
mod wave;
