//! The file with the page images of a plan: one after another, by number. Several threads fill it.

use crate::sealed_file::create_sealed_map;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Digest, Page};

/// Minimum number of images for a thread: 4 MiB.
const MIN_SHARE: usize = 1024;
/// Maximum number of threads. More do not copy faster than the memory takes it.
const MAX_THREADS: usize = 8;

/// Creates the sealed file of images, which must have these digests: a program may have written to the recording since the
/// images were compared.
///
/// # Errors
/// If the system refuses the file, or an image does not have its digest.
pub(crate) fn create_image_file(images: &[&Page], digests: &[Digest]) -> Result<OwnedFd> {
    let bytes = images.len().checked_mul(PAGE_SIZE);
    let bytes = bytes.ok_or_else(|| Error::from(ErrorKind::FileTooLarge))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = images.len().div_ceil(threads.min(MAX_THREADS)).max(MIN_SHARE);
    let mut are_sound = digests.len() == images.len();
    let file = create_sealed_map(bytes, |to| {
        std::thread::scope(|scope| {
            let shares = images.chunks(share).zip(digests.chunks(share));
            let mut shares = shares.zip(to.chunks_mut(share * PAGE_SIZE));
            let own = shares.next();
            let others: Vec<_> = shares
                .map(|((images, digests), to)| scope.spawn(move || copy_images(images, digests, to)))
                .collect();
            if let Some(((images, digests), to)) = own {
                are_sound &= copy_images(images, digests, to);
            }
            for other in others {
                are_sound &= other.join().unwrap_or(false);
            }
        });
    })?;
    match are_sound {
        true => Ok(file),
        false => Err(Error::new(
            ErrorKind::InvalidData,
            "a page image does not have its digest: the recording was changed during the replay",
        )),
    }
}

/// Copies images, and returns whether the copies have their digests.
fn copy_images(images: &[&Page], digests: &[Digest], to: &mut [u8]) -> bool {
    let mut are_sound = true;
    for ((image, digest), to) in images.iter().zip(digests).zip(to.as_chunks_mut::<PAGE_SIZE>().0) {
        *to = **image;
        are_sound &= blake3::hash(to).as_bytes() == digest;
    }
    are_sound
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
            let digests: Vec<Digest> = images.iter().map(|image| *blake3::hash(*image).as_bytes()).collect();
            let file = create_image_file(&images, &digests).unwrap();
            assert!(
                *SealedMap::new(file).unwrap() == *pages[..count].as_flattened(),
                "{count}"
            );
        }
    }

    #[test]
    fn images_without_their_digests_are_refused() {
        let page = [7; PAGE_SIZE];
        let digest = *blake3::hash(&page).as_bytes();
        assert!(create_image_file(&[&page], &[digest]).is_ok());
        let refused = create_image_file(&[&page], &[[0; 32]]).unwrap_err();
        assert!(refused.to_string().contains("does not have its digest"), "{refused}");
        assert!(create_image_file(&[&page], &[]).is_err());
    }
}
