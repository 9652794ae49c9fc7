//! State of the sheet for changing shortcuts, and of the row that waits for a key.

use super::shortcut::Shortcut;
use crate::theme::rows::Rows;

/// The sheet while it is open.
#[derive(Default)]
pub struct KeysSheet {
    /// Text of the search field.
    pub search: String,
    /// The selected command.
    pub chosen: Option<&'static str>,
    /// The command that receives the next key.
    pub listening: Option<KeyCapture>,
    /// Message about the last change, or why it was rejected.
    pub message: String,
    pub(super) rows: Rows,
    pub(super) focused: bool,
    /// Whether a second press of the button resets all shortcuts to the defaults.
    pub(super) sure: bool,
}

/// A row that waits for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCapture {
    /// The command.
    pub id: &'static str,
    /// Whether the key is added; otherwise it replaces the existing keys.
    pub more: bool,
    /// A shortcut of another command that was pressed once. A second press moves it.
    pub(super) asked: Option<Shortcut>,
}
