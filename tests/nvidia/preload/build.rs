//! Build script: names the library that programs load.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia_model.so");
    println!("cargo::rerun-if-changed=build.rs");
}
