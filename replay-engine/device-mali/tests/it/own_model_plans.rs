//! Plans for the recorded model itself: their bytes are fixed.

use crate::common::sample;
use device_mali::{Model, SoftwareMali};
use replay_engine::compile::compile;
use replay_engine::device::Target as _;
use replay_engine::plan::{CompileOptions, Edits};
use trace_core::progress::Progress;

/// Digests of the plans of all sample recordings for the model that each was recorded on. Work on plans for other
/// models must not change them.
const PLANS: [(&str, &str); 17] = [
    (
        "chain2.kine",
        "0cfacbbce3ae2193a365e112cf796d6d037953c3ed3004b794bf044fe60ef602",
    ),
    (
        "changes.kine",
        "ed41280157fda30c63044ef42c424fadd0dcd89b7f5a9e8a7e0c7153a1cbfac3",
    ),
    (
        "conv3x3.kine",
        "534a04b3b7431b45127abc77de3364246e2ebd5c0a71f782c484c3992a2cd6f6",
    ),
    (
        "digits.kine",
        "87007514e4e381f8ba7fa596a7d6780ca6d1ca6950750e0087d879200d36ba71",
    ),
    (
        "histogram.kine",
        "bf9f0ee3a0f3d6a572ae7ee7036c17ad80626ff6c31dd89b36f132e804cfbaa2",
    ),
    (
        "mat4.kine",
        "159ca6a9c38690649c30b1c3e189ab6f6f6eb331735bc6d4f27af9631f80fcbb",
    ),
    (
        "matmul.kine",
        "592a1e628467394e546a7c78be98f51c83727a4df94cb9f95a3dbfd976d4466b",
    ),
    (
        "mediump.kine",
        "8ddaafa8b03bc8626a7f7d5aef9cc7bf2b9c321fa5c51b8fa9ce873af39e2f43",
    ),
    (
        "saxpy.kine",
        "580c1afe204484ba0357231ae5cc807f346f9e6e78ec25bebc76ffdcdbc4d3d9",
    ),
    (
        "texfetch.kine",
        "7b9bdcc192b7930772cf00a58d20fe1d36bd2fe0277513babcc0201c14c2e702",
    ),
    (
        "tri3.kine",
        "7f0a187ceb71bd61c48039e835930e236779481d297f1a680391e87c8d30adc7",
    ),
    (
        "triangle.kine",
        "d77f56dfda6d31e721add35dca2734817d8033da809405819e9f79ecb98b6923",
    ),
    (
        "twopass.kine",
        "d43fc7a28a10f70854d71f1f019da406079e6613b32ce43fe2541c41c8e0fc92",
    ),
    (
        "vecadd-g52.kine",
        "cf8cf70b34d39a3a302609bebe9c7651f917fffbd2a8a726a36f17c71e73f5b7",
    ),
    (
        "vecadd.kine",
        "e58f090a6e8c0bfde495cc6c4d4e940578580acc9e35e77ba7b9d2b4598c50cb",
    ),
    (
        "write-value-lpae.kine",
        "a6e4836874932f9127fa1cc35cc04222a19a388a4bca55fd6095bcd51fb87533",
    ),
    (
        "write-value.kine",
        "ebe9a08a087c857ee6e519c04a3976975162cc6eaaf5fb912ff057ac9eecd3c1",
    ),
];

/// Returns the digest of the plan of a sample for its own model.
fn digest(name: &str) -> String {
    let recording = sample(name);
    let id = recording.metadata.identity.gpu_id;
    let models = [Model::G71, Model::G52];
    let model = models.into_iter().find(|m| m.data().gpu_id == id).unwrap();
    let info = SoftwareMali::new(model).info();
    let (edits, options) = (Edits::default(), CompileOptions::default());
    let compiled = compile(&recording, &edits, &info, &options, &Progress::new()).unwrap();
    blake3::hash(&compiled.plan.to_bytes().unwrap()).to_hex().to_string()
}

#[test]
fn plans_for_the_recorded_model_have_the_same_bytes_as_ever() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.ends_with(".kine"))
        .collect();
    names.sort();
    let plans: Vec<(String, String)> = names.iter().map(|n| (n.clone(), digest(n))).collect();
    let expected: Vec<(String, String)> = PLANS.iter().map(|(n, d)| ((*n).to_owned(), (*d).to_owned())).collect();
    assert_eq!(plans, expected);
}
