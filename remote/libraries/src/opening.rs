//! The first call of a library: whether there is a driver of this project, and NVIDIA's library at the device.

use crate::CallResult;
use crate::driver::{self, FrameHead, RemoteDriver};
use cuda_driver::CuResult;
use remote_calls::library::{
    LibraryOpening, LibraryRequestKind, LibraryStatus, NvidiaLibrary, OTHER_TABLE, OpenLibrary,
};
use remote_calls::{Decoder, Encoder};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum size of the answer: the loader's reason.
const MAX_OPENING_BYTES: usize = 4 << 10;

/// Major version of cuBLAS that this library stands in for; 0 before an exported function has set it.
static CUBLAS_MAJOR: AtomicU32 = AtomicU32::new(0);

/// Notes the major version of cuBLAS that this library stands in for.
pub fn set_cublas_major(major: u32) {
    CUBLAS_MAJOR.store(major, Ordering::Relaxed);
}

/// Prints a message for the user of the program. A program without a standard error stream gets none.
fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "kinescope: {message}");
}

/// Returns the driver, after NVIDIA's library was loaded at the other end of its connection. The calling thread has a
/// current context then.
///
/// # Errors
/// The library's status for a library or a device that is not there. The first call prints a message that says why.
pub fn open(library: NvidiaLibrary) -> CallResult<&'static RemoteDriver> {
    static OPENINGS: [OnceLock<bool>; 2] = [const { OnceLock::new() }; 2];
    let codes = library.codes();
    let [cublas, curand] = &OPENINGS;
    let opening = match library {
        NvidiaLibrary::Cublas => cublas,
        NvidiaLibrary::Curand => curand,
    };
    let driver = driver_of(library)?;
    match *opening.get_or_init(|| match load(driver, library) {
        Ok(()) => true,
        Err(why) => {
            say(&why);
            false
        }
    }) {
        true => Ok(driver),
        false => Err(codes.unavailable),
    }
}

/// Returns the driver. The calling thread has a current context then.
///
/// # Errors
/// The library's status if there is none. The first call prints a message that says why.
pub fn driver_of(library: NvidiaLibrary) -> CallResult<&'static RemoteDriver> {
    static DRIVER: OnceLock<Option<&'static RemoteDriver>> = OnceLock::new();
    let found = DRIVER.get_or_init(|| match driver::loaded() {
        Ok(driver) => Some(driver),
        Err(error) => {
            say(&format!("{}: {error}", library.name()));
            None
        }
    });
    let driver = found.ok_or(library.codes().unavailable)?;
    driver.bind().map_err(|result| status_of(library, result))?;
    Ok(driver)
}

/// Asks the worker to load NVIDIA's library. The error is a message for the user.
fn load(driver: &RemoteDriver, library: NvidiaLibrary) -> Result<(), String> {
    let major = CUBLAS_MAJOR.load(Ordering::Relaxed);
    let mut encoder = Encoder::default();
    OpenLibrary { library, major }.write(&mut encoder);
    let mut results = vec![0; MAX_OPENING_BYTES];
    let head = FrameHead {
        request: LibraryRequestKind::Open as u32,
        waits: true,
        stream: 0,
    };
    let received = driver.send(encoder.as_bytes(), &mut results, head);
    let bytes = received.map_err(|result| match result {
        OTHER_TABLE => format!(
            "{}: the libraries of this program are of different versions of Kinescope: its libcuda.so.1 has another table \
             of calls. Install all of them from one package",
            library.name()
        ),
        result => format!("{}: the worker process did not answer (result {result})", library.name()),
    })?;
    let mut decoder = Decoder::new(results.get(..bytes).unwrap_or_default());
    match LibraryOpening::read(&mut decoder) {
        Ok(LibraryOpening::Loaded) => Ok(()),
        Ok(LibraryOpening::Missing(why)) => Err(format!(
            "{name} is not installed where the device is ({why}). Install {files} there with the CUDA toolkit, or with \
             'pip install {package}', and start 'kinescope run' with its folder in LD_LIBRARY_PATH; or name the file in \
             {variable}",
            name = library.name(),
            files = library.file_names(major).join(" or "),
            package = match library {
                NvidiaLibrary::Cublas => "nvidia-cublas",
                NvidiaLibrary::Curand => "nvidia-curand",
            },
            variable = library.variable(),
        )),
        Err(error) => Err(format!("{}: the worker's answer is not one: {error}", library.name())),
    }
}

/// Returns the library's status for an error of the driver.
#[must_use]
pub const fn status_of(library: NvidiaLibrary, result: CuResult) -> LibraryStatus {
    let codes = library.codes();
    match result {
        cuda_driver::OUT_OF_MEMORY => codes.out_of_memory,
        cuda_driver::INVALID_VALUE => codes.invalid_value,
        // Without a device, without initialisation, in a forked child, with a connection that is lost.
        cuda_driver::NOT_INITIALIZED | 46 | 100 | 101 | 201 => codes.unavailable,
        _ => codes.failed,
    }
}
