//! vSphere types: devices, VLANs, relocate specs, VMDK descriptors; pure.
pub mod export;
pub mod vmdk;
