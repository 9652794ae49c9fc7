//! Links without a C library or start files under the `bare` profile, the only one that asks for `opt-level = "z"`.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(bare)");
    println!("cargo::rerun-if-changed=build.rs");
    let size = std::env::var("OPT_LEVEL").is_ok_and(|l| l == "z");
    let here = std::env::var("TARGET").is_ok_and(|t| t == "x86_64-unknown-linux-gnu");
    if !(size && here) {
        return;
    }
    println!("cargo::rustc-cfg=bare");
    for arg in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--build-id=none",
        "-Wl,-z,noseparate-code",
    ] {
        println!("cargo::rustc-link-arg-bins={arg}");
    }
}
