//! Names of a log by number.

/// Names by number: a log has few names and many lines with each.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    all: Vec<Box<[u8]>>,
}

impl Names {
    /// Maximum number of names; later ones share the last.
    const MAX_NAMES: usize = 1000;

    pub(super) fn number(&mut self, name: &[u8]) -> u16 {
        let at = self.all.iter().position(|n| **n == *name).unwrap_or_else(|| {
            if self.all.len() < Self::MAX_NAMES {
                self.all.push(name.into());
            }
            self.all.len() - 1
        });
        at as u16
    }

    pub(super) fn name(&self, number: u16) -> String {
        let name = self
            .all
            .get(usize::from(number))
            .map(|n| String::from_utf8_lossy(n).into_owned());
        name.unwrap_or_default()
    }

    /// Returns the numbers of these names in another list.
    pub(super) fn numbers_in(&self, others: &mut Self) -> Vec<u16> {
        self.all.iter().map(|n| others.number(n)).collect()
    }
}
