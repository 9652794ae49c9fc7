//! Links in progress of a session.

use crate::jit_options::JitList;
use cuda_driver::CuLinkState;
use remote_calls::HandleNumber;
use std::collections::HashMap;
use std::sync::Mutex;

/// A link. The driver writes its logs until it is destroyed.
pub struct Link {
    /// The driver's handle.
    pub state: usize,
    /// Options, with buffers for logs.
    pub options: JitList,
    /// Inputs: the driver may read one until the link is complete.
    pub inputs: Vec<Vec<u8>>,
    /// The linked image.
    pub image: Vec<u8>,
}

/// Links of a session, by their handles.
#[derive(Default)]
pub struct Links {
    /// The links. One thread works on them at a time: a driver's linker is for one thread.
    pub links: Mutex<HashMap<HandleNumber, Link>>,
}

impl Link {
    /// Returns the driver's handle.
    pub fn state(&self) -> CuLinkState {
        std::ptr::with_exposed_provenance_mut(self.state)
    }
}
