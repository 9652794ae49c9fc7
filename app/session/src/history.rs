//! The history of positions: current event and selection, with moves back and forward.

use kinescope_files::scene::Selection;

/// A position that the user visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Event.
    pub current_event: u64,
    /// Selection.
    pub selection: Selection,
}

/// Maximum number of stored positions.
const MAX_HISTORY: usize = 500;

/// The visited positions in order, and the index of the current one.
#[derive(Clone, Debug)]
pub struct History {
    places: Vec<HistoryEntry>,
    at: usize,
}

impl History {
    /// Creates a history that starts at a position.
    #[must_use]
    pub fn new(place: HistoryEntry) -> Self {
        Self {
            places: vec![place],
            at: 0,
        }
    }

    /// Moves to a new position and discards the positions after the current one.
    pub fn go(&mut self, place: HistoryEntry) {
        if self.places.get(self.at) == Some(&place) {
            return;
        }
        self.places.truncate(self.at + 1);
        self.places.push(place);
        if self.places.len() > MAX_HISTORY {
            self.places.remove(0);
        }
        self.at = self.places.len() - 1;
    }

    /// Whether there is a position to go back to.
    #[must_use]
    pub fn can_back(&self) -> bool {
        self.at > 0
    }

    /// Whether there is a position to go forward to.
    #[must_use]
    pub fn can_forward(&self) -> bool {
        self.at + 1 < self.places.len()
    }

    /// Moves to the previous position and returns it.
    pub fn back(&mut self) -> Option<HistoryEntry> {
        self.at = self.at.checked_sub(1)?;
        self.places.get(self.at).cloned()
    }

    /// Moves to the next position and returns it.
    pub fn forward(&mut self) -> Option<HistoryEntry> {
        let place = self.places.get(self.at + 1).cloned()?;
        self.at += 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(current_event: u64) -> HistoryEntry {
        HistoryEntry {
            current_event,
            selection: Selection::Event,
        }
    }

    #[test]
    fn going_to_an_event_clears_the_forward_history() {
        let mut h = History::new(at(0));
        h.go(at(5));
        h.go(at(9));
        assert_eq!(h.back(), Some(at(5)));
        assert_eq!(h.back(), Some(at(0)));
        assert_eq!(h.back(), None);
        assert_eq!(h.forward(), Some(at(5)));
        h.go(at(7));
        assert!(!h.can_forward());
        assert_eq!(h.back(), Some(at(5)));
    }
}
