//! The table of programs. Each function of the submodules creates a program of any size, with results from the CPU.

mod elements;
mod grids;
mod sums;

use crate::work::Work;

/// A program that can be run by name.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name of the program.
    pub name: &'static str,
    /// Description of the program and of the features of GLES that it uses.
    pub description: &'static str,
    /// Creates the program.
    pub make: fn() -> Work,
}

/// The ten programs.
pub const PROGRAMS: &[Entry] = &[
    Entry {
        name: "saxpy",
        description: "y = k x + y on 1000 of 1024 floats: uniforms, a branch",
        make: || elements::saxpy(1024, 1000),
    },
    Entry {
        name: "matmul",
        description: "a 32 by 32 matrix product with tiles in shared memory",
        make: || grids::matmul_tiled(32),
    },
    Entry {
        name: "conv3x3",
        description: "a 3 by 3 convolution of 64 by 48 pixels with bias and relu: a uniform buffer, loops",
        make: || grids::conv3x3(64, 48),
    },
    Entry {
        name: "histogram",
        description: "4096 values into 64 bins: atomics in shared memory and in a buffer",
        make: || sums::histogram(4096),
    },
    Entry {
        name: "scan",
        description: "running sums of 1024 numbers: two dispatches, barriers",
        make: || sums::scan(1024),
    },
    Entry {
        name: "transpose",
        description: "a 64 by 40 matrix transposed through shared memory",
        make: || grids::transpose(64, 40),
    },
    Entry {
        name: "mandelbrot",
        description: "steps to escape at 64 by 48 points, in integers: divergent threads",
        make: || elements::mandelbrot(64, 48),
    },
    Entry {
        name: "mediump",
        description: "arithmetic that may be done in 16-bit floats",
        make: || elements::mediump(256),
    },
    Entry {
        name: "image",
        description: "a texture mirrored into an image, then sums of neighbours: texelFetch, imageStore, imageLoad",
        make: || grids::image(16, 8),
    },
    Entry {
        name: "softmax",
        description: "softmax of 16 rows of 64 floats: exp, division, reductions in shared memory",
        make: || sums::softmax(16),
    },
];

/// The programs of the speed comparison, with their sizes.
pub const BENCHMARKS: &[Entry] = &[
    Entry {
        name: "matmul",
        description: "a 256 by 256 matrix product straight from memory",
        make: || grids::matmul_plain(256),
    },
    Entry {
        name: "matmul-tiled",
        description: "a 256 by 256 matrix product with tiles in shared memory",
        make: || grids::matmul_tiled(256),
    },
    Entry {
        name: "conv3x3",
        description: "a 3 by 3 convolution of 512 by 512 pixels",
        make: || grids::conv3x3(512, 512),
    },
    Entry {
        name: "saxpy",
        description: "y = k x + y on 1 048 576 floats",
        make: || elements::saxpy(1 << 20, 1 << 20),
    },
];

/// Finds a program of a table by name.
#[must_use]
pub fn find(table: &'static [Entry], name: &str) -> Option<&'static Entry> {
    table.iter().find(|e| e.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_programs_have_unique_names_and_an_output() {
        assert_eq!(PROGRAMS.len(), 10);
        let mut names: Vec<_> = PROGRAMS.iter().map(|p| p.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROGRAMS.len());
        for p in PROGRAMS.iter().chain(BENCHMARKS) {
            let work = (p.make)();
            assert!(work.buffers.iter().any(|b| b.expected.is_some()), "{}", p.name);
            for b in &work.buffers {
                let elements: usize = b.shape.iter().product();
                assert_eq!(elements * 4, b.init.len(), "{} {}", p.name, b.name);
                if let Some((expected, _)) = &b.expected {
                    assert_ne!(expected, &b.init, "{} {} would pass without running", p.name, b.name);
                }
            }
        }
    }
}
