//! Shader executor: from the clauses of a job's code to the execution of its threads.
//!
//! | file | job |
//! |---|---|
//! | `mods.rs` | modifiers of an operation, parsed once |
//! | `scalar/` | scalar definition of every arithmetic operation, for one lane |
//! | `float.rs` | roundings and conversions of floats |
//! | `approx.rs` | functions that the hardware approximates with tables |
//! | `lanes.rs` | vector arithmetic for all lanes of a wave |
//! | `block.rs` | clauses in executable form |
//! | `translate.rs` | translation into that form: operands, writes, timing |
//! | `translate/modes.rs` | clause modes of float operations |
//! | `translate/message_ops.rs` | translation of messages and branches |
//! | `vector.rs` | selection of the vector form of operations |
//! | `program.rs` | all clauses that a shader can reach |
//! | `wave.rs` | state of a wave's lanes: the clause of each, and the group that runs next |
//! | `descriptor_op.rs`, `descriptor_access.rs` | textures, images, attributes |
//! | `warp.rs` | exchanges between the lanes of a subgroup |
//! | `message.rs` | loads, stores, atomics, branches |
//! | `group.rs` | the waves of a workgroup, barriers, shared memory |

mod approx;
pub(crate) mod block;
mod descriptor_access;
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
