//! The message for a program that contains NVIDIA's CUDA runtime, which needs private tables of NVIDIA's driver.

use crate::message::say;
use std::sync::Once;

static HINT: Once = Once::new();

/// Libraries with a CUDA runtime of their own: a part of the path of a file that they map, and their name.
const LIBRARIES: [(&str, &str); 4] = [
    ("libtorch_cuda", "PyTorch"),
    ("/cupy", "CuPy"),
    ("xla_cuda", "JAX"),
    ("tensorflow", "TensorFlow"),
];

/// Returns the name of a library that contains NVIDIA's runtime, among the files that a process maps.
fn library_in(maps: &str) -> Option<&'static str> {
    let found = LIBRARIES.iter().find(|(part, _)| maps.contains(part));
    found.map(|(_, name)| *name)
}

/// Says once why the program finds no device, and what works.
pub fn give() {
    HINT.call_once(|| {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        match library_in(&maps) {
            Some(library) => say(format_args!(
                "{library} contains NVIDIA's CUDA runtime, which needs NVIDIA's own driver: it finds no remote device. \
                 Python programs that use the driver alone do, such as those with cuda-python or Numba"
            )),
            None => say(format_args!(
                "this program contains NVIDIA's CUDA runtime, which needs NVIDIA's own driver. Build it with 'nvcc \
                 --cudart=shared' to run it on a remote device"
            )),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_is_named_by_what_it_maps() {
        let torch = "7f00-7f01 r-xp 0 00:00 1 /usr/lib/python3/site-packages/torch/lib/libtorch_cuda.so\n";
        assert_eq!(library_in(torch), Some("PyTorch"));
        let cupy = "7f00-7f01 r-xp 0 00:00 1 /usr/lib/python3/site-packages/cupy_backends/cuda/api/runtime.so\n";
        assert_eq!(library_in(cupy), Some("CuPy"));
        assert_eq!(library_in("7f00-7f01 r-xp 0 00:00 1 /home/user/a.out\n"), None);
    }
}
