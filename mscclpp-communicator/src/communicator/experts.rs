//! Expert parallelism on slices: tokens travel to the ranks of their experts, and the results back.
//!
//! With E experts on P ranks, experts r·E/P to (r + 1)·E/P - 1 are those of rank r. A token chooses some experts, in the order of its
//! list; for every choice a row of it travels. Rows have fixed places, so that equal calls give equal bits: a rank sends the rows of an
//! expert in the order of tokens, and an expert has the rows of rank 0, 1, ….

use std::panic::Location;

use mscclpp_base::dtype::{E4m3, Element};
use mscclpp_base::error::{CountLimit, CountOverflow, Error, Refusal};
use mscclpp_base::experts::{ExpertShape, MAX_ALIGNMENT, RowElement, RowLayout, SCALE_GROUP, quantize_rows};
use mscclpp_bootstrap::place;

use super::handle::Communicator;

/// Maximum number of elements of slots.
const MAX_SLOTS: usize = isize::MAX as usize / 8;

/// The rows that [`Communicator::dispatch`] has brought to the experts of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatched<T> {
    /// The rows of the rank's first expert, then those of its next one, …; in other layouts where these put them, with zeros elsewhere.
    pub rows: Vec<T>,
    /// Number of rows of each expert of the rank; in the layout by rank of each rank and expert.
    pub counts: Vec<usize>,
    /// The places of the rows, for [`Communicator::combine`].
    pub route: Route,
}

/// Which rows a rank has sent and received in a [`dispatch`](Communicator::dispatch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Elements of a row.
    hidden: usize,
    /// Choices of all tokens, and of one.
    choices: usize,
    top_k: usize,
    /// The choice of each row that was sent, in the order of sending.
    sent: Vec<usize>,
    /// Rows for each rank, and from each rank.
    sent_counts: Vec<usize>,
    received_counts: Vec<usize>,
    /// The place of each received row among those of the experts, and the number of places.
    places: Vec<usize>,
    room: usize,
}

impl Route {
    /// Returns the number of elements of the rows that [`combine`](Communicator::combine) takes.
    pub fn num_elements(&self) -> usize {
        self.room * self.hidden
    }
}

/// What a dispatch passes besides rows.
struct Passed<'a> {
    experts: &'a [i64],
    hidden: usize,
    num_experts: usize,
    layout: RowLayout,
    /// Maximum number of tokens of a rank, whose choices are different then.
    max_tokens: Option<usize>,
}

impl Communicator {
    /// Sends each token to the ranks of the experts that it chooses. `tokens`: rows of `hidden` elements; `experts`: for each token as many
    /// choices, each the number of an expert, or -1 for none. Ranks may have any number of tokens, none included.
    ///
    /// A token that chooses two experts of a rank is sent to it twice.
    ///
    /// # Cost
    /// Two exchanges: the numbers of rows of each expert, then the rows, as [`all_to_all_v`](Self::all_to_all_v).
    ///
    /// # Errors
    /// [`Error::Length`] unless `tokens` are whole rows, with a list of choices each, and the experts are as many on every rank;
    /// [`Error::CountOverflow`], the same on all ranks, for a choice that is no expert; those of `all_to_all_v`.
    #[track_caller]
    pub fn dispatch<T: Element>(
        &self,
        tokens: &[T],
        experts: &[i64],
        hidden: usize,
        num_experts: usize,
    ) -> Result<Dispatched<T>, Error> {
        let layout = RowLayout::ByExpert { alignment: 1 };
        self.dispatch_rows(tokens, hidden, &Passed { experts, hidden, num_experts, layout, max_tokens: None })
    }

    /// Does what [`dispatch`](Self::dispatch) does, with a declared maximum of tokens and `top_k` different choices of each, and puts the rows
    /// where a layout says.
    ///
    /// # Errors
    /// Those of `dispatch`; [`Error::CountOverflow`], the same on all ranks, also for more tokens than were declared, and for a choice that
    /// repeats another one of its token; [`Error::ReceiveMemory`] on a rank that has no memory for the places that a layout adds.
    #[track_caller]
    pub fn dispatch_in<T: Element>(
        &self,
        tokens: &[T],
        experts: &[i64],
        shape: &ExpertShape,
        layout: RowLayout,
    ) -> Result<Dispatched<T>, Error> {
        let passed = self.passed(experts, tokens.len(), shape, layout)?;
        self.dispatch_rows(tokens, shape.hidden, &passed)
    }

    /// Does what [`dispatch_in`](Self::dispatch_in) does with rows of e4m3 and their scales, one for every 128 elements. Returns the scales of
    /// the rows at the experts, too.
    ///
    /// # Errors
    /// Those of `dispatch_in`; [`Error::Length`] unless rows have whole groups, with a scale each.
    #[track_caller]
    pub fn dispatch_scaled(
        &self,
        (tokens, scales): (&[E4m3], &[f32]),
        experts: &[i64],
        shape: &ExpertShape,
        layout: RowLayout,
    ) -> Result<(Dispatched<E4m3>, Vec<f32>), Error> {
        let (rank, hidden) = (self.rank(), shape.hidden);
        let length = |what, expected, found| Error::Length { call: "dispatch", rank, what, expected, found };
        if !hidden.is_multiple_of(SCALE_GROUP) {
            return Err(length("a row", format!("groups of {SCALE_GROUP} elements"), hidden));
        }
        if scales.len() * SCALE_GROUP != tokens.len() {
            return Err(length("the list of scales", format!("one for {SCALE_GROUP} elements"), scales.len()));
        }
        let passed = self.passed(experts, tokens.len(), shape, layout)?;
        // A row travels with its scales.
        let groups = hidden / SCALE_GROUP;
        let bytes = hidden + 4 * groups;
        let mut joined: Vec<u8> = Vec::with_capacity(tokens.len() + 4 * scales.len());
        for (row, scales) in tokens.chunks_exact(hidden.max(1)).zip(scales.chunks_exact(groups.max(1))) {
            joined.extend_from_slice(bytemuck::cast_slice(row));
            joined.extend_from_slice(bytemuck::cast_slice(scales));
        }
        let Dispatched { rows: joined, counts, route } = self.dispatch_rows(&joined, bytes, &passed)?;
        let (mut rows, mut scales) = (Vec::with_capacity(route.room * hidden), Vec::with_capacity(route.room * groups));
        for row in joined.chunks_exact(bytes) {
            let (row, of_row) = row.split_at(hidden);
            rows.extend_from_slice(bytemuck::cast_slice::<u8, E4m3>(row));
            let words = of_row.as_chunks::<4>().0;
            scales.extend(words.iter().map(|word| f32::from_ne_bytes(*word)));
        }
        Ok((Dispatched { rows, counts, route }, scales))
    }

    /// Does what [`dispatch_scaled`](Self::dispatch_scaled) does with rows that are rounded to e4m3 before, as
    /// [`quantize_rows`](crate::quantize_rows) does.
    ///
    /// # Errors
    /// Those of `dispatch_scaled`.
    #[track_caller]
    pub fn dispatch_quantized<T: RowElement>(
        &self,
        tokens: &[T],
        experts: &[i64],
        shape: &ExpertShape,
        layout: RowLayout,
    ) -> Result<(Dispatched<E4m3>, Vec<f32>), Error> {
        let (rows, scales) = quantize_rows(tokens);
        self.dispatch_scaled((&rows, &scales), experts, shape, layout)
    }

    /// Checks what is passed with `len` elements of tokens.
    fn passed<'a>(
        &self,
        experts: &'a [i64],
        len: usize,
        shape: &ExpertShape,
        layout: RowLayout,
    ) -> Result<Passed<'a>, Error> {
        let &ExpertShape { hidden, num_experts, top_k, max_tokens } = shape;
        let rank = self.rank();
        let length = |what, expected, found| Error::Length { call: "dispatch", rank, what, expected, found };
        if len.checked_div(hidden).and_then(|tokens| tokens.checked_mul(top_k)) != Some(experts.len()) {
            let expected = format!("{top_k} for each row of {hidden} elements");
            return Err(length("the list of experts", expected, experts.len()));
        }
        if let Some(alignment) = layout.wrong_alignment() {
            return Err(length("the alignment of experts", format!("1 to {MAX_ALIGNMENT} rows"), alignment));
        }
        // Slots are allocated, whatever arrives.
        if layout == RowLayout::Slots
            && shape.slots(self.num_ranks()).checked_mul(hidden).is_none_or(|len| len > MAX_SLOTS)
        {
            return Err(length("the set of tokens", format!("at most {MAX_SLOTS} elements of slots"), max_tokens));
        }
        // So are the rows that fill up those of experts, whose numbers other ranks decide.
        let each = num_experts / (self.num_ranks() as usize).max(1);
        if let RowLayout::ByExpert { alignment } = layout
            && each
                .checked_mul(alignment - 1)
                .and_then(|rows| rows.checked_mul(hidden))
                .is_none_or(|len| len > MAX_SLOTS)
        {
            let expected = format!("at most {MAX_SLOTS} elements for {alignment} rows of each of {each} experts");
            return Err(length("a row", expected, hidden));
        }
        Ok(Passed { experts, hidden, num_experts, layout, max_tokens: Some(max_tokens) })
    }

    /// Sends rows, of `width` elements each.
    #[track_caller]
    fn dispatch_rows<T: Element>(
        &self,
        tokens: &[T],
        width: usize,
        passed: &Passed<'_>,
    ) -> Result<Dispatched<T>, Error> {
        let &Passed { experts, hidden, num_experts, layout, max_tokens } = passed;
        let _place = place::enter(Location::caller());
        let (rank, ranks) = (self.rank(), self.num_ranks() as usize);
        let length = |what, expected, found| Error::Length { call: "dispatch", rank, what, expected, found };
        if width == 0 || !tokens.len().is_multiple_of(width) {
            return Err(length("the list of tokens", format!("rows of {width} elements"), tokens.len()));
        }
        let num_tokens = tokens.len() / width;
        if experts.len().checked_rem(num_tokens).unwrap_or(experts.len()) != 0 {
            let expected = format!("as many for each of {num_tokens} tokens");
            return Err(length("the list of experts", expected, experts.len()));
        }
        if num_experts == 0 || !num_experts.is_multiple_of(ranks) {
            return Err(length("the set of experts", format!("as many on each of {ranks} ranks"), num_experts));
        }
        let top_k = experts.len().checked_div(num_tokens).unwrap_or(0);
        let refusal = refusal(experts, top_k, num_tokens, num_experts, max_tokens);

        // By expert, then by token.
        let each = num_experts / ranks;
        let is_sent = |&choice: &usize| experts[choice] >= 0 && refusal.is_none();
        let mut sent: Vec<usize> = (0..experts.len()).filter(is_sent).collect();
        sent.sort_by_key(|&choice| experts[choice]);
        let mut of_experts = vec![refusal.map_or(0, Refusal::count); num_experts];
        sent.iter().for_each(|&choice| of_experts[experts[choice] as usize] += 1);

        // The numbers of rows for the experts of this rank, by the rank that sends them.
        let mut arriving = vec![0_i64; num_experts];
        self.all_to_all(&of_experts, &mut arriving)?;
        let refusals = arriving.iter().map(|count| Refusal::of_count(*count)).zip((0..).map(|at: usize| at / each));
        if let Some((refusal, rank)) = refusals.filter_map(|(refusal, rank)| Some((refusal?, rank))).next() {
            return Err(Error::CountOverflow(refusal.overflow(rank as u32)));
        }
        // Numbers of other ranks, of which no more rows can arrive than memory holds.
        let most = isize::MAX as usize / width.saturating_mul(size_of::<T>()).max(1) / arriving.len().max(1);
        let is_right = |count: &&i64| usize::try_from(**count).is_ok_and(|count| count <= most);
        if let Some((at, demand)) = arriving.iter().enumerate().find(|(_, count)| !is_right(count)) {
            let source = (at / each) as u32;
            let (demand, room) = (*demand, most as u64);
            let overflow =
                CountOverflow { rank: source, limit: CountLimit::Entry, demand, room, peer: rank, part: demand };
            return Err(Error::CountOverflow(overflow));
        }
        let by_rank = |counts: &[i64]| counts.chunks(each).map(|counts| counts.iter().sum::<i64>() as usize).collect();
        let (sent_counts, received_counts): (Vec<usize>, Vec<usize>) = (by_rank(&of_experts), by_rank(&arriving));
        let mut rows = Vec::with_capacity(sent.len() * width);
        sent.iter().for_each(|&choice| rows.extend_from_slice(&tokens[choice / top_k * width..][..width]));
        let elements = |counts: &[usize]| counts.iter().map(|count| count * width).collect::<Vec<_>>();
        let total: usize = received_counts.iter().sum();
        // Where there is no memory, no row fits, which all ranks learn.
        let mut received = self.zeros::<T>(total, width).unwrap_or_default();
        self.all_to_all_v_into(&rows, &elements(&sent_counts), &mut received, Some(&elements(&received_counts)))?;

        let arriving: Vec<usize> = arriving.into_iter().map(|count| count as usize).collect();
        let (begins, room) = begins(&arriving, each, layout, max_tokens.unwrap_or(0));
        let places: Vec<usize> =
            begins.iter().zip(&arriving).flat_map(|(&begin, &count)| begin..begin + count).collect();
        let counts = match layout {
            RowLayout::ByRank => arriving,
            _ => (0..each).map(|expert| arriving.iter().skip(expert).step_by(each).sum()).collect(),
        };
        let mut rows = self.zeros::<T>(room, width)?;
        for (row, &place) in received.chunks_exact(width).zip(&places) {
            rows[place * width..][..width].copy_from_slice(row);
        }
        let choices = experts.len();
        let route = Route { hidden, choices, top_k, sent, sent_counts, received_counts, places, room };
        Ok(Dispatched { rows, counts, route })
    }

    /// Returns zeros for a number of rows.
    ///
    /// # Errors
    /// [`Error::ReceiveMemory`], on this rank, if there is no memory for them.
    fn zeros<T: Element>(&self, rows: usize, width: usize) -> Result<Vec<T>, Error> {
        let len = rows.saturating_mul(width);
        // Memory that is zero already is reserved in another way than memory that is filled with zeros.
        if Vec::<T>::new().try_reserve_exact(len).is_err() {
            let (rank, count, bytes) = (self.rank(), len as u64, size_of::<T>());
            return Err(Error::ReceiveMemory { call: "dispatch", rank, count, bytes });
        }
        Ok(vec![T::zeroed(); len])
    }

    /// Sends the rows of this rank's experts back, and returns the sum of each token's rows, times the weights of its choices. `rows`: as
    /// [`dispatch`](Self::dispatch) has returned them, changed by the experts; `weights`: one for each choice.
    ///
    /// The sum begins with 0 and adds `weight · element` for one choice after the other, in the order of the token's list, each product
    /// and each sum rounded to `f32`; the result is rounded to the type of the elements. Choices of no expert are skipped: a token without
    /// any is 0. So equal calls give equal bits on any number of ranks.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are as many rows as the dispatch has returned, and a weight for each choice; those of
    /// [`all_to_all_v`](Self::all_to_all_v).
    #[track_caller]
    pub fn combine<T: RowElement>(&self, rows: &[T], weights: &[f32], route: &Route) -> Result<Vec<T>, Error> {
        const CALL: &str = "combine";
        let _place = place::enter(Location::caller());
        let Route { hidden, choices, top_k, sent, sent_counts, received_counts, places, room } = route;
        let (rank, hidden) = (self.rank(), *hidden);
        let length = |what, expected: usize, found| Error::Length {
            call: CALL,
            rank,
            what,
            expected: format!("{expected}, those of the dispatch"),
            found,
        };
        if rows.len() != room * hidden {
            return Err(length("the list of rows", room * hidden, rows.len()));
        }
        if weights.len() != *choices {
            return Err(length("the list of weights", *choices, weights.len()));
        }
        if sent_counts.len() != self.num_ranks() as usize {
            return Err(length("the set of ranks", sent_counts.len(), self.num_ranks() as usize));
        }
        let mut back = Vec::with_capacity(places.len() * hidden);
        places.iter().for_each(|&place| back.extend_from_slice(&rows[place * hidden..][..hidden]));
        let elements = |counts: &[usize]| counts.iter().map(|count| count * hidden).collect::<Vec<_>>();
        let mut returned = vec![T::zeroed(); sent.len() * hidden];
        let (to, from) = (elements(received_counts), elements(sent_counts));
        self.all_to_all_v_into(&back, &to, &mut returned, Some(&from))?;

        let mut row_of = vec![None; *choices];
        sent.iter().enumerate().for_each(|(row, &choice)| row_of[choice] = Some(row));
        let num_tokens = choices.checked_div(*top_k).unwrap_or(0);
        let mut result = Vec::with_capacity(num_tokens * hidden);
        let mut sum = vec![0_f32; if num_tokens > 0 { hidden } else { 0 }];
        for (rows, weights) in row_of.chunks(*top_k.max(&1)).zip(weights.chunks(*top_k.max(&1))) {
            sum.fill(0.0);
            for (row, weight) in rows.iter().zip(weights) {
                let Some(row) = row else { continue };
                for (sum, element) in sum.iter_mut().zip(&returned[row * hidden..][..hidden]) {
                    *sum += weight * element.to_f32();
                }
            }
            result.extend(sum.iter().map(|sum| T::from_f32(*sum)));
        }
        Ok(result)
    }
}

/// Returns what is wrong with the tokens of a rank.
fn refusal(
    experts: &[i64],
    top_k: usize,
    num_tokens: usize,
    num_experts: usize,
    max_tokens: Option<usize>,
) -> Option<Refusal> {
    if let Some(most) = max_tokens.filter(|most| num_tokens > *most) {
        return Some(Refusal::Tokens { found: num_tokens as u64, most: most as u64 });
    }
    let is_wrong = |&at: &usize| {
        let (expert, of_token) = (experts[at], at - at % top_k.max(1));
        let is_repeated = expert >= 0 && max_tokens.is_some() && experts[of_token..at].contains(&expert);
        expert < -1 || expert >= num_experts as i64 || is_repeated
    };
    let at = (0..experts.len()).find(is_wrong)?;
    let [token, choice] = [at / top_k.max(1), at % top_k.max(1)].map(|number| number as u64);
    Some(Refusal::Choice { token, choice, num_experts: num_experts as u64 })
}

/// Returns where the rows of each rank and expert begin, and the number of places. `arriving`: their numbers; `each`: experts.
fn begins(arriving: &[usize], each: usize, layout: RowLayout, max_tokens: usize) -> (Vec<usize>, usize) {
    let ranks = arriving.len() / each;
    let mut begins = vec![0; arriving.len()];
    let mut next = 0;
    if layout == RowLayout::ByRank {
        for (begin, count) in begins.iter_mut().zip(arriving) {
            (*begin, next) = (next, next + count);
        }
        return (begins, next);
    }
    for expert in 0..each {
        if let RowLayout::Slots = layout {
            next = expert * ranks * max_tokens;
        }
        for of_rank in (expert..arriving.len()).step_by(each) {
            (begins[of_rank], next) = (next, next + arriving[of_rank]);
        }
        if let RowLayout::ByExpert { alignment } = layout {
            next = next.next_multiple_of(alignment);
        }
    }
    (begins, if layout == RowLayout::Slots { each * ranks * max_tokens } else { next })
}
