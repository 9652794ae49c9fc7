//! Limits of what a translation accepts.

/// Maximum size of a module's file in bytes: positions of traps keep 28 bits.
pub const MAX_MODULE_BYTES: usize = 64 << 20;
/// Maximum number of instances of a program: the largest file of the official test-suite has about 200 modules.
pub const MAX_INSTANCES: u32 = 4096;
/// Maximum number of functions of a program. The driver's compiler takes minutes for some thousands.
pub const MAX_FUNCTIONS: u32 = 200_000;
/// Maximum nesting of blocks in a function. Compilers nest switches some hundreds deep.
pub const MAX_NESTING: usize = 4096;
/// Maximum number of values on the operand stack of a function. Compilers keep some hundreds at most.
pub const MAX_STACK_VALUES: usize = 4096;
/// Maximum nesting of loops in a function.
pub const MAX_LOOP_NESTING: usize = 256;
/// Maximum number of targets of one `br_table`. Longer tables are refused by the driver's compiler in practice.
pub const MAX_BRANCH_TARGETS: u32 = 1 << 16;
/// Maximum number of elements of all tables of a program.
pub const MAX_TABLE_ELEMENTS: u64 = 1 << 20;
/// Maximum number of argument or result values of a function: parameters of PTX functions fit in 4352 bytes.
pub const MAX_VALUES: usize = 256;
/// Maximum reserve of a memory in pages: sizes in bytes fit in 32 bits.
pub const MAX_PAGES: u32 = 65_535;
/// Maximum product of the instructions of a resumable function and of its locals in units of 64.
pub const MAX_LIVE_WORK: usize = 1 << 26;
/// Maximum number of live locals at all stops of one function together.
pub const MAX_LIVE_LOCALS: usize = 8 << 20;
/// Maximum size of a text: the driver's compiler needs about 1 GB for 1 MB of it.
pub const MAX_TEXT_BYTES: usize = 64 << 20;
/// Maximum size of the constants in bytes.
pub const MAX_CONSTANT_BYTES: usize = 512 << 20;
