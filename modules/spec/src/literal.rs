//! Dictionaries and lists written as text: JSON, Python literals, `k=v`.

use serde_json::{Map, Number, Value};

/// Deeper nesting is refused, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 64;

/// Reads a Python literal: dictionary, list, tuple (as a list), string, number, `True`, `False`, `None`.
///
/// Keys that are not strings are turned into strings as JSON would: `{1: 2}` is `{"1": 2}`.
///
/// # Errors
/// What was expected and at which character; the text itself is not repeated, as it may hold secrets.
pub fn parse_literal(text: &str) -> Result<Value, String> {
    let mut p = Parser {
        chars: text.chars().collect(),
        at: 0,
    };
    let value = p.value(0)?;
    p.blanks();
    match p.peek() {
        None => Ok(value),
        Some(_) => Err(p.fail("nothing more")),
    }
}

/// Reads `k=v` pairs separated by commas or blanks, with quotes and backslashes, as Ansible's `check_type_dict`.
///
/// # Errors
/// A piece without `=`.
pub(crate) fn parse_pairs(text: &str) -> Result<Map<String, Value>, String> {
    let mut fields: Vec<String> = Vec::new();
    let mut field = String::new();
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for c in text.trim().chars() {
        if escaped {
            field.push(c);
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if quote.is_none() && (c == '\'' || c == '"') {
            quote = Some(c);
        } else if quote == Some(c) {
            quote = None;
        } else if quote.is_none() && (c == ',' || c == ' ') {
            if !field.is_empty() {
                fields.push(std::mem::take(&mut field));
            }
        } else {
            field.push(c);
        }
    }
    if !field.is_empty() {
        fields.push(field);
    }
    let mut out = Map::new();
    for (n, field) in fields.iter().enumerate() {
        let Some((key, value)) = field.split_once('=') else {
            return Err(format!("part {} of it has no `=`", n + 1));
        };
        out.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    Ok(out)
}

struct Parser {
    chars: Vec<char>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Some(c);
        if hit {
            self.at += 1;
        }
        hit
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn fail(&self, expected: &str) -> String {
        format!("expected {expected} at character {}", self.at + 1)
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.blanks();
        match self.peek() {
            Some('{') => self.dict(depth),
            Some('[') => {
                self.at += 1;
                Ok(Value::Array(self.items(']', depth)?.0))
            }
            Some('(') => {
                self.at += 1;
                let (mut items, comma) = self.items(')', depth)?;
                // `(x)` is x, `(x,)` is a tuple.
                match (items.len(), comma) {
                    (1, false) => Ok(items.remove(0)),
                    _ => Ok(Value::Array(items)),
                }
            }
            Some('\'' | '"') => {
                let mut text = self.string(false)?;
                // Adjacent strings are one.
                loop {
                    self.blanks();
                    match self.peek() {
                        Some('\'' | '"') => text.push_str(&self.string(false)?),
                        _ => return Ok(Value::String(text)),
                    }
                }
            }
            Some(c) if c.is_ascii_digit() || matches!(c, '+' | '-' | '.') => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.word(),
            _ => Err(self.fail("a value")),
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Value, String> {
        self.at += 1;
        let mut out = Map::new();
        loop {
            self.blanks();
            if self.eat('}') {
                return Ok(Value::Object(out));
            }
            let key = match self.value(depth + 1)? {
                Value::String(s) => s,
                Value::Number(n) => n.to_string(),
                Value::Bool(b) => b.to_string(),
                _ => return Err(self.fail("a string as key before this")),
            };
            self.blanks();
            if !self.eat(':') {
                return Err(self.fail("`:`"));
            }
            let value = self.value(depth + 1)?;
            out.insert(key, value);
            self.blanks();
            if !self.eat(',') {
                return match self.eat('}') {
                    true => Ok(Value::Object(out)),
                    false => Err(self.fail("`,` or `}`")),
                };
            }
        }
    }

    /// The items up to the closing bracket, and whether the last one had a comma.
    fn items(&mut self, close: char, depth: usize) -> Result<(Vec<Value>, bool), String> {
        let mut out = Vec::new();
        let mut comma = false;
        loop {
            self.blanks();
            if self.eat(close) {
                return Ok((out, comma));
            }
            if !out.is_empty() && !comma {
                return Err(self.fail(&format!("`,` or `{close}`")));
            }
            out.push(self.value(depth + 1)?);
            self.blanks();
            comma = self.eat(',');
        }
    }

    fn string(&mut self, raw: bool) -> Result<String, String> {
        let quote = self.next().ok_or_else(|| self.fail("a quote"))?;
        let triple = self.peek() == Some(quote) && self.chars.get(self.at + 1) == Some(&quote);
        if triple {
            self.at += 2;
        }
        let mut out = String::new();
        loop {
            let c = self
                .next()
                .ok_or_else(|| self.fail("the end of a string"))?;
            if c == quote {
                if !triple {
                    return Ok(out);
                }
                if self.peek() == Some(quote) && self.chars.get(self.at + 1) == Some(&quote) {
                    self.at += 2;
                    return Ok(out);
                }
                out.push(c);
            } else if c == '\\' && raw {
                out.push(c);
                out.extend(self.next());
            } else if c == '\\' {
                self.escape(&mut out)?;
            } else if c == '\n' && !triple {
                return Err(self.fail("the end of a string before the end of the line"));
            } else {
                out.push(c);
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), String> {
        let c = self
            .next()
            .ok_or_else(|| self.fail("a character after `\\`"))?;
        match c {
            '\n' => {}
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'a' => out.push('\u{7}'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'v' => out.push('\u{b}'),
            '\\' | '\'' | '"' => out.push(c),
            'x' => self.code(2, 16, out)?,
            'u' => self.code(4, 16, out)?,
            'U' => self.code(8, 16, out)?,
            '0'..='7' => {
                self.at -= 1;
                let n = (0..3)
                    .take_while(|i| self.chars.get(self.at + i).is_some_and(|c| c.is_digit(8)))
                    .count();
                self.code(n, 8, out)?;
            }
            // As Python: an unknown escape stays as it is written.
            other => {
                out.push('\\');
                out.push(other);
            }
        }
        Ok(())
    }

    fn code(&mut self, digits: usize, radix: u32, out: &mut String) -> Result<(), String> {
        let mut code = self.digits(digits, radix)?;
        // A pair of surrogates, as JSON writes characters beyond the first plane.
        if digits == 4
            && (0xd800..0xdc00).contains(&code)
            && self.peek() == Some('\\')
            && self.chars.get(self.at + 1) == Some(&'u')
        {
            self.at += 2;
            let low = self.digits(4, 16)?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(self.fail("the second half of a surrogate pair"));
            }
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        let c = char::from_u32(code).ok_or_else(|| self.fail("a valid character before this"))?;
        out.push(c);
        Ok(())
    }

    fn digits(&mut self, count: usize, radix: u32) -> Result<u32, String> {
        let mut code: u32 = 0;
        for _ in 0..count {
            let digit = self
                .next()
                .and_then(|c| c.to_digit(radix))
                .ok_or_else(|| self.fail("a digit of a character code"))?;
            code = code.wrapping_mul(radix).wrapping_add(digit);
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        while self
            .peek()
            .is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'))
        {
            self.at += 1;
        }
        let text: String = self.chars[start..self.at]
            .iter()
            .filter(|c| **c != '_')
            .collect();
        let (sign, bare) = match text.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", text.strip_prefix('+').unwrap_or(&text)),
        };
        let radix = match bare.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        let digits = if radix == 10 { bare } else { &bare[2..] };
        let number = i64::from_str_radix(&format!("{sign}{digits}"), radix)
            .map(Number::from)
            .or_else(|_| u64::from_str_radix(&format!("{sign}{digits}"), radix).map(Number::from))
            .ok()
            .or_else(|| {
                let float =
                    radix == 10 && bare.starts_with(|c: char| c.is_ascii_digit() || c == '.');
                float
                    .then(|| text.parse::<f64>().ok().and_then(Number::from_f64))
                    .flatten()
            });
        number
            .map(Value::Number)
            .ok_or_else(|| self.fail("a number before this"))
    }

    fn word(&mut self) -> Result<Value, String> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        match (word.as_str(), self.peek()) {
            ("True", _) => Ok(Value::Bool(true)),
            ("False", _) => Ok(Value::Bool(false)),
            ("None", _) => Ok(Value::Null),
            ("u" | "U", Some('\'' | '"')) => self.string(false).map(Value::String),
            ("r" | "R", Some('\'' | '"')) => self.string(true).map(Value::String),
            _ => Err(self.fail("True, False, None or a quoted string before this")),
        }
    }
}
