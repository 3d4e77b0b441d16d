//! Elements with attributes, as far as algorithms have them: comments and a declaration are skipped, text and document types are mistakes.

use super::Mistake;

/// Maximum depth of elements: algorithms have four levels.
const MAX_DEPTH: usize = 8;

/// An element.
#[derive(Debug)]
pub(super) struct Element<'t> {
    /// Its name.
    pub(super) name: &'t str,
    /// Its line, from 1.
    pub(super) line: u32,
    /// Its attributes, in order.
    pub(super) attributes: Vec<(&'t str, &'t str)>,
    /// The elements in it.
    pub(super) children: Vec<Self>,
}

/// Reads the one element of a text.
///
/// # Errors
/// The first mistake.
pub(super) fn parse(text: &str) -> Result<Element<'_>, Mistake> {
    let mut reader = Reader { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 };
    reader.skip()?;
    let root = reader.element(0)?;
    reader.skip()?;
    if reader.rest.is_empty() { Ok(root) } else { Err(reader.mistake("expected one element, found more after it")) }
}

struct Reader<'t> {
    rest: &'t str,
    line: u32,
}

impl<'t> Reader<'t> {
    fn mistake(&self, reason: impl Into<String>) -> Mistake {
        Mistake { line: self.line, element: String::new(), reason: reason.into() }
    }

    /// Consumes a number of bytes.
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count() as u32;
        self.rest = rest;
        taken
    }

    fn space(&mut self) {
        self.take(self.rest.len() - self.rest.trim_ascii_start().len());
    }

    /// Returns what is found, for messages.
    fn found(&self) -> String {
        self.rest
            .chars()
            .next()
            .map_or_else(|| "the end of the file".to_owned(), |found| format!("`{}`", found.escape_default()))
    }

    fn expect(&mut self, word: &str) -> Result<(), Mistake> {
        if self.rest.starts_with(word) {
            self.take(word.len());
            return Ok(());
        }
        Err(self.mistake(format!("expected `{word}`, found {}", self.found())))
    }

    /// Skips white space, comments and declarations.
    fn skip(&mut self) -> Result<(), Mistake> {
        loop {
            self.space();
            let (begin, end) = match self.rest {
                rest if rest.starts_with("<!--") => ("<!--", "-->"),
                rest if rest.starts_with("<?") => ("<?", "?>"),
                _ => return Ok(()),
            };
            let length = self.rest.get(begin.len()..).and_then(|rest| rest.find(end));
            let length = length.ok_or_else(|| self.mistake(format!("expected `{end}` after `{begin}`, found none")))?;
            self.take(begin.len() + length + end.len());
        }
    }

    fn name(&mut self) -> Result<&'t str, Mistake> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let length = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        if length == 0 {
            return Err(self.mistake(format!("expected a name, found {}", self.found())));
        }
        Ok(self.take(length))
    }

    fn element(&mut self, depth: usize) -> Result<Element<'t>, Mistake> {
        if depth == MAX_DEPTH {
            return Err(self.mistake(format!("expected at most {MAX_DEPTH} levels of elements, found more")));
        }
        let line = self.line;
        self.expect("<")?;
        let mut element = Element { name: self.name()?, line, attributes: Vec::new(), children: Vec::new() };
        loop {
            self.space();
            match self.rest.chars().next() {
                Some('/') => return self.expect("/>").map(|()| element),
                Some('>') => {
                    self.take(1);
                    break;
                }
                _ => element.attributes.push(self.attribute()?),
            }
        }
        loop {
            self.skip()?;
            if self.rest.starts_with("</") {
                self.take(2);
                let end = self.name()?;
                if end != element.name {
                    return Err(self.mistake(format!("expected `</{}>`, found `</{end}>`", element.name)));
                }
                self.space();
                return self.expect(">").map(|()| element);
            }
            element.children.push(self.element(depth + 1)?);
        }
    }

    fn attribute(&mut self) -> Result<(&'t str, &'t str), Mistake> {
        let name = self.name()?;
        self.space();
        self.expect("=")?;
        self.space();
        let quote = self.rest.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let quote = quote.ok_or_else(|| self.mistake(format!("expected a value in quotes, found {}", self.found())))?;
        self.take(1);
        let length = self.rest.find([quote, '<']).filter(|end| self.rest[*end..].starts_with(quote));
        let length =
            length.ok_or_else(|| self.mistake(format!("expected {quote} at the end of `{name}`, found none")))?;
        let value = self.take(length);
        self.take(1);
        Ok((name, value))
    }
}
