//! The extension module `_kinescope`: verbs, open recordings and Arrow tables for the Python package `kinescope`.
//!
//! Everything here is private to the package: `python/kinescope/` holds the interface for users.

mod errors;
mod event_batches;
mod open_recording;
mod pictures;
mod register_state;
mod row_tables;
mod table;
mod verbs;
mod work;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _kinescope {
    #[pymodule_export]
    use crate::event_batches::EventBatches;
    #[pymodule_export]
    use crate::open_recording::OpenRecording;
    #[pymodule_export]
    use crate::pictures::render;
    #[pymodule_export]
    use crate::row_tables::table_of_rows;
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::verbs::{run_command_line, run_verb, set_library_folder, set_program_words};
}
