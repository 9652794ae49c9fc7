//! The one moment, the one selection, and the way back through where the person has been.

pub use kinescope_files::scene::Selection;

/// A place that the person has been at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Event.
    pub moment: u64,
    /// Selection.
    pub selection: Selection,
}

/// Maximum number of places kept.
const MAX_HISTORY: usize = 500;

/// Places in the order in which the person was there, and which of them is now.
#[derive(Clone, Debug)]
pub struct History {
    places: Vec<HistoryEntry>,
    at: usize,
}

impl History {
    /// A history that starts at a place.
    #[must_use]
    pub fn new(place: HistoryEntry) -> Self {
        Self {
            places: vec![place],
            at: 0,
        }
    }

    /// Goes to a new place; what lay ahead is forgotten.
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

    /// Whether there is a place to go back to.
    #[must_use]
    pub fn can_back(&self) -> bool {
        self.at > 0
    }

    /// Whether there is a place to go forward to.
    #[must_use]
    pub fn can_forward(&self) -> bool {
        self.at + 1 < self.places.len()
    }

    /// The place before this one.
    pub fn back(&mut self) -> Option<HistoryEntry> {
        self.at = self.at.checked_sub(1)?;
        self.places.get(self.at).cloned()
    }

    /// The place after this one.
    pub fn forward(&mut self) -> Option<HistoryEntry> {
        let place = self.places.get(self.at + 1).cloned()?;
        self.at += 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(moment: u64) -> HistoryEntry {
        HistoryEntry {
            moment,
            selection: Selection::Event,
        }
    }

    #[test]
    fn history_walks_back_and_forth_and_forgets_what_lay_ahead() {
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
