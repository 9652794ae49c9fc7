//! The integration tests of this crate, in one program: it links once.

mod bare;
mod calls;
mod checking;
mod containment;
mod dma;
mod hostile;
mod pairing;
mod pci;
mod platform;
mod qemu;
mod replaying;
mod support;
mod windows;
