//! The network that reads handwritten digits, as compute shaders: its layers, its weights, its held-out images.
//!
//! `sample-traces/digits/train.py` computed the weights. The shaders are in the same folder.

use crate::work::{BufferData, Dispatch, Element, Role, Tolerance, Work, floats};
use kinescope_files::buffers::npy::Npy;
use std::path::{Path, PathBuf};
use trace_core::recording::ElementType;

/// Allowed difference between scores and those of the reference network.
pub const TOLERANCE: Tolerance = Tolerance::Absolute(1e-4);

/// The reason why a file of the network cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct DataError {
    /// The file.
    pub path: PathBuf,
    /// The problem with the file.
    pub why: String,
}

/// Returns the folder of the network in this repository.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces/digits")
}

/// Returns the little-endian elements of an NPY file, which must have this type and shape.
fn npy(path: PathBuf, element: ElementType, shape: &[u64]) -> Result<Vec<u8>, DataError> {
    let data_error = |why: String| DataError {
        path: path.clone(),
        why,
    };
    let bytes = std::fs::read(&path).map_err(|e| data_error(e.to_string()))?;
    let npy = Npy::read(&bytes).map_err(|e| data_error(e.to_string()))?;
    if npy.element != element || npy.shape != shape {
        return Err(data_error(format!(
            "{:?} {:?}, expected {element:?} {shape:?}",
            npy.element, npy.shape
        )));
    }
    Ok(npy.data.to_vec())
}

/// Returns the 32-bit floats of little-endian bytes.
#[must_use]
pub fn numbers(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap_or_default()))
        .collect()
}

/// A held-out image, which is not in the training data.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOutImage {
    /// Pixels, row by row: 0 is paper, 1 is ink.
    pub image: Vec<f32>,
    /// The digit that a person reads in the image.
    pub label: u8,
    /// Scores of the reference network.
    pub scores: Vec<f32>,
}

/// Number of held-out images.
pub const HELD_OUT: usize = 360;
/// Index of the held-out image that the sample was recorded with, and that is the default: a two.
pub const RECORDED: usize = 1;

/// Reads the held-out images of a folder.
///
/// # Errors
/// Returns an error if a file is missing or has another type or shape.
pub fn held_out(folder: &Path) -> Result<Vec<HeldOutImage>, DataError> {
    let dir = folder.join("held-out");
    let n = HELD_OUT as u64;
    let images = npy(dir.join("images.npy"), ElementType::U8, &[n, 8, 8])?;
    let labels = npy(dir.join("labels.npy"), ElementType::U8, &[n])?;
    let scores = numbers(&npy(dir.join("scores.npy"), ElementType::F32, &[n, 10])?);
    Ok(images
        .chunks_exact(64)
        .zip(labels)
        .zip(scores.chunks_exact(10))
        .map(|((ink, label), scores)| HeldOutImage {
            image: ink.iter().map(|v| f32::from(*v) / 16.0).collect(),
            label,
            scores: scores.to_vec(),
        })
        .collect())
}

/// Reads one image: an NPY file of 8 by 8 32-bit floats.
///
/// # Errors
/// Returns an error if the file is missing or has another type or shape.
pub fn image(path: &Path) -> Result<Vec<f32>, DataError> {
    Ok(numbers(&npy(path.to_owned(), ElementType::F32, &[8, 8])?))
}

/// Returns the digit with the highest score. Of equal scores, the first digit counts.
#[must_use]
pub fn class(scores: &[f32]) -> usize {
    let mut best = 0;
    for (i, s) in scores.iter().enumerate() {
        if scores.get(best).is_none_or(|b| s > b) {
            best = i;
        }
    }
    best
}

/// Returns the network as a program over an image, with weights from a folder. `expected` are the scores that it must
/// compute, within [`TOLERANCE`]; empty if they are unknown.
///
/// # Errors
/// Returns an error if a file of the weights is missing or has another shape.
pub fn network(folder: &Path, image: &[f32], expected: &[f32]) -> Result<Work, DataError> {
    let weights = |name: &'static str, binding: u32, shape: &[usize]| -> Result<BufferData, DataError> {
        let sides: Vec<u64> = shape.iter().map(|s| *s as u64).collect();
        let path = folder.join("weights").join(format!("{name}.npy"));
        Ok(BufferData {
            role: Some(Role::Weights),
            ..BufferData::input(name, binding, Element::F32, shape, npy(path, ElementType::F32, &sides)?)
        })
    };
    let between = |name: &'static str, count: usize| BufferData {
        role: None,
        expected: None,
        ..BufferData::output(name, 0, Element::F32, &[count], vec![0; count * 4], Tolerance::Exact)
    };
    let layer = |name, source, bound: &[(u32, &'static str)], groups| Dispatch {
        bound: bound.to_vec(),
        ..Dispatch::new(name, source, groups)
    };
    Ok(Work {
        buffers: vec![
            BufferData::input("image", 0, Element::F32, &[8, 8], floats(image)),
            weights("conv1.weight", 1, &[8, 1, 3, 3])?,
            weights("conv1.bias", 2, &[8])?,
            weights("conv2.weight", 1, &[16, 8, 3, 3])?,
            weights("conv2.bias", 2, &[16])?,
            weights("dense.weight", 1, &[10, 256])?,
            weights("dense.bias", 2, &[10])?,
            between("conv1", 512),
            between("pool", 128),
            between("conv2", 256),
            BufferData {
                expected: (!expected.is_empty()).then(|| (floats(expected), TOLERANCE)),
                ..BufferData::output("logits", 3, Element::F32, &[10], vec![0; 40], TOLERANCE)
            },
        ],
        textures: Vec::new(),
        steps: vec![
            layer(
                "conv1",
                include_str!("../../../sample-traces/digits/shaders/conv1.comp"),
                &[(0, "image"), (1, "conv1.weight"), (2, "conv1.bias"), (3, "conv1")],
                [1, 1, 8],
            ),
            layer(
                "pool",
                include_str!("../../../sample-traces/digits/shaders/pool.comp"),
                &[(0, "conv1"), (1, "pool")],
                [1, 1, 1],
            ),
            layer(
                "conv2",
                include_str!("../../../sample-traces/digits/shaders/conv2.comp"),
                &[(0, "pool"), (1, "conv2.weight"), (2, "conv2.bias"), (3, "conv2")],
                [1, 1, 16],
            ),
            layer(
                "dense",
                include_str!("../../../sample-traces/digits/shaders/dense.comp"),
                &[(0, "conv2"), (1, "dense.weight"), (2, "dense.bias"), (3, "logits")],
                [10, 1, 1],
            ),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_is_the_first_highest_score() {
        assert_eq!(class(&[0.0, 3.0, -1.0, 3.0]), 1);
        assert_eq!(class(&[-5.0, -4.0]), 1);
        assert_eq!(class(&[]), 0);
    }

    #[test]
    fn reference_classifies_most_committed_images() {
        let all = held_out(&folder()).unwrap();
        assert_eq!(all.len(), HELD_OUT);
        let right = all.iter().filter(|h| class(&h.scores) == usize::from(h.label)).count();
        assert!(right * 100 >= HELD_OUT * 97, "{right} of {HELD_OUT}");
        let other = image(&folder().join("digit.npy")).unwrap();
        let index = all.iter().position(|h| h.image == other).unwrap();
        assert_eq!((all[index].label, all[RECORDED].label), (7, 2));
        network(&folder(), &other, &all[index].scores).unwrap();
    }
}
