//! The score of a line: how well it fits a text format.

/// How well a line fits a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineScore {
    /// The line is not of the format.
    Foreign,
    /// The line is almost one with an access: what is missing.
    Near(&'static str),
    /// The line begins as one of the format and is too short to be sure: what is missing.
    Start(&'static str),
    /// The line is of the format, and no access.
    Frame,
    /// The line is an access, or work of a driver.
    Access,
}

/// The lines of a text that fit a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TextScore {
    /// Number of lines by kind.
    pub(super) accesses: u64,
    pub(super) frames: u64,
    /// The first line that is almost an access, by its number from 1, and what is missing.
    pub(super) near: Option<(u64, &'static str)>,
    /// Number of lines that begin as lines of the format, and the first one with what is missing.
    pub(super) starts: u64,
    pub(super) start: Option<(u64, &'static str)>,
}

impl TextScore {
    /// Counts a line by its number.
    pub(super) fn add(&mut self, line: u64, score: LineScore) {
        match score {
            LineScore::Foreign => {}
            LineScore::Near(missing) => {
                self.near.get_or_insert((line, missing));
            }
            LineScore::Start(missing) => {
                self.starts += 1;
                self.start.get_or_insert((line, missing));
            }
            LineScore::Frame => self.frames += 1,
            LineScore::Access => self.accesses += 1,
        }
    }

    /// Returns the order of scores: accesses count most, then lines that are almost accesses, then others.
    pub(super) fn rank(&self) -> (u64, bool, u64) {
        (self.accesses, self.near.is_some(), self.frames + self.starts)
    }
}
