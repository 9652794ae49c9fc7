//! Writes the seeds of every target into the corpus: `cargo run -p fuzz-targets --example seeds`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for seed in fuzz_targets::seeds::all() {
        let folder = corpus.join(seed.target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(seed.file), seed.bytes)?;
    }
    Ok(())
}
