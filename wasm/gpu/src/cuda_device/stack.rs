//! The stack of a thread: what a program needs for its nested calls.

/// Bytes of stack that are added to what the compiler reports: parameters and return addresses of calls.
const STACK_MARGIN: u64 = 1 << 10;
/// Bytes that a call of a function takes besides its frame.
pub(super) const CALL_BYTES: u64 = 32;

/// Part of the free device memory that the stack of all threads can take: one half. The rest stays for copies.
const MAX_STACK_SHARE: u64 = 2;

/// Returns the maximum number of bytes of the stack of each of `threads` threads, with `free` bytes of device memory.
pub(super) fn thread_share(free: u64, threads: u32) -> u64 {
    free / MAX_STACK_SHARE / u64::from(threads.max(1))
}

/// What the stack of a thread consists of.
///
/// The driver knows the size of the kernel, and of what it calls directly. Recursion and indirect calls add the largest
/// frame for each nested call.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackNeeds {
    /// Bytes of the kernel.
    pub local_bytes: u64,
    /// Bytes of a nested call.
    pub call_bytes: u64,
    /// Nested calls that the depth limit does not count.
    pub uncounted: u64,
    /// A function can call itself.
    pub recursive: bool,
}

impl StackNeeds {
    /// Returns the bytes for a number of nested calls.
    pub fn bytes(self, depth: u32) -> u64 {
        let counted = if self.recursive { u64::from(depth) } else { 0 };
        let calls = self.uncounted.saturating_add(counted).saturating_mul(self.call_bytes);
        let bytes = self.local_bytes.saturating_add(calls).saturating_add(STACK_MARGIN);
        bytes.checked_next_multiple_of(16).unwrap_or(u64::MAX)
    }

    /// Returns the number of nested calls that fit in `available` bytes, at most `limit`.
    pub fn depth(self, available: u64, limit: u32) -> u32 {
        if !self.recursive {
            return limit;
        }
        let rest = available.saturating_sub(self.bytes(0)) / self.call_bytes.max(1);
        limit.min(u32::try_from(rest).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_present_stack_counts_for_a_larger_one() {
        let needs = StackNeeds {
            local_bytes: 0,
            call_bytes: 1024,
            uncounted: 0,
            recursive: true,
        };
        let (threads, total) = (1 << 10, 1 << 30);
        let first = needs.depth(thread_share(total, threads), 500);
        let reserved = needs.bytes(first) * u64::from(threads);
        let rest = total - reserved;
        // Without the present stack the same device seems to have no room for what it has already.
        assert!(needs.depth(thread_share(rest, threads), 1024) < first);
        assert!(needs.depth(thread_share(rest + reserved, threads), 1024) >= first);
    }

    #[test]
    fn the_depth_follows_from_the_stack() {
        let needs = StackNeeds {
            local_bytes: 100,
            call_bytes: 400,
            uncounted: 20,
            recursive: true,
        };
        assert_eq!(needs.bytes(0), (100 + 20 * 400 + STACK_MARGIN).next_multiple_of(16));
        assert_eq!(needs.depth(1 << 20, 1024), 1024);
        let depth = needs.depth(140_000, 1024);
        assert!(depth > 300 && depth < 350, "{depth}");
        assert!(needs.bytes(depth) <= 140_000 + 16);
        assert_eq!(needs.depth(0, 1024), 0);
        let flat = StackNeeds {
            recursive: false,
            ..needs
        };
        assert_eq!((flat.depth(0, 1024), flat.bytes(1024)), (1024, flat.bytes(0)));
    }
}
