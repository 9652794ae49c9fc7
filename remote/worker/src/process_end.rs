//! The wait for the end of a process.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::time::Duration;

/// Interval at which a caller has to look on a kernel before 5.3, which cannot wait for another process's end.
const TICK: Duration = Duration::from_millis(10);

/// Waits until a child of this process has ended, at most for about `limit`. It stays to be reaped. The wait can end early.
pub fn wait_for_process_end(process: u32, limit: Duration) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let descriptor = process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok());
    let timeout = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    let waited = descriptor.map(|descriptor| poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)));
    if !matches!(waited, Some(Ok(_))) {
        std::thread::sleep(TICK.min(limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    #[test]
    fn the_wait_ends_with_the_process_or_its_limit() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        wait_for_process_end(child.id(), Duration::from_millis(30));
        assert!(begun.elapsed() >= Duration::from_millis(30));
        assert_eq!(child.try_wait().unwrap(), None);
        // The end of its input ends it.
        drop(child.stdin.take());
        while child.try_wait().unwrap().is_none() {
            wait_for_process_end(child.id(), Duration::from_secs(60));
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
