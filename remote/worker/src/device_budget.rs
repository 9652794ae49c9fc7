//! The device memory that a program has, and its limit.

use crate::call_error::{CallError, CallResult};
use crate::lock;
use cuda_driver::OUT_OF_MEMORY;
use remote_calls::HandleNumber;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

/// Environment variable with the maximum device memory of a worker's program, bytes.
pub const DEVICE_MEMORY_VARIABLE: &str = "KINESCOPE_WORKER_DEVICE_BYTES";
/// Granularity of the driver's allocations, bytes: very small ones cost as much.
const GRANULE: u64 = 512;

/// What memory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryOwner {
    /// An allocation, by its address.
    Address(u64),
    /// A range of the window that kernels use, by its offset.
    Window(u64),
    /// An array or physical memory, by its handle.
    Object(HandleNumber),
    /// A size that a context has memory for, by its number in `CUlimit`.
    ContextLimit(HandleNumber, u32),
}

/// Memory that counts.
#[derive(Clone, Copy, Debug)]
pub struct Charge {
    bytes: u64,
    /// The context that the memory ends with, or the null handle.
    context: HandleNumber,
}

#[derive(Default)]
struct Ledger {
    /// Bytes of all charges and reservations.
    used: u64,
    charges: HashMap<MemoryOwner, Charge>,
    /// Sizes and physical memory of mappings, by their first addresses.
    mappings: BTreeMap<u64, (u64, HandleNumber)>,
    /// Physical memory whose handle is gone: it lives as long as it is mapped.
    released: HashSet<HandleNumber>,
}

/// The device memory of a program. Without a limit, nothing is counted.
#[derive(Default)]
pub struct DeviceBudget {
    limit: Option<u64>,
    ledger: Mutex<Ledger>,
}

impl DeviceBudget {
    /// Creates the budget of a program that may have this many bytes; `None` for any number.
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            limit,
            ledger: Mutex::default(),
        }
    }

    /// Returns the limit, bytes.
    pub const fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Returns the bytes that the program can still allocate, or `None` without a limit.
    pub fn free_bytes(&self) -> Option<u64> {
        let limit = self.limit?;
        Some(limit.saturating_sub(lock(&self.ledger).used))
    }

    /// Reserves memory for an allocation. The reservation ends with its drop.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` beyond the limit.
    pub fn reserve(&self, bytes: u64) -> CallResult<Reservation<'_>> {
        let Some(limit) = self.limit else {
            return Ok(Reservation { budget: self, bytes: 0 });
        };
        let bytes = round_up(bytes);
        let mut ledger = lock(&self.ledger);
        match ledger.used.checked_add(bytes).filter(|used| *used <= limit) {
            Some(used) => {
                ledger.used = used;
                Ok(Reservation { budget: self, bytes })
            }
            None => Err(CallError::Result(OUT_OF_MEMORY)),
        }
    }

    /// Returns the bytes that an owner has.
    pub fn charged_bytes(&self, owner: MemoryOwner) -> u64 {
        lock(&self.ledger).charges.get(&owner).map_or(0, |charge| charge.bytes)
    }

    /// Removes the memory of an owner before it is freed, so that nobody else has its address or number meanwhile.
    pub fn take(&self, owner: MemoryOwner) -> Option<Charge> {
        let mut ledger = lock(&self.ledger);
        let charge = ledger.charges.remove(&owner)?;
        ledger.used = ledger.used.saturating_sub(charge.bytes);
        Some(charge)
    }

    /// Gives back what [`Self::take`] returned: the memory was not freed.
    pub fn restore(&self, owner: MemoryOwner, charge: Charge) {
        lock(&self.ledger).add(owner, charge);
    }

    /// Removes all memory that ends with a context.
    pub fn release_context(&self, context: HandleNumber) {
        let mut ledger = lock(&self.ledger);
        let mut freed = 0u64;
        ledger.charges.retain(|_, charge| {
            let ends = context != HandleNumber::NULL && charge.context == context;
            freed = freed.saturating_add(if ends { charge.bytes } else { 0 });
            !ends
        });
        ledger.used = ledger.used.saturating_sub(freed);
    }

    /// Notes that physical memory was mapped.
    pub fn note_mapping(&self, at: u64, bytes: u64, physical: HandleNumber) {
        if self.limit.is_some() {
            lock(&self.ledger).mappings.insert(at, (bytes, physical));
        }
    }

    /// Notes that a range of addresses has no mapping any more.
    pub fn remove_mappings(&self, at: u64, bytes: u64) {
        let mut ledger = lock(&self.ledger);
        let end = at.saturating_add(bytes);
        let ended: Vec<u64> = ledger.mappings.range(at..end).map(|(first, _)| *first).collect();
        for first in ended {
            if let Some((_, physical)) = ledger.mappings.remove(&first) {
                ledger.free_unused(physical);
            }
        }
    }

    /// Notes that the handle of physical memory is gone.
    pub fn release_physical(&self, physical: HandleNumber) {
        let mut ledger = lock(&self.ledger);
        if ledger.charges.contains_key(&MemoryOwner::Object(physical)) {
            ledger.released.insert(physical);
            ledger.free_unused(physical);
        }
    }
}

impl Ledger {
    fn add(&mut self, owner: MemoryOwner, charge: Charge) {
        self.used = self.used.saturating_add(charge.bytes);
        if let Some(before) = self.charges.insert(owner, charge) {
            self.used = self.used.saturating_sub(before.bytes);
        }
    }

    /// Removes physical memory that has neither a handle nor a mapping.
    fn free_unused(&mut self, physical: HandleNumber) {
        let is_mapped = self.mappings.values().any(|(_, of)| *of == physical);
        if is_mapped || !self.released.remove(&physical) {
            return;
        }
        if let Some(charge) = self.charges.remove(&MemoryOwner::Object(physical)) {
            self.used = self.used.saturating_sub(charge.bytes);
        }
    }
}

/// Memory that is about to be allocated.
pub struct Reservation<'b> {
    budget: &'b DeviceBudget,
    bytes: u64,
}

impl Reservation<'_> {
    /// Makes the reservation the memory of an owner, of this size. Memory that the owner has had before is gone.
    pub fn assign(self, owner: MemoryOwner, context: HandleNumber, bytes: u64) {
        if self.budget.limit.is_some() {
            let bytes = round_up(bytes);
            lock(&self.budget.ledger).add(owner, Charge { bytes, context });
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut ledger = lock(&self.budget.ledger);
        ledger.used = ledger.used.saturating_sub(self.bytes);
    }
}

fn round_up(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote_calls::HandleKind;

    fn memory(number: u32) -> HandleNumber {
        HandleNumber::from_client(HandleKind::Memory, number).unwrap()
    }

    fn allocate(budget: &DeviceBudget, owner: MemoryOwner, context: HandleNumber, bytes: u64) -> bool {
        budget
            .reserve(bytes)
            .map(|reserved| reserved.assign(owner, context, bytes))
            .is_ok()
    }

    #[test]
    fn allocations_end_at_the_limit() {
        let budget = DeviceBudget::new(Some(4096));
        let none = HandleNumber::NULL;
        assert!(allocate(&budget, MemoryOwner::Address(0x1000), none, 3584));
        assert!(!allocate(&budget, MemoryOwner::Address(0x2000), none, 513));
        assert!(allocate(&budget, MemoryOwner::Address(0x2000), none, 1));
        assert_eq!(budget.free_bytes(), Some(0));
        assert!(!allocate(&budget, MemoryOwner::Address(0x3000), none, 1));
        assert!(!allocate(&budget, MemoryOwner::Address(0x3000), none, u64::MAX));
        let charge = budget.take(MemoryOwner::Address(0x1000)).unwrap();
        assert_eq!(budget.free_bytes(), Some(3584));
        budget.restore(MemoryOwner::Address(0x1000), charge);
        assert_eq!(budget.free_bytes(), Some(0));
        // A call that the driver refuses costs nothing.
        budget.take(MemoryOwner::Address(0x1000)).unwrap();
        drop(budget.reserve(3584).unwrap_or_else(|_| panic!("there is room")));
        assert_eq!(budget.free_bytes(), Some(3584));
        assert!(DeviceBudget::default().reserve(u64::MAX).is_ok());
    }

    #[test]
    fn memory_of_a_context_ends_with_it() {
        let budget = DeviceBudget::new(Some(4096));
        let [first, second] = [1, 2].map(|n| HandleNumber::from_client(HandleKind::Context, n).unwrap());
        assert!(allocate(&budget, MemoryOwner::Address(0x1000), first, 1024));
        assert!(allocate(&budget, MemoryOwner::ContextLimit(first, 2), first, 1024));
        assert!(allocate(&budget, MemoryOwner::Address(0x2000), second, 512));
        // A changed limit replaces its memory.
        assert!(allocate(&budget, MemoryOwner::ContextLimit(first, 2), first, 512));
        assert_eq!(budget.free_bytes(), Some(2048));
        budget.release_context(HandleNumber::NULL);
        budget.release_context(first);
        assert_eq!(budget.free_bytes(), Some(3584));
    }

    #[test]
    fn physical_memory_lives_as_long_as_it_is_mapped() {
        let budget = DeviceBudget::new(Some(4096));
        let (a, b) = (memory(1), memory(2));
        for physical in [a, b] {
            let owner = MemoryOwner::Object(physical);
            assert!(allocate(&budget, owner, HandleNumber::NULL, 2048));
        }
        budget.note_mapping(0x10000, 2048, a);
        budget.note_mapping(0x20000, 2048, a);
        budget.release_physical(a);
        budget.release_physical(b);
        assert_eq!(budget.free_bytes(), Some(2048));
        budget.remove_mappings(0x10000, 2048);
        assert_eq!(budget.free_bytes(), Some(2048));
        budget.remove_mappings(0x20000, 2048);
        assert_eq!(budget.free_bytes(), Some(4096));
        budget.release_physical(a);
        assert_eq!(budget.free_bytes(), Some(4096));
    }
}
