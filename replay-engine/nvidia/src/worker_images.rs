//! The page images of a plan in a worker: the parent sends them while memory is mapped already.

use crate::memory_baseline::PlanImageSource;
use crate::sealed_file::SealedMap;
use crate::worker_protocol::ParentMessage;
use crate::worker_socket::receive_message;
use std::cell::{Cell, OnceCell};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use trace_core::PAGE_SIZE;

/// Page images that a parent sends.
pub(crate) struct ReceivedImages<'s> {
    parent: BorrowedFd<'s>,
    /// The images, or why there are none, from the first use on.
    images: OnceCell<Result<SealedMap, String>>,
    wait: Cell<Duration>,
}

impl<'s> ReceivedImages<'s> {
    /// Creates the images without waiting for them.
    pub fn new(parent: BorrowedFd<'s>) -> Self {
        Self {
            parent,
            images: OnceCell::new(),
            wait: Cell::default(),
        }
    }

    /// Returns the time of waiting for the images since the last call.
    pub fn take_wait(&self) -> Duration {
        self.wait.take()
    }

    /// Returns why the images are missing, or `None` if they were not needed or have come.
    pub fn failure(&self) -> Option<String> {
        self.images.get().and_then(|images| images.as_ref().err()).cloned()
    }

    fn receive(&self) -> Result<SealedMap, String> {
        let begin = Instant::now();
        let received = receive_message(self.parent);
        self.wait.set(self.wait.get().saturating_add(begin.elapsed()));
        match received {
            Ok(Some((ParentMessage::Images, Some(file)))) => {
                SealedMap::with_present_pages(file).map_err(|e| e.to_string())
            }
            Ok(_) => Err("the page images of the plan did not come".to_owned()),
            Err(e) => Err(format!("the page images of the plan did not come: {e}")),
        }
    }
}

impl PlanImageSource for ReceivedImages<'_> {
    fn image(&self, number: u32) -> Option<&[u8; PAGE_SIZE]> {
        let images = self.images.get_or_init(|| self.receive()).as_ref().ok()?;
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        images.get(index.checked_mul(PAGE_SIZE)?..)?.first_chunk()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed_file::create_sealed;
    use crate::worker_socket::{create_socket_pair, limit_wait, send_message};
    use std::io::Write as _;
    use std::os::fd::{AsFd as _, OwnedFd};

    fn send(to: &OwnedFd, bytes: &[u8]) {
        let file = create_sealed(|file| file.write_all(bytes)).unwrap();
        send_message(to, &ParentMessage::Images, Some(file.as_fd())).unwrap();
    }

    #[test]
    fn images_have_numbers_from_one_on() {
        let (parent, worker) = create_socket_pair().unwrap();
        send(&parent, &[[1; PAGE_SIZE], [2; PAGE_SIZE]].concat());
        let images = ReceivedImages::new(worker.as_fd());
        assert_eq!(
            images.take_wait(),
            Duration::ZERO,
            "nothing is received before the first use"
        );
        assert_eq!(images.image(2), Some(&[2; PAGE_SIZE]));
        assert_eq!(images.image(1), Some(&[1; PAGE_SIZE]));
        assert!([0, 3, u32::MAX].iter().all(|n| images.image(*n).is_none()));
        assert!(images.take_wait() > Duration::ZERO && images.failure().is_none());
    }

    #[test]
    fn images_that_are_cut_short_or_missing_are_reported() {
        let (parent, worker) = create_socket_pair().unwrap();
        send(&parent, &[1; PAGE_SIZE + 100]);
        let images = ReceivedImages::new(worker.as_fd());
        assert!(images.image(1).is_some() && images.image(2).is_none());

        limit_wait(&worker, Some(Duration::from_millis(1))).unwrap();
        let late = ReceivedImages::new(worker.as_fd());
        assert!(late.image(1).is_none());
        assert!(late.failure().unwrap().contains("did not come"));

        send_message(&parent, &ParentMessage::Images, None).unwrap();
        let without_file = ReceivedImages::new(worker.as_fd());
        assert!(without_file.image(1).is_none() && without_file.failure().is_some());

        drop(parent);
        let ended = ReceivedImages::new(worker.as_fd());
        assert!(ended.image(1).is_none() && ended.failure().is_some());
    }
}
