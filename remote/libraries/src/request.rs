//! A call of a library: its arguments, and the way to the worker and back.

use crate::CallResult;
use crate::driver::{FrameHead, RemoteDriver};
use crate::objects::ObjectState;
use crate::opening;
use cuda_driver::CuResult;
use remote_calls::library::{
    LibraryFunction, LibraryHandle, LibraryRequestKind, MAX_GENERATED_PART, NvidiaLibrary, ReadGenerated, StatusCodes,
};
use remote_calls::{Decoder, Encoder, Policy};
use std::cell::Cell;

/// Size of an answer without numbers of a generator, bytes: the status and a few results.
const SMALL_ANSWER_BYTES: usize = 64;
/// Size of an answer with numbers of a generator: the status, the number of bytes, and the bytes.
const LARGE_ANSWER_BYTES: usize = MAX_GENERATED_PART + 64;

thread_local! {
    /// Memory of this thread's last request, used again.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A request whose arguments are being written.
pub struct LibraryRequest {
    /// Arguments.
    pub encoder: Encoder,
    /// Whether the call waits: it has a result in host memory, or an argument that the library may refuse.
    pub waits: bool,
    /// The object of the call; null if it has none.
    pub handle: LibraryHandle,
    /// State of the object; the default if the call has none.
    pub object: ObjectState,
    /// Whether scalars whose type is an argument are complex.
    pub is_complex: bool,
    /// Size of scalars whose type is an argument, bytes.
    pub scalar_bytes: usize,
    /// Number of numbers that a generator makes.
    pub count: usize,
    /// The stream of the call, as the program passed it.
    pub stream: u64,
    /// Whether the answer has numbers of a generator.
    pub has_numbers: bool,
    function: LibraryFunction,
    driver: &'static RemoteDriver,
}

/// An answer of the worker.
pub struct LibraryAnswer {
    results: Vec<u8>,
    /// The driver, for further parts.
    driver: &'static RemoteDriver,
    library: NvidiaLibrary,
}

impl LibraryRequest {
    /// Begins a call. `is_certain` says that the library accepts its arguments as far as this crate knows.
    ///
    /// # Errors
    /// The library's status if it is not there.
    pub fn new(function: LibraryFunction, is_certain: bool) -> CallResult<Self> {
        let driver = opening::open(function.library())?;
        let buffer = BUFFER.try_with(Cell::take).unwrap_or_default();
        let mut encoder = Encoder::with_buffer(buffer);
        encoder.write(function);
        Ok(Self {
            encoder,
            waits: !is_certain || function.policy() != Policy::Quiet,
            handle: LibraryHandle::default(),
            object: ObjectState::default(),
            is_complex: false,
            scalar_bytes: 0,
            count: 0,
            stream: 0,
            has_numbers: false,
            function,
            driver,
        })
    }

    /// Returns the library's status codes.
    #[must_use]
    pub const fn codes(&self) -> StatusCodes {
        self.function.library().codes()
    }

    /// Sends the call. A call that does not wait returns `None`.
    ///
    /// # Errors
    /// The library's status.
    pub fn finish(self) -> CallResult<Option<LibraryAnswer>> {
        let library = self.function.library();
        let capacity = match self.has_numbers {
            true => LARGE_ANSWER_BYTES,
            false => SMALL_ANSWER_BYTES,
        };
        let mut small = [0; SMALL_ANSWER_BYTES];
        let mut large = match self.has_numbers {
            true => vec![0; capacity],
            false => Vec::new(),
        };
        let results = match self.has_numbers {
            true => large.as_mut_slice(),
            false => small.as_mut_slice(),
        };
        let request = match self.waits {
            true => LibraryRequestKind::BlockingCall,
            false => LibraryRequestKind::Call,
        };
        let head = FrameHead {
            request: request as u32,
            waits: self.waits,
            stream: self.stream,
        };
        let sent = self.driver.send(self.encoder.as_bytes(), results, head);
        let buffer = self.encoder.into_buffer();
        let _ = BUFFER.try_with(|cell| cell.set(buffer));
        let bytes = sent.map_err(|result| opening::status_of(library, result))?;
        if bytes == 0 {
            return Ok(None);
        }
        let results = results.get(..bytes).unwrap_or_default();
        let mut decoder = Decoder::new(results);
        let status: i32 = decoder.read().map_err(|_| library.codes().failed)?;
        if status != 0 {
            return Err(status);
        }
        let results = results.get(decoder.offset()..).unwrap_or_default().to_vec();
        let driver = self.driver;
        Ok(Some(LibraryAnswer {
            results,
            driver,
            library,
        }))
    }
}

impl LibraryAnswer {
    /// Returns a decoder of the results.
    #[must_use]
    pub fn decoder(&self) -> Decoder<'_> {
        Decoder::new(&self.results)
    }

    /// Returns the status for an answer that no worker of this version sends.
    #[must_use]
    pub const fn failed(&self) -> i32 {
        self.library.codes().failed
    }

    /// Asks for further numbers of a host generator. Returns the worker's answer.
    ///
    /// # Errors
    /// The library's status.
    pub fn read_generated(&self, part: ReadGenerated) -> CallResult<Vec<u8>> {
        let mut encoder = Encoder::default();
        part.write(&mut encoder);
        let mut results = vec![0; LARGE_ANSWER_BYTES];
        let head = FrameHead {
            request: LibraryRequestKind::ReadGenerated as u32,
            waits: true,
            stream: 0,
        };
        let sent: Result<usize, CuResult> = self.driver.send(encoder.as_bytes(), &mut results, head);
        let bytes = sent.map_err(|result| opening::status_of(self.library, result))?;
        results.truncate(bytes);
        Ok(results)
    }
}
