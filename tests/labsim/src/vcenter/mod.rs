//! The vCenter side.
