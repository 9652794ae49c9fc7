//! Tests on chains from Mesa and from Arm's driver.

use super::*;
use crate::test_recordings::recordings;
use serde_json::Value;
use std::path::Path;

fn hex(v: &Value) -> u64 {
    u64::from_str_radix(v.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Returns the buffers of one of Mesa's submits.
fn mesa_memory(folder: &Path, submit: &str) -> Ranges {
    let json: Value = serde_json::from_slice(&std::fs::read(folder.join(submit)).unwrap()).unwrap();
    let mut mem = Ranges::default();
    for bo in json["bos"].as_array().unwrap() {
        if let Some(file) = bo["file"].as_str() {
            mem.0.insert(hex(&bo["va"]), std::fs::read(folder.join(file)).unwrap());
        }
    }
    mem
}

fn check_draw(c: &Compute, json: &Value, folder: &str) {
    for (name, va) in [
        ("position", c.position),
        ("ubos", c.uniform_buffers),
        ("textures", c.textures),
        ("samplers", c.samplers),
        ("push_uniforms", c.push_uniforms),
        ("state", c.state),
        ("attribute_buffers", c.attribute_buffers),
        ("attributes", c.attributes),
        ("varying_buffers", c.varying_buffers),
        ("varyings", c.varyings),
        ("viewport", c.viewport),
        ("thread_storage", c.thread_storage),
        ("dcd", c.draw),
    ] {
        if !json[name].is_null() {
            assert_eq!(va.get(), hex(&json[name]), "{folder} {name}");
        }
    }
    let (rsd, state) = (&json["rsd"], c.renderer.unwrap());
    assert_eq!(state.shader.get(), hex(&rsd["shader"]), "{folder}");
    assert_eq!(u64::from(state.preload), hex(&rsd["preload"]), "{folder}");
    assert_eq!(Some(state.barrier), rsd["barrier"].as_bool(), "{folder}");
    for (name, value) in [
        ("texture_count", u64::from(state.textures)),
        ("sampler_count", u64::from(state.samplers)),
        ("attribute_count", u64::from(state.attributes)),
        ("varying_count", u64::from(state.varyings)),
        ("ubo_count", u64::from(state.uniform_buffers)),
        ("push_uniform_count_64bit", u64::from(state.push_uniforms)),
    ] {
        assert_eq!(Some(value), rsd[name].as_u64(), "{folder} {name}");
    }
}

/// This program's walk of every chain from Mesa equals the independent walk in the same folder.
#[test]
fn chains_of_mesa_equal_their_independent_walk() {
    let Some(root) = recordings("panfrost") else { return };
    let (mut programs, mut jobs) = (0, 0);
    for gpu in ["g71", "g52", "zoo/g71"] {
        let mut folders: Vec<_> = std::fs::read_dir(root.join(gpu))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        folders.sort();
        for folder in folders.iter().filter(|f| f.join("spec.json").is_file()) {
            programs += 1;
            let spec: Value = serde_json::from_slice(&std::fs::read(folder.join("spec.json")).unwrap()).unwrap();
            for submit in spec["submits"].as_array().unwrap() {
                let mem = mesa_memory(folder, submit["submit"].as_str().unwrap());
                let c = read_chain(&mem, GpuVa::new(hex(&submit["jc"])));
                let folder_name = folder.display().to_string();
                assert_eq!(c.end, ChainEnd::End, "{folder_name}");
                let expected = submit["jobs"].as_array().unwrap();
                assert_eq!(c.jobs.len(), expected.len(), "{folder_name}");
                for (job, json) in c.jobs.iter().zip(expected) {
                    jobs += 1;
                    let h = job.header.as_ref().unwrap();
                    assert_eq!(h.check_soundness(), Soundness::Sound);
                    assert_eq!(job.va.get(), hex(&json["va"]), "{folder_name}");
                    let name = json["type"].as_str().unwrap().replace('_', "-");
                    assert_eq!(job.kind().map(JobType::name), Some(name.as_str()), "{folder_name}");
                    assert_eq!(Some(u64::from(h.index)), json["index"].as_u64());
                    assert_eq!(Some(u64::from(h.dep1)), json["dep1"].as_u64());
                    assert_eq!(Some(u64::from(h.dep2)), json["dep2"].as_u64());
                    assert_eq!(Some(u64::from(h.barrier)), json["barrier"].as_u64());
                    let list = |v: [u32; 3]| Value::from(v.to_vec());
                    if !json["workgroup_size"].is_null() {
                        let d = job.dispatch.unwrap();
                        assert_eq!(list(d.size), json["workgroup_size"], "{folder_name}");
                        assert_eq!(list(d.workgroups), json["num_workgroups"], "{folder_name}");
                    }
                    match &job.payload {
                        Payload::Compute(c) => {
                            check_draw(c, json, &folder_name);
                            assert_eq!(job.shader_va, Some(GpuVa::new(hex(&json["rsd"]["shader"]))));
                        }
                        Payload::IndexedVertex { vertex, fragment } => {
                            check_draw(vertex, &json["vertex_draw"], &folder_name);
                            check_draw(fragment, &json["fragment_draw"], &folder_name);
                        }
                        Payload::Fragment { min, max, framebuffer } => {
                            let f = &json["fragment"];
                            assert_eq!(Value::from(min.to_vec()), f["min"]);
                            assert_eq!(Value::from(max.to_vec()), f["max"]);
                            assert_eq!(*framebuffer, hex(&f["framebuffer"]));
                        }
                        other => panic!("{folder_name}: {other:?}"),
                    }
                }
            }
        }
    }
    assert_eq!((programs, jobs), (29, 36));
}

/// Returns a published recording's memory by address. Its page tables are not used: its pages carry their addresses.
fn published_memory(file: &Path) -> Ranges {
    let data = std::fs::read(file).unwrap();
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let mut pages: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut at = 0;
    while at < data.len() {
        let (count, valid) = (word(at + 16), data[at + 28] != 0);
        at += 29;
        for _ in 0..if valid { count } else { 0 } {
            pages.insert(word(at), data[at + 16..at + 16 + 4096].to_vec());
            at += 16 + 4096;
        }
    }
    // Join neighbours, so that a read may cross pages.
    let mut mem = Ranges::default();
    for (va, page) in pages {
        match mem.0.last_entry() {
            Some(mut last) if last.key() + last.get().len() as u64 == va => last.get_mut().extend(page),
            _ => {
                mem.0.insert(va, page);
            }
        }
    }
    mem
}

#[test]
fn every_published_head_is_a_compute_job() {
    let Some(folder) = recordings("gpureplay") else { return };
    for (name, heads, jobs) in [("mnist", 23, 23), ("alexnet", 60, 61)] {
        let mem = published_memory(&folder.join(name).join("gr_mem_contents"));
        let text = std::fs::read_to_string(folder.join(name).join("gr_io_history")).unwrap();
        let mut halves: HashMap<u32, u64> = HashMap::new();
        let (mut seen_heads, mut seen_jobs) = (0, 0);
        for line in text.lines() {
            let f: Vec<&str> = line.split(',').collect();
            let number = |s: &str| u64::from_str_radix(s.trim().trim_start_matches("0x"), 16).unwrap();
            if f.len() < 4 || f[1] != "W" {
                continue;
            }
            let (offset, value) = (number(f[2]) as u32, number(f[3]));
            halves.insert(offset, value);
            if offset != 0x18e0 || value != 1 {
                continue;
            }
            seen_heads += 1;
            let head = halves[&0x18c0] | halves[&0x18c4] << 32;
            let c = read_chain(&mem, GpuVa::new(head));
            assert_eq!(c.end, ChainEnd::End, "{name} {head:#x}");
            for (i, job) in c.jobs.iter().enumerate() {
                seen_jobs += 1;
                let h = job.header.as_ref().unwrap();
                assert_eq!(job.kind(), Some(JobType::Compute));
                assert_eq!(h.check_soundness(), Soundness::Sound);
                assert!(h.is_64bit && h.barrier && h.index >= 0x4001);
                assert_eq!(h.exception_code(), 1, "the dump was made after the work");
                let d = job.dispatch.unwrap();
                assert!(d.invocations() >= 1 && d.size.iter().product::<u32>() <= 384, "{d:?}");
                let shader = job.shader_va.unwrap();
                let mut code = [0; 16];
                assert!(
                    mem.read(shader, &mut code) && code != [0; 16],
                    "{name} job {i} shader {shader}"
                );
            }
        }
        assert_eq!((seen_heads, seen_jobs), (heads, jobs), "{name}");
    }
}
