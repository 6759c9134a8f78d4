//! SOAP requests from JSON, by the schema: what is sent is in the order and of the types of the API, or an error of ours.

use serde_json::{Map, Value};
use vsphere::schema::{Kind, Prop, schema};

/// An argument that does not fit the API. A fault of ours, never the user's.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// No such method.
    #[error("{ty} has no method {method}")]
    Method {
        /// WSDL type.
        ty: String,
        /// Method.
        method: String,
    },
    /// No such parameter or property.
    #[error("{within} has no {name}")]
    Name {
        /// Method or type.
        within: String,
        /// What was given.
        name: String,
    },
    /// Missing.
    #[error("{within} needs {name}")]
    Missing {
        /// Method or type.
        within: String,
        /// What is needed.
        name: String,
    },
    /// A wrong value.
    #[error("{name} is no {ty}")]
    Value {
        /// Name of the property.
        name: String,
        /// Its type.
        ty: String,
    },
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // Line ends that XML would normalise away.
            '\r' => out.push_str("&#13;"),
            // Not allowed in XML 1.0 at all.
            c if c < ' ' && !matches!(c, '\t' | '\n') => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
}

/// The envelope of a call: `this` is `Type:moid`, `params` in any order.
///
/// A data object is a JSON object; `_type` (or `_vimtype`) names a derived type. A reference is `Type:moid` or `vim.Type:moid`.
///
/// # Errors
/// What does not fit the API.
pub fn envelope(
    this: &str,
    method: &str,
    params: &[(String, Value)],
) -> Result<String, EncodeError> {
    let (ty, moid) = split_ref(this).unwrap_or(("ManagedObject", this));
    let no_method = || EncodeError::Method {
        ty: ty.to_owned(),
        method: method.to_owned(),
    };
    let m = schema().method(ty, method).ok_or_else(no_method)?;
    let mut out = String::with_capacity(1024);
    out.push_str(concat!(
        r#"<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" "#,
        r#"xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>"#
    ));
    out.push_str(&format!(
        r#"<{method} xmlns="urn:vim25"><_this type="{ty}">"#
    ));
    escape(&mut out, moid);
    out.push_str("</_this>");
    fields(
        &mut out,
        method,
        &m.params,
        params.iter().map(|(k, v)| (k.as_str(), v)),
    )?;
    out.push_str(&format!("</{method}></soapenv:Body></soapenv:Envelope>"));
    Ok(out)
}

/// The WSDL type and moid of a reference.
fn split_ref(reference: &str) -> Option<(&str, &str)> {
    let (ty, moid) = reference.trim_matches('\'').split_once(':')?;
    let ty = schema()
        .any(ty)
        .map_or_else(|| ty.rsplit('.').next().unwrap_or(ty), |t| t.name);
    Some((ty, moid))
}

fn fields<'a>(
    out: &mut String,
    within: &str,
    props: &[Prop],
    given: impl Iterator<Item = (&'a str, &'a Value)> + Clone,
) -> Result<(), EncodeError> {
    let is_marker = |k: &str| matches!(k, "_type" | "_vimtype");
    if let Some((k, _)) = given
        .clone()
        .find(|(k, _)| !is_marker(k) && !props.iter().any(|p| p.name == *k))
    {
        return Err(EncodeError::Name {
            within: within.to_owned(),
            name: k.to_owned(),
        });
    }
    for p in props {
        match given.clone().find(|(k, v)| *k == p.name && !v.is_null()) {
            Some((_, Value::Array(items))) if p.array => {
                for i in items {
                    element(out, p.name, p.ty, i)?;
                }
            }
            Some((_, v)) => element(out, p.name, p.ty, v)?,
            // An empty list is sent as nothing.
            None if p.optional || p.array => {}
            None => {
                return Err(EncodeError::Missing {
                    within: within.to_owned(),
                    name: p.name.to_owned(),
                });
            }
        }
    }
    Ok(())
}

fn element(out: &mut String, name: &str, ty: &str, v: &Value) -> Result<(), EncodeError> {
    let bad = || EncodeError::Value {
        name: name.to_owned(),
        ty: ty.to_owned(),
    };
    let s = schema();
    let simple = |out: &mut String, attr: &str, text: &str| {
        out.push_str(&format!("<{name}{attr}>"));
        escape(out, text);
        out.push_str(&format!("</{name}>"));
    };
    match (s.get(ty).map(|t| t.kind), v) {
        (Some(Kind::Managed), Value::String(r)) => {
            let (ty, moid) = split_ref(r).ok_or_else(bad)?;
            simple(out, &format!(r#" type="{ty}""#), moid);
        }
        (Some(Kind::Data), Value::Object(o)) => object(out, name, ty, o)?,
        (Some(Kind::Enum), Value::String(t)) => simple(out, "", t),
        (Some(_), _) => return Err(bad()),
        (None, v) => {
            let (attr, text) = match (ty, v) {
                ("object", Value::Object(o)) => return object(out, name, ty, o),
                ("object", Value::String(t)) => (r#" xsi:type="xsd:string""#, t.clone()),
                ("object", Value::Bool(b)) => (r#" xsi:type="xsd:boolean""#, b.to_string()),
                ("object", Value::Number(n))
                    if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
                {
                    (r#" xsi:type="xsd:int""#, n.to_string())
                }
                ("object", Value::Number(n)) if n.is_i64() => {
                    (r#" xsi:type="xsd:long""#, n.to_string())
                }
                ("object", Value::Number(n)) => (r#" xsi:type="xsd:double""#, n.to_string()),
                ("bool", Value::Bool(b)) => ("", b.to_string()),
                ("int" | "long" | "short" | "byte", Value::Number(n)) if n.is_i64() => {
                    ("", n.to_string())
                }
                ("float" | "double", Value::Number(n)) => ("", n.to_string()),
                ("type", Value::String(t)) => {
                    ("", s.any(t).map_or(t.as_str(), |x| x.name).to_owned())
                }
                (
                    "str" | "PropertyPath" | "ManagedMethod" | "Link" | "binary" | "URI"
                    | "datetime",
                    Value::String(t),
                ) => ("", t.clone()),
                _ => return Err(bad()),
            };
            simple(out, attr, &text);
        }
    }
    Ok(())
}

fn object(
    out: &mut String,
    name: &str,
    declared: &str,
    o: &Map<String, Value>,
) -> Result<(), EncodeError> {
    let marker = o
        .get("_type")
        .or_else(|| o.get("_vimtype"))
        .and_then(Value::as_str);
    let said = marker.unwrap_or(declared);
    let s = schema();
    let bad = || EncodeError::Value {
        name: name.to_owned(),
        ty: declared.to_owned(),
    };
    let t = s
        .any(said)
        .filter(|t| t.kind == Kind::Data)
        .ok_or_else(bad)?;
    if declared != "object" && !s.is_a(t.name, declared) {
        return Err(bad());
    }
    if t.name == declared {
        out.push_str(&format!("<{name}>"));
    } else {
        out.push_str(&format!(r#"<{name} xsi:type="{}">"#, t.name));
    }
    fields(
        out,
        t.name,
        s.props(t),
        o.iter().map(|(k, v)| (k.as_str(), v)),
    )?;
    out.push_str(&format!("</{name}>"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(this: &str, method: &str, params: Value) -> Result<String, EncodeError> {
        let p: Vec<(String, Value)> = params
            .as_object()
            .expect("object")
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let e = envelope(this, method, &p)?;
        let from = e.find("<soapenv:Body>").expect("body") + 14;
        Ok(e[from..e.find("</soapenv:Body>").expect("end")].to_owned())
    }

    #[test]
    fn properties_go_in_the_order_of_the_api() {
        let got = body(
            "VirtualMachine:vm-1",
            "RelocateVM_Task",
            json!({"priority": "defaultPriority",
                   "spec": {"disk": [{"datastore": "vim.Datastore:ds:2", "diskId": 2000,
                                      "diskBackingInfo": {"_type": "VirtualDiskFlatVer2BackingInfo", "thinProvisioned": true, "fileName": "", "diskMode": "persistent"}}],
                            "datastore": "Datastore:ds-1"}}),
        )
        .expect("encodes");
        assert_eq!(
            got,
            concat!(
                r#"<RelocateVM_Task xmlns="urn:vim25"><_this type="VirtualMachine">vm-1</_this><spec><datastore type="Datastore">ds-1</datastore>"#,
                r#"<disk><diskId>2000</diskId><datastore type="Datastore">ds:2</datastore><diskBackingInfo xsi:type="VirtualDiskFlatVer2BackingInfo">"#,
                r#"<fileName></fileName><diskMode>persistent</diskMode><thinProvisioned>true</thinProvisioned></diskBackingInfo></disk></spec>"#,
                r#"<priority>defaultPriority</priority></RelocateVM_Task>"#
            )
        );
    }

    #[test]
    fn what_does_not_fit_is_never_sent() {
        let says = |r: Result<String, EncodeError>| r.expect_err("refused").to_string();
        assert_eq!(
            says(body("VirtualMachine:vm-1", "Explode", json!({}))),
            "VirtualMachine has no method Explode"
        );
        assert_eq!(
            says(body(
                "VirtualMachine:vm-1",
                "PowerOnVM_Task",
                json!({"hots": 1})
            )),
            "PowerOnVM_Task has no hots"
        );
        assert_eq!(
            says(body("VirtualMachine:vm-1", "ReconfigVM_Task", json!({}))),
            "ReconfigVM_Task needs spec"
        );
        assert_eq!(
            says(body(
                "VirtualMachine:vm-1",
                "ReconfigVM_Task",
                json!({"spec": {"annotation": 5}})
            )),
            "annotation is no str"
        );
    }

    #[test]
    fn text_is_escaped_and_an_empty_text_is_sent() {
        let got = body(
            "VirtualMachine:vm-1",
            "ReconfigVM_Task",
            json!({"spec": {"annotation": "a<b>&\"\r\n"}}),
        )
        .expect("encodes");
        assert!(
            got.contains("<annotation>a&lt;b&gt;&amp;&quot;&#13;\n</annotation>"),
            "{got}"
        );
        let got = body(
            "VirtualMachine:vm-1",
            "ReconfigVM_Task",
            json!({"spec": {"annotation": ""}}),
        )
        .expect("encodes");
        assert!(got.contains("<annotation></annotation>"), "{got}");
    }
}
