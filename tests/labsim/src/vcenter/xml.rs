//! XML as SOAP needs it: a small tree for requests, a writer for typed values.
use super::types::{Types, wire_name};
use quick_xml::events::Event;
use serde_json::{Map, Value, json};

/// An element of a request, namespaces dropped.
#[derive(Clone, Debug, Default)]
pub struct El {
    /// Local name.
    pub name: String,
    /// Attributes by local name, such as `type` (of a reference) and `xsi:type`.
    pub attrs: Vec<(String, String)>,
    /// Child elements.
    pub kids: Vec<El>,
    /// Text.
    pub text: String,
}

impl El {
    /// The first child of that name.
    pub fn kid(&self, name: &str) -> Option<&El> {
        self.kids.iter().find(|k| k.name == name)
    }

    fn attr(&self, name: &str) -> Option<&str> {
        self.attrs
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

fn local(name: &[u8]) -> String {
    let s = String::from_utf8_lossy(name).into_owned();
    s.rsplit(':').next().unwrap_or("").to_string()
}

fn open(e: &quick_xml::events::BytesStart) -> Result<El, String> {
    let mut el = El {
        name: local(e.name().as_ref()),
        ..El::default()
    };
    for a in e.attributes() {
        let a = a.map_err(|e| e.to_string())?;
        let key = String::from_utf8_lossy(a.key.as_ref()).into_owned();
        let value = a.unescape_value().map_err(|e| e.to_string())?.into_owned();
        // `xsi:type` under whatever prefix, told from the plain `type` of a reference.
        let key = match key.split_once(':') {
            Some((p, "type")) if p != "xmlns" => "xsi:type".to_string(),
            _ => key,
        };
        el.attrs.push((key, value));
    }
    Ok(el)
}

/// Parses a document into its root element.
///
/// # Errors
/// A text that says what is not well-formed.
pub fn parse(body: &[u8]) -> Result<El, String> {
    let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
    let mut reader = quick_xml::Reader::from_str(text);
    let mut stack = vec![El::default()];
    let top = |stack: &mut Vec<El>, s: &str| {
        if let Some(el) = stack.last_mut() {
            el.text.push_str(s);
        }
    };
    loop {
        match reader.read_event().map_err(|e| e.to_string())? {
            Event::Start(e) => stack.push(open(&e)?),
            Event::Empty(e) => {
                let el = open(&e)?;
                stack.last_mut().ok_or("no root")?.kids.push(el);
            }
            Event::End(_) => {
                let mut el = stack.pop().ok_or("unbalanced")?;
                if !el.kids.is_empty() {
                    el.text.clear();
                }
                stack.last_mut().ok_or("unbalanced")?.kids.push(el);
            }
            Event::Text(t) => top(&mut stack, &t.decode().map_err(|e| e.to_string())?),
            Event::CData(t) => top(&mut stack, &String::from_utf8_lossy(&t)),
            Event::GeneralRef(r) => {
                let name = r.decode().map_err(|e| e.to_string())?.into_owned();
                let c = match r.resolve_char_ref().map_err(|e| e.to_string())? {
                    Some(c) => c.to_string(),
                    None => quick_xml::escape::resolve_predefined_entity(&name)
                        .ok_or_else(|| format!("unknown entity {name}"))?
                        .to_string(),
                };
                top(&mut stack, &c);
            }
            Event::Eof => break,
            _ => {}
        }
    }
    stack
        .pop()
        .and_then(|mut root| root.kids.pop())
        .ok_or_else(|| "empty document".into())
}

/// A managed object reference as a value.
pub fn mo(ty: &str, id: &str) -> Value {
    json!({ "$mo": [ty, id] })
}

/// The type and id of a reference.
pub fn mo_of(v: &Value) -> Option<(&str, &str)> {
    let pair = v.get("$mo")?;
    Some((pair[0].as_str()?, pair[1].as_str()?))
}

/// The id of a reference.
pub fn mo_id(v: &Value) -> Option<&str> {
    mo_of(v).map(|(_, id)| id)
}

/// A request's element as a typed value.
///
/// # Errors
/// A text that names what does not fit the type.
pub fn to_value(el: &El, ty: &str) -> Result<Value, String> {
    let t = Types::get();
    let xsi = el
        .attr("xsi:type")
        .map(|x| x.rsplit(':').next().unwrap_or(x));
    if t.is_managed(ty) || xsi == Some("ManagedObjectReference") {
        return Ok(mo(el.attr("type").unwrap_or(ty), el.text.trim()));
    }
    let actual = match xsi {
        Some("string") => "str",
        Some("boolean") => "bool",
        Some("dateTime") => "datetime",
        Some(x) if t.data(x).is_some() || ty == "object" => x,
        _ => ty,
    };
    if let Some(props) = t.data(actual) {
        let mut out = Map::new();
        out.insert("_t".into(), json!(actual));
        let mut last = 0;
        for kid in &el.kids {
            let (at, p) = props
                .iter()
                .enumerate()
                .find(|(_, p)| p.name == kid.name)
                .ok_or_else(|| format!("unknown element {} in {actual}", kid.name))?;
            // A sequence: the server reads elements in the order of the WSDL only, and single ones once.
            if at < last {
                return Err(format!(
                    "unexpected element tag \"{}\" seen in {actual}",
                    kid.name
                ));
            }
            last = if p.array { at } else { at + 1 };
            let v = to_value(kid, &p.ty)?;
            if p.array {
                if let Some(list) = out
                    .entry(p.name.clone())
                    .or_insert_with(|| json!([]))
                    .as_array_mut()
                {
                    list.push(v);
                }
            } else {
                out.insert(p.name.clone(), v);
            }
        }
        let missing = props
            .iter()
            .find(|p| !p.optional && !p.array && !out.contains_key(&p.name));
        if let Some(p) = missing {
            return Err(format!(
                "required property {} is missing from {actual}",
                p.name
            ));
        }
        return Ok(Value::Object(out));
    }
    let text = el.text.as_str();
    let bad = || format!("{text:?} is not a valid {actual} in {}", el.name);
    Ok(match actual {
        "bool" => match text.trim() {
            "true" | "1" => json!(true),
            "false" | "0" => json!(false),
            _ => return Err(bad()),
        },
        "int" | "long" | "short" | "byte" => json!(text.trim().parse::<i64>().map_err(|_| bad())?),
        "float" | "double" => json!(text.trim().parse::<f64>().map_err(|_| bad())?),
        // Source: the server refuses a request with a value that its enumeration does not have.
        e if t
            .enum_values(e)
            .is_some_and(|vals| !vals.iter().any(|x| x == text)) =>
        {
            return Err(bad());
        }
        _ => json!(text),
    })
}

/// Appends text with the characters escaped that XML needs.
pub fn escape(out: &mut String, s: &str) {
    for c in s.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

fn text_of(v: &Value) -> String {
    match v {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

fn simple(out: &mut String, tag: &str, xsi: Option<&str>, v: &Value) {
    out.push('<');
    out.push_str(tag);
    if let Some(x) = xsi {
        out.push_str(" xsi:type=\"");
        out.push_str(x);
        out.push('"');
    }
    out.push('>');
    escape(out, &text_of(v));
    out.push_str("</");
    out.push_str(tag);
    out.push('>');
}

/// The body of a data object: its set properties in WSDL order.
pub fn write_fields(out: &mut String, ty: &str, v: &Value) {
    let is_fault = Types::get().is_a(ty, "MethodFault");
    for p in Types::get().data(ty).unwrap_or_default() {
        // `msg` is not on the wire: it travels as localizedMessage or faultstring.
        if is_fault && p.name == "msg" {
            continue;
        }
        if let Some(x) = v.get(&p.name) {
            write(out, &p.name, &p.ty, p.array, x, false);
        }
    }
}

/// Writes a value of a declared type; `explicit` says the type on the element even where it is the declared one.
pub fn write(out: &mut String, tag: &str, ty: &str, array: bool, v: &Value, explicit: bool) {
    let t = Types::get();
    match v {
        Value::Null => {}
        Value::Array(items) if array && explicit => {
            let managed = t.is_managed(ty);
            let item = match wire_name(ty).strip_prefix("xsd:") {
                Some(x) => x.to_string(),
                None if managed => "ManagedObjectReference".into(),
                None => ty.to_string(),
            };
            let mut upper = item.clone();
            if let Some(c) = upper.get_mut(..1) {
                c.make_ascii_uppercase();
            }
            out.push_str(&format!("<{tag} xsi:type=\"ArrayOf{upper}\">"));
            for i in items {
                write(out, &item, ty, false, i, managed || ty == "object");
            }
            out.push_str(&format!("</{tag}>"));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|i| write(out, tag, ty, false, i, explicit)),
        v => {
            if let Some((mty, id)) = mo_of(v) {
                out.push_str(&format!("<{tag} type=\"{mty}\""));
                if explicit || ty == "object" {
                    out.push_str(" xsi:type=\"ManagedObjectReference\"");
                }
                out.push('>');
                escape(out, id);
                out.push_str(&format!("</{tag}>"));
            } else if let Value::Object(map) = v {
                // `{"$p": [type, array, value]}`: a value in an anyType slot whose declared type is known elsewhere.
                if let Some(p) = map.get("$p") {
                    let (pty, parray) = (
                        p[0].as_str().unwrap_or("object"),
                        p[1].as_bool().unwrap_or(false),
                    );
                    write(out, tag, pty, parray, &p[2], true);
                    return;
                }
                // `{"$x": "xsd:long", "v": 5}`: a boxed primitive whose type the value does not show.
                if let Some(x) = map.get("$x").and_then(Value::as_str) {
                    simple(out, tag, Some(x), map.get("v").unwrap_or(&Value::Null));
                    return;
                }
                let actual = map.get("_t").and_then(Value::as_str).unwrap_or(ty);
                if t.is_a(actual, "MethodFault") {
                    let msg = map.get("msg").and_then(Value::as_str).unwrap_or("");
                    let xsi = if explicit {
                        " xsi:type=\"LocalizedMethodFault\""
                    } else {
                        ""
                    };
                    out.push_str(&format!("<{tag}{xsi}><fault xsi:type=\"{actual}\">"));
                    write_fields(out, actual, v);
                    out.push_str("</fault><localizedMessage>");
                    escape(out, msg);
                    out.push_str(&format!("</localizedMessage></{tag}>"));
                    return;
                }
                if explicit || actual != ty {
                    out.push_str(&format!("<{tag} xsi:type=\"{actual}\">"));
                } else {
                    out.push_str(&format!("<{tag}>"));
                }
                write_fields(out, actual, v);
                out.push_str(&format!("</{tag}>"));
            } else if ty == "object" {
                let x = match v {
                    Value::Bool(_) => "xsd:boolean",
                    Value::Number(n) if n.is_f64() => "xsd:double",
                    Value::Number(n) if n.as_i64().is_some_and(|i| i32::try_from(i).is_ok()) => {
                        "xsd:int"
                    }
                    Value::Number(_) => "xsd:long",
                    _ => "xsd:string",
                };
                simple(out, tag, Some(x), v);
            } else if explicit {
                simple(out, tag, Some(&wire_name(ty)), v);
            } else {
                simple(out, tag, None, v);
            }
        }
    }
}
