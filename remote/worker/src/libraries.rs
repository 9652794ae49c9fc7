//! NVIDIA's libraries above the driver: loaded at a program's first call, with its objects.

mod functions;
mod objects;
mod places;

use functions::LoadedLibrary;
use objects::Objects;
use remote_calls::library::NvidiaLibrary;
use std::sync::OnceLock;

pub use objects::LibraryObject;
pub use places::{CallFrame, LibraryError};

/// The libraries of a session, and their objects.
#[derive(Default)]
pub struct Libraries {
    /// By the number of the library. A library that could not be loaded stays so for the session.
    loaded: [OnceLock<Result<LoadedLibrary, String>>; 2],
    pub objects: Objects,
}

impl Libraries {
    /// Returns a library, which is loaded at the first call.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub fn load(&self, library: NvidiaLibrary, major: u32) -> Result<&LoadedLibrary, &str> {
        let [cublas, curand] = &self.loaded;
        let slot = match library {
            NvidiaLibrary::Cublas => cublas,
            NvidiaLibrary::Curand => curand,
        };
        let loaded = slot.get_or_init(|| LoadedLibrary::load(library, major));
        loaded.as_ref().map_err(String::as_str)
    }
}
