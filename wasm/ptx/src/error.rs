//! The error of a translation.

/// Why a program cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// The bytes are no valid module, or use a feature that is refused by name.
    #[error("module `{module}`: {message} (at byte {offset:#x})")]
    Invalid {
        /// Name of the module as the host gave it.
        module: String,
        /// Byte offset in the module's file.
        offset: u64,
        /// What the validator found.
        message: String,
    },
    /// The module is valid, but uses what the translator does not support.
    #[error("module `{module}`: {feature} is not supported (at byte {offset:#x})")]
    Unsupported {
        /// Name of the module as the host gave it.
        module: String,
        /// Byte offset in the module's file.
        offset: u64,
        /// Name of the feature.
        feature: &'static str,
    },
    /// An import has no export and no host function.
    #[error("module `{module}`: unknown import `{from}.{name}`")]
    UnknownImport {
        /// Name of the importing module.
        module: String,
        /// Module that the import names.
        from: String,
        /// Item that the import names.
        name: String,
    },
    /// An import finds an item of another kind or type.
    #[error("module `{module}`: incompatible import type of `{from}.{name}`")]
    IncompatibleImport {
        /// Name of the importing module.
        module: String,
        /// Module that the import names.
        from: String,
        /// Item that the import names.
        name: String,
    },
    /// A number of the module or of the translation exceeds its limit.
    #[error("{what}: {count} exceeds the limit of {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The number found, at least.
        count: u64,
        /// The limit.
        limit: u64,
    },
    /// The host named an instance, a memory or an export that does not exist.
    #[error("the program has no {what} `{name}`")]
    Missing {
        /// What kind of item is missing.
        what: &'static str,
        /// Its name or number.
        name: String,
    },
}
