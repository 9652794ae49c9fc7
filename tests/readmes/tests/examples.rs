//! The examples in the READMEs of the workspace. They compile with the current interfaces, and none of them runs.

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

#[test]
fn the_readmes_of_libraries_show_an_example_that_compiles() {
    for folder in [
        "trace-core",
        "replay-engine",
        "app",
        "app/session",
        "tests",
        "trace-core/query",
    ] {
        assert!(FOLDERS.contains(&folder), "{folder}/README.md has no ```rust block");
    }
}
