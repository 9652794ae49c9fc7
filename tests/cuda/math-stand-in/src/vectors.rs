//! Functions on vectors.

use crate::handles::{Blas, INVALID_VALUE, find};
use crate::numbers::{Number, Plain};
use crate::{Answer, exported, memory};
use std::ffi::c_void;

/// A vector in device memory.
#[derive(Clone, Copy)]
pub struct Vector {
    pub at: u64,
    pub count: i32,
    pub step: i32,
}

impl Vector {
    fn span(self) -> usize {
        match self.count {
            ..=0 => 0,
            count => (count as usize - 1) * self.step.unsigned_abs() as usize + 1,
        }
    }

    /// Returns the position of an element: of a negative step, the first one is the last in memory.
    fn position(self, index: usize) -> usize {
        let step = self.step.unsigned_abs() as usize;
        match self.step < 0 {
            true => (self.count as usize - 1 - index) * step,
            false => index * step,
        }
    }

    /// Reads the elements.
    pub fn read<T: Plain>(self, stream: u64) -> Answer<Vec<T>> {
        let memory = memory::read::<T>(self.at, self.span(), stream)?;
        let elements = (0..self.count.max(0) as usize).map(|index| memory.get(self.position(index)).copied());
        elements.map(|element| element.ok_or(INVALID_VALUE)).collect()
    }

    /// Writes the elements, and leaves what is between them.
    pub fn write<T: Plain>(self, elements: &[T], stream: u64) -> Answer {
        let mut memory = memory::read::<T>(self.at, self.span(), stream)?;
        for (index, element) in elements.iter().enumerate() {
            if let Some(to) = memory.get_mut(self.position(index)) {
                *to = *element;
            }
        }
        memory::write(self.at, &memory)
    }
}

/// Reads a scalar from where the pointer mode says.
pub fn scalar<T: Plain>(state: Blas, from: *const T) -> Answer<T> {
    if from.is_null() {
        return Err(INVALID_VALUE);
    }
    match state.is_device_mode {
        true => memory::read(from.addr() as u64, 1, state.stream)?
            .first()
            .copied()
            .ok_or(INVALID_VALUE),
        false => Ok(memory::get(from)),
    }
}

fn write_result<T: Plain>(state: Blas, to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(INVALID_VALUE);
    }
    match state.is_device_mode {
        true => memory::write(to.addr() as u64, &[value]),
        false => {
            memory::put(to, &[value]);
            Ok(())
        }
    }
}

fn reduce<T: Number, R: Plain>(handle: *mut c_void, x: Vector, to: *mut R, work: impl FnOnce(&[T]) -> R) -> Answer {
    let state = find(handle)?;
    let elements = match x.count > 0 && x.step > 0 {
        true => x.read::<T>(state.stream)?,
        false => Vec::new(),
    };
    write_result(state, to, work(&elements))
}

fn sum_of<T: Number>(terms: impl Iterator<Item = T>) -> T {
    terms.fold(T::default(), |sum, term| sum + term)
}

/// The position of the largest element, from 1; 0 of no elements.
fn largest<T: Number>(elements: &[T]) -> i32 {
    let mut found = (0, T::default());
    for (position, element) in (1..).zip(elements) {
        if position == 1 || element.absolute() > found.1 {
            found = (position, element.absolute());
        }
    }
    found.0
}

fn dot<T: Number>(handle: *mut c_void, x: Vector, y: Vector, to: *mut T) -> Answer {
    let state = find(handle)?;
    let sum = match x.count > 0 {
        true => {
            let (x, y) = (x.read::<T>(state.stream)?, y.read::<T>(state.stream)?);
            sum_of(x.iter().zip(&y).map(|(x, y)| *x * *y))
        }
        false => T::default(),
    };
    write_result(state, to, sum)
}

fn copy<T: Number>(handle: *mut c_void, x: Vector, y: Vector) -> Answer {
    let state = find(handle)?;
    if x.count <= 0 {
        return Ok(());
    }
    y.write(&x.read::<T>(state.stream)?, state.stream)
}

fn add_scaled<T: Number>(handle: *mut c_void, alpha: *const T, x: Vector, y: Vector) -> Answer {
    let state = find(handle)?;
    let alpha = scalar(state, alpha)?;
    if x.count <= 0 {
        return Ok(());
    }
    let (x, old) = (x.read::<T>(state.stream)?, y.read::<T>(state.stream)?);
    let sums: Vec<T> = x.iter().zip(&old).map(|(x, y)| alpha * *x + *y).collect();
    y.write(&sums, state.stream)
}

fn scale<T: Number>(handle: *mut c_void, alpha: *const T, x: Vector) -> Answer {
    let state = find(handle)?;
    let alpha = scalar(state, alpha)?;
    if x.count <= 0 || x.step <= 0 {
        return Ok(());
    }
    let scaled: Vec<T> = x.read::<T>(state.stream)?.iter().map(|x| alpha * *x).collect();
    x.write(&scaled, state.stream)
}

exported! {
    cublasSasum_v2(handle: *mut c_void, count: i32, at: u64, step: i32, to: *mut f32) =>
        reduce(handle, Vector { at, count, step }, to, |x: &[f32]| sum_of(x.iter().map(|x| x.absolute())));
    cublasSnrm2_v2(handle: *mut c_void, count: i32, at: u64, step: i32, to: *mut f32) =>
        reduce(handle, Vector { at, count, step }, to, |x: &[f32]| sum_of(x.iter().map(|x| *x * *x)).root());
    cublasIsamax_v2(handle: *mut c_void, count: i32, at: u64, step: i32, to: *mut i32) =>
        reduce::<f32, i32>(handle, Vector { at, count, step }, to, largest);
    cublasScopy_v2(handle: *mut c_void, count: i32, x: u64, incx: i32, y: u64, incy: i32) =>
        copy::<f32>(handle, Vector { at: x, count, step: incx }, Vector { at: y, count, step: incy });
    cublasSdot_v2(handle: *mut c_void, count: i32, x: u64, incx: i32, y: u64, incy: i32, to: *mut f32) =>
        dot(handle, Vector { at: x, count, step: incx }, Vector { at: y, count, step: incy }, to);
    cublasSaxpy_v2(handle: *mut c_void, count: i32, alpha: *const f32, x: u64, incx: i32, y: u64, incy: i32) =>
        add_scaled(handle, alpha, Vector { at: x, count, step: incx }, Vector { at: y, count, step: incy });
    cublasSscal_v2(handle: *mut c_void, count: i32, alpha: *const f32, at: u64, step: i32) =>
        scale(handle, alpha, Vector { at, count, step });
    cublasDasum_v2(handle: *mut c_void, count: i32, at: u64, step: i32, to: *mut f64) =>
        reduce(handle, Vector { at, count, step }, to, |x: &[f64]| sum_of(x.iter().map(|x| x.absolute())));
    cublasDnrm2_v2(handle: *mut c_void, count: i32, at: u64, step: i32, to: *mut f64) =>
        reduce(handle, Vector { at, count, step }, to, |x: &[f64]| sum_of(x.iter().map(|x| *x * *x)).root());
    cublasIdamax_v2(handle: *mut c_void, count: i32, at: u64, step: i32, to: *mut i32) =>
        reduce::<f64, i32>(handle, Vector { at, count, step }, to, largest);
    cublasDcopy_v2(handle: *mut c_void, count: i32, x: u64, incx: i32, y: u64, incy: i32) =>
        copy::<f64>(handle, Vector { at: x, count, step: incx }, Vector { at: y, count, step: incy });
    cublasDdot_v2(handle: *mut c_void, count: i32, x: u64, incx: i32, y: u64, incy: i32, to: *mut f64) =>
        dot(handle, Vector { at: x, count, step: incx }, Vector { at: y, count, step: incy }, to);
    cublasDaxpy_v2(handle: *mut c_void, count: i32, alpha: *const f64, x: u64, incx: i32, y: u64, incy: i32) =>
        add_scaled(handle, alpha, Vector { at: x, count, step: incx }, Vector { at: y, count, step: incy });
    cublasDscal_v2(handle: *mut c_void, count: i32, alpha: *const f64, at: u64, step: i32) =>
        scale(handle, alpha, Vector { at, count, step });
}
