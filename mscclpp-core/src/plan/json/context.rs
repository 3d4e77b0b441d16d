//! What a reader carries along: where it is, and what it has found.

use std::fmt::Write;

use super::lexer::Lexer;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::RankPlan;
use crate::types::{BufferKind, ChannelKind};

/// Findings of each sort that are kept; a file that is wrong everywhere is not explained line by line.
const MOST: usize = 64;

/// One step of the way from the top of the file to a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum PathSegment<'t> {
    Key(&'t str),
    Index(usize),
}

/// The state of one reading.
#[derive(Debug)]
pub(super) struct ReadState<'t> {
    /// Where the text is being read.
    pub(super) json: Lexer<'t>,
    path: Vec<PathSegment<'t>>,
    strict: bool,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    /// The rank being read.
    pub(super) rank: u32,
    /// Number of the first element of `gpus` in a text that holds one rank only.
    pub(super) first_rank: usize,
    /// The thread block being read.
    pub(super) block: usize,
    /// The buffers that operations of the rank being read expect of switch channels.
    switch_buffers: Vec<SwitchBuffer>,
    /// Whether the operations being read are a pipeline's body.
    pub(super) in_pipeline: bool,
}

/// An operation that says which buffer its switch channel is over. The channels come later in the file.
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
            first_rank: 0,
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

    /// Position of the current value in the array around it.
    pub(super) fn position(&self) -> usize {
        match self.path.last() {
            Some(PathSegment::Index(index)) => *index,
            _ => 0,
        }
    }

    /// The way to the current value: `gpus[0].threadblocks[1].ops[2].src_buff[0].type`.
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

    /// An error about the current value.
    #[cold]
    pub(super) fn error(&mut self, code: Code, message: impl Into<String>) {
        self.error_with_help(code, message, None::<&str>);
    }

    /// An error about the current value, with the edit that mends it.
    #[cold]
    pub(super) fn error_with_help(&mut self, code: Code, message: impl Into<String>, help: Option<impl Into<String>>) {
        if self.errors.len() < MOST {
            let mut diagnostic = Diagnostic::new(code, self.site(), message);
            diagnostic.help = help.map(Into::into);
            self.errors.push(diagnostic);
        }
    }

    /// Whether nothing that is read any more will be looked at. It is not kept then, so that a file of a great many wrong
    /// values takes no more memory than one of right ones.
    #[inline]
    pub(super) fn is_hopeless(&self) -> bool {
        self.errors.len() >= MOST
    }

    /// A key that the format does not have here; an error in a strict reading.
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

    /// The current operation says that its block's switch channel is over a buffer.
    pub(super) fn note_switch_buffer(&mut self, channel: u32, buffer: BufferKind) {
        let path = self.path();
        self.switch_buffers.push(SwitchBuffer { path, block: self.block, channel, buffer });
    }

    /// Compares what was noted with the channels of the rank, now that they are known.
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

    /// What was found up to a place where the text is not JSON, and that.
    pub(super) fn not_json(mut self) -> Diagnostics {
        self.errors.push(Diagnostic::new(Code::NotJson, self.site(), self.json.problem()));
        let mut errors = Diagnostics::default();
        errors.extend(self.errors);
        errors
    }

    /// The value with the warnings, or the errors.
    pub(super) fn finish<T>(self, value: T) -> Result<(T, Vec<Diagnostic>), Diagnostics> {
        let mut errors = Diagnostics::default();
        errors.extend(self.errors);
        errors.into_result((value, self.warnings))
    }
}

/// A string of the file for a message: quoted, escaped and not too long.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
