//! Fuzz target for the reader of job chain folders: each of its two text files, with the other one sound.

use crate::folder::in_folder;
use trace_import::chains;

/// A sound list file of a folder, with one submit.
pub const LIST: &str = r#"{"program": "p", "gpu_id": "0x6000", "renderer": "Mali-G71", "gl_version": "3.1",
 "buffers": [{"name": "x", "bytes": 64, "type": "f32x4", "gpu_va": "0x10000", "expected": "x.bin", "role": "output"}],
 "submits": [{"submit": "submit000.json", "jobs": [{"rsd": {"shader": "0x10000", "file": "a.bin"}}]}]}
"#;

/// A sound submit file of the list.
pub const SUBMIT: &str = r#"{"jc": "0x10000", "requirements": 1, "bos": [
 {"handle": 7, "va": "0x20000", "size": 134217728, "noexec": true, "heap": true, "in_submit": false, "file": null},
 {"handle": 3, "va": "0x10000", "size": 4096, "noexec": false, "heap": false, "in_submit": true, "file": "a.bin"}]}
"#;

/// Fuzzes a folder of job chains. The first byte selects the file that the rest is: the submit if it is odd, otherwise
/// the list.
pub fn chains(data: &[u8]) -> bool {
    let Some((selector, text)) = data.split_first() else {
        return false;
    };
    let (list, submit) = if selector & 1 == 0 {
        (text, SUBMIT.as_bytes())
    } else {
        (LIST.as_bytes(), text)
    };
    let mut accepted = false;
    in_folder(|folder| {
        let files = [("spec.json", list), ("submit000.json", submit), ("a.bin", &[7; 4096])];
        for (name, bytes) in files {
            let path = folder.join(name);
            std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        assert!(
            chains::parts(folder).iter().all(|p| p.parent() == Some(folder)),
            "a part is in another folder"
        );
        if let Ok(read) = chains::read(folder) {
            for s in &read.submits {
                for o in &s.objects {
                    let image = chains::Chains::image(&read, s, o);
                    assert!(image.is_ok_and(|i| i.is_empty() || i.len() as u64 == o.bytes));
                }
            }
            accepted = true;
        }
        // Other targets of this thread use the folder as well.
        for (name, _) in files {
            let _ = std::fs::remove_file(folder.join(name));
        }
    });
    accepted
}
