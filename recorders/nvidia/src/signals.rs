//! Signals of faults: the recorder's handler stays installed, and the program's handler is called for its own faults.
#![allow(unsafe_code, reason = "signal handlers and their registration are foreign calls")]

use crate::next_function::real_sigaction;
use libc::{c_int, c_ulong, c_void, sigaction as SigAction, siginfo_t, sigset_t};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// A handler with all arguments.
type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
/// A handler with the number of the signal alone.
type PlainHandler = unsafe extern "C" fn(c_int);

/// The signals of faults.
const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Bytes of a signal set in system calls.
const SET_BYTES: usize = 8;

/// What the program wants done at a signal.
struct ProgramAction {
    handler: AtomicUsize,
    flags: AtomicI32,
    /// Blocked signals, as bits.
    mask: AtomicU64,
}

impl ProgramAction {
    const fn new() -> Self {
        Self {
            handler: AtomicUsize::new(libc::SIG_DFL),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
        }
    }

    fn load(&self) -> SigAction {
        // SAFETY: the structure holds numbers, for which zero is a value.
        let mut action: SigAction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = self.handler.load(Ordering::Relaxed);
        action.sa_flags = self.flags.load(Ordering::Relaxed);
        action.sa_mask = set_from_bits(self.mask.load(Ordering::Relaxed));
        action
    }

    fn store(&self, action: &SigAction) {
        self.flags.store(action.sa_flags, Ordering::Relaxed);
        self.mask.store(bits_of(&action.sa_mask), Ordering::Relaxed);
        self.handler.store(action.sa_sigaction, Ordering::Relaxed);
    }
}

static ACTIONS: [ProgramAction; 2] = [const { ProgramAction::new() }; 2];
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Returns the first 64 signals of a set as bits.
fn bits_of(set: &sigset_t) -> u64 {
    // SAFETY: a signal set begins with 64 bits on this machine.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read() }
}

fn set_from_bits(bits: u64) -> sigset_t {
    // SAFETY: a signal set holds numbers, for which zero is a value, and begins with 64 bits on this machine.
    unsafe {
        let mut set: sigset_t = std::mem::zeroed();
        (&raw mut set).cast::<u64>().write(bits);
        set
    }
}

fn bit(signal: c_int) -> u64 {
    1u64.checked_shl((signal - 1).unsigned_abs()).unwrap_or(0)
}

/// Returns a set without the signals of faults: a thread that blocks them cannot reach a page of doorbells.
pub(crate) fn without_faults(set: &sigset_t) -> sigset_t {
    let faults = FAULTS.iter().fold(0, |bits, signal| bits | bit(*signal));
    let mut changed = *set;
    let bits = bits_of(set) & !faults;
    // SAFETY: a signal set begins with 64 bits on this machine.
    unsafe { (&raw mut changed).cast::<u64>().write(bits) };
    changed
}

fn action_of(signal: c_int) -> Option<&'static ProgramAction> {
    let index = FAULTS.iter().position(|fault| *fault == signal)?;
    ACTIONS.get(index)
}

/// Installs the handler of faults. The program's handlers are remembered and still called.
pub(crate) fn install_fault_handler() {
    if INSTALLED.swap(true, Ordering::AcqRel) {
        return;
    }
    for signal in FAULTS {
        // SAFETY: the structures are complete and local; the handler is in this library, which stays loaded.
        unsafe {
            let mut before: SigAction = std::mem::zeroed();
            let mut own: SigAction = std::mem::zeroed();
            own.sa_sigaction = on_fault as *const () as usize;
            // A fault in the guarded copy inside the handler is a nested one.
            own.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
            let mut all: sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            own.sa_mask = without_faults(&all);
            real_sigaction(signal, std::ptr::null(), &raw mut before);
            if let Some(action) = action_of(signal) {
                action.store(&before);
            }
            real_sigaction(signal, &raw const own, std::ptr::null_mut());
        }
    }
    // The thread that starts the recorder may have blocked them.
    let mut faults = set_from_bits(FAULTS.iter().fold(0, |bits, signal| bits | bit(*signal)));
    // SAFETY: the set is complete.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_UNBLOCK,
            &raw mut faults,
            std::ptr::null_mut::<sigset_t>(),
            SET_BYTES,
        )
    };
}

/// Sets the program's action for a signal of faults, and returns the one before; `None` if the recorder does not handle
/// this signal.
#[cfg(not(test))]
pub(crate) fn set_program_action(signal: c_int, new: Option<&SigAction>) -> Option<SigAction> {
    if !INSTALLED.load(Ordering::Acquire) {
        return None;
    }
    let action = action_of(signal)?;
    let before = action.load();
    if let Some(new) = new {
        action.store(new);
    }
    Some(before)
}

/// Handles a fault: one of the guarded copy, one at a page of doorbells, or one of the program.
///
/// # Safety
/// Only the kernel calls it.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both structures, valid while the handler runs.
    let (Some(details), Some(state)) = (unsafe { info.as_ref() }, unsafe {
        context.cast::<libc::ucontext_t>().as_mut()
    }) else {
        return;
    };
    if details.si_code > 0 {
        // SAFETY: a fault has an address.
        let address = unsafe { details.si_addr() } as u64;
        if crate::trap::handle(state, crate::address::HostAddr::new(address)) {
            return;
        }
    }
    // SAFETY: the arguments are the kernel's.
    unsafe { call_program(signal, info, context, details.si_code <= 0) };
}

/// Does what the program wants at a fault of its own.
///
/// # Safety
/// The pointers are those that the kernel passed to the handler.
unsafe fn call_program(signal: c_int, info: *mut siginfo_t, context: *mut c_void, is_sent: bool) {
    let Some(program) = action_of(signal) else { return };
    let action = program.load();
    let handler = action.sa_sigaction;
    if handler == libc::SIG_IGN && is_sent {
        return;
    }
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: the structure is complete. The fault occurs again at its instruction and ends the process; a sent
        // signal must be sent again.
        unsafe {
            let default: SigAction = std::mem::zeroed();
            real_sigaction(signal, &raw const default, std::ptr::null_mut());
            if is_sent {
                libc::syscall(
                    libc::SYS_tgkill,
                    libc::getpid(),
                    crate::system::read_thread_id(),
                    signal,
                );
            }
        }
        return;
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        program.handler.store(libc::SIG_DFL, Ordering::Relaxed);
    }
    // SAFETY: the kernel's structure holds the mask of the interrupted code.
    let interrupted = unsafe { bits_of(&(*context.cast::<libc::ucontext_t>()).uc_sigmask) };
    let own = if action.sa_flags & libc::SA_NODEFER == 0 {
        bit(signal)
    } else {
        0
    };
    let mut mask = set_from_bits(interrupted | bits_of(&action.sa_mask) | own);
    // SAFETY: the set is complete. The return from the handler restores the mask of the interrupted code. The program
    // installed this function for these arguments.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK as c_ulong,
            &raw mut mask,
            std::ptr::null_mut::<sigset_t>(),
            SET_BYTES,
        );
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, PlainHandler>(handler)(signal);
        }
    }
}
