//! Graphs: their nodes, executable graphs, and captures into graphs.

use super::code::FunctionDescription;
use super::launch::{Launch, LaunchAttributeValue};
use super::memory_copy::MemoryCopy;
use crate::{Decoder, Encoder, HandleNumber, MessageError, Scalar};
use cuda_driver::{NODE_COPY, NODE_EMPTY, NODE_FILL, NODE_GRAPH, NODE_HOST, NODE_KERNEL};

/// Maximum number of nodes that a new node, or a capture, comes after.
pub const MAX_DEPENDENCIES: u32 = 12 << 10;
/// Maximum number of nodes or edges in an answer. Longer lists come in parts.
pub const MAX_LISTED: u32 = 8 << 10;
/// Maximum size of the log of an instantiation, bytes.
pub const MAX_INSTANTIATION_LOG_BYTES: u32 = 64 << 10;

/// A fill of device memory by a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFill {
    /// Address of the first byte.
    pub to: u64,
    /// Distance of two rows, bytes.
    pub pitch: u64,
    /// The value.
    pub value: u32,
    /// Size of an element, bytes.
    pub element: u32,
    /// Number of elements of a row.
    pub width: u64,
    /// Number of rows.
    pub height: u64,
}

impl NodeFill {
    /// Appends the fill to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.to);
        encoder.write(self.pitch);
        encoder.write(self.value);
        encoder.write(self.element);
        encoder.write(self.width);
        encoder.write(self.height);
    }

    /// Reads a fill.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            to: decoder.read()?,
            pitch: decoder.read()?,
            value: decoder.read()?,
            element: decoder.read()?,
            width: decoder.read()?,
            height: decoder.read()?,
        })
    }
}

/// The work of a node. In messages, its kind is the driver's `CUgraphNodeType`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeWork<'m> {
    /// A launch of a kernel. Its stream is null and it has no attributes.
    Kernel(Launch<'m>),
    /// A copy of a box.
    Copy(MemoryCopy),
    /// A fill of device memory.
    Fill(NodeFill),
    /// A host function of the program, by the number that the client gave it.
    Host(u64),
    /// A copy of a graph.
    Child(HandleNumber),
    /// No work: the node only orders others.
    Empty,
}

impl<'m> NodeWork<'m> {
    fn write(&self, encoder: &mut Encoder) {
        match self {
            Self::Kernel(launch) => {
                encoder.write(NODE_KERNEL);
                launch.write(encoder);
            }
            Self::Copy(copy) => {
                encoder.write(NODE_COPY);
                copy.write(encoder);
            }
            Self::Fill(fill) => {
                encoder.write(NODE_FILL);
                fill.write(encoder);
            }
            Self::Host(function) => {
                encoder.write(NODE_HOST);
                encoder.write(*function);
            }
            Self::Child(graph) => {
                encoder.write(NODE_GRAPH);
                encoder.write(*graph);
            }
            Self::Empty => encoder.write(NODE_EMPTY),
        }
    }

    fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        let at = decoder.offset();
        match decoder.read()? {
            NODE_KERNEL => Ok(Self::Kernel(Launch::read(decoder)?)),
            NODE_COPY => Ok(Self::Copy(MemoryCopy::read(decoder)?)),
            NODE_FILL => Ok(Self::Fill(NodeFill::read(decoder)?)),
            NODE_HOST => Ok(Self::Host(decoder.read()?)),
            NODE_GRAPH => Ok(Self::Child(decoder.read()?)),
            NODE_EMPTY => Ok(Self::Empty),
            other => Err(unknown_kind(other, at)),
        }
    }
}

fn unknown_kind(kind: u32, at: usize) -> MessageError {
    MessageError::Unknown {
        what: "the kind of node",
        value: kind.into(),
        at,
    }
}

fn read_dependencies(decoder: &mut Decoder<'_>) -> Result<Vec<HandleNumber>, MessageError> {
    decoder.read_list("the list of dependencies", MAX_DEPENDENCIES)
}

/// A request for a new node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddNode<'m> {
    /// The graph.
    pub graph: HandleNumber,
    /// Handle that the client made for the node.
    pub node: HandleNumber,
    /// Nodes that it comes after.
    pub after: Vec<HandleNumber>,
    /// Context of the work; null for the current one.
    pub context: HandleNumber,
    /// Its work.
    pub work: NodeWork<'m>,
}

impl<'m> AddNode<'m> {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.graph);
        encoder.write(self.node);
        encoder.write_list(&self.after);
        encoder.write(self.context);
        self.work.write(encoder);
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            graph: decoder.read()?,
            node: decoder.read()?,
            after: read_dependencies(decoder)?,
            context: decoder.read()?,
            work: NodeWork::read(decoder)?,
        })
    }
}

/// A change of a node's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetNode<'m> {
    /// The executable graph; null to change the node in its graph.
    pub exec: HandleNumber,
    /// The node.
    pub node: HandleNumber,
    /// Context of the work; null for the current one.
    pub context: HandleNumber,
    /// The new work, of the same kind.
    pub work: NodeWork<'m>,
}

impl<'m> SetNode<'m> {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.exec);
        encoder.write(self.node);
        encoder.write(self.context);
        self.work.write(encoder);
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            exec: decoder.read()?,
            node: decoder.read()?,
            context: decoder.read()?,
            work: NodeWork::read(decoder)?,
        })
    }
}

/// Kind of a node that can be described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribedKind {
    /// A launch of a kernel. The answer is a [`KernelNodeDescription`].
    Kernel,
    /// A copy. The answer is a [`MemoryCopy`].
    Copy,
    /// A fill. The answer is a [`NodeFill`].
    Fill,
}

/// A request for the work of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescribeNode {
    /// The node.
    pub node: HandleNumber,
    /// The kind that the program takes it for.
    pub kind: DescribedKind,
}

impl DescribeNode {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.node);
        encoder.write(match self.kind {
            DescribedKind::Kernel => NODE_KERNEL,
            DescribedKind::Copy => NODE_COPY,
            DescribedKind::Fill => NODE_FILL,
        });
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let node = decoder.read()?;
        let at = decoder.offset();
        let kind = match decoder.read()? {
            NODE_KERNEL => DescribedKind::Kernel,
            NODE_COPY => DescribedKind::Copy,
            NODE_FILL => DescribedKind::Fill,
            other => return Err(unknown_kind(other, at)),
        };
        Ok(Self { node, kind })
    }
}

/// The work of a kernel node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelNodeDescription<'m> {
    /// The graph that the node ends with: of a node in a child graph, the outermost one.
    pub graph: HandleNumber,
    /// The context; null if the program does not know it.
    pub context: HandleNumber,
    /// The function or kernel, which the program may not have looked up.
    pub function: FunctionDescription,
    /// The launch.
    pub launch: Launch<'m>,
}

impl<'m> KernelNodeDescription<'m> {
    /// Appends the description to an answer.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.graph);
        encoder.write(self.context);
        self.function.write(encoder);
        self.launch.write(encoder);
    }

    /// Reads a description.
    ///
    /// # Errors
    /// If the answer is not one, or a list exceeds its limit.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            graph: decoder.read()?,
            context: decoder.read()?,
            function: FunctionDescription::read(decoder)?,
            launch: Launch::read(decoder)?,
        })
    }
}

/// A new value of an attribute of a kernel node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetNodeAttribute {
    /// The node.
    pub node: HandleNumber,
    /// The attribute.
    pub attribute: LaunchAttributeValue,
}

impl SetNodeAttribute {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.node);
        encoder.write(self.attribute);
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            node: decoder.read()?,
            attribute: decoder.read()?,
        })
    }
}

/// A request for a part of the nodes or edges of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPart {
    /// The graph.
    pub graph: HandleNumber,
    /// Index of the first element.
    pub first: u64,
    /// Maximum number of elements.
    pub count: u32,
    /// Whether edges come with their data. Without it, the driver refuses to list edges that have some.
    pub has_data: bool,
}

impl ListPart {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.graph);
        encoder.write(self.first);
        encoder.write(self.count);
        encoder.write(u8::from(self.has_data));
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one, or the part exceeds [`MAX_LISTED`].
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            graph: decoder.read()?,
            first: decoder.read()?,
            count: super::session::read_count(decoder, "the part of the list", MAX_LISTED)?,
            has_data: decoder.read::<u8>()? != 0,
        })
    }
}

/// An edge of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphEdge {
    /// The node that comes first.
    pub from: HandleNumber,
    /// The node that comes after it.
    pub to: HandleNumber,
    /// The bytes of `CUgraphEdgeData`; 0 for an edge without data.
    pub data: u64,
}

impl Scalar for GraphEdge {
    const BYTES: usize = 16;

    fn append_to(self, bytes: &mut Vec<u8>) {
        self.from.append_to(bytes);
        self.to.append_to(bytes);
        self.data.append_to(bytes);
    }

    fn read_from(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            from: decoder.read()?,
            to: decoder.read()?,
            data: decoder.read()?,
        })
    }
}

/// A part of the nodes ([`HandleNumber`]) or edges ([`GraphEdge`]) of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListAnswer<T> {
    /// Number of elements of the whole list.
    pub total: u64,
    /// The elements of the part.
    pub elements: Vec<T>,
}

impl<T: Scalar> ListAnswer<T> {
    /// Appends the part to an answer.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.total);
        encoder.write_list(&self.elements);
    }

    /// Reads a part.
    ///
    /// # Errors
    /// If the answer is not one, or exceeds [`MAX_LISTED`].
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            total: decoder.read()?,
            elements: decoder.read_list("the part of the list", MAX_LISTED)?,
        })
    }
}

/// How a graph is instantiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstantiationForm {
    /// By `cuGraphInstantiate_v2`, with a log of at most this size, bytes.
    WithLog(u32),
    /// By `cuGraphInstantiateWithParams`.
    WithParameters {
        /// Flags.
        flags: u64,
        /// Stream of the upload.
        stream: HandleNumber,
    },
}

/// A request for an executable graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstantiateGraph {
    /// Handle that the client made for the executable graph.
    pub exec: HandleNumber,
    /// The graph.
    pub graph: HandleNumber,
    /// The function of the driver, and its arguments.
    pub form: InstantiationForm,
}

impl InstantiateGraph {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.exec);
        encoder.write(self.graph);
        match self.form {
            InstantiationForm::WithLog(bytes) => {
                encoder.write(0u8);
                encoder.write(bytes);
            }
            InstantiationForm::WithParameters { flags, stream } => {
                encoder.write(1u8);
                encoder.write(flags);
                encoder.write(stream);
            }
        }
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one, or the log exceeds [`MAX_INSTANTIATION_LOG_BYTES`].
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let exec = decoder.read()?;
        let graph = decoder.read()?;
        let at = decoder.offset();
        let form = match decoder.read::<u8>()? {
            0 => {
                let bytes = super::session::read_count(decoder, "the log", MAX_INSTANTIATION_LOG_BYTES)?;
                InstantiationForm::WithLog(bytes)
            }
            1 => InstantiationForm::WithParameters {
                flags: decoder.read()?,
                stream: decoder.read()?,
            },
            other => {
                return Err(MessageError::Unknown {
                    what: "the form of the instantiation",
                    value: other.into(),
                    at,
                });
            }
        };
        Ok(Self { exec, graph, form })
    }
}

/// What the driver says about an instantiation. It comes with failures too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstantiationAnswer<'m> {
    /// Result of the call.
    pub result: u32,
    /// Reason, as in `CUgraphInstantiateResult`.
    pub outcome: u32,
    /// The node that failed, or null.
    pub node: HandleNumber,
    /// The log.
    pub log: &'m [u8],
}

impl<'m> InstantiationAnswer<'m> {
    /// Appends the answer to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.result);
        encoder.write(self.outcome);
        encoder.write(self.node);
        encoder.write_bytes(self.log);
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'m>) -> Result<Self, MessageError> {
        Ok(Self {
            result: decoder.read()?,
            outcome: decoder.read()?,
            node: decoder.read()?,
            log: decoder.read_bytes()?,
        })
    }
}

/// A request to replace the work of an executable graph by that of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateExec {
    /// The executable graph.
    pub exec: HandleNumber,
    /// The graph.
    pub graph: HandleNumber,
}

impl UpdateExec {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.exec);
        encoder.write(self.graph);
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            exec: decoder.read()?,
            graph: decoder.read()?,
        })
    }
}

/// What the driver says about an update. It comes with failures too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateAnswer {
    /// Result of the call.
    pub result: u32,
    /// Reason, as in `CUgraphExecUpdateResult`.
    pub outcome: u32,
    /// The node of the graph that does not fit, or null.
    pub node: HandleNumber,
    /// The node that the edge which does not fit starts at, or null.
    pub edge_start: HandleNumber,
}

impl UpdateAnswer {
    /// Appends the answer to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.result);
        encoder.write(self.outcome);
        encoder.write(self.node);
        encoder.write(self.edge_start);
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// If the message is not one.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        Ok(Self {
            result: decoder.read()?,
            outcome: decoder.read()?,
            node: decoder.read()?,
            edge_start: decoder.read()?,
        })
    }
}

/// A request to capture a stream into a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureToGraph {
    /// The stream.
    pub stream: HandleNumber,
    /// The graph.
    pub graph: HandleNumber,
    /// Nodes that the captured work comes after.
    pub after: Vec<HandleNumber>,
    /// Data of the edges from these nodes; empty if no edge has data.
    pub data: Vec<u64>,
    /// Mode, as in `CUstreamCaptureMode`.
    pub mode: u32,
}

impl CaptureToGraph {
    /// Appends the request to a message.
    pub fn write(&self, encoder: &mut Encoder) {
        encoder.write(self.stream);
        encoder.write(self.graph);
        encoder.write(self.mode);
        encoder.write_list(&self.after);
        encoder.write_list(&self.data);
    }

    /// Reads the request.
    ///
    /// # Errors
    /// If the message is not one, a list exceeds its limit, or the lists differ in length.
    pub fn read(decoder: &mut Decoder<'_>) -> Result<Self, MessageError> {
        let stream = decoder.read()?;
        let graph = decoder.read()?;
        let mode = decoder.read()?;
        let after = read_dependencies(decoder)?;
        let at = decoder.offset();
        let data: Vec<u64> = decoder.read_list("the list of edge data", MAX_DEPENDENCIES)?;
        if !data.is_empty() && data.len() != after.len() {
            return Err(MessageError::Unknown {
                what: "the length of the list of edge data",
                value: data.len() as u64,
                at,
            });
        }
        Ok(Self {
            stream,
            graph,
            after,
            data,
            mode,
        })
    }
}
