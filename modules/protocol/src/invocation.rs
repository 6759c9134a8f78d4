//! What we are asked to do, and how.

use serde_json::{Map, Value};
use std::io::Read;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// One call of a module.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// Short module name, such as `pve_nic`.
    pub module: String,
    /// The task's arguments, without Ansible's own keys.
    pub args: Map<String, Value>,
    /// `--check`.
    pub check_mode: bool,
    /// `--diff`.
    pub diff: bool,
    /// The folder of this run's ledger; only given by the action plugin, when the command line has `--check`.
    pub ledger: Option<PathBuf>,
    /// For people: indent the result.
    pub pretty: bool,
}

/// Why a call cannot be understood.
#[derive(Debug, Error)]
pub enum InvocationError {
    /// The arguments file cannot be read.
    #[error(
        "unable to read the arguments file {path}: {source}; give a file of JSON, or - for standard input"
    )]
    Unreadable {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is no JSON object. The parser's own words would repeat the text, secrets included, so only the place is named.
    #[error(
        "unable to read the arguments file {path}: no JSON object (line {line}, column {column}); give the module's options as one JSON object"
    )]
    NotAnObject {
        /// Its path.
        path: String,
        /// 1-based; 0 when it is JSON, but no object.
        line: usize,
        /// 1-based.
        column: usize,
    },
    /// Neither argv[0], nor the arguments file, nor the first argument names a module.
    #[error("unable to tell which module is meant: {name:?} is none; `trueplan spec` lists them")]
    NoModule {
        /// What was found instead.
        name: String,
    },
}

/// Reads the arguments file and picks the module: by `_ansible_module_name`, the first argument, or argv[0].
///
/// # Errors
/// When the file is unreadable or no JSON object, or no module of ours is named.
pub fn read_invocation(
    argv0: &str,
    named: Option<&str>,
    file: &str,
    is_module: &dyn Fn(&str) -> bool,
) -> Result<Invocation, InvocationError> {
    let mut args = read_object(file)?;
    let from_args = args
        .get("_ansible_module_name")
        .and_then(Value::as_str)
        .map(short_name);
    let from_argv0 = Path::new(argv0)
        .file_name()
        .and_then(|n| n.to_str())
        .map(|n| n.trim_start_matches("AnsiballZ_").to_owned());
    let module = [named.map(str::to_owned), from_args.clone(), from_argv0]
        .into_iter()
        .flatten()
        .find(|n| is_module(n))
        .ok_or_else(|| InvocationError::NoModule {
            name: named
                .map(str::to_owned)
                .or(from_args)
                .unwrap_or_else(|| argv0.to_owned()),
        })?;
    let flag = |args: &Map<String, Value>, name: &str| args.get(name) == Some(&Value::Bool(true));
    let (check_mode, diff) = (
        flag(&args, "_ansible_check_mode"),
        flag(&args, "_ansible_diff"),
    );
    let ledger = match args.remove("_trueplan_ledger") {
        Some(Value::String(s)) if !s.is_empty() => Some(PathBuf::from(s)),
        _ => None,
    };
    args.retain(|k, _| !k.starts_with("_ansible_"));
    Ok(Invocation {
        module,
        args,
        check_mode,
        diff,
        ledger,
        pretty: named.is_some(),
    })
}

fn short_name(fqcn: &str) -> String {
    fqcn.rsplit('.').next().unwrap_or(fqcn).to_owned()
}

fn read_object(file: &str) -> Result<Map<String, Value>, InvocationError> {
    let unreadable = |source| InvocationError::Unreadable {
        path: file.to_owned(),
        source,
    };
    let mut text = String::new();
    if file == "-" {
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(unreadable)?;
    } else {
        text = std::fs::read_to_string(file).map_err(unreadable)?;
    }
    match serde_json::from_str::<Value>(&text) {
        Ok(Value::Object(o)) => Ok(o),
        Ok(_) => Err(InvocationError::NotAnObject {
            path: file.to_owned(),
            line: 0,
            column: 0,
        }),
        Err(e) => Err(InvocationError::NotAnObject {
            path: file.to_owned(),
            line: e.line(),
            column: e.column(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, named: Option<&str>, argv0: &str) -> Result<Invocation, InvocationError> {
        let f = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(f.path(), text).unwrap();
        read_invocation(argv0, named, f.path().to_str().unwrap(), &|m| {
            m == "pve_nic" || m == "pve_zone"
        })
    }

    #[test]
    fn the_module_is_found_in_each_way() {
        let by_args = r#"{"_ansible_module_name": "trueplan.virt.pve_nic", "_ansible_check_mode": true, "vmid": 1}"#;
        let i = read(by_args, None, "/x/AnsiballZ_pve_zone").unwrap();
        assert_eq!(
            (i.module.as_str(), i.check_mode, i.diff),
            ("pve_nic", true, false)
        );
        assert_eq!(i.args.len(), 1);
        assert_eq!(
            read("{}", None, "/x/AnsiballZ_pve_zone").unwrap().module,
            "pve_zone"
        );
        assert_eq!(
            read("{}", Some("pve_nic"), "trueplan").unwrap().module,
            "pve_nic"
        );
        assert!(read("{}", None, "/usr/bin/trueplan").is_err());
    }

    #[test]
    fn a_broken_file_is_not_repeated() {
        let e = read(
            r#"{"api_password": "hunter2hunter2" oops"#,
            Some("pve_nic"),
            "x",
        )
        .unwrap_err();
        assert!(!e.to_string().contains("hunter2"), "{e}");
    }
}
