//! Faults at pages of doorbells: logs the submission, performs the access on the alias, and steps over the instruction.
//!
//! It runs in the handler of faults: it allocates nothing, and every call it makes is allowed in signal handlers.
#![allow(
    unsafe_code,
    reason = "accesses to registers of a device at addresses of the program"
)]

use crate::address::HostAddr;
use crate::guarded_copy::{read_memory, recovery_address};
use crate::instruction::{self, Direction, MemoryAccess, Registers};
use crate::log::Part;
use crate::process::{RecorderGuard, is_recording, lock_at_doorbell, stop};
use crate::recorder::Recorder;
use crate::records::{self, DoorbellKind, kind};
use crate::submissions::log_token;
use crate::system::{errno, protect, set_errno};
use crate::trap_pages::{self, TrapPage};
use libc::{c_int, ucontext_t};
use std::arch::x86_64::_mm_sfence;

/// Positions of the general registers in the saved state, in the order of their numbers in instructions.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];
/// Bytes of a page: code after a page boundary may be missing.
const PAGE_BYTES: u64 = 4096;

/// Handles a fault at an address. Returns `false` if it is a fault of the program.
pub(crate) fn handle(state: &mut ucontext_t, address: HostAddr) -> bool {
    let at = HostAddr::new(register(state, libc::REG_RIP));
    if let Some(recovery) = recovery_address(at) {
        set_register(state, libc::REG_RIP, recovery.get());
        return true;
    }
    let Some(page) = trap_pages::find(address) else {
        return false;
    };
    let errno_before = errno();
    handle_access(state, address, at, page);
    set_errno(errno_before);
    true
}

fn register(state: &ucontext_t, index: c_int) -> u64 {
    let registers = &state.uc_mcontext.gregs;
    usize::try_from(index)
        .ok()
        .and_then(|n| registers.get(n))
        .map_or(0, |n| *n as u64)
}

fn set_register(state: &mut ucontext_t, index: c_int, value: u64) {
    let registers = &mut state.uc_mcontext.gregs;
    if let Some(register) = usize::try_from(index).ok().and_then(|n| registers.get_mut(n)) {
        *register = value as i64;
    }
}

fn handle_access(state: &mut ucontext_t, address: HostAddr, at: HostAddr, page: TrapPage) {
    if !is_recording() {
        // The recording ended after the fault: the page is accessible, and the instruction runs again.
        let _ = protect(page.start, page.bytes, page.rights);
        return;
    }
    let code = read_code(at);
    let registers: Registers = REGISTERS.map(|index| register(state, index));
    let access = instruction::decode(&code, at, &registers).filter(|access| access.address == address);
    let alias = page.alias_of(address);
    // Without the lock, this thread is in the recorder: a signal handler of the program interrupted it.
    let mut guard = lock_at_doorbell();
    let (Some(access), Some(alias)) = (access, alias) else {
        match &mut guard {
            Some(guard) => guard.run(|recorder, thread| {
                log_doorbell(recorder, thread, address, at, &code, 0, DoorbellKind::Unknown)?;
                stop(recorder, thread, "an instruction at a page of doorbells is not known");
                Ok(())
            }),
            None => trap_pages::open_all(),
        }
        return;
    };
    match access.direction {
        Direction::Store(value) => {
            log_store(guard.as_mut(), &access, value, at, &code, page);
            store(alias, access.width, value);
        }
        Direction::Load(target) => {
            let value = load(alias, access.width);
            if let Some(guard) = &mut guard {
                guard.run(|recorder, thread| {
                    log_doorbell(recorder, thread, address, at, &code, value as u32, DoorbellKind::Load)
                });
            }
            if let Some(index) = REGISTERS.get(target.register) {
                let before = register(state, *index);
                set_register(state, *index, target.merge(before, value));
            }
        }
    }
    set_register(state, libc::REG_RIP, at.get().wrapping_add(u64::from(access.length)));
}

/// Logs what a store announces, and the store.
fn log_store(
    guard: Option<&mut RecorderGuard>,
    access: &MemoryAccess,
    value: u64,
    at: HostAddr,
    code: &[u8; 16],
    page: TrapPage,
) {
    let Some(guard) = guard else { return };
    let token = value as u32;
    guard.run(|recorder, thread| {
        log_token(recorder, thread, token, (page.client, page.device))?;
        log_doorbell(recorder, thread, access.address, at, code, token, DoorbellKind::Store)
    });
}

fn log_doorbell(
    recorder: &mut Recorder,
    thread: u32,
    address: HostAddr,
    at: HostAddr,
    code: &[u8; 16],
    value: u32,
    access: DoorbellKind,
) -> Result<(), crate::log::LogError> {
    let record = records::doorbell(address, at, code, value, access);
    recorder.append(kind::DOORBELL, thread, &[Part::Bytes(&record)])
}

/// Reads the bytes of the faulting instruction, with zeros for those that are not readable.
fn read_code(at: HostAddr) -> [u8; 16] {
    let mut code = [0; 16];
    if !read_memory(at, &mut code) {
        code = [0; 16];
        let in_page = (PAGE_BYTES - at.get() % PAGE_BYTES).min(16) as usize;
        if let Some(part) = code.get_mut(..in_page) {
            read_memory(at, part);
        }
    }
    code
}

/// Performs a store of the program on the alias, after all its stores to memory.
fn store(alias: HostAddr, width: u8, value: u64) {
    let at = alias.pointer();
    // SAFETY: the alias maps the same registers with the same rights, and the program's store has this width.
    unsafe {
        _mm_sfence();
        match width {
            1 => at.write_volatile(value as u8),
            2 => at.cast::<u16>().write_volatile(value as u16),
            4 => at.cast::<u32>().write_volatile(value as u32),
            _ => at.cast::<u64>().write_volatile(value),
        }
    }
}

/// Performs a load of the program on the alias.
fn load(alias: HostAddr, width: u8) -> u64 {
    let at = alias.pointer();
    // SAFETY: the alias maps the same registers with the same rights, and the program's load has this width.
    unsafe {
        match width {
            1 => u64::from(at.read_volatile()),
            2 => u64::from(at.cast::<u16>().read_volatile()),
            4 => u64::from(at.cast::<u32>().read_volatile()),
            _ => at.cast::<u64>().read_volatile(),
        }
    }
}
