//! Queue between the thread blocks of a rank and its port proxy.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Number of triggers that a queue holds before a thread block must wait, as in the reference executor.
const SLOTS: u64 = 512;

/// A request to the proxy to execute one transfer, signal or flush of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Index of the instruction in the resolved plan.
    pub instr: u32,
    /// Index of the transfer or channel in the instruction.
    pub number: u32,
    /// First byte and length of the transferred range, in the instruction's operands.
    pub at: u64,
    pub len: u64,
}

/// A bounded queue with many writers and one reader. A slot's `turn` shows which side may use it: at `p` the writer of
/// position `p`, at `p + 1` the reader.
pub struct Fifo {
    slots: Box<[Slot]>,
    /// Next position to write.
    head: AtomicU64,
    /// Number of positions that the reader has taken.
    tail: AtomicU64,
    /// Number of positions whose work is done.
    handled: AtomicU64,
}

struct Slot {
    turn: AtomicU64,
    words: [AtomicU64; 3],
}

impl Fifo {
    pub fn new() -> Self {
        let slot = |turn| Slot { turn: AtomicU64::new(turn), words: [const { AtomicU64::new(0) }; 3] };
        let zero = || AtomicU64::new(0);
        Self { slots: (0..SLOTS).map(slot).collect(), head: zero(), tail: zero(), handled: zero() }
    }

    /// Adds a trigger and returns its position; `None` if the queue is full.
    pub fn push(&self, trigger: Trigger) -> Option<u64> {
        let mut position = self.head.load(Relaxed);
        loop {
            let slot = &self.slots[(position % SLOTS) as usize];
            let turn = slot.turn.load(Acquire);
            if turn < position {
                return None;
            }
            if turn > position {
                position = self.head.load(Relaxed);
                continue;
            }
            if let Err(other) = self.head.compare_exchange_weak(position, position + 1, AcqRel, Relaxed) {
                position = other;
                continue;
            }
            let Trigger { instr, number, at, len } = trigger;
            for (word, value) in slot.words.iter().zip([u64::from(instr) | u64::from(number) << 32, at, len]) {
                word.store(value, Relaxed);
            }
            slot.turn.store(position + 1, Release);
            return Some(position);
        }
    }

    /// Takes the oldest trigger. Only the proxy calls this, one call at a time.
    pub fn pop(&self) -> Option<Trigger> {
        let position = self.tail.load(Relaxed);
        let slot = &self.slots[(position % SLOTS) as usize];
        if slot.turn.load(Acquire) != position + 1 {
            return None;
        }
        let [first, at, len] = [0, 1, 2].map(|i| slot.words[i].load(Relaxed));
        slot.turn.store(position + SLOTS, Release);
        self.tail.store(position + 1, Relaxed);
        Some(Trigger { instr: first as u32, number: (first >> 32) as u32, at, len })
    }

    /// Records that the trigger taken last is done.
    pub fn complete(&self) {
        self.handled.store(self.tail.load(Relaxed), Release);
    }

    /// Returns whether the work of all positions below this one is done.
    pub fn is_handled(&self, position: u64) -> bool {
        self.handled.load(Acquire) >= position
    }

    /// Returns whether everything that was pushed is done.
    pub fn is_drained(&self) -> bool {
        self.is_handled(self.head.load(Acquire))
    }

    /// Empties the queue. No other thread may use it meanwhile, or a trigger could be lost.
    pub fn reset(&self) {
        while self.pop().is_some() {}
        self.complete();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(number: u32) -> Trigger {
        Trigger { instr: 7, number, at: u64::from(number) << 40, len: 3 }
    }

    #[test]
    fn fifo_keeps_order_up_to_its_capacity() {
        let fifo = Fifo::new();
        for round in 0..3 {
            for number in 0..SLOTS as u32 {
                assert_eq!(fifo.push(trigger(number)), Some(round * SLOTS + u64::from(number)));
            }
            assert_eq!(fifo.push(trigger(0)), None, "full");
            assert!(!fifo.is_drained());
            for number in 0..SLOTS as u32 {
                assert_eq!(fifo.pop(), Some(trigger(number)));
                fifo.complete();
            }
            assert!(fifo.is_drained() && fifo.pop().is_none());
        }
    }

    #[test]
    fn concurrent_writers_lose_no_triggers() {
        const EACH: u32 = 5000;
        let fifo = Fifo::new();
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let fifo = &fifo;
                scope.spawn(move || {
                    for number in 0..EACH {
                        while fifo.push(trigger(writer * EACH + number)).is_none() {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut next = [0; 3];
            while next.iter().sum::<u32>() < 3 * EACH {
                let Some(found) = fifo.pop() else {
                    std::thread::yield_now();
                    continue;
                };
                let (writer, number) = (found.number / EACH, found.number % EACH);
                assert_eq!(found, trigger(found.number));
                assert_eq!(next[writer as usize], number, "each writer's triggers stay in order");
                next[writer as usize] += 1;
            }
        });
    }
}
