//! The contract, on UCX. `scripts/ucx.sh` runs these tests with several of its transports.

use super::*;
use mscclpp_base::random::Random;
use mscclpp_base::shm::Views;

/// Engines over UCX that agree on it, whose connection is set up.
fn ucx(keys: [Option<StreamKeys>; 2]) -> Pair {
    let engine = || -> Box<dyn Transport<Vec<u8>>> { Box::new(Ucx::new(true).expect("a UCX, see scripts/ucx-env.sh")) };
    let mut pair = open([engine(), engine()], keys);
    for from in [0, 1] {
        let (sender, receiver) = (from, 1 - from);
        pair[sender].signal(receiver as u32, id(0), Signal::Call);
        let mut is_received = false;
        while !is_received || (0..2).any(|rank| !pair[rank].is_flushed(1 - rank as u32)) {
            pair[sender].progress();
            pair[receiver].progress();
            is_received |= matches!(pair[receiver].receive(sender as u32, 0, &mut |_| None), Ok(Received::Message(..)));
        }
    }
    pair
}

fn plain_ucx() -> Pair {
    ucx([None, None])
}

fn authenticated_ucx() -> Pair {
    ucx(StreamKeys::pair().expect("random numbers").map(Some))
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_keeps_the_order() {
    check_order(plain_ucx(), "UCX").unwrap();
    check_order(authenticated_ucx(), "authenticated UCX").unwrap();
}

/// Memory of a receiver, whose puts with an odd key must be received into buffers.
struct Place<'m> {
    memory: Span<'m>,
    area: &'m Area,
}

impl Destination<Vec<u8>> for Place<'_> {
    fn buffer(&mut self, len: u64) -> Option<Vec<u8>> {
        Some(vec![0; len as usize])
    }

    fn memory(&mut self, put: &Frame, at: u64) -> Option<Span<'_>> {
        let FrameKind::Put { to, len } = put.kind else { return None };
        (to.key % 2 == 0).then(|| self.memory.range(to.offset + at, len - at))
    }

    fn region(&mut self, put: &Frame) -> Option<Region> {
        let addresses = self.memory(put, 0)?.addresses();
        self.area.region(&addresses)
    }
}

/// Of puts that overlap, short and long, from and to regions and buffers, the last one remains.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_puts_between_regions_remain_in_their_order() {
    const LEN: u64 = 1 << 20;
    for seed in 0..8 {
        for mut pair in [plain_ucx(), authenticated_ucx()] {
            let mut random = Random(seed);
            let mut below = |bound: u64| random.below(bound);
            let areas = [Area::new(LEN), Area::new(LEN)];
            let mut views = Views::new(2);
            for (number, area) in areas.iter().enumerate() {
                assert!(views.set(number, &area.segment, 0..LEN));
            }
            let [source, result] = [0, 1].map(|number| views.memory().slice(number));
            let bytes: Vec<u8> = (0..LEN).map(|_| below(256) as u8).collect();
            source.write(&bytes);
            let mut expected = vec![0; LEN as usize];
            let mut place = Place { memory: result, area: &areas[1] };
            let [from, to_rank] = &mut pair;
            let (mut is_sent, mut is_received, mut in_regions) = (false, false, 0);
            for key in 0.. {
                if is_received {
                    break;
                }
                if key == 300 {
                    from.signal(1, id(1), Signal::End);
                    is_sent = true;
                }
                if !is_sent {
                    let len = [5, 1000, 9000, 40_000, 150_000][below(5) as usize];
                    let (at, offset) = (below(LEN - len), below(LEN / 8));
                    let offset = offset.min(LEN - len);
                    expected[offset as usize..][..len as usize].copy_from_slice(&bytes[at as usize..][..len as usize]);
                    let (to, span) = (RemoteAddress { key, offset }, source.range(at, len));
                    let region = || areas[0].region(&span.addresses());
                    let is_left = below(3) > 0 && from.put_from(1, id(1), to, span, &region) == Some(len);
                    in_regions += u32::from(is_left);
                    if !is_left {
                        from.put(1, id(1), to, len, Some(bytes[at as usize..][..len as usize].to_vec()));
                    }
                }
                from.progress();
                while !is_received && (is_sent || below(3) == 0) {
                    match to_rank.receive(0, 1, &mut place).expect("valid") {
                        Received::Message(Frame { kind: FrameKind::Put { to, len }, .. }, Some(buffer)) => {
                            result.range(to.offset, len).write(&buffer[..len as usize]);
                        }
                        Received::Message(frame, _) => is_received = frame.kind == FrameKind::Signal(Signal::End),
                        Received::Part => {}
                        Received::Nothing => break,
                    }
                }
            }
            let mut received = Vec::new();
            result.read(LEN as usize, &mut received);
            assert!(received == expected, "seed {seed}");
            println!("seed {seed}: {in_regions} puts from regions");
            while !from.is_flushed(1) {
                from.progress();
                to_rank.progress();
            }
        }
    }
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_keeps_messages_of_later_launches_and_without_buffer() {
    check_stay(plain_ucx());
    check_stay(authenticated_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_reports_a_closed_connection_after_its_last_message() {
    check_last(plain_ucx());
    check_last(authenticated_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_delivers_no_message_after_part_of_another_one() {
    check_close(plain_ucx());
    check_close(authenticated_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_frees_sources_for_a_lost_peer() {
    check_lost(plain_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_report_names_the_library() {
    let report = crate::try_ucx().expect("a UCX, see scripts/ucx-env.sh");
    assert!(report.library.starts_with("UCX 1."), "{report:?}");
}

/// Pairs that may use UCX, or of which only one has it.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_and_tcp_agree() {
    for [zero, one] in [[true, true], [true, false], [false, true], [false, false]] {
        let engine = |has_ucx: bool| -> Box<dyn Transport<Vec<u8>>> {
            Box::new(if has_ucx { Ucx::new(false).expect("an engine") } else { Ucx::without_library() })
        };
        for keys in [[None, None], StreamKeys::pair().expect("random numbers").map(Some)] {
            check_order(open([engine(zero), engine(one)], keys), &format!("UCX {zero}, {one}")).unwrap();
        }
    }
}

#[test]
fn engines_without_ucx_use_tcp() {
    let engine = || -> Box<dyn Transport<Vec<u8>>> { Box::new(Ucx::without_library()) };
    check_order(open([engine(), engine()], [None, None]), "no UCX").unwrap();
}
