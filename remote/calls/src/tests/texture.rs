//! Tests of messages of texture and surface objects, copies of arrays, and states of captures.

use super::{check_cuts, handle, written};
use crate::message::{
    ArrayCopy, ArrayCopyDirection, CaptureInfo, CreateTexture, DescribeObject, MAX_DEPENDENCIES, ObjectKind,
    ObjectMemory, ObjectResource, TEXTURE_WORDS, VIEW_WORDS,
};
use crate::*;

fn resources() -> [ObjectResource; 4] {
    let array = |kind| HandleNumber::from_client(kind, 5).unwrap();
    let texel = [32, 4];
    [
        ObjectMemory::Array(array(HandleKind::Array)),
        ObjectMemory::MipmappedArray(array(HandleKind::MipmappedArray)),
        ObjectMemory::Linear {
            at: 1 << 45,
            texel,
            bytes: 4096,
        },
        ObjectMemory::Rows {
            at: 1 << 46,
            texel,
            width: 7,
            height: 8,
            pitch: 512,
        },
    ]
    .map(|memory| ObjectResource { memory, flags: 9 })
}

#[test]
fn texture_objects_are_read_as_written() {
    for resource in resources() {
        let bytes = written(|e| resource.write(e));
        check_cuts(&bytes, ObjectResource::read);
        assert_eq!(ObjectResource::read(&mut Decoder::new(&bytes)).unwrap(), resource);
        for view in [None, Some(std::array::from_fn::<u32, VIEW_WORDS, _>(|n| n as u32))] {
            let create = CreateTexture {
                resource,
                texture: std::array::from_fn::<u32, TEXTURE_WORDS, _>(|n| n as u32 * 3),
                view,
            };
            let bytes = written(|e| create.write(e));
            check_cuts(&bytes, CreateTexture::read);
            assert_eq!(CreateTexture::read(&mut Decoder::new(&bytes)).unwrap(), create);
        }
    }
    for kind in [ObjectKind::Texture, ObjectKind::Surface] {
        let question = DescribeObject { kind, object: 77 };
        let bytes = written(|e| question.write(e));
        check_cuts(&bytes, DescribeObject::read);
        assert_eq!(DescribeObject::read(&mut Decoder::new(&bytes)).unwrap(), question);
    }
}

#[test]
fn unknown_kinds_of_objects_and_copies_are_refused() {
    let question = DescribeObject {
        kind: ObjectKind::Texture,
        object: 1,
    };
    let mut bytes = written(|e| question.write(e));
    bytes[0] = 2;
    let error = DescribeObject::read(&mut Decoder::new(&bytes)).unwrap_err();
    assert!(matches!(error, MessageError::Unknown { value: 2, .. }), "{error}");
    let mut bytes = written(|e| resources()[0].write(e));
    bytes[0] = 4;
    let error = ObjectResource::read(&mut Decoder::new(&bytes)).unwrap_err();
    assert!(matches!(error, MessageError::Unknown { value: 4, .. }), "{error}");
}

#[test]
fn copies_of_arrays_are_read_as_written() {
    for direction in [ArrayCopyDirection::ToArray, ArrayCopyDirection::FromArray] {
        let copy = ArrayCopy {
            direction,
            array: HandleNumber::from_client(HandleKind::Array, 5).unwrap(),
            offset: 16,
            host: 1 << 20,
            bytes: 64,
            stream: handle(2),
        };
        let bytes = written(|e| copy.write(e));
        check_cuts(&bytes, ArrayCopy::read);
        assert_eq!(ArrayCopy::read(&mut Decoder::new(&bytes)).unwrap(), copy);
    }
}

#[test]
fn states_of_captures_are_read_as_written() {
    for edges in [vec![], vec![1, 2]] {
        let info = CaptureInfo {
            status: 1,
            id: 3,
            graph: HandleNumber::from_worker(HandleKind::Graph, 5).unwrap(),
            nodes: vec![handle(1), handle(2)],
            edges,
        };
        let bytes = written(|e| info.write(e));
        check_cuts(&bytes, CaptureInfo::read);
        assert_eq!(CaptureInfo::read(&mut Decoder::new(&bytes)).unwrap(), info);
    }
    let count_at = 16;
    let mut bytes = written(|e| CaptureInfo::default().write(e));
    bytes[count_at..count_at + 4].copy_from_slice(&(MAX_DEPENDENCIES + 1).to_le_bytes());
    let error = CaptureInfo::read(&mut Decoder::new(&bytes)).unwrap_err();
    assert!(matches!(error, MessageError::TooLong { .. }), "{error}");
}
