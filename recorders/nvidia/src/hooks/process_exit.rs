//! Ends of a process that skip the work of an orderly exit.

use super::ReentryGuard;
use crate::lifetime::finish;
use crate::next_function::real;
use libc::c_int;

macro_rules! exits {
    ($($name:ident($text:literal);)+) => { $(
        /// Logs what the rings still hold, then ends the process as the C library's function does.
        ///
        /// # Safety
        /// The same as the C library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(code: c_int) -> ! {
            type Exit = unsafe extern "C" fn(c_int);
            if let Some(_inside) = ReentryGuard::enter() {
                finish();
            }
            real!($text, Exit, (), code);
            // Without such a function, use the system call.
            loop {
                // SAFETY: the call ends the process.
                unsafe { libc::syscall(libc::SYS_exit_group, code) };
            }
        }
    )+ };
}

exits! {
    _exit("_exit");
    _Exit("_Exit");
}
