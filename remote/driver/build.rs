//! Build script: sets the library name that programs load, and binds the library's references to itself.
//!
//! The binding is needed because an earlier loaded library can export the same names.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rerun-if-changed=build.rs");
}
