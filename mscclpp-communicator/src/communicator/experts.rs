//! Expert parallelism on slices: tokens travel to the ranks of their experts, and the results back.
//!
//! With E experts on P ranks, experts r·E/P to (r + 1)·E/P - 1 are those of rank r. A token chooses some experts, in the order of its
//! list; for every choice a row of it travels. Rows have fixed places, so that equal calls give equal bits: a rank sends the rows of an
//! expert in the order of tokens, and an expert has the rows of rank 0, 1, ….

use std::panic::Location;

use mscclpp_base::__half::{bf16, f16};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_bootstrap::place;

use super::handle::Communicator;

/// Elements of rows that [`Communicator::combine`] adds up, in `f32`.
pub trait RowElement: Element {
    /// Returns the exact value.
    fn to_f32(self) -> f32;
    /// Returns the nearest value, ties to even.
    fn from_f32(value: f32) -> Self;
}

macro_rules! row_elements {
    ($($type:ty),*) => { $(
        impl RowElement for $type {
            fn to_f32(self) -> f32 {
                <$type>::to_f32(self)
            }
            fn from_f32(value: f32) -> Self {
                <$type>::from_f32(value)
            }
        }
    )* };
}
row_elements!(bf16, f16);

impl RowElement for f32 {
    fn to_f32(self) -> f32 {
        self
    }
    fn from_f32(value: f32) -> Self {
        value
    }
}

/// The rows that [`Communicator::dispatch`] has brought to the experts of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatched<T> {
    /// The rows of the rank's first expert, then those of its next one, ….
    pub rows: Vec<T>,
    /// Number of rows of each expert of the rank.
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
    /// The place of each received row among those of the experts.
    places: Vec<usize>,
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
    /// [`Error::Length`] unless `tokens` are whole rows, with a list of choices each, and the experts are as many on every rank; those of
    /// `all_to_all_v`.
    #[track_caller]
    pub fn dispatch<T: Element>(
        &self,
        tokens: &[T],
        experts: &[i64],
        hidden: usize,
        num_experts: usize,
    ) -> Result<Dispatched<T>, Error> {
        const CALL: &str = "dispatch";
        let _place = place::enter(Location::caller());
        let (rank, ranks) = (self.rank(), self.num_ranks() as usize);
        let length = |what, expected, found| Error::Length { call: CALL, rank, what, expected, found };
        if hidden == 0 || !tokens.len().is_multiple_of(hidden) {
            return Err(length("the list of tokens", format!("rows of {hidden} elements"), tokens.len()));
        }
        let num_tokens = tokens.len() / hidden;
        if experts.len().checked_rem(num_tokens).unwrap_or(experts.len()) != 0 {
            let expected = format!("as many for each of {num_tokens} tokens");
            return Err(length("the list of experts", expected, experts.len()));
        }
        if num_experts == 0 || !num_experts.is_multiple_of(ranks) {
            return Err(length("the set of experts", format!("as many on each of {ranks} ranks"), num_experts));
        }
        let top_k = experts.len().checked_div(num_tokens).unwrap_or(0);
        let is_wrong = |expert: &i64| *expert < -1 || *expert >= num_experts as i64;
        if let Some(at) = experts.iter().position(is_wrong) {
            let expected = format!(
                "numbers of 0 to {}, or -1 for none, found {} for token {}",
                num_experts - 1,
                experts[at],
                at / top_k.max(1)
            );
            return Err(length("the list of experts", expected, experts.len()));
        }

        // By expert, then by token.
        let each = num_experts / ranks;
        let mut sent: Vec<usize> = (0..experts.len()).filter(|&choice| experts[choice] >= 0).collect();
        sent.sort_by_key(|&choice| experts[choice]);
        let mut of_experts = vec![0_u64; num_experts];
        sent.iter().for_each(|&choice| of_experts[experts[choice] as usize] += 1);
        let sent_counts: Vec<usize> =
            of_experts.chunks(each).map(|counts| counts.iter().map(|count| *count as usize).sum()).collect();
        let mut rows = Vec::with_capacity(sent.len() * hidden);
        sent.iter().for_each(|&choice| rows.extend_from_slice(&tokens[choice / top_k * hidden..][..hidden]));

        // The numbers of rows for the experts of this rank, by the rank that sends them.
        let mut arriving = vec![0_u64; num_experts];
        self.all_to_all(&of_experts, &mut arriving)?;
        let received_counts: Vec<usize> =
            arriving.chunks(each).map(|counts| counts.iter().map(|count| *count as usize).sum()).collect();
        let elements = |counts: &[usize]| counts.iter().map(|count| count * hidden).collect::<Vec<_>>();
        let total: usize = received_counts.iter().sum();
        let mut received = vec![T::zeroed(); total * hidden];
        self.all_to_all_v_into(&rows, &elements(&sent_counts), &mut received, Some(&elements(&received_counts)))?;

        let of = |source: usize, expert: usize| arriving[source * each + expert] as usize;
        let counts: Vec<usize> = (0..each).map(|expert| (0..ranks).map(|source| of(source, expert)).sum()).collect();
        // Where the next row of an expert belongs.
        let mut next: Vec<usize> = (0..each).map(|expert| counts[..expert].iter().sum()).collect();
        let mut begins = vec![0; num_experts];
        for (expert, next) in next.iter_mut().enumerate() {
            for source in 0..ranks {
                begins[source * each + expert] = *next;
                *next += of(source, expert);
            }
        }
        let places: Vec<usize> =
            begins.iter().zip(&arriving).flat_map(|(&begin, &count)| begin..begin + count as usize).collect();
        let mut rows = vec![T::zeroed(); total * hidden];
        for (row, &place) in received.chunks_exact(hidden).zip(&places) {
            rows[place * hidden..][..hidden].copy_from_slice(row);
        }
        let choices = experts.len();
        let route = Route { hidden, choices, top_k, sent, sent_counts, received_counts, places };
        Ok(Dispatched { rows, counts, route })
    }

    /// Sends the rows of this rank's experts back, and returns the sum of each token's rows, times the weights of its choices. `rows`: as
    /// [`dispatch`](Self::dispatch) has returned them, changed by the experts; `weights`: one for each choice.
    ///
    /// The sum begins with 0 and adds `weight · element` for one choice after the other, in the order of the token's list, each product
    /// and each sum rounded to `f32`; the result is rounded to the type of the elements. Choices of no expert are skipped: a token without
    /// any is 0. So equal calls give equal bits on any number of ranks.
    ///
    /// # Errors
    /// [`Error::Length`] unless there are as many rows as were dispatched, and a weight for each choice; those of
    /// [`all_to_all_v`](Self::all_to_all_v).
    #[track_caller]
    pub fn combine<T: RowElement>(&self, rows: &[T], weights: &[f32], route: &Route) -> Result<Vec<T>, Error> {
        const CALL: &str = "combine";
        let _place = place::enter(Location::caller());
        let Route { hidden, choices, top_k, sent, sent_counts, received_counts, places } = route;
        let (rank, hidden) = (self.rank(), *hidden);
        let length = |what, expected: usize, found| Error::Length {
            call: CALL,
            rank,
            what,
            expected: format!("{expected}, those of the dispatch"),
            found,
        };
        if rows.len() != places.len() * hidden {
            return Err(length("the list of rows", places.len() * hidden, rows.len()));
        }
        if weights.len() != *choices {
            return Err(length("the list of weights", *choices, weights.len()));
        }
        if sent_counts.len() != self.num_ranks() as usize {
            return Err(length("the set of ranks", sent_counts.len(), self.num_ranks() as usize));
        }
        let mut back = Vec::with_capacity(rows.len());
        places.iter().for_each(|&place| back.extend_from_slice(&rows[place * hidden..][..hidden]));
        let elements = |counts: &[usize]| counts.iter().map(|count| count * hidden).collect::<Vec<_>>();
        let mut returned = vec![T::zeroed(); sent.len() * hidden];
        let (to, from) = (elements(received_counts), elements(sent_counts));
        self.all_to_all_v_into(&back, &to, &mut returned, Some(&from))?;

        let mut row_of = vec![None; *choices];
        sent.iter().enumerate().for_each(|(row, &choice)| row_of[choice] = Some(row));
        let num_tokens = choices.checked_div(*top_k).unwrap_or(0);
        let mut result = Vec::with_capacity(num_tokens * hidden);
        let mut sum = vec![0_f32; hidden];
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
