//! Datastore paths and names.

/// A path such as `[nfs 1] web/web_1.vmdk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DsPath {
    /// Name of the datastore.
    pub datastore: String,
    /// Path in it, without a leading slash.
    pub path: String,
}

impl DsPath {
    /// Splits at the first `]` and trims once.
    ///
    /// Source: docs/vsphere-facts.md section 4 (govmomi object/datastore_path.go). Datastore names may hold blanks and brackets
    /// of the opening kind; paths may hold anything.
    pub fn parse(text: &str) -> Option<DsPath> {
        let rest = text.trim_start().strip_prefix('[')?;
        let (ds, path) = rest.split_once(']')?;
        Some(DsPath {
            datastore: ds.to_owned(),
            path: path.strip_prefix(' ').unwrap_or(path).to_owned(),
        })
    }

    /// The folder part, empty at the top.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(f, _)| f)
    }

    /// The last part.
    pub fn file(&self) -> &str {
        self.path.rsplit_once('/').map_or(&self.path, |(_, f)| f)
    }
}

impl std::fmt::Display for DsPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {}", self.datastore, self.path)
    }
}

/// True for a name such as `web-000001.vmdk`, that of a snapshot's delta.
pub fn is_delta_name(file: &str) -> bool {
    let Some(stem) = file.strip_suffix(".vmdk") else {
        return false;
    };
    stem.rsplit_once('-')
        .is_some_and(|(_, n)| n.len() == 6 && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The name of the raw extent beside a descriptor: `web.vmdk` -> `web-flat.vmdk`.
pub fn flat_name(descriptor: &str) -> String {
    match descriptor.strip_suffix(".vmdk") {
        Some(stem) => format!("{stem}-flat.vmdk"),
        None => format!("{descriptor}-flat.vmdk"),
    }
}

/// Decodes the `%2f`, `%5c` and `%25` of a `name` property, exactly once.
pub fn decode_name(name: &str) -> String {
    let mut out: Vec<u8> = Vec::with_capacity(name.len());
    let b = name.as_bytes();
    let mut i = 0;
    while i < b.len() {
        let hex = b
            .get(i + 1..i + 3)
            .and_then(|h| std::str::from_utf8(h).ok());
        match hex
            .filter(|_| b[i] == b'%')
            .and_then(|h| u8::from_str_radix(h, 16).ok())
        {
            // Only these three are escaped by the server (docs/vsphere-facts.md section 4); `100%ab` stays what it is.
            Some(c @ (b'/' | b'\\' | b'%')) => {
                out.push(c);
                i += 3;
            }
            _ => {
                out.push(b[i]);
                i += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| name.to_owned())
}

/// True if the server's name is the one that was asked for: as people write it, or in the server's own spelling.
pub fn same_name(servers: &str, given: &str) -> bool {
    servers == given || decode_name(servers) == given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let p = DsPath::parse("[nfs [1] a b/c]d/x.vmdk").expect("path");
        assert_eq!(
            (p.datastore.as_str(), p.folder(), p.file()),
            ("nfs [1", "a b/c]d", "x.vmdk")
        );
        assert_eq!(p.to_string(), "[nfs [1] a b/c]d/x.vmdk");
        assert_eq!(DsPath::parse("[ds]x.vmdk").expect("path").path, "x.vmdk");
        assert_eq!(DsPath::parse("[ds]").expect("path").path, "");
        assert!(DsPath::parse("ds/x").is_none());
    }

    #[test]
    fn names() {
        assert_eq!(decode_name("a%2fb%2Fc%5c%25 100%"), "a/b/c\\% 100%");
        assert_eq!(decode_name("%252f"), "%2f");
        assert_eq!(decode_name("ü%zz"), "ü%zz");
        assert!(same_name("a%2fb", "a/b") && same_name("a%2fb", "a%2fb") && !same_name("a", "b"));
        assert!(
            is_delta_name("web-000001.vmdk")
                && !is_delta_name("web-0001.vmdk")
                && !is_delta_name("web_1.vmdk")
        );
        assert_eq!(flat_name("web_1.vmdk"), "web_1-flat.vmdk");
    }
}
