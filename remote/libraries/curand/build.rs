//! Build script: sets the library name that programs load, and the version of its symbols.
//!
//! NVIDIA's library has one version node, which is named like the library. Programs ask for each function with this
//! version. GNU ld adds the node by itself; the other linkers cannot, and rustc's own version script leaves no room for
//! a second one.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcurand.so.10");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--default-symver");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo::rerun-if-changed=build.rs");
}
