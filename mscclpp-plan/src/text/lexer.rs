//! Converts characters to tokens.

use std::borrow::Cow;

use super::TextError;
use super::name::{continues_word, starts_word, unquote};

/// Maximum number of characters of the text that a message repeats.
const MAX_SHOWN: usize = 40;

/// Punctuation, longer marks before their prefixes.
const MARKS: [&str; 14] = ["..", "<-", "->", "{", "}", "(", ")", "[", "]", ",", ".", "#", "=", "+"];
const MORE_MARKS: [&str; 3] = [":", "/", "-"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Number(u64),
    Text(String),
    Mark(&'static str),
    /// The end of a line, comments included.
    Line,
    End,
}

/// The tokens of a text, with one token of lookahead.
pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Start and end of the current token.
    start: usize,
    end: usize,
    token: Token<'a>,
    /// Line of the current token, counted from 1, and its start.
    line: u32,
    line_start: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, TextError> {
        let mut lexer = Self { text, start: 0, end: 0, token: Token::End, line: 1, line_start: 0 };
        lexer.advance()?;
        Ok(lexer)
    }

    /// Returns the current token.
    pub(super) const fn peek(&self) -> &Token<'a> {
        &self.token
    }

    /// Returns the start of the current token, for [`error_at`](Self::error_at).
    pub(super) const fn position(&self) -> usize {
        self.start
    }

    /// Returns line and column of the current token, in time linear in the column.
    pub(super) fn line_and_column(&self) -> (u32, u32) {
        let column = self.text[self.line_start..self.start].chars().count() + 1;
        (self.line, u32::try_from(column).unwrap_or(u32::MAX))
    }

    /// Returns the current token and reads the next one.
    pub(super) fn advance(&mut self) -> Result<Token<'a>, TextError> {
        if self.token == Token::Line {
            (self.line, self.line_start) = (self.line.saturating_add(1), self.end);
        }
        let rest = &self.text[self.end..];
        let blank = rest.trim_start_matches([' ', '\t', '\r']);
        let blank = match blank.strip_prefix(';') {
            Some(comment) => comment.find('\n').map_or("", |end| &comment[end..]),
            None => blank,
        };
        self.start = self.text.len() - blank.len();
        let (token, length) = self.read(blank)?;
        self.end = self.start + length;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn read(&self, text: &'a str) -> Result<(Token<'a>, usize), TextError> {
        let Some(first) = text.chars().next() else { return Ok((Token::End, 0)) };
        let run = |continues: fn(char) -> bool| text.find(|c| !continues(c)).unwrap_or(text.len());
        if first == '\n' {
            return Ok((Token::Line, 1));
        }
        if starts_word(first) {
            let end = run(continues_word);
            return Ok((Token::Word(&text[..end]), end));
        }
        if first.is_ascii_digit() {
            let end = run(|c| c.is_ascii_digit());
            let number = text[..end].parse().map_err(|_| self.error_at(self.start, "a number below 2^64"))?;
            return Ok((Token::Number(number), end));
        }
        if let Some(rest) = text.strip_prefix('"') {
            let expected = "a string that ends on its line, with the escapes \\\", \\\\ and \\u{…} only";
            let (name, length) = unquote(rest).ok_or_else(|| self.error_at(self.start, expected))?;
            return Ok((Token::Text(name), length + 1));
        }
        match MARKS.iter().chain(&MORE_MARKS).find(|mark| text.starts_with(**mark)) {
            Some(mark) => Ok((Token::Mark(mark), mark.len())),
            None => Err(self.error_at(self.start, "a word, a number or punctuation of the format")),
        }
    }

    /// Returns the error that something else was expected at the current token.
    pub(super) fn error(&self, expected: impl Into<String>) -> TextError {
        self.error_at(self.start, expected)
    }

    /// Returns the error that something else was expected at a position.
    pub(super) fn error_at(&self, position: usize, expected: impl Into<String>) -> TextError {
        let before = &self.text[..position];
        let rest = &self.text[position..];
        let line = rest.split(['\n', ';']).next().unwrap_or_default().trim_end();
        let found = match line.char_indices().nth(MAX_SHOWN) {
            _ if rest.is_empty() => Cow::Borrowed("the end of the text"),
            _ if line.is_empty() => Cow::Borrowed("the end of the line"),
            Some((end, _)) => Cow::Owned(format!("`{}…`", &line[..end])),
            None => Cow::Owned(format!("`{line}`")),
        };
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        TextError {
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[start..].chars().count() + 1,
            expected: expected.into(),
            found: found.into_owned(),
        }
    }

    /// Consumes the current token if it is this mark; returns whether it is.
    pub(super) fn take_mark(&mut self, mark: &str) -> Result<bool, TextError> {
        let is_it = matches!(self.token, Token::Mark(found) if found == mark);
        if is_it {
            self.advance()?;
        }
        Ok(is_it)
    }

    /// Consumes the current token if it is this word; returns whether it is.
    pub(super) fn take_word(&mut self, word: &str) -> Result<bool, TextError> {
        let is_it = matches!(self.token, Token::Word(found) if found == word);
        if is_it {
            self.advance()?;
        }
        Ok(is_it)
    }

    pub(super) fn expect_mark(&mut self, mark: &str) -> Result<(), TextError> {
        if self.take_mark(mark)? { Ok(()) } else { Err(self.error(format!("`{mark}`"))) }
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Result<(), TextError> {
        if self.take_word(word)? { Ok(()) } else { Err(self.error(format!("`{word}`"))) }
    }

    /// Consumes the end of a line and the empty lines after it.
    pub(super) fn expect_line_end(&mut self) -> Result<(), TextError> {
        if !matches!(self.token, Token::Line | Token::End) {
            return Err(self.error("the end of the line"));
        }
        self.skip_lines()
    }

    pub(super) fn skip_lines(&mut self) -> Result<(), TextError> {
        while self.token == Token::Line {
            self.advance()?;
        }
        Ok(())
    }

    /// Consumes the current word if `find` has a value for it, and returns the value.
    pub(super) fn take_named<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> Result<Option<T>, TextError> {
        let Token::Word(word) = self.token else { return Ok(None) };
        let found = find(word);
        if found.is_some() {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect_named<T>(&mut self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T, TextError> {
        match self.take_named(find)? {
            Some(value) => Ok(value),
            None => Err(self.error(what)),
        }
    }

    pub(super) fn number(&mut self, what: &str) -> Result<u64, TextError> {
        match self.token {
            Token::Number(number) => self.advance().map(|_| number),
            _ => Err(self.error(what)),
        }
    }

    pub(super) fn number_u32(&mut self, what: &str) -> Result<u32, TextError> {
        let at = self.start;
        let number = self.number(what)?;
        u32::try_from(number).map_err(|_| self.error_at(at, format!("{what}, at most {}", u32::MAX)))
    }

    pub(super) fn number_i64(&mut self, what: &str) -> Result<i64, TextError> {
        let at = self.start;
        let negative = self.take_mark("-")?;
        let number = i128::from(self.number(what)?);
        let signed = if negative { -number } else { number };
        i64::try_from(signed).map_err(|_| self.error_at(at, format!("{what} of 64 bits with sign")))
    }

    /// Consumes a name, bare or in quotes.
    pub(super) fn name(&mut self, what: &str) -> Result<String, TextError> {
        match &self.token {
            Token::Word(_) | Token::Text(_) => Ok(match self.advance()? {
                Token::Word(word) => word.to_owned(),
                Token::Text(text) => text,
                _ => String::new(),
            }),
            _ => Err(self.error(what)),
        }
    }

    /// Consumes items with commas between them, at most up to the end of the line; none if the line ends here.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, TextError>,
    ) -> Result<Vec<T>, TextError> {
        let mut items = Vec::new();
        if matches!(self.token, Token::Line | Token::End) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.take_mark(",")? {
                return Ok(items);
            }
        }
    }
}
