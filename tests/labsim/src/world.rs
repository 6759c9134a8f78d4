//! World files, and the numbers that vary by seed.
use serde_json::Value;
use std::path::Path;

/// A small deterministic generator (splitmix64): what a server may choose varies by seed and by nothing else.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator for that seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next_u64() % n }
    }

    /// A factor between 0.5 and 1.5, for durations.
    pub fn factor(&mut self) -> f64 {
        0.5 + self.below(1_000_001) as f64 / 1_000_000.0
    }
}

/// Reads a world file; its parts `pve` and `vcenter` may be names of further files beside it.
/// Errors: cannot be read, is no JSON object.
pub fn read(path: &Path) -> Result<Value, String> {
    let text =
        std::fs::read_to_string(path).map_err(|e| format!("world {}: {e}", path.display()))?;
    let world: Value =
        serde_json::from_str(&text).map_err(|e| format!("world {}: {e}", path.display()))?;
    if !world.is_object() {
        return Err(format!("world {}: not a JSON object", path.display()));
    }
    Ok(world)
}

/// Empties a folder, making it if need be.
/// Errors: the file system's.
pub fn empty_folder(dir: &Path) -> Result<(), String> {
    let say = |e: std::io::Error| format!("{}: {e}", dir.display());
    std::fs::create_dir_all(dir).map_err(say)?;
    for entry in std::fs::read_dir(dir).map_err(say)? {
        let path = entry.map_err(say)?.path();
        if path.is_dir() && !path.is_symlink() {
            std::fs::remove_dir_all(&path).map_err(say)?;
        } else {
            std::fs::remove_file(&path).map_err(say)?;
        }
    }
    Ok(())
}
