//! Icons: the glyphs of the icon font by name. They are in their own plane, because Inter has other glyphs at the code
//! points that the icon font uses.

/// Icon `play`.
pub const PLAY: &str = "\u{f03d0}";
/// Icon `stop`.
pub const STOP: &str = "\u{f046c}";
/// Icon `x`.
pub const X: &str = "\u{f04f6}";
/// Icon `caret-down`.
pub const CARET_DOWN: &str = "\u{f0136}";
/// Icon `caret-right`.
pub const CARET_RIGHT: &str = "\u{f013a}";
/// Icon `caret-left`.
pub const CARET_LEFT: &str = "\u{f0138}";
/// Icon `caret-up`.
pub const CARET_UP: &str = "\u{f013c}";
/// Icon `magnifying-glass`.
pub const MAGNIFYING_GLASS: &str = "\u{f030c}";
/// Icon `warning`.
pub const WARNING: &str = "\u{f04e0}";
/// Icon `warning-circle`.
pub const WARNING_CIRCLE: &str = "\u{f04e2}";
/// Icon `info`.
pub const INFO: &str = "\u{f02ce}";
/// Icon `x-circle`.
pub const X_CIRCLE: &str = "\u{f04f8}";
/// Icon `check-circle`.
pub const CHECK_CIRCLE: &str = "\u{f0184}";
/// Icon `list`.
pub const LIST: &str = "\u{f02f0}";
/// Icon `cpu`.
pub const CPU: &str = "\u{f0610}";
/// Icon `download-simple`.
pub const DOWNLOAD_SIMPLE: &str = "\u{f020c}";
/// Icon `copy`.
pub const COPY: &str = "\u{f01ca}";
/// Icon `plus`.
pub const PLUS: &str = "\u{f03d4}";
/// Icon `minus`.
pub const MINUS: &str = "\u{f032a}";
/// Icon `question`.
pub const QUESTION: &str = "\u{f03e8}";
/// Icon `clock`.
pub const CLOCK: &str = "\u{f019a}";
/// Icon `pencil-simple`.
pub const PENCIL_SIMPLE: &str = "\u{f03b4}";
/// Icon `push-pin`.
pub const PUSH_PIN: &str = "\u{f03e2}";
/// Icon `film-strip`.
pub const FILM_STRIP: &str = "\u{f0792}";
/// Icon `arrow-right`.
pub const ARROW_RIGHT: &str = "\u{f006c}";
/// Icon `arrow-left`.
pub const ARROW_LEFT: &str = "\u{f0058}";
/// Icon `trash`.
pub const TRASH: &str = "\u{f04a6}";
/// Icon `lightning`.
pub const LIGHTNING: &str = "\u{f02de}";
/// Icon `table`.
pub const TABLE: &str = "\u{f0476}";
/// Icon `squares-four`.
pub const SQUARES_FOUR: &str = "\u{f0464}";
/// Icon `tree-structure`.
pub const TREE_STRUCTURE: &str = "\u{f067c}";
/// Icon `chart-bar`.
pub const CHART_BAR: &str = "\u{f0150}";
/// Icon `terminal-window`.
pub const TERMINAL_WINDOW: &str = "\u{f0ae8}";
/// Icon `sidebar-simple`.
pub const SIDEBAR_SIMPLE: &str = "\u{f0c24}";
/// Icon `hourglass-simple-medium`.
pub const HOURGLASS_SIMPLE_MEDIUM: &str = "\u{f02c0}";
