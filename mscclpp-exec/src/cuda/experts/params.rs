//! Arguments of the kernels for rows of tokens; the structs of `kernels/experts/experts.cu`.

use bytemuck::{Pod, Zeroable};

/// Counts the choices of each list and expert.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct CountChoices {
    pub choices: u64,
    pub stride: u64,
    pub received: u64,
    pub count: u64,
    pub positions: u64,
    pub totals: u64,
    pub experts: u32,
    pub top_k: u32,
}

/// Adds up the rows for each rank.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct PlanSends {
    pub totals: u64,
    pub begins: u64,
    pub sent: u64,
    pub received: u64,
    pub refused: i64,
    pub ranks: u32,
    pub experts: u32,
    pub top_k: u32,
    pub reserved: u32,
}

/// Packs rows.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct PackRows {
    pub rows: u64,
    pub scales: u64,
    pub choices: u64,
    pub positions: u64,
    pub begins: u64,
    pub sent: u64,
    pub sent_rows: u64,
    pub packed: u64,
    pub count: u64,
    pub row: u64,
    pub stride: u64,
    pub scales_bytes: u64,
    pub scales_at: u64,
    pub top_k: u32,
    pub experts_per_rank: u32,
}

/// Finds where rows begin in the result.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct PlaceRows {
    pub totals: u64,
    pub begins: u64,
    pub received: u64,
    pub counts: u64,
    pub slot: u64,
    pub alignment: u64,
    pub ranks: u32,
    pub experts: u32,
    pub by_rank: u32,
    pub reserved: u32,
}

/// Moves rows to their places, or back.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct MoveRows {
    pub packed: u64,
    pub received: u64,
    pub positions: u64,
    pub begins: u64,
    pub totals: u64,
    pub places: u64,
    pub rows: u64,
    pub scales: u64,
    pub room: u64,
    pub row: u64,
    pub stride: u64,
    pub scales_bytes: u64,
    pub scales_at: u64,
    pub alignment: u64,
    pub returned: u64,
    pub ranks: u32,
    pub experts: u32,
}

/// Combines rows.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct CombineRows {
    pub packed: u64,
    pub returned: u64,
    pub sent_rows: u64,
    pub weights: u64,
    pub output: u64,
    pub tokens: u64,
    pub row: u64,
    pub stride: u64,
    pub top_k: u32,
    pub reserved: u32,
}
