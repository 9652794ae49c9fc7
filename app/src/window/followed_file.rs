//! The state of a file that the window follows.

use kinescope_session::following::{FollowStatus, Follower};
use std::path::Path;

/// A file that the window follows.
pub struct FollowedFile {
    pub(super) follower: Follower,
    /// The state at the last frame.
    pub(super) status: FollowStatus,
    /// The finished file is being opened.
    pub(super) is_opening: bool,
}

impl FollowedFile {
    /// Returns the requested path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.follower.path()
    }

    /// Returns the state at the last frame.
    #[must_use]
    pub fn status(&self) -> &FollowStatus {
        &self.status
    }
}
