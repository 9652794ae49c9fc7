//! A stand-in for NVIDIA's `libcurand.so.10`: exports the functions of `kinescope-remote-libraries`.
#![allow(
    unsafe_code,
    reason = "a library is called from C, and reads and writes memory of the program"
)]

kinescope_remote_libraries::export_curand_functions!();
