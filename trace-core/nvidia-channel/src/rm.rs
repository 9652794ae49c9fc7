//! Ioctls of NVIDIA's kernel driver: the resource manager (RM) and unified memory (UVM).

mod argument;
mod names;
mod request;
mod structure;
mod table;

pub use argument::{
    Argument, ArgumentError, ArgumentValue, Value, allocation_bytes, decode_allocation, decode_argument, decode_control,
};
pub use names::{Status, class_name, control_name, find_status};
pub use nvidia_client::{DriverBranch, find_module_version};
pub use request::{DeviceFile, Request, RequestCode};
pub use structure::{FieldKind, Structure, StructureField};
