//! Pages of the compute scheduler: addresses where a store of a kernel is a message that starts a launch.

use crate::{Client, ClientError, Kernel, PlayError};

/// Maximum number of pages of the compute scheduler in a plan.
pub const MAX_SCHEDULER_PAGES: usize = 4;

/// The pages that a player has mapped.
#[derive(Debug, Default)]
pub(crate) struct SchedulerPages {
    addresses: [Option<u64>; MAX_SCHEDULER_PAGES],
    /// Why the driver did not map one of them.
    pub refusal: Option<ClientError>,
}

impl SchedulerPages {
    /// Maps the page at `va`, if it is not mapped yet. A driver that refuses it does not end the replay: few programs use
    /// the page, and a fault of one that does has the reason.
    pub fn map<K: Kernel>(&mut self, client: &mut Client<K>, compute: u32, va: u64) -> Result<(), PlayError> {
        if self.addresses.contains(&Some(va)) {
            return Ok(());
        }
        let free = self.addresses.iter_mut().find(|page| page.is_none());
        *free.ok_or(PlayError::TooManyRanges)? = Some(va);
        let mapped = client.map_scheduler_page(compute, va);
        self.refusal = self.refusal.or(mapped.err());
        Ok(())
    }

    /// Maps all pages again: they went with the compute object of the old channels.
    pub fn map_again<K: Kernel>(&mut self, client: &mut Client<K>, compute: u32) {
        self.refusal = None;
        for va in self.addresses.iter().flatten() {
            let mapped = client.map_scheduler_page(compute, *va);
            self.refusal = self.refusal.or(mapped.err());
        }
    }
}
