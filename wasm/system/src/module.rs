//! The system module: its text and its binary, with a memory of the size that the host needs.

/// Name of the module from which the system module imports the program's memory.
pub const PROGRAM_MODULE: &str = "program";
/// Name of the program's memory: its export, and the import of the system module.
pub const PROGRAM_MEMORY: &str = "memory";
/// Name under which the system module exports its own memory.
pub const SYSTEM_MEMORY: &str = "memory";

/// The definition of the module's own memory in the text.
const OWN_MEMORY: &str = "(memory $own (export \"memory\") 1 1)";

static TEXT: &str = include_str!("system.wat");

/// Maximum number of pages of a memory.
const MAX_PAGES: u32 = 1 << 16;

/// The system module cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The memory would be too large.
    #[error("system module: a memory of {0} pages (maximum {MAX_PAGES})")]
    TooManyPages(u32),
    /// The text is damaged.
    #[error("system module: {0}")]
    Text(#[from] wat::Error),
}

/// Returns the text of the system module, with a memory of exactly `pages` pages of 64 KiB.
#[must_use]
pub fn text(pages: u32) -> String {
    TEXT.replacen(
        OWN_MEMORY,
        &format!("(memory $own (export \"{SYSTEM_MEMORY}\") {pages} {pages})"),
        1,
    )
}

/// Returns the binary of the system module, with a memory of exactly `pages` pages of 64 KiB.
///
/// # Errors
/// When `pages` is more than 65,536.
pub fn assemble(pages: u32) -> Result<Vec<u8>, ModuleError> {
    if pages > MAX_PAGES {
        return Err(ModuleError::TooManyPages(pages));
    }
    Ok(wat::parse_str(text(pages))?)
}
