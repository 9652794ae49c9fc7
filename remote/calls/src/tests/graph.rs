//! Tests of the messages about graphs.

use super::{check_cuts, written};
use crate::message::*;
use crate::{Decoder, HandleKind, HandleNumber, MessageError};

fn handle(kind: HandleKind, index: u32) -> HandleNumber {
    HandleNumber::from_worker(kind, index).unwrap()
}

fn launch() -> Launch<'static> {
    Launch {
        function: handle(HandleKind::Kernel, 9),
        grid: [1, 2, 3],
        block: [4, 5, 6],
        shared: 64,
        stream: HandleNumber::NULL,
        cooperative: false,
        attributes: None,
        arguments: &[1, 2, 3, 4, 5],
    }
}

fn copy() -> MemoryCopy {
    let side = |place| MemorySide {
        place,
        x: 1,
        y: 2,
        z: 3,
        level: 0,
        pitch: 512,
        layer_rows: 7,
    };
    MemoryCopy {
        source: side(MemoryPlace::Device(0x7000_0000)),
        target: side(MemoryPlace::Window(4096)),
        width: 100,
        height: 4,
        depth: 1,
    }
}

fn works() -> [NodeWork<'static>; 6] {
    let fill = NodeFill {
        to: 0x7000_0000,
        pitch: 256,
        value: 7,
        element: 4,
        width: 64,
        height: 2,
    };
    [
        NodeWork::Kernel(launch()),
        NodeWork::Copy(copy()),
        NodeWork::Fill(fill),
        NodeWork::Host(1 << 40),
        NodeWork::Child(handle(HandleKind::Graph, 3)),
        NodeWork::Empty,
    ]
}

#[test]
fn nodes_of_all_kinds_are_read_as_written() {
    for work in works() {
        let add = AddNode {
            graph: handle(HandleKind::Graph, 1),
            node: HandleNumber::from_client(HandleKind::GraphNode, 2).unwrap(),
            after: vec![handle(HandleKind::GraphNode, 1); 3],
            context: handle(HandleKind::Context, 1),
            work: work.clone(),
        };
        let bytes = written(|encoder| add.write(encoder));
        check_cuts(&bytes, AddNode::read);
        assert_eq!(AddNode::read(&mut Decoder::new(&bytes)).unwrap(), add);
        let set = SetNode {
            exec: handle(HandleKind::GraphExec, 1),
            node: add.node,
            context: HandleNumber::NULL,
            work,
        };
        let bytes = written(|encoder| set.write(encoder));
        check_cuts(&bytes, SetNode::read);
        assert_eq!(SetNode::read(&mut Decoder::new(&bytes)).unwrap(), set);
    }
}

#[test]
fn unknown_kinds_of_nodes_are_refused() {
    let set = SetNode {
        exec: HandleNumber::NULL,
        node: handle(HandleKind::GraphNode, 1),
        context: HandleNumber::NULL,
        work: NodeWork::Empty,
    };
    let mut bytes = written(|encoder| set.write(encoder));
    *bytes.get_mut(12).unwrap() = 6;
    let error = SetNode::read(&mut Decoder::new(&bytes)).unwrap_err();
    assert!(
        matches!(error, MessageError::Unknown { value: 6, at: 12, .. }),
        "{error}"
    );
    let describe = DescribeNode {
        node: set.node,
        kind: DescribedKind::Fill,
    };
    let mut bytes = written(|encoder| describe.write(encoder));
    *bytes.get_mut(4).unwrap() = 3;
    let error = DescribeNode::read(&mut Decoder::new(&bytes)).unwrap_err();
    assert!(
        matches!(error, MessageError::Unknown { value: 3, at: 4, .. }),
        "{error}"
    );
}

#[test]
fn dependencies_beyond_the_limit_are_refused_before_memory_is_allocated() {
    let add = AddNode {
        graph: handle(HandleKind::Graph, 1),
        node: handle(HandleKind::GraphNode, 2),
        after: Vec::new(),
        context: HandleNumber::NULL,
        work: NodeWork::Empty,
    };
    let mut bytes = written(|encoder| add.write(encoder));
    bytes
        .get_mut(8..12)
        .unwrap()
        .copy_from_slice(&(MAX_DEPENDENCIES + 1).to_le_bytes());
    let error = AddNode::read(&mut Decoder::new(&bytes)).unwrap_err();
    assert!(matches!(error, MessageError::TooLong { at: 8, .. }), "{error}");
    // A list within the limit, but longer than the message.
    bytes
        .get_mut(8..12)
        .unwrap()
        .copy_from_slice(&MAX_DEPENDENCIES.to_le_bytes());
    let error = AddNode::read(&mut Decoder::new(&bytes)).unwrap_err();
    assert!(matches!(error, MessageError::Truncated { .. }), "{error}");
}

#[test]
fn descriptions_of_nodes_are_read_as_written() {
    for kind in [DescribedKind::Kernel, DescribedKind::Copy, DescribedKind::Fill] {
        let describe = DescribeNode {
            node: handle(HandleKind::GraphNode, 1),
            kind,
        };
        let bytes = written(|encoder| describe.write(encoder));
        check_cuts(&bytes, DescribeNode::read);
        assert_eq!(DescribeNode::read(&mut Decoder::new(&bytes)).unwrap(), describe);
    }
    let description = KernelNodeDescription {
        graph: handle(HandleKind::Graph, 1),
        context: handle(HandleKind::Context, 1),
        function: FunctionDescription {
            handle: launch().function,
            name: "mix".into(),
            max_threads: 1024,
            shared_bytes: 64,
            parameters: vec![ParameterPlace { offset: 0, bytes: 5 }],
        },
        launch: launch(),
    };
    let bytes = written(|encoder| description.write(encoder));
    check_cuts(&bytes, KernelNodeDescription::read);
    assert_eq!(
        KernelNodeDescription::read(&mut Decoder::new(&bytes)).unwrap(),
        description
    );
    let set = SetNodeAttribute {
        node: handle(HandleKind::GraphNode, 1),
        attribute: LaunchAttributeValue {
            id: 4,
            value: [1, 2, 3, 4, 5, 6, 7, 8],
        },
    };
    let bytes = written(|encoder| set.write(encoder));
    check_cuts(&bytes, SetNodeAttribute::read);
    assert_eq!(SetNodeAttribute::read(&mut Decoder::new(&bytes)).unwrap(), set);
}

#[test]
fn attributes_with_handles_and_those_of_later_drivers_are_not_numbers() {
    let numbers: Vec<u32> = (0..25).filter(|id| is_number_attribute(*id)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 14, 15, 16, 17, 18]);
    assert!(!is_number_attribute(u32::MAX));
}

#[test]
fn lists_are_read_as_written() {
    let part = ListPart {
        graph: handle(HandleKind::Graph, 1),
        first: 1 << 33,
        count: MAX_LISTED,
        has_data: true,
    };
    let bytes = written(|encoder| part.write(encoder));
    check_cuts(&bytes, ListPart::read);
    assert_eq!(ListPart::read(&mut Decoder::new(&bytes)).unwrap(), part);
    let too_long = ListPart {
        count: MAX_LISTED + 1,
        ..part
    };
    let bytes = written(|encoder| too_long.write(encoder));
    assert!(matches!(
        ListPart::read(&mut Decoder::new(&bytes)),
        Err(MessageError::TooLong { .. })
    ));
    let edge = GraphEdge {
        from: handle(HandleKind::GraphNode, 1),
        to: handle(HandleKind::GraphNode, 2),
        data: 0x01_02,
    };
    let edges = ListAnswer {
        total: 5,
        elements: vec![edge; 3],
    };
    let bytes = written(|encoder| edges.write(encoder));
    check_cuts(&bytes, ListAnswer::<GraphEdge>::read);
    assert_eq!(ListAnswer::read(&mut Decoder::new(&bytes)).unwrap(), edges);
    let nodes = ListAnswer {
        total: 2,
        elements: vec![edge.from, edge.to],
    };
    let bytes = written(|encoder| nodes.write(encoder));
    check_cuts(&bytes, ListAnswer::<HandleNumber>::read);
    assert_eq!(ListAnswer::read(&mut Decoder::new(&bytes)).unwrap(), nodes);
}

#[test]
fn instantiations_and_updates_are_read_as_written() {
    let with_parameters = InstantiationForm::WithParameters {
        flags: 2,
        stream: HandleNumber::STREAM_PER_THREAD,
    };
    for form in [InstantiationForm::WithLog(MAX_INSTANTIATION_LOG_BYTES), with_parameters] {
        let instantiate = InstantiateGraph {
            exec: handle(HandleKind::GraphExec, 1),
            graph: handle(HandleKind::Graph, 1),
            form,
        };
        let bytes = written(|encoder| instantiate.write(encoder));
        check_cuts(&bytes, InstantiateGraph::read);
        assert_eq!(InstantiateGraph::read(&mut Decoder::new(&bytes)).unwrap(), instantiate);
    }
    let too_long = InstantiateGraph {
        exec: HandleNumber::NULL,
        graph: HandleNumber::NULL,
        form: InstantiationForm::WithLog(MAX_INSTANTIATION_LOG_BYTES + 1),
    };
    let bytes = written(|encoder| too_long.write(encoder));
    assert!(matches!(
        InstantiateGraph::read(&mut Decoder::new(&bytes)),
        Err(MessageError::TooLong { .. })
    ));
    let answer = InstantiationAnswer {
        result: 1,
        outcome: 2,
        node: handle(HandleKind::GraphNode, 1),
        log: b"node 3 has no kernel",
    };
    let bytes = written(|encoder| answer.write(encoder));
    check_cuts(&bytes, InstantiationAnswer::read);
    assert_eq!(InstantiationAnswer::read(&mut Decoder::new(&bytes)).unwrap(), answer);
    let update = UpdateExec {
        exec: handle(HandleKind::GraphExec, 1),
        graph: handle(HandleKind::Graph, 1),
    };
    let bytes = written(|encoder| update.write(encoder));
    check_cuts(&bytes, UpdateExec::read);
    assert_eq!(UpdateExec::read(&mut Decoder::new(&bytes)).unwrap(), update);
    let answer = UpdateAnswer {
        result: 910,
        outcome: 2,
        node: handle(HandleKind::GraphNode, 1),
        edge_start: HandleNumber::NULL,
    };
    let bytes = written(|encoder| answer.write(encoder));
    check_cuts(&bytes, UpdateAnswer::read);
    assert_eq!(UpdateAnswer::read(&mut Decoder::new(&bytes)).unwrap(), answer);
}

#[test]
fn captures_into_graphs_need_data_for_all_edges_or_none() {
    let mut capture = CaptureToGraph {
        stream: handle(HandleKind::Stream, 1),
        graph: handle(HandleKind::Graph, 1),
        after: vec![handle(HandleKind::GraphNode, 1); 2],
        data: Vec::new(),
        mode: 2,
    };
    for data in [Vec::new(), vec![1, 2]] {
        capture.data = data;
        let bytes = written(|encoder| capture.write(encoder));
        check_cuts(&bytes, CaptureToGraph::read);
        assert_eq!(CaptureToGraph::read(&mut Decoder::new(&bytes)).unwrap(), capture);
    }
    capture.data = vec![1];
    let bytes = written(|encoder| capture.write(encoder));
    assert!(matches!(
        CaptureToGraph::read(&mut Decoder::new(&bytes)),
        Err(MessageError::Unknown { .. })
    ));
}

#[test]
fn changed_bytes_never_panic() {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for work in works() {
        let add = AddNode {
            graph: handle(HandleKind::Graph, 1),
            node: handle(HandleKind::GraphNode, 2),
            after: vec![handle(HandleKind::GraphNode, 1); 2],
            context: HandleNumber::NULL,
            work,
        };
        messages.push(written(|encoder| add.write(encoder)));
    }
    for message in &messages {
        for at in 0..message.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = message.clone();
                *changed.get_mut(at).unwrap() = value;
                let decoder = Decoder::new(&changed);
                // The results do not matter: each is a message, or an error.
                let _ = AddNode::read(&mut decoder.clone());
                let _ = SetNode::read(&mut decoder.clone());
                let _ = DescribeNode::read(&mut decoder.clone());
                let _ = KernelNodeDescription::read(&mut decoder.clone());
                let _ = SetNodeAttribute::read(&mut decoder.clone());
                let _ = ListPart::read(&mut decoder.clone());
                let _ = ListAnswer::<GraphEdge>::read(&mut decoder.clone());
                let _ = InstantiateGraph::read(&mut decoder.clone());
                let _ = InstantiationAnswer::read(&mut decoder.clone());
                let _ = UpdateExec::read(&mut decoder.clone());
                let _ = UpdateAnswer::read(&mut decoder.clone());
                let _ = CaptureToGraph::read(&mut decoder.clone());
            }
        }
    }
}
