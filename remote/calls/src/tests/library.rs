//! Tests of library calls: what is written is read, and what no client writes is refused.

use super::{check_cuts, written};
use crate::library::checks::{ProductShape, matrix_product, matrix_vector, pairs, product_types, vector, vectors};
use crate::library::{
    GeneratedPart, LibraryArgument, LibraryArguments, LibraryFunction, LibraryHandle, LibraryOpening,
    MAX_GENERATED_PART, NvidiaLibrary, OpenLibrary, ReadGenerated, ResultPart, ScalarPart,
};
use crate::*;

#[test]
fn every_function_is_read_as_written() {
    for function in LibraryFunction::ALL {
        // Zeros are a message of every function: values, null pointers, null handles.
        let mut bytes = written(|encoder| encoder.write(*function));
        bytes.resize(bytes.len() + 256, 0);
        let mut decoder = Decoder::new(&bytes);
        let call = LibraryArguments::read(&mut decoder).unwrap();
        assert_eq!(call.function, *function);
        bytes.truncate(decoder.offset());
        let call = LibraryArguments::read(&mut Decoder::new(&bytes)).unwrap();
        assert_eq!(written(|encoder| call.write(encoder)), bytes, "{}", function.name());
        check_cuts(&bytes, LibraryArguments::read);
        let is_object = matches!(call.arguments.first(), Some(LibraryArgument::Handle(_)));
        assert_eq!(function.has_object(), is_object, "{}", function.name());
        let beginning = match function.library() {
            NvidiaLibrary::Cublas => "cublas",
            NvidiaLibrary::Curand => "curand",
        };
        assert!(function.name().starts_with(beginning));
    }
    let unknown = (LibraryFunction::ALL.len() as u16).to_le_bytes();
    assert!(LibraryArguments::read(&mut Decoder::new(&unknown)).is_err());
}

#[test]
fn scalars_and_results_are_read_as_written() {
    for part in [
        ScalarPart::Null,
        ScalarPart::Host(&[1, 2, 3, 4]),
        ScalarPart::Device(1 << 40),
    ] {
        let bytes = written(|encoder| part.write(encoder));
        check_cuts(&bytes, ScalarPart::read);
        assert_eq!(ScalarPart::read(&mut Decoder::new(&bytes)).unwrap(), part);
    }
    for part in [ResultPart::Null, ResultPart::Host, ResultPart::Device(1 << 40)] {
        let bytes = written(|encoder| part.write(encoder));
        check_cuts(&bytes, ResultPart::read);
        assert_eq!(ResultPart::read(&mut Decoder::new(&bytes)).unwrap(), part);
    }
    let long = written(|encoder| ScalarPart::Host(&[0; 17]).write(encoder));
    assert!(matches!(
        ScalarPart::read(&mut Decoder::new(&long)),
        Err(MessageError::TooLong { .. })
    ));
    assert!(ResultPart::read(&mut Decoder::new(&[3])).is_err());
}

#[test]
fn requests_of_libraries_are_read_as_written() {
    for library in [NvidiaLibrary::Cublas, NvidiaLibrary::Curand] {
        let open = OpenLibrary { library, major: 13 };
        let bytes = written(|encoder| open.write(encoder));
        check_cuts(&bytes, OpenLibrary::read);
        assert_eq!(OpenLibrary::read(&mut Decoder::new(&bytes)).unwrap(), open);
    }
    for opening in [LibraryOpening::Loaded, LibraryOpening::Missing("no such file")] {
        let bytes = written(|encoder| opening.write(encoder));
        check_cuts(&bytes, LibraryOpening::read);
        assert_eq!(LibraryOpening::read(&mut Decoder::new(&bytes)).unwrap(), opening);
    }
    let request = ReadGenerated {
        generator: LibraryHandle::from_number(4),
        offset: 1 << 33,
    };
    let bytes = written(|encoder| request.write(encoder));
    check_cuts(&bytes, ReadGenerated::read);
    assert_eq!(ReadGenerated::read(&mut Decoder::new(&bytes)).unwrap(), request);
    let long = vec![0; MAX_GENERATED_PART + 1];
    let bytes = written(|encoder| GeneratedPart(&long).write(encoder));
    assert!(GeneratedPart::read(&mut Decoder::new(&bytes)).is_err());
}

#[test]
fn handles_of_libraries_are_no_handles_of_the_driver() {
    assert_eq!(LibraryHandle::from_address(0), None);
    assert_eq!(LibraryHandle::default().as_address(), 0);
    for number in [1, 2, u32::MAX] {
        let handle = LibraryHandle::from_number(number);
        assert_eq!(LibraryHandle::from_address(handle.as_address()), Some(handle));
        assert_eq!(LibraryHandle::from_address(handle.as_address() + 1), None);
        assert_eq!(HandleNumber::from_address(handle.as_address()), None);
    }
    let stream = HandleNumber::from_worker(HandleKind::Memory, HandleNumber::MAX_INDEX).unwrap();
    assert_eq!(LibraryHandle::from_address(stream.as_address()), None);
}

#[test]
fn only_ordinary_arguments_need_no_answer() {
    assert!(vector(1, 1) && !vector(0, 1) && !vector(1, 0) && !vector(-1, 1));
    assert!(vectors(4, 1, -2) && !vectors(4, 0, 1) && !vectors(-4, 1, 1));
    assert!(product_types([2, 2, 0], 68, -1) && !product_types([2, 2, 0], 64, -1) && !product_types([0; 3], 68, 3));
    assert!(pairs(2) && !pairs(3) && !pairs(0));
    assert!(matrix_vector(1, 3, 4, 3, 1, 1) && !matrix_vector(1, 3, 4, 2, 1, 1) && !matrix_vector(3, 3, 4, 3, 1, 1));
    let product = |operations, leading| {
        let sizes = [5, 4, 3];
        matrix_product(ProductShape {
            operations,
            sizes,
            leading,
        })
    };
    // A factor that is transposed is stored with as many rows as the sums are long.
    assert!(product([0, 0], [5, 3, 5]) && product([1, 0], [3, 3, 5]) && product([0, 2], [5, 4, 5]));
    assert!(!product([0, 0], [4, 3, 5]) && !product([1, 0], [2, 3, 5]) && !product([0, 2], [5, 3, 5]));
    assert!(!product([0, 0], [5, 3, 4]) && !product([3, 0], [5, 5, 5]));
}
