//! SOAP answers to JSON, as they stream in, by the schema.
//!
//! Values get the JSON types that the peers give: every property of a data object is there (unset ones null, empty lists `[]`),
//! `_vimtype` is pyVmomi's dotted name, a reference is `vim.Type:moid`. Unknown elements are tolerated.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;
use vsphere::schema::{Kind, Prop, Type, schema};

const XSI: &[u8] = b"http://www.w3.org/2001/XMLSchema-instance";
/// One value (an object of a page, a fault) may be so large at most: a hostile or broken server must not eat the memory.
const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;
/// Elements of one value; a machine with all its properties has some ten thousand.
const MAX_ELEMENTS: usize = 200_000;
/// Nesting; snapshot trees and backing chains of real machines stay well below.
const MAX_DEPTH: usize = 256;

/// What is wrong with an answer.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not XML, or not what SOAP promises.
    #[error("the answer is not what SOAP promises: {0}")]
    Form(String),
    /// It broke off.
    #[error("the answer broke off")]
    Read(#[source] io::Error),
}

/// What a server says is shown that far: it may be long, and of an attacker's choice.
pub(crate) const SHOWN: usize = 300;

/// The beginning of a text that comes from a server.
pub(crate) fn cut(text: &str) -> String {
    cut_at(text, SHOWN)
}

fn cut_at(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((i, _)) => format!("{} ...", &text[..i]),
        None => text.to_owned(),
    }
}

fn form(e: impl std::fmt::Display) -> DecodeError {
    DecodeError::Form(cut(&e.to_string()))
}

/// The words of the error at the bottom: those above only say that something went wrong.
fn deepest(e: &dyn std::error::Error) -> String {
    let mut at = e;
    while let Some(s) = at.source() {
        at = s;
    }
    at.to_string()
}

/// Counts what has been read since the last reset, and stops at the limit.
struct Meter<R> {
    inner: R,
    count: Rc<Cell<usize>>,
}

impl<R: BufRead> Read for Meter<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.count.set(self.count.get() + n);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Meter<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.count.get() > MAX_VALUE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("one value is larger than {MAX_VALUE_BYTES} bytes"),
            ));
        }
        self.inner.fill_buf()
    }
    fn consume(&mut self, n: usize) {
        self.count.set(self.count.get() + n);
        self.inner.consume(n);
    }
}

/// An element that was opened.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// Local name.
    pub name: String,
    /// `xsi:type`, local part, whatever prefix the server uses.
    pub xsi: Option<String>,
    /// The plain `type` attribute of a reference.
    pub ty: Option<String>,
    nil: bool,
}

enum Piece {
    Open(Open),
    Close,
    Text(String),
    End,
}

/// The reader of one answer.
pub struct Decoder<R: BufRead> {
    reader: NsReader<Meter<R>>,
    buf: Vec<u8>,
    count: Rc<Cell<usize>>,
    depth: usize,
    elements: usize,
}

impl<R: BufRead> Decoder<R> {
    /// Reads from there.
    pub fn new(inner: R) -> Self {
        let count = Rc::new(Cell::new(0));
        let mut reader = NsReader::from_reader(Meter {
            inner,
            count: count.clone(),
        });
        reader.config_mut().expand_empty_elements = true;
        Decoder {
            reader,
            buf: Vec::new(),
            count,
            depth: 0,
            elements: 0,
        }
    }

    /// Starts a new value: the limit on its size counts anew.
    pub fn reset_limit(&mut self) {
        self.count.set(0);
        self.elements = 0;
        // One large value must not hold the memory of all that follow.
        self.buf.shrink_to(1 << 20);
    }

    fn next(&mut self) -> Result<Piece, DecodeError> {
        loop {
            self.buf.clear();
            let event = self
                .reader
                .read_event_into(&mut self.buf)
                .map_err(|e| match e {
                    quick_xml::Error::Io(e) => {
                        DecodeError::Read(io::Error::new(e.kind(), deepest(e.as_ref())))
                    }
                    e => form(e),
                })?;
            match event {
                Event::Start(e) => {
                    let open = open(&self.reader, &e)?;
                    self.depth += 1;
                    self.elements += 1;
                    if self.elements > MAX_ELEMENTS {
                        return Err(form(format!(
                            "one value has more than {MAX_ELEMENTS} elements"
                        )));
                    }
                    if self.depth > MAX_DEPTH {
                        return Err(form(format!("elements nest deeper than {MAX_DEPTH}")));
                    }
                    return Ok(Piece::Open(open));
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(Piece::Close);
                }
                Event::Text(t) => return Ok(Piece::Text(t.decode().map_err(form)?.into_owned())),
                Event::CData(t) => return Ok(Piece::Text(t.decode().map_err(form)?.into_owned())),
                Event::GeneralRef(r) => {
                    if let Some(c) = r.resolve_char_ref().map_err(form)? {
                        return Ok(Piece::Text(c.to_string()));
                    }
                    let name = r.decode().map_err(form)?;
                    let text = resolve_predefined_entity(&name)
                        .ok_or_else(|| form(format!("entity &{name}; is not one of XML's own")))?;
                    return Ok(Piece::Text(text.to_owned()));
                }
                // SOAP forbids it, and nothing good comes with one.
                Event::DocType(_) => return Err(form("it has a document type declaration")),
                Event::Eof => return Ok(Piece::End),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::Empty(_) => {}
            }
        }
    }

    /// The next child element; `None` when the element that we are in is closed.
    ///
    /// # Errors
    /// A broken answer.
    pub fn child(&mut self) -> Result<Option<Open>, DecodeError> {
        loop {
            match self.next()? {
                Piece::Open(o) => return Ok(Some(o)),
                Piece::Close => return Ok(None),
                Piece::Text(_) => {}
                Piece::End if self.depth == 0 => return Ok(None),
                Piece::End => return Err(form("it ends in the middle of an element")),
            }
        }
    }

    /// The text of the element that was opened; its children are skipped.
    ///
    /// # Errors
    /// A broken answer.
    pub fn text(&mut self) -> Result<String, DecodeError> {
        let mut out = String::new();
        loop {
            match self.next()? {
                Piece::Text(t) => out.push_str(&t),
                Piece::Close => return Ok(out),
                Piece::Open(_) => self.skip()?,
                Piece::End => return Err(form("it ends in the middle of an element")),
            }
        }
    }

    /// Skips what is left of the element that was opened.
    ///
    /// # Errors
    /// A broken answer.
    pub fn skip(&mut self) -> Result<(), DecodeError> {
        let mut deep = 1;
        while deep > 0 {
            match self.next()? {
                Piece::Open(_) => deep += 1,
                Piece::Close => deep -= 1,
                Piece::Text(_) => {}
                Piece::End => return Err(form("it ends in the middle of an element")),
            }
        }
        Ok(())
    }

    /// The value of the element that was opened, of that declared type (`object` if the element says it itself).
    ///
    /// # Errors
    /// A broken answer, or a text that does not fit its type.
    pub fn value(&mut self, el: &Open, declared: &str) -> Result<Value, DecodeError> {
        if el.nil {
            self.skip()?;
            return Ok(Value::Null);
        }
        let said = el.xsi.as_deref();
        if let Some(item) = said.and_then(|t| t.strip_prefix("ArrayOf")) {
            let item = canonical(item);
            let mut list = vec![];
            while let Some(c) = self.child()? {
                list.push(self.value(&c, item)?);
            }
            return Ok(Value::Array(list));
        }
        let actual = said.map_or(declared, canonical);
        // The commonest first: it needs no look into the schema, and no primitive is a fault.
        if let Some(v) = self.primitive(el, actual)? {
            return Ok(v);
        }
        let s = schema();
        // Declared as a fault, but sent as the envelope of one (TaskInfo.error, missingSet): pyVmomi unwraps it likewise.
        if s.is_a(declared, "MethodFault") && (said.is_none() || actual == "LocalizedMethodFault") {
            return self.localized_fault();
        }
        match s.get(actual) {
            Some(t) if t.kind == Kind::Managed => self.reference(el, actual),
            Some(t) if t.kind == Kind::Enum => Ok(json!(self.text()?)),
            Some(t) => self.object(t),
            None if el.ty.is_some() => self.reference(el, declared),
            // A type newer than our schema: read as what was declared.
            None => match s.get(declared) {
                Some(t) if t.kind == Kind::Managed => self.reference(el, declared),
                Some(t) if t.kind == Kind::Data => self.object(t),
                _ => self.untyped(),
            },
        }
    }

    fn primitive(&mut self, el: &Open, ty: &str) -> Result<Option<Value>, DecodeError> {
        let bad = |t: &str| {
            form(format!(
                "{:?} in <{}> is no {ty}",
                cut_at(t, 60),
                cut_at(&el.name, 60)
            ))
        };
        Ok(Some(match ty {
            "str" | "PropertyPath" | "ManagedMethod" | "Link" | "binary" | "URI" => {
                json!(self.text()?)
            }
            "type" => {
                let t = self.text()?;
                json!(schema().get(&t).map_or(t.as_str(), |x| x.vim))
            }
            "datetime" => json!(datetime(self.text()?.trim())),
            "bool" => match self.text()?.trim() {
                "true" | "1" => json!(true),
                "false" | "0" => json!(false),
                t => return Err(bad(t)),
            },
            "int" | "long" | "short" | "byte" => {
                let t = self.text()?;
                json!(t.trim().parse::<i64>().map_err(|_| bad(&t))?)
            }
            "float" | "double" => {
                let t = self.text()?;
                json!(t.trim().parse::<f64>().map_err(|_| bad(&t))?)
            }
            "ManagedObjectReference" => self.reference(el, "ManagedObject")?,
            _ => return Ok(None),
        }))
    }

    fn reference(&mut self, el: &Open, declared: &str) -> Result<Value, DecodeError> {
        let ty = el.ty.clone().unwrap_or_else(|| declared.to_owned());
        let moid = self.text()?;
        let vim = schema()
            .get(&ty)
            .map_or_else(|| format!("vim.{ty}"), |t| t.vim.to_owned());
        Ok(json!(format!("{vim}:{}", moid.trim())))
    }

    fn object(&mut self, t: &Type) -> Result<Value, DecodeError> {
        let props = schema().props(t);
        let mut out = Map::with_capacity(props.len());
        out.insert("_vimtype".into(), json!(t.vim));
        for p in props.iter().filter(|p| !is_dynamic(p)) {
            out.insert(p.name.to_owned(), unset(p));
        }
        while let Some(c) = self.child()? {
            let Some(p) = props.iter().find(|p| p.name == c.name) else {
                self.skip()?;
                continue;
            };
            let array_in_one =
                p.array && c.xsi.as_deref().is_some_and(|x| x.starts_with("ArrayOf"));
            let v = self.value(&c, p.ty)?;
            match out.get_mut(p.name) {
                Some(Value::Array(list)) if p.array && !array_in_one => list.push(v),
                _ => {
                    out.insert(p.name.to_owned(), v);
                }
            }
        }
        Ok(Value::Object(out))
    }

    fn localized_fault(&mut self) -> Result<Value, DecodeError> {
        let mut fault = Value::Null;
        let mut msg = Value::Null;
        while let Some(c) = self.child()? {
            match c.name.as_str() {
                "fault" => fault = self.fault(&c)?,
                "localizedMessage" => msg = json!(self.text()?),
                _ => self.skip()?,
            }
        }
        if let Some(f) = fault.as_object_mut().filter(|_| !msg.is_null()) {
            f.insert("msg".into(), msg);
        }
        Ok(fault)
    }

    /// A fault itself, by its `xsi:type`; of an unknown type only the type is kept.
    ///
    /// # Errors
    /// A broken answer.
    pub fn fault(&mut self, el: &Open) -> Result<Value, DecodeError> {
        let named = el
            .xsi
            .clone()
            .unwrap_or_else(|| el.name.strip_suffix("Fault").unwrap_or(&el.name).to_owned());
        match schema().get(&named) {
            Some(t) if t.kind == Kind::Data => self.object(t),
            _ => {
                let v = self.untyped()?;
                let mut m = v.as_object().cloned().unwrap_or_default();
                m.insert("_vimtype".into(), json!(format!("vim.fault.{named}")));
                Ok(Value::Object(m))
            }
        }
    }

    /// An element of which we know nothing: a text, or an object of its children.
    fn untyped(&mut self) -> Result<Value, DecodeError> {
        let mut out = Map::new();
        let mut text = String::new();
        loop {
            match self.next()? {
                Piece::Text(t) => text.push_str(&t),
                Piece::Close => break,
                Piece::End => return Err(form("it ends in the middle of an element")),
                Piece::Open(c) => {
                    let v = self.value(&c, "object")?;
                    match out.get_mut(&c.name) {
                        Some(Value::Array(l)) => l.push(v),
                        Some(old) => *old = json!([old.take(), v]),
                        None => {
                            out.insert(c.name, v);
                        }
                    }
                }
            }
        }
        Ok(if out.is_empty() {
            json!(text)
        } else {
            Value::Object(out)
        })
    }
}

fn open<R>(reader: &NsReader<R>, e: &BytesStart<'_>) -> Result<Open, DecodeError> {
    let mut o = Open {
        name: String::from_utf8_lossy(e.local_name().as_ref()).into_owned(),
        ..Open::default()
    };
    for a in e.attributes() {
        let a = a.map_err(form)?;
        let (ns, local) = reader.resolve_attribute(a.key);
        let xsi = matches!(ns, ResolveResult::Bound(Namespace(n)) if n == XSI);
        let value = || a.unescape_value().map(|v| v.into_owned()).map_err(form);
        match (xsi, local.as_ref()) {
            (true, b"type") => {
                let v = value()?;
                o.xsi = Some(v.rsplit(':').next().unwrap_or(&v).to_owned());
            }
            (true, b"nil") => o.nil = matches!(value()?.as_str(), "true" | "1"),
            // A bare attribute has no namespace of its own.
            (false, b"type") if a.key.prefix().is_none() => o.ty = Some(value()?),
            _ => {}
        }
    }
    Ok(o)
}

/// XML Schema's and the array types' names for what the schema calls by Python's.
fn canonical(name: &str) -> &str {
    match name {
        "string" | "String" | "anyURI" | "Uri" | "URI" => "str",
        "boolean" | "Boolean" => "bool",
        "int" | "Int" | "integer" | "unsignedInt" => "int",
        "long" | "Long" | "unsignedLong" => "long",
        "short" | "Short" | "unsignedShort" => "short",
        "byte" | "Byte" | "unsignedByte" => "byte",
        "float" | "Float" => "float",
        "double" | "Double" => "double",
        "dateTime" | "DateTime" => "datetime",
        "base64Binary" | "Base64Binary" | "Binary" => "binary",
        "anyType" | "AnyType" => "object",
        "MethodName" => "ManagedMethod",
        "TypeName" => "type",
        other => other,
    }
}

fn is_dynamic(p: &Prop) -> bool {
    // The peers strip these two where they are empty, which they always are.
    matches!(p.name, "dynamicType" | "dynamicProperty")
}

/// What pyVmomi has for a property that was not sent.
fn unset(p: &Prop) -> Value {
    if p.array {
        return json!([]);
    }
    if p.optional {
        return Value::Null;
    }
    match p.ty {
        "bool" => json!(false),
        "int" | "long" | "short" | "byte" => json!(0),
        "float" | "double" => json!(0.0),
        "str" | "PropertyPath" | "Link" | "URI" => json!(""),
        _ => Value::Null,
    }
}

/// A time as the peers print it: microseconds without trailing zeros, `Z` for UTC.
fn datetime(text: &str) -> String {
    let zone_at = text
        .char_indices()
        .skip(11)
        .find(|(_, c)| matches!(c, 'Z' | '+' | '-'))
        .map_or(text.len(), |(i, _)| i);
    let (clock, zone) = text.split_at(zone_at);
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let micros: String = fraction.chars().take(6).collect();
    let micros = micros.trim_end_matches('0');
    let zone = match zone {
        "+00:00" | "-00:00" | "Z" => "Z",
        z => z,
    };
    if micros.is_empty() {
        format!("{whole}{zone}")
    } else {
        format!("{whole}.{micros}{zone}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(xml: &str, declared: &str) -> Result<Value, DecodeError> {
        let mut d = Decoder::new(xml.as_bytes());
        let el = d.child()?.ok_or_else(|| form("empty"))?;
        d.value(&el, declared)
    }

    fn ok(xml: &str, declared: &str) -> Value {
        read(xml, declared).expect(xml)
    }

    const NS: &str = r#"xmlns:x="http://www.w3.org/2001/XMLSchema-instance" xmlns:s="http://www.w3.org/2001/XMLSchema""#;

    #[test]
    fn values_by_their_own_type_under_any_prefix() {
        assert_eq!(
            ok(&format!(r#"<val {NS} x:type="s:long">5</val>"#), "object"),
            json!(5)
        );
        assert_eq!(
            ok(
                &format!(r#"<val {NS} x:type="s:string">a&amp;b &#x263A;&lt;</val>"#),
                "object"
            ),
            json!("a&b ☺<")
        );
        assert_eq!(
            ok(
                &format!(r#"<val {NS} x:type="s:boolean">1</val>"#),
                "object"
            ),
            json!(true)
        );
        assert_eq!(
            ok(
                &format!(r#"<val {NS} x:type="s:dateTime">2024-05-06T07:08:09.120000+00:00</val>"#),
                "object"
            ),
            json!("2024-05-06T07:08:09.12Z")
        );
        assert_eq!(
            ok(
                &format!(
                    r#"<val {NS} type="VirtualMachine" x:type="ManagedObjectReference">vm-1</val>"#
                ),
                "object"
            ),
            json!("vim.VirtualMachine:vm-1")
        );
        assert_eq!(
            ok(
                &format!(
                    r#"<val {NS} x:type="ArrayOfManagedObjectReference"><ManagedObjectReference type="Datastore">ds:1</ManagedObjectReference></val>"#
                ),
                "object"
            ),
            json!(["vim.Datastore:ds:1"])
        );
        assert_eq!(
            ok(
                &format!(r#"<val {NS} x:type="ArrayOfInt"><int>1</int><int>2</int></val>"#),
                "object"
            ),
            json!([1, 2])
        );
    }

    #[test]
    fn data_objects_have_all_their_properties() {
        let v = ok(
            &format!(
                r#"<val {NS} x:type="ArrayOfVirtualDevice"><VirtualDevice x:type="VirtualDisk"><key>2000</key><newInV9>1</newInV9>
                <backing x:type="VirtualDiskFlatVer2BackingInfo"><fileName>[a] b.vmdk</fileName><diskMode>persistent</diskMode></backing>
                <capacityInKB>4</capacityInKB></VirtualDevice></val>"#
            ),
            "object",
        );
        let d = &v[0];
        assert_eq!(d["_vimtype"], "vim.vm.device.VirtualDisk");
        assert_eq!(
            (&d["key"], &d["capacityInKB"], &d["iofilter"]),
            (&json!(2000), &json!(4), &json!([]))
        );
        assert_eq!(
            (&d["capacityInBytes"], &d["connectable"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(
            d["backing"]["_vimtype"],
            "vim.vm.device.VirtualDisk.FlatVer2BackingInfo"
        );
        assert!(d.get("newInV9").is_none() && d.get("dynamicType").is_none());
    }

    #[test]
    fn an_unknown_type_is_read_as_the_declared_one() {
        let v = ok(
            &format!(
                r#"<VirtualDevice {NS} x:type="VirtualFromTheFuture"><key>7</key></VirtualDevice>"#
            ),
            "VirtualDevice",
        );
        assert_eq!(
            (&v["key"], &v["_vimtype"]),
            (&json!(7), &json!("vim.vm.device.VirtualDevice"))
        );
    }

    #[test]
    fn faults_in_tasks_are_unwrapped() {
        let v = ok(
            &format!(
                r#"<error {NS}><fault x:type="InvalidPowerState"><existingState>poweredOff</existingState></fault><localizedMessage>no</localizedMessage></error>"#
            ),
            "MethodFault",
        );
        assert_eq!(
            (&v["_vimtype"], &v["msg"], &v["existingState"]),
            (
                &json!("vim.fault.InvalidPowerState"),
                &json!("no"),
                &json!("poweredOff")
            )
        );
    }

    #[test]
    fn a_hostile_server_gets_an_error() {
        for (xml, says) in [
            (format!("<v {NS}>&bomb;</v>"), "entity"),
            (
                r#"<!DOCTYPE v [<!ENTITY a "b">]><v/>"#.to_owned(),
                "document type",
            ),
            (format!("<v>{}", "<a>".repeat(1000)), "deeper"),
            ("<v><a>".to_owned(), "middle"),
            (format!(r#"<v {NS} x:type="s:int">many</v>"#), "is no int"),
        ] {
            let e = read(&xml, "object").expect_err(says).to_string();
            assert!(e.contains(says), "{e}");
        }
        let huge = io::BufReader::new(io::Cursor::new(b"<v>".to_vec()).chain(io::repeat(b'a')));
        let mut d = Decoder::new(huge);
        let el = d.child().expect("opens").expect("element");
        let e = d.value(&el, "str").expect_err("endless");
        assert!(
            matches!(&e, DecodeError::Read(r) if r.to_string().contains("larger")),
            "{e:?}"
        );
    }
}
