//! The body of a channel plan while it is made: steps, and the page images that they take bytes from.

use crate::plan::{CompileError, PageImages};
use nvidia_client::Place;
use nvidia_client::steps::{EngineKind, PAGE_BYTES, Step, StepSink};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use trace_core::recording::{Digest, PageId, PageStore, Recording, SharedPage, StoredContent, ZERO_PAGE, zero_digest};
use trace_core::{GpuVa, PAGE_SIZE};

/// Bytes up to this length are in the step itself. More become page images, which an agent keeps between replays.
const MAX_INLINE_BYTES: usize = 16 << 10;

/// A body and its images.
#[derive(Debug, Default)]
pub struct ChannelBody {
    steps: Bytes,
    /// Number of submissions.
    pub submissions: u64,
    /// Number of steps.
    pub count: u64,
    /// Digests of the images, by number from 1 on, with the images.
    images: Vec<(Digest, ImageSource)>,
    /// The images of the recording.
    store: PageStore,
    numbers: HashMap<Digest, u32>,
    /// Numbers of images by the id of their page in the recording; 0 for those that have none yet.
    by_page: Vec<u32>,
}

/// Where an image comes from.
#[derive(Debug)]
enum ImageSource {
    /// It was built for the plan.
    Built(SharedPage),
    /// It is in the recording. All of them are read at the end, on all processors.
    Stored(PageId),
}

#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl StepSink for Bytes {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl ChannelBody {
    /// Returns the encoded steps, the digests of the images by number, and the images.
    ///
    /// # Errors
    /// If an image of the recording is damaged.
    pub fn into_steps(self) -> Result<(Vec<u8>, Vec<Digest>, PageImages), CompileError> {
        let digests = self.images.iter().map(|(digest, _)| *digest).collect();
        let stored = self.images.iter().filter_map(|(_, source)| match source {
            ImageSource::Stored(id) => Some(*id),
            ImageSource::Built(_) => None,
        });
        let stored: Vec<PageId> = stored.collect();
        let mut read = self.store.shared_pages(&stored).into_iter();
        let image = |(digest, source)| {
            let image = match source {
                ImageSource::Built(image) => image,
                ImageSource::Stored(id) => {
                    let damaged = CompileError::DamagedPage { page: id.0 };
                    read.next().flatten().ok_or(damaged)?
                }
            };
            Ok((digest, image))
        };
        let images = self
            .images
            .into_iter()
            .map(image)
            .collect::<Result<PageImages, CompileError>>()?;
        Ok((self.steps.0, digests, images))
    }

    /// Returns the steps so far, encoded.
    #[must_use]
    pub fn steps(&self) -> &[u8] {
        &self.steps.0
    }

    fn add(&mut self, step: &Step<'_>) {
        step.encode(&mut self.steps);
        self.count += 1;
    }

    /// Maps memory.
    pub fn map(&mut self, place: Place, va: GpuVa, bytes: u64) {
        self.add(&Step::Map {
            place,
            va: va.get(),
            bytes,
        });
    }

    /// Maps the page of the compute scheduler.
    pub fn map_scheduler(&mut self, va: GpuVa) {
        self.add(&Step::MapScheduler { va: va.get() });
    }

    /// Writes bytes to memory.
    pub fn write(&mut self, va: GpuVa, bytes: &[u8]) {
        if bytes.len() <= MAX_INLINE_BYTES {
            self.add(&Step::Write {
                va: va.get(),
                data: bytes,
            });
            return;
        }
        let mut pages = Vec::new();
        let mut skip = va.in_page();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, behind) = rest.split_at(rest.len().min(PAGE_SIZE - skip));
            let mut page = ZERO_PAGE;
            if let Some(to) = page.get_mut(skip..skip + now.len()) {
                to.copy_from_slice(now);
            }
            let number = self.number(*blake3::hash(&page).as_bytes(), || ImageSource::Built(page.into()));
            pages.push(number.unwrap_or(0).to_le_bytes());
            (rest, skip) = (behind, 0);
        }
        self.add(&Step::WritePages {
            va: va.get(),
            bytes: bytes.len() as u64,
            pages: &pages,
        });
    }

    /// Writes bytes that a recording stores, always the same one. Returns whether the recording holds them. Damage of long
    /// ones shows at the end, in [`Self::into_steps`].
    pub fn write_stored(&mut self, recording: &Recording, stored: &StoredContent) -> bool {
        if stored.bytes <= MAX_INLINE_BYTES as u64 {
            let content = recording.content(stored);
            if let Some(bytes) = &content {
                self.write(stored.va, bytes);
            }
            return content.is_some();
        }
        let Some(ids) = recording.content_pages(stored) else {
            return false;
        };
        let store = &recording.memory.pages;
        self.store = store.clone();
        let mut pages = Vec::with_capacity(ids.len());
        if self.by_page.len() <= store.len() {
            self.by_page.resize(store.len() + 1, 0);
        }
        for id in ids {
            let known = self.by_page.get(id as usize).copied().filter(|number| *number != 0);
            let number = known.or_else(|| {
                let digest = store.digest(PageId(id))?;
                self.number(digest, || ImageSource::Stored(PageId(id)))
            });
            let Some(number) = number else {
                return false;
            };
            if let Some(slot) = self.by_page.get_mut(id as usize) {
                *slot = number;
            }
            pages.push(number.to_le_bytes());
        }
        self.add(&Step::WritePages {
            va: stored.va.get(),
            bytes: stored.bytes,
            pages: &pages,
        });
        true
    }

    /// Submits a push buffer that is in memory.
    pub fn submit(&mut self, event: u64, engine: EngineKind, va: GpuVa, words: u32) {
        self.submissions += 1;
        self.add(&Step::Submit {
            event,
            engine,
            va: va.get(),
            words,
        });
    }

    /// Reads an output.
    pub fn read(&mut self, output: u32, va: GpuVa, bytes: u64) {
        self.add(&Step::Read {
            output,
            va: va.get(),
            bytes,
        });
    }

    /// Returns the number of an image: each content once, from 1 on; the page of zeros is 0. Returns `None` if there are too
    /// many.
    fn number(&mut self, digest: Digest, source: impl FnOnce() -> ImageSource) -> Option<u32> {
        if digest == zero_digest() {
            return Some(0);
        }
        match self.numbers.entry(digest) {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(entry) => {
                self.images.push((digest, source()));
                let number = u32::try_from(self.images.len()).ok()?;
                Some(*entry.insert(number))
            }
        }
    }
}

const _: () = assert!(PAGE_BYTES == PAGE_SIZE);
