//! Generated cases: a world, what happens before, and what a task asks for; all of it follows from one number.

pub mod access;
pub mod disk;
pub mod nic;
pub mod playbook;
pub mod sdn;
pub mod shell;
pub mod vsphere;
pub mod worlds;

use serde_json::{Map, Value, json};

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    pub module: &'static str,
    /// Of the whole lab.
    pub world: Value,
    /// Files to make below the export: path, length.
    pub files: Vec<(String, usize)>,
    /// Runs that come before, whatever they end in.
    pub before: Vec<(&'static str, Value)>,
    /// Changes from outside, of the Proxmox side.
    pub patches: Vec<Value>,
    /// Who signs in: `root`, `deploy` (a password) or `token` (without the user's privileges); nothing beside Proxmox.
    pub login: &'static str,
    pub args: Map<String, Value>,
    /// Whether a second run must change nothing.
    pub repeatable: bool,
}

impl Case {
    pub fn new(module: &'static str, world: Value, args: Value) -> Case {
        Case {
            module,
            world,
            files: vec![],
            before: vec![],
            patches: vec![],
            login: "root",
            args: args.as_object().cloned().expect("an object"),
            repeatable: true,
        }
    }
}

/// Numbers that follow from a seed (xorshift64*).
pub struct Gen(u64);

impl Gen {
    pub fn new(seed: u64) -> Gen {
        let mut g = Gen(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            g.next();
        }
        g
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0 to n - 1.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) % n.max(1) as u64) as usize
    }

    /// True in that many of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// One of these, by weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let mut n = self.below(from.iter().map(|(w, _)| w).sum());
        for (w, v) in from {
            if n < *w {
                return *v;
            }
            n -= w;
        }
        from[0].1
    }

    /// A whole number, as YAML or as a template delivers it.
    pub fn int(&mut self, n: i64) -> Value {
        if self.chance(50) {
            json!(n)
        } else {
            json!(n.to_string())
        }
    }

    /// A boolean, as YAML or as a template delivers it.
    pub fn bool(&mut self) -> Value {
        let b = self.chance(50);
        self.spell(b)
    }

    /// That boolean in some spelling.
    pub fn spell(&mut self, b: bool) -> Value {
        match (self.below(4), b) {
            (0, true) => json!("True"),
            (0, false) => json!("False"),
            (1, true) => json!("yes"),
            (1, false) => json!("no"),
            _ => json!(b),
        }
    }

    /// A list, or the same as text with commas.
    pub fn list(&mut self, items: &[&str]) -> Value {
        if self.chance(50) {
            json!(items)
        } else {
            json!(items.join(","))
        }
    }

    /// A dictionary, or the same as JSON text.
    pub fn dict(&mut self, v: Value) -> Value {
        if self.chance(75) {
            v
        } else {
            json!(v.to_string())
        }
    }
}
