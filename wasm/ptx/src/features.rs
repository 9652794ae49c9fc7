//! The features that each role of module may use.

use wasmparser::WasmFeatures;

use crate::program::ModuleRole;

/// Returns the features of the gate: wasmparser refuses all others by name and byte offset.
///
/// With `several_tables` it also accepts references; the reader of modules then refuses values of these types.
pub(crate) fn features(role: ModuleRole, several_tables: bool) -> WasmFeatures {
    let mut user = WasmFeatures::MVP
        | WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::CALL_INDIRECT_OVERLONG;
    if several_tables {
        // Not set to false otherwise: its bits have those of `CALL_INDIRECT_OVERLONG` among them.
        user |= WasmFeatures::REFERENCE_TYPES;
    }
    match role {
        ModuleRole::User => user,
        ModuleRole::System => user | WasmFeatures::MULTI_MEMORY,
    }
}
