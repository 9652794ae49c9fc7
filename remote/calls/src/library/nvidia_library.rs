//! The libraries that the worker loads, and the files that they are in.

use crate::{Decoder, MessageError, Scalar};

/// Status of a function of a library: 0 is success.
pub type LibraryStatus = i32;

/// Status codes of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusCodes {
    /// The handle is null, of another kind, or of an object that was destroyed.
    pub no_object: LibraryStatus,
    /// The library or its device is not there.
    pub unavailable: LibraryStatus,
    /// An allocation failed.
    pub out_of_memory: LibraryStatus,
    /// An argument is invalid.
    pub invalid_value: LibraryStatus,
    /// The call failed on the device.
    pub failed: LibraryStatus,
    /// The library does not have the function.
    pub not_supported: LibraryStatus,
}

/// One of NVIDIA's libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NvidiaLibrary {
    /// Linear algebra.
    Cublas = 0,
    /// Random numbers.
    Curand = 1,
}

impl NvidiaLibrary {
    /// Returns the name for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cublas => "cuBLAS",
            Self::Curand => "cuRAND",
        }
    }

    /// Returns the status codes that this project returns by itself.
    #[must_use]
    pub const fn codes(self) -> StatusCodes {
        match self {
            Self::Cublas => StatusCodes {
                no_object: 1,
                unavailable: 1,
                out_of_memory: 3,
                invalid_value: 7,
                failed: 13,
                not_supported: 15,
            },
            Self::Curand => StatusCodes {
                no_object: 101,
                unavailable: 203,
                out_of_memory: 102,
                invalid_value: 104,
                failed: 201,
                not_supported: 999,
            },
        }
    }

    /// Returns the environment variable of the worker with the path of the library.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Cublas => "KINESCOPE_CUBLAS_LIBRARY",
            Self::Curand => "KINESCOPE_CURAND_LIBRARY",
        }
    }

    /// Returns the file names under which the library is looked for. A program that was built for a major version gets
    /// that one, if it is installed.
    #[must_use]
    pub const fn file_names(self, major: u32) -> &'static [&'static str] {
        match (self, major) {
            (Self::Cublas, 12) => &["libcublas.so.12", "libcublas.so.13"],
            (Self::Cublas, _) => &["libcublas.so.13", "libcublas.so.12"],
            (Self::Curand, _) => &["libcurand.so.10"],
        }
    }
}

impl Scalar for NvidiaLibrary {
    const BYTES: usize = 1;

    fn append_to(self, bytes: &mut Vec<u8>) {
        (self as u8).append_to(bytes);
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read::<u8>()? {
            0 => Ok(Self::Cublas),
            1 => Ok(Self::Curand),
            other => Err(MessageError::Unknown {
                what: "the library",
                value: other.into(),
                at,
            }),
        }
    }
}
