//! The file with the page images of a plan: one after another, by number. Several threads fill it.

use crate::sealed_file::create_sealed_map;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use trace_core::PAGE_SIZE;
use trace_core::recording::Page;

/// Minimum number of images for a thread: 4 MiB.
const MIN_SHARE: usize = 1024;
/// Maximum number of threads. More do not copy faster than the memory takes it.
const MAX_THREADS: usize = 8;

/// Creates the sealed file of images.
///
/// # Errors
/// If the system refuses the file.
pub(crate) fn create_image_file(images: &[&Page]) -> Result<OwnedFd> {
    let bytes = images.len().checked_mul(PAGE_SIZE);
    let bytes = bytes.ok_or_else(|| Error::from(ErrorKind::FileTooLarge))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = images.len().div_ceil(threads.min(MAX_THREADS)).max(MIN_SHARE);
    create_sealed_map(bytes, |to| {
        std::thread::scope(|scope| {
            let mut shares = images.chunks(share).zip(to.chunks_mut(share * PAGE_SIZE));
            let own = shares.next();
            for (images, to) in shares {
                scope.spawn(move || copy_images(images, to));
            }
            if let Some((images, to)) = own {
                copy_images(images, to);
            }
        });
    })
}

fn copy_images(images: &[&Page], to: &mut [u8]) {
    for (image, to) in images.iter().zip(to.as_chunks_mut::<PAGE_SIZE>().0) {
        *to = **image;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed_file::SealedMap;

    #[test]
    fn images_of_all_threads_are_in_order() {
        let pages: Vec<Page> = (0..2 * MIN_SHARE + 77)
            .map(|n| {
                let mut page = [n as u8; PAGE_SIZE];
                page[..8].copy_from_slice(&n.to_le_bytes());
                page
            })
            .collect();
        for count in [0, 1, MIN_SHARE, pages.len()] {
            let images: Vec<&Page> = pages[..count].iter().collect();
            let file = create_image_file(&images).unwrap();
            assert!(
                *SealedMap::new(file).unwrap() == *pages[..count].as_flattened(),
                "{count}"
            );
        }
    }
}
