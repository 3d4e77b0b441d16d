//! Memory for sends that wait for their receiver.

use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{Device, DeviceVec, Event, Stream};

/// Maximum number of bytes of one direction between two ranks that wait for their receiver, as much as NCCL's buffer of a
/// connection has by default (`NCCL_BUFFSIZE`).
pub(super) const MAX_BUFFERED: usize = 4 << 20;

/// Minimum size of a buffer, in bytes.
const MIN_BYTES: usize = 1 << 12;

/// A buffer for one send.
struct Buffer {
    memory: DeviceVec<u8>,
    state: State,
}

/// What a buffer is used for.
enum State {
    Free,
    /// A send that was not enqueued yet.
    Queued,
    /// A send that ends before an event.
    Sent(Event),
}

/// The buffers of one direction.
#[derive(Default)]
pub(super) struct Buffers(Vec<Buffer>);

impl Buffers {
    /// Returns a buffer's number and memory for a send on a stream of the device, if it is short and there is room.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(super) fn take(
        &mut self,
        stream: &Stream,
        device: &Device,
        bytes: u64,
    ) -> Result<Option<(usize, DeviceVec<u8>)>, Error> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX).max(MIN_BYTES);
        if size > MAX_BUFFERED {
            return Ok(None);
        }
        let size = size.next_power_of_two();
        // Other streams may be captured meanwhile.
        let _set_up = stream.set_up(false)?;
        for buffer in &mut self.0 {
            if let State::Sent(end) = &buffer.state
                && end.is_complete()?
            {
                buffer.state = State::Free;
            }
        }
        let is_fit = |buffer: &Buffer| matches!(buffer.state, State::Free) && buffer.memory.len() == size;
        let number = match self.0.iter().position(is_fit) {
            Some(number) => number,
            None => {
                // Free ones of other sizes make room.
                if self.allocated() + size > MAX_BUFFERED {
                    let last_used = self.0.iter().rposition(|buffer| !matches!(buffer.state, State::Free));
                    let unused = self.0.drain(last_used.map_or(0, |last| last + 1)..);
                    unused.for_each(|buffer| buffer.memory.free_unused());
                }
                if self.allocated() + size > MAX_BUFFERED {
                    return Ok(None);
                }
                self.0.push(Buffer { memory: DeviceVec::new(device, size)?, state: State::Free });
                self.0.len() - 1
            }
        };
        let buffer = &mut self.0[number];
        buffer.state = State::Queued;
        Ok(Some((number, buffer.memory.share())))
    }

    fn allocated(&self) -> usize {
        self.0.iter().map(|buffer| buffer.memory.len()).sum()
    }

    /// Returns a buffer whose send is not made.
    pub(super) fn put_back(&mut self, number: usize) {
        if let Some(buffer) = self.0.get_mut(number) {
            buffer.state = State::Free;
        }
    }

    /// Records the event before which the send of a buffer ends.
    pub(super) fn sent(&mut self, number: usize, end: Event) {
        if let Some(buffer) = self.0.get_mut(number) {
            buffer.state = State::Sent(end);
        }
    }
}
