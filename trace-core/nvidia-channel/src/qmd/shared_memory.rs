//! Sizes of shared memory, and how much of an SM's memory is configured for it.

/// Shared memory that the system reserves at the start of a block since Hopper, in bytes.
pub const RESERVED_SHARED_BYTES: u64 = 0x400;
/// Maximum shared memory of a block in bytes, with the reserved part, on Hopper.
pub const MAX_SHARED_BYTES: u64 = 228 << 10;
/// Sizes that Hopper's SM can configure for shared memory, in KiB.
const SIZES_KIB: [u64; 9] = [8, 16, 32, 64, 100, 132, 164, 196, 228];
/// Maximum number of threads of an SM.
const MAX_SM_THREADS: u64 = 2048;
/// Maximum number of blocks of an SM.
const MAX_SM_BLOCKS: u64 = 32;

/// How much of an SM's memory is configured for shared memory, as the descriptor has it: KiB / 4 + 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedConfiguration {
    /// Minimum: the SM runs the grid with this or a larger configuration.
    pub min: u32,
    /// Maximum.
    pub max: u32,
    /// Configuration that the SM changes to when it must change.
    pub target: u32,
}

impl SharedConfiguration {
    /// Returns the configuration for a grid on Hopper: the smallest size that holds the blocks which fit an SM by their
    /// threads. CUDA's driver computes the minimum in this way. Returns `None` if a block has no threads, or more
    /// shared memory than an SM.
    ///
    /// `block_bytes` is the shared memory of a block with the reserved part.
    #[must_use]
    pub fn for_grid(block_bytes: u64, block_threads: u64) -> Option<Self> {
        let by_threads = MAX_SM_THREADS.checked_div(block_threads)?.clamp(1, MAX_SM_BLOCKS);
        let by_memory = MAX_SHARED_BYTES.checked_div(block_bytes.max(1))?;
        if by_memory == 0 {
            return None;
        }
        let bytes = block_bytes.checked_mul(by_threads.min(by_memory))?;
        let kib = SIZES_KIB.into_iter().find(|kib| kib << 10 >= bytes)?;
        let field = |kib: u64| (kib / 4 + 1) as u32;
        Some(Self {
            min: field(kib),
            max: field(MAX_SHARED_BYTES >> 10),
            target: field(kib),
        })
    }
}

/// Returns the shared memory of a block as the descriptor has it: a multiple of 128 bytes.
#[must_use]
pub(crate) fn round_shared_bytes(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_is_the_one_of_cudas_driver() {
        // Shared memory, threads, and MIN_SM_CONFIG_SHARED_MEM_SIZE of recorded launches.
        for (bytes, threads, min) in [
            (0x400, 256, 3),
            (0x800, 256, 5),
            (0x1400, 128, 0x1a),
            (0x400, 64, 9),
            (0x400, 32, 9),
            (0x400, 1, 9),
        ] {
            let configuration = SharedConfiguration::for_grid(bytes, threads);
            assert_eq!(configuration.map(|c| (c.min, c.max)), Some((min, 0x3a)), "{bytes:#x}");
        }
    }

    #[test]
    fn large_blocks_get_the_largest_size() {
        assert_eq!(
            SharedConfiguration::for_grid(MAX_SHARED_BYTES, 64).map(|c| c.min),
            Some(58)
        );
        assert_eq!(SharedConfiguration::for_grid(100 << 10, 64).map(|c| c.min), Some(58));
        assert_eq!(SharedConfiguration::for_grid(MAX_SHARED_BYTES + 1, 64), None);
        assert_eq!(SharedConfiguration::for_grid(0x400, 0), None);
        assert_eq!(SharedConfiguration::for_grid(0, 1024).map(|c| c.min), Some(3));
    }
}
