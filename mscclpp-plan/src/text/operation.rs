//! Lines of a thread block: operations, and pipelines with their bodies.

use super::lexer::{Lexer, Token};
use super::names::Peer;
use super::parse::{Locations, buffer, buffer_of_name, peer, range};
use super::tables::{RankTables, Uses};
use super::{MAX_DEPTH, TextError};
use crate::types::{BlockSync, BufferKind, ChannelKind, ReduceOp};
use crate::{BufferRef, Count, LoopBody, Op, OpKind, Operand, Slice};

/// The tables for looking up names of an operation.
pub(super) struct Scope<'a> {
    pub(super) rank: &'a mut RankTables,
    pub(super) channels: Uses,
    pub(super) buffers: Uses,
    pub(super) locations: &'a mut Locations,
}

/// A channel, semaphore or barrier as written, with its position.
struct Id {
    at: usize,
    name: IdName,
}

enum IdName {
    /// A barrier or semaphore, or a position in the thread block's table.
    Direct(u32),
    Channel(Peer),
    Switch(u32),
}

/// An operand as written, with its position.
struct ParsedOperand {
    at: usize,
    place: PlaceName,
    range: (u32, u32),
}

enum PlaceName {
    Direct(BufferRef),
    Remote(u32, BufferKind),
    Multicast(u32, BufferKind),
}

/// The first list of an operation's line.
enum Item {
    Id(Id),
    ParsedOperand(ParsedOperand),
}

/// Reads the operations up to `block` or `}`.
pub(super) fn all(scope: &mut Scope<'_>, lexer: &mut Lexer<'_>, depth: usize) -> Result<Vec<Op>, TextError> {
    let mut ops = Vec::new();
    loop {
        match *lexer.peek() {
            Token::Word("block") | Token::Mark("}") => return Ok(ops),
            Token::Word(word) if OpKind::from_name(word).is_some() => ops.push(operation(scope, lexer, depth)?),
            _ if depth == 0 => return Err(lexer.error("an operation, `block` or `}`")),
            _ => return Err(lexer.error("an operation or `}`")),
        }
    }
}

fn operation(scope: &mut Scope<'_>, lexer: &mut Lexer<'_>, depth: usize) -> Result<Op, TextError> {
    let origin = scope.locations.current(lexer);
    let kind = lexer.expect_named("an operation", OpKind::from_name)?;
    let mut op = Op::new(kind, origin);
    op.channel = lexer.take_named(ChannelKind::from_name)?;
    op.reduce = lexer.take_named(ReduceOp::from_name)?;
    let mut ids = Vec::new();
    let [mut dsts, mut srcs] = [Vec::new(), Vec::new()];
    if begins_item(lexer) {
        match item(&op, lexer)? {
            Item::Id(first) => {
                ids.push(first);
                while lexer.take_mark(",")? {
                    ids.push(id(&op, lexer)?);
                }
            }
            Item::ParsedOperand(first) => {
                dsts.push(first);
                operands(&op, &mut dsts, lexer)?;
            }
        }
    }
    let has_arrow = lexer.take_mark("<-")?;
    if !has_arrow && !dsts.is_empty() || has_arrow && !ids.is_empty() {
        return Err(lexer.error(if has_arrow { "no operands after channels" } else { "`<-` and the sources" }));
    }
    if has_arrow {
        if begins_item(lexer) {
            srcs.push(operand(&op, lexer)?);
            operands(&op, &mut srcs, lexer)?;
        }
        if lexer.take_word("via")? {
            ids.extend(lexer.list(|lexer| id(&op, lexer))?);
        }
    }
    // In the order in which lowering numbers them.
    op.srcs = srcs.into_iter().map(|operand| scope.operand(&op, operand, lexer)).collect::<Result<_, _>>()?;
    op.dsts = dsts.into_iter().map(|operand| scope.operand(&op, operand, lexer)).collect::<Result<_, _>>()?;
    op.ids = ids.into_iter().map(|id| scope.id(&op, id, lexer)).collect::<Result<_, _>>()?;
    attributes(&mut op, lexer)?;
    if lexer.take_word("unit")? {
        let unit = lexer.number("a number of bytes")?;
        lexer.expect_word("chunks")?;
        let num_chunks = lexer.number_u32("a number of chunks")?;
        let at = lexer.position();
        lexer.expect_mark("{")?;
        lexer.expect_line_end()?;
        if depth == MAX_DEPTH {
            return Err(lexer.error_at(at, format!("at most {MAX_DEPTH} pipelines within one another")));
        }
        let ops = all(scope, lexer, depth + 1)?;
        lexer.expect_mark("}")?;
        op.body = Some(Box::new(LoopBody { unit, num_chunks, ops }));
    }
    lexer.expect_line_end()?;
    Ok(op)
}

/// The attributes that may follow the channels of an operation.
const ATTRIBUTES: [&str; 5] = ["blocks", "slice", "count", "sync", "unit"];

fn attributes(op: &mut Op, lexer: &mut Lexer<'_>) -> Result<(), TextError> {
    if lexer.take_word("blocks")? {
        op.num_blocks = lexer.number_u32("a number of thread blocks")?;
    }
    if lexer.take_word("slice")? {
        let index = lexer.number_u32("a slice")?;
        lexer.expect_mark("/")?;
        op.slice = Some(Slice { index, count: lexer.number_u32("a number of slices")? });
    }
    if lexer.take_word("count")? {
        let sender = lexer.number_u32("the rank that sends")?;
        lexer.expect_mark("->")?;
        op.count = Some(Count { sender, receiver: lexer.number_u32("the rank that receives")? });
    }
    if lexer.take_word("sync")? {
        op.sync = lexer.expect_named("`before`, `after` or `both`", |word| match word {
            "before" => Some(BlockSync::Before),
            "after" => Some(BlockSync::After),
            "both" => Some(BlockSync::Both),
            _ => None,
        })?;
    }
    Ok(())
}

/// Returns whether the current token begins a channel, semaphore, barrier or operand.
fn begins_item(lexer: &Lexer<'_>) -> bool {
    match lexer.peek() {
        Token::Number(_) | Token::Mark("#") => true,
        Token::Word(word) => matches!(*word, "rank" | "remote" | "multicast") || buffer_of_name(word).is_some(),
        _ => false,
    }
}

fn item(op: &Op, lexer: &mut Lexer<'_>) -> Result<Item, TextError> {
    let at = lexer.position();
    if let Token::Number(_) | Token::Mark("#") = lexer.peek() {
        return id(op, lexer).map(Item::Id);
    }
    if !matches!(lexer.peek(), Token::Word("rank")) {
        return operand(op, lexer).map(Item::ParsedOperand);
    }
    lexer.advance()?;
    let peer_at = lexer.position();
    let peer = peer(lexer)?;
    match lexer.take_named(buffer_of_name)? {
        Some(_) if peer.nth != 0 => {
            Err(lexer.error_at(peer_at, "a rank, since buffers belong to ranks, not to channels"))
        }
        Some(buffer) => {
            has_channel_kind(op, at, lexer)?;
            Ok(Item::ParsedOperand(ParsedOperand {
                at,
                place: PlaceName::Remote(peer.rank, buffer),
                range: range(lexer)?,
            }))
        }
        None => {
            takes_peers(op, at, lexer)?;
            if matches!(lexer.peek(), Token::Word(word) if !ATTRIBUTES.contains(word)) {
                return Err(lexer.error("`input`, `output` or `scratch`, or the end of the line"));
            }
            Ok(Item::Id(Id { at, name: IdName::Channel(peer) }))
        }
    }
}

fn id(op: &Op, lexer: &mut Lexer<'_>) -> Result<Id, TextError> {
    let at = lexer.position();
    let plain = op.kind.has_ids_of_rank();
    let name = if !plain && lexer.take_mark("#")? {
        IdName::Direct(lexer.number_u32("a position in the thread block's table")?)
    } else if plain {
        IdName::Direct(lexer.number_u32("a number")?)
    } else if op.channel == Some(ChannelKind::Switch) {
        IdName::Switch(lexer.number_u32("a switch channel")?)
    } else {
        takes_peers(op, at, lexer)?;
        lexer.expect_word("rank")?;
        IdName::Channel(peer(lexer)?)
    };
    Ok(Id { at, name })
}

/// Returns an error unless the operation's channels are named by their peers.
fn takes_peers(op: &Op, at: usize, lexer: &Lexer<'_>) -> Result<(), TextError> {
    let name = op.kind.name();
    match op.channel {
        _ if op.kind.has_ids_of_rank() => Err(lexer.error_at(at, "a number")),
        Some(ChannelKind::Memory | ChannelKind::Port) => Ok(()),
        Some(ChannelKind::Switch) => Err(lexer.error_at(at, "the number of a switch channel")),
        None => Err(lexer.error_at(at, format!("`memory`, `port` or `switch` between `{name}` and its channels"))),
    }
}

/// Returns an error unless an operation names the channel kind through which it accesses other ranks' buffers.
fn has_channel_kind(op: &Op, at: usize, lexer: &Lexer<'_>) -> Result<(), TextError> {
    let name = op.kind.name();
    match op.channel {
        Some(_) => Ok(()),
        None => Err(lexer.error_at(at, format!("`memory` or `port` between `{name}` and buffers of other ranks"))),
    }
}

/// Reads the operands after the first one of a side.
fn operands(op: &Op, list: &mut Vec<ParsedOperand>, lexer: &mut Lexer<'_>) -> Result<(), TextError> {
    while lexer.take_mark(",")? {
        list.push(operand(op, lexer)?);
    }
    Ok(())
}

fn operand(op: &Op, lexer: &mut Lexer<'_>) -> Result<ParsedOperand, TextError> {
    const WHAT: &str = "an operand: a buffer, `rank`, `multicast` or `remote`";
    let at = lexer.position();
    let place = if let Some(buffer) = lexer.take_named(buffer_of_name)? {
        PlaceName::Direct(BufferRef::Local(buffer))
    } else if lexer.take_word("rank")? {
        has_channel_kind(op, at, lexer)?;
        let rank = lexer.number_u32("a rank")?;
        PlaceName::Remote(rank, buffer(lexer)?)
    } else if lexer.take_word("remote")? {
        lexer.expect_mark("#")?;
        PlaceName::Direct(BufferRef::Remote(lexer.number_u32("a position in the thread block's table")?))
    } else if lexer.take_word("multicast")? {
        if lexer.take_mark("#")? {
            PlaceName::Direct(BufferRef::Switch(lexer.number_u32("a position in the thread block's table")?))
        } else {
            let channel = lexer.number_u32("a switch channel")?;
            PlaceName::Multicast(channel, buffer(lexer)?)
        }
    } else {
        return Err(lexer.error(WHAT));
    };
    Ok(ParsedOperand { at, place, range: range(lexer)? })
}

impl Scope<'_> {
    /// Returns the number by which an operation refers to a channel, semaphore or barrier.
    fn id(&mut self, op: &Op, id: Id, lexer: &Lexer<'_>) -> Result<u32, TextError> {
        let kind = op.channel.unwrap_or(ChannelKind::Memory);
        let found = match id.name {
            IdName::Direct(number) => return Ok(number),
            IdName::Channel(peer) => self.rank.channel(kind, peer),
            IdName::Switch(number) => Some(number),
        };
        let found = found.ok_or_else(|| {
            lexer.error_at(
                id.at,
                "a channel of the rank's `channels` lines, or without these the next channel to its peer",
            )
        })?;
        let position = self.channels.position(kind, found);
        position.ok_or_else(|| lexer.error_at(id.at, "a channel of the thread block's `uses channels` lines"))
    }

    /// Returns an operand with its position in the thread block's tables.
    fn operand(&mut self, op: &Op, operand: ParsedOperand, lexer: &Lexer<'_>) -> Result<Operand, TextError> {
        let kind = op.channel.unwrap_or(ChannelKind::Memory);
        let error = |expected| lexer.error_at(operand.at, expected);
        let place = match operand.place {
            PlaceName::Direct(place) => place,
            PlaceName::Remote(rank, buffer) => {
                let number = self.rank.buffer(kind, (rank, buffer));
                let number = number.ok_or_else(|| error("a buffer of the rank's `buffers` lines"))?;
                let position = self.buffers.position(kind, number);
                BufferRef::Remote(position.ok_or_else(|| error("a buffer of the thread block's `uses buffers` lines"))?)
            }
            PlaceName::Multicast(channel, buffer) => {
                if self.rank.switch(channel) != Some(buffer) {
                    return Err(error("number and buffer of a switch channel of the rank's `channels` lines"));
                }
                let position = self.channels.position(ChannelKind::Switch, channel);
                BufferRef::Switch(
                    position.ok_or_else(|| error("a channel of the thread block's `uses channels` lines"))?,
                )
            }
        };
        Ok(Operand::new(place, operand.range.0, operand.range.1))
    }
}
