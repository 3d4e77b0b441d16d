//! The state of a reader: its position in the file, and its findings.

use std::fmt::Write;

use super::lexer::Lexer;
use crate::RankPlan;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::types::{BufferKind, ChannelKind};

/// Maximum number of findings of each severity that are kept; not every line of a file that is wrong everywhere is
/// reported.
const MOST: usize = 64;

/// One segment of the path from the top of the file to a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathSegment<'t> {
    Key(&'t str),
    Index(usize),
}

/// The state of reading one file.
#[derive(Debug)]
pub(super) struct ReadState<'t> {
    /// The tokens of the text.
    pub(super) json: Lexer<'t>,
    path: Vec<PathSegment<'t>>,
    strict: bool,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// The rank being read.
    pub(super) rank: u32,
    /// The thread block being read.
    pub(super) block: usize,
    /// The buffers that operations of the rank being read expect of switch channels.
    switch_buffers: Vec<SwitchBuffer>,
    /// Whether the operations being read are a pipeline's body.
    pub(super) in_pipeline: bool,
}

/// An operation that states the buffer of its switch channel. The channels come later in the file.
#[derive(Debug)]
struct SwitchBuffer {
    path: String,
    block: usize,
    channel: u32,
    buffer: BufferKind,
}

impl<'t> ReadState<'t> {
    pub(super) fn new(text: &'t str, strict: bool) -> Self {
        Self {
            json: Lexer::new(text),
            path: Vec::new(),
            strict,
            errors: Vec::new(),
            warnings: Vec::new(),
            rank: 0,
            block: 0,
            switch_buffers: Vec::new(),
            in_pipeline: false,
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, step: PathSegment<'t>) {
        self.path.push(step);
    }

    #[inline]
    pub(super) fn leave(&mut self) {
        self.path.pop();
    }

    /// Returns the position of the current value in its array.
    pub(super) fn position(&self) -> usize {
        match self.path.last() {
            Some(PathSegment::Index(index)) => *index,
            _ => 0,
        }
    }

    /// Returns the path of the current value: `gpus[0].threadblocks[1].ops[2].src_buff[0].type`.
    pub(super) fn path(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            let key = match step {
                PathSegment::Index(index) => {
                    _ = write!(text, "[{index}]");
                    continue;
                }
                PathSegment::Key(key) => key,
            };
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(key);
        }
        if text.is_empty() { "the top level".into() } else { text }
    }

    fn site(&self) -> Site {
        Site::Path(self.path())
    }

    /// Reports an error about the current value.
    #[cold]
    pub(super) fn error(&mut self, code: Code, message: impl Into<String>) {
        self.error_with_help(code, message, None::<&str>);
    }

    /// Reports an error about the current value, with a help text.
    #[cold]
    pub(super) fn error_with_help(&mut self, code: Code, message: impl Into<String>, help: Option<impl Into<String>>) {
        if self.errors.len() < MOST {
            let mut diagnostic = Diagnostic::new(code, self.site(), message);
            diagnostic.help = help.map(Into::into);
            self.errors.push(diagnostic);
        }
    }

    /// Returns whether the result will be discarded. Nothing more is kept then, so that a file of very many wrong
    /// values takes no more memory than one of correct values.
    #[inline]
    pub(super) fn is_hopeless(&self) -> bool {
        self.errors.len() >= MOST
    }

    /// Reports a key that the format does not have here; an error in strict mode.
    #[cold]
    pub(super) fn unknown_key(&mut self, key: &'t str, message: String) {
        self.enter(PathSegment::Key(key));
        let diagnostic = Diagnostic::new(Code::UnknownKey, self.site(), message);
        self.leave();
        let list = if self.strict { &mut self.errors } else { &mut self.warnings };
        if list.len() < MOST {
            list.push(diagnostic);
        }
    }

    /// Records that the current operation expects its block's switch channel to be over a buffer.
    pub(super) fn note_switch_buffer(&mut self, channel: u32, buffer: BufferKind) {
        let path = self.path();
        self.switch_buffers.push(SwitchBuffer { path, block: self.block, channel, buffer });
    }

    /// Compares the recorded switch buffers with the channels of the rank, which are known by now.
    pub(super) fn check_switch_buffers(&mut self, rank: &RankPlan) {
        for noted in std::mem::take(&mut self.switch_buffers) {
            let block = rank.blocks.get(noted.block);
            let channel = block.and_then(|block| block.channels(ChannelKind::Switch).get(noted.channel as usize));
            let found = channel.and_then(|channel| rank.switch_channels().nth(*channel as usize));
            if let Some((found, _)) = found
                && found != noted.buffer
                && self.errors.len() < MOST
            {
                let message = format!(
                    "the operation names the {} buffer, but its switch channel names the {found} buffer",
                    noted.buffer
                );
                self.errors.push(Diagnostic::new(Code::InconsistentValue, Site::Path(noted.path), message));
            }
        }
    }

    /// Returns the findings so far and the error that the text is not JSON.
    pub(super) fn not_json(mut self) -> Diagnostics {
        self.errors.push(Diagnostic::new(Code::NotJson, self.site(), self.json.problem()));
        let mut errors = Diagnostics::default();
        errors.extend(self.errors);
        errors
    }

    /// Returns the value with the warnings, or the errors.
    pub(super) fn finish<T>(self, value: T) -> Result<(T, Vec<Diagnostic>), Diagnostics> {
        let mut errors = Diagnostics::default();
        errors.extend(self.errors);
        errors.into_result((value, self.warnings))
    }
}

/// Formats a string of the file for a message: quoted, escaped and truncated.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
