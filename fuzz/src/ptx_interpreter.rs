//! Fuzz target for the interpreter of PTX: any text is refused, or runs to an end or a fault within its limits.

use ptx_interpreter::{GlobalAddress, LaunchShape, Limits, Program, Region, Regions};

/// Address of the memory that kernels may write.
const MEMORY: u64 = 0x1000_0000;
/// Limits of one input: some milliseconds and some megabytes.
const LIMITS: Limits = Limits {
    steps: 50_000,
    depth: 64,
    slots: 1 << 18,
};

/// Parses any bytes as a text, and runs each entry with two blocks of two threads.
pub fn ptx_interpreter(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let Ok(program) = Program::parse(text) else {
        return false;
    };
    let shape = LaunchShape { blocks: 2, threads: 2 };
    for entry in program.entries().iter().take(4) {
        let mut memory = Regions::new();
        let added = memory.add_region(Region {
            base: GlobalAddress(MEMORY),
            bytes: vec![0x5a; 4096],
            writable: true,
        });
        assert!(added, "the only region overlaps nothing");
        let parameters = vec![MEMORY; entry.parameters.len()];
        match program.run_entry(&entry.name, &parameters, shape, &mut memory, LIMITS) {
            Ok(stats) => assert!(stats.steps <= LIMITS.steps && stats.depth <= LIMITS.depth),
            Err(fault) => assert!(!fault.to_string().is_empty()),
        }
    }
    true
}
