//! A stand-in for NVIDIA's `libcudart.so.13`: exports the functions of `kinescope-remote-cudart` in the forms of CUDA 13.
#![allow(
    unsafe_code,
    reason = "a runtime is called from C, and reads and writes memory of the program"
)]

kinescope_remote_cudart::export_common_functions!();
kinescope_remote_cudart::export_functions_13!();
