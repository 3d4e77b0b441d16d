// Channels for user-supplied kernels: memory channels (this device writes and reads the peer's memory), port channels (the host's
// proxy copies), switch channels (one access reaches the memory of all ranks), packets, and a barrier of the blocks of a device.
//
// The host makes them (`Communicator::on(&stream).channels(...)` in Rust) and passes them as parts of a kernel's argument. Offsets and
// sizes are in bytes. `put`, `get` and the packets are called by any threads, each with its number among them; all others by one thread.
//
// Data that threads of a block have put is published by a block sync, then `signal` by one thread; it may be read after `wait` by one
// thread of the peer's block, then a block sync. Waits return false if the timeout of the channels has passed or they were stopped. The
// kernel must then exit, and all later waits return false at once; the host reports what was waited for.
#pragma once
#include "multicast.h"
#include "packet.h"
#include "sync.h"

namespace mscclpp {

/// State of the channels of a rank, in mapped host memory: whether to stop, and what the first wait that expired was waiting for.
struct ChannelStatus {
  uint32_t stop, expired;
  uint64_t channel, expected, seen;
};

/// What every wait needs.
struct ChannelWait {
  ChannelStatus* status;
  uint64_t timeout_ns;
  /// Identifies the channel in the host's report.
  uint64_t channel;

#ifdef DEV_SIM
  static constexpr uint32_t kPollsPerCheck = 4;
#else
  static constexpr uint32_t kPollsPerCheck = 256;
#endif

  /// Called by: one thread. Polls until `is_done(seen)` returns true; `seen` is what the report states.
  template <typename IsDone>
  DEV bool until(uint64_t expected, const IsDone& is_done) const {
    uint64_t seen = 0, deadline = 0;
    DEV_NO_UNROLL
    for (uint32_t polls = 1; !is_done(seen); ++polls) {
      dev_relax();
      if (polls % kPollsPerCheck != 0) continue;
      if (load_relaxed_sys(&status->stop) != 0 || load_relaxed_sys(&status->expired) != 0) return false;
      const uint64_t now = dev_now();
      if (deadline == 0) deadline = now + timeout_ns;
      if (now <= deadline) continue;
      if (compare_swap_relaxed_sys(&status->expired, 0, 1) == 0) {
        store_relaxed_sys(&status->channel, channel);
        store_relaxed_sys(&status->expected, expected);
        store_relaxed_sys(&status->seen, seen);
      }
      return false;
    }
    return true;
  }
};

/// A counter that the peer increments, and the number of waits for it so far.
struct ChannelCounter {
  const uint64_t* inbound;
  uint64_t* waits;

  /// Called by: one thread. order: acquires the signal.
  DEV bool wait(const ChannelWait& limit) const {
    const uint64_t expected = fetch_add_relaxed_gpu(waits, 1) + 1;
    return limit.until(expected, [&](uint64_t& seen) {
      seen = load_acquire_sys(inbound);
      return static_cast<int64_t>(seen - expected) >= 0;
    });
  }

  /// Called by: one thread. order: none; data that the peer wrote before its signal may not be visible yet.
  DEV bool relaxed_wait(const ChannelWait& limit) const {
    const uint64_t expected = fetch_add_relaxed_gpu(waits, 1) + 1;
    return limit.until(expected, [&](uint64_t& seen) {
      seen = load_relaxed_sys(inbound);
      return static_cast<int64_t>(seen - expected) >= 0;
    });
  }
};

namespace channel_detail {

template <typename Word, typename Load, typename Store>
DEV void copy_words(char* to, const char* from, uint64_t bytes, uint32_t thread, uint32_t threads, const Load& load,
                    const Store& store) {
  DEV_NO_UNROLL
  for (uint64_t at = sizeof(Word) * static_cast<uint64_t>(thread); at < bytes; at += sizeof(Word) * static_cast<uint64_t>(threads)) {
    store(to + at, load(from + at));
  }
}

/// Copies by the widest words that the addresses and the size allow.
DEV void copy(char* to, const char* from, uint64_t bytes, uint32_t thread, uint32_t threads) {
  const uint64_t bits = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
  if (bits % 16 == 0) {
    copy_words<Vec16>(
        to, from, bytes, thread, threads, [](const char* at) { return load16(at); },
        [](char* at, const Vec16& value) { store16(at, value); });
  } else if (bits % 4 == 0) {
    copy_words<uint32_t>(
        to, from, bytes, thread, threads, [](const char* at) { return load_plain<uint32_t>(at); },
        [](char* at, uint32_t value) { store_plain<uint32_t>(at, value); });
  } else {
    copy_words<uint8_t>(
        to, from, bytes, thread, threads, [](const char* at) { return load_plain<uint8_t>(at); },
        [](char* at, uint8_t value) { store_plain<uint8_t>(at, value); });
  }
}

}  // namespace channel_detail

/// Packets of 16 bytes, 8 of them payload, and of 8 bytes, 4 of them payload: of the same data they take the same bytes. The longer ones need
/// half the loads and stores, the shorter ones half the alignment.
struct LL16 {
  using Payload = Vec8;
};
struct LL8 {
  using Payload = uint32_t;
};

/// A connection to the memory of a peer, through which this device reads and writes it.
struct MemoryChannel {
  /// The peer's shared memory, and this rank's: `source` is that which puts read and gets write, `shared` that which the peer's
  /// channel accesses.
  char* remote;
  char* source;
  char* shared;
  uint64_t* outbound;
  ChannelCounter counter;
  ChannelWait limit;

  /// Copies from `source` to the peer's memory. order: none.
  DEV void put(uint64_t to, uint64_t from, uint64_t bytes, uint32_t thread, uint32_t threads) const {
    channel_detail::copy(remote + to, source + from, bytes, thread, threads);
  }
  /// Copies from the peer's memory to `source`. order: none.
  DEV void get(uint64_t from, uint64_t to, uint64_t bytes, uint32_t thread, uint32_t threads) const {
    channel_detail::copy(source + to, remote + from, bytes, thread, threads);
  }
  /// order: release, with what the block wrote before its last sync; acquired by the peer's `wait`.
  DEV void signal() const { add_release_sys(outbound, 1); }
  /// order: none; it allows the peer to continue, and publishes nothing.
  DEV void relaxed_signal() const { add_relaxed_sys(outbound, 1); }
  /// Waits for the next signal.
  DEV bool wait() const { return counter.wait(limit); }
  /// Waits for the next signal, which publishes nothing.
  DEV bool relaxed_wait() const { return counter.relaxed_wait(limit); }

  /// Writes packets to the peer's memory: twice the bytes of `source`. Of `LL16` all three numbers are multiples of 8, `to` of 16; of `LL8`
  /// multiples of 4, `to` of 8. `flag` is neither 0 nor that of earlier packets there. order: the packets publish themselves.
  template <typename Packet = LL16>
  DEV void put_packets(uint64_t to, uint64_t from, uint64_t bytes, uint32_t flag, uint32_t thread, uint32_t threads) const {
    using Payload = typename Packet::Payload;
    DEV_NO_UNROLL
    for (uint64_t at = sizeof(Payload) * static_cast<uint64_t>(thread); at < bytes; at += sizeof(Payload) * static_cast<uint64_t>(threads)) {
      store_packet(remote + to + 2 * at, load_payload(source + from + at, Payload{}), flag);
    }
  }
  /// Waits for packets in `shared`, and stores their payload in `source`. They were written by `put_packets` of the same kind.
  template <typename Packet = LL16>
  DEV bool unpack_packets(uint64_t from, uint64_t to, uint64_t bytes, uint32_t flag, uint32_t thread, uint32_t threads) const {
    using Payload = typename Packet::Payload;
    DEV_NO_UNROLL
    for (uint64_t at = sizeof(Payload) * static_cast<uint64_t>(thread); at < bytes; at += sizeof(Payload) * static_cast<uint64_t>(threads)) {
      Payload payload;
      const bool arrived = limit.until(flag, [&](uint64_t& seen) {
        uint32_t found = 0;
        const bool is_whole = load_packet(shared + from + 2 * at, flag, payload, found);
        seen = found;
        return is_whole;
      });
      if (!arrived) return false;
      store_payload(source + to + at, payload);
    }
    return true;
  }

  DEV static uint32_t load_payload(const char* at, uint32_t) { return load_plain<uint32_t>(at); }
  DEV static Vec8 load_payload(const char* at, const Vec8&) {
    const uint64_t value = load_plain<uint64_t>(at);
    return Vec8{{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)}};
  }
  DEV static void store_payload(char* at, uint32_t payload) { store_plain<uint32_t>(at, payload); }
  DEV static void store_payload(char* at, const Vec8& payload) {
    store_plain<uint64_t>(at, payload.w[0] | static_cast<uint64_t>(payload.w[1]) << 32);
  }
};

/// A request to the proxy, in mapped host memory: see `Trigger` of `abi.h`.
struct PortTrigger {
  uint64_t turn, from, to, bytes, signal, reserved[3];
};

/// A queue to the proxy: see `Fifo` of `abi.h`.
struct PortQueue {
  PortTrigger* slots;
  uint64_t* pushed;
  const uint64_t* handled;
  uint64_t size;
};

/// A connection to the memory of a peer, through which the host's proxy copies. The proxy processes the requests of all port channels of
/// a rank in their order.
struct PortChannel {
  uint64_t remote;
  uint64_t source;
  uint64_t outbound;
  const PortQueue* queue;
  ChannelCounter counter;
  ChannelWait limit;

  /// Requests a copy from `source` to the peer's memory, of what was written before the block's last sync.
  DEV bool put(uint64_t to, uint64_t from, uint64_t bytes) const { return push(remote + to, source + from, bytes, 0); }
  /// Requests a signal, after the copies that were requested before.
  DEV bool signal() const { return push(0, 0, 0, outbound); }
  DEV bool put_with_signal(uint64_t to, uint64_t from, uint64_t bytes) const {
    return push(remote + to, source + from, bytes, outbound);
  }
  DEV bool put_with_signal_and_flush(uint64_t to, uint64_t from, uint64_t bytes) const {
    return put_with_signal(to, from, bytes) && flush();
  }
  /// Waits until all requests so far are complete, so that their sources may be written again.
  DEV bool flush() const {
    const uint64_t pushed = load_relaxed_gpu(queue->pushed);
    return limit.until(pushed, [&](uint64_t& seen) {
      seen = load_acquire_sys(queue->handled);
      return static_cast<int64_t>(seen - pushed) >= 0;
    });
  }
  /// Waits for the next signal of the peer.
  DEV bool wait() const { return counter.wait(limit); }

  DEV bool push(uint64_t to, uint64_t from, uint64_t bytes, uint64_t counter_of_peer) const {
    const uint64_t turn = fetch_add_relaxed_gpu(queue->pushed, 1);
    const bool has_room = limit.until(turn, [&](uint64_t& seen) {
      seen = load_acquire_sys(queue->handled);
      return static_cast<int64_t>(turn - seen) < static_cast<int64_t>(queue->size);
    });
    if (!has_room) return false;
    PortTrigger* slot = queue->slots + turn % queue->size;
    store_relaxed_sys(&slot->from, from);
    store_relaxed_sys(&slot->to, to);
    store_relaxed_sys(&slot->bytes, bytes);
    store_relaxed_sys(&slot->signal, counter_of_peer);
    // order: publishes the request, and what the block wrote before its last sync; acquired by the proxy.
    store_release_sys(&slot->turn, turn + 1);
    return true;
  }
};

/// The shared memories of all ranks: through a multicast object where there is one, otherwise one by one.
struct SwitchChannel {
  /// The multicast address; null if there is none.
  char* multicast;
  /// The memory of each rank.
  char* const* members;
  uint64_t num_members;

  /// Stores 16 bytes at an offset of the memory of all ranks. order: none.
  DEV void broadcast(uint64_t at, const Vec16& value) const {
    if (multicast != nullptr) return multicast_store16(multicast + at, value);
    DEV_NO_UNROLL
    for (uint64_t member = 0; member < num_members; ++member) store16(members[member] + at, value);
  }

  /// Returns the sums, minima or maxima of 16 bytes of elements of all ranks: `float`, `double`, `F16`, `BF16`, and integers of 32 and 64
  /// bits. The switch combines them where it has an instruction (all but minima and maxima of `float` and `double`) and there is a
  /// multicast address, otherwise this thread, from rank to rank. Floats are added in any order, those of 16 bits in f32; which minimum or
  /// maximum NaN gives, and zeros of both signs, is unspecified.
  template <typename T, Reduction kOp = Reduction::kSum>
  DEV Vec16 reduce(uint64_t at) const {
    static_assert(sizeof(T) != 1, "bytes and fp8 are not supported");
    static_assert(kOp == Reduction::kSum || kOp == Reduction::kMin || kOp == Reduction::kMax, "expected kSum, kMin or kMax");
    if constexpr (OnSwitch<T>::kAdds && (OnSwitch<T>::kCompares || kOp == Reduction::kSum)) {
      if (multicast != nullptr) return OnSwitch<T>::template load<kOp>(multicast + at);
    }
    return combine_members<T, typename Native<T>::Type, kOp>(num_members, [&](uint64_t member) { return load16(members[member] + at); });
  }

  /// Called by: threads that use the channel, between accesses of the memory by its own address and by the channel.
  DEV void fence() const { fence_aliases(); }
};

/// A barrier of blocks of this device, which must be co-resident.
struct DeviceBarrier {
  uint64_t* arrivals;
  ChannelWait limit;

  /// Called by: all threads of each of the `blocks` blocks. Returns in each thread whether all blocks have arrived.
  DEV bool sync(uint32_t blocks) const {
    dev_sync();
    bool failed = false;
    if (dev_thread() == 0) {
      // order: publishes the block's writes; acquired by the other blocks.
      const uint64_t before = fetch_add_acq_rel_gpu(arrivals, 1);
      const uint64_t expected = before - before % blocks + blocks;
      failed = !limit.until(expected, [&](uint64_t& seen) {
        seen = load_acquire_gpu(arrivals);
        return static_cast<int64_t>(seen - expected) >= 0;
      });
    }
    return dev_sync_count(failed) == 0;
  }
};

}  // namespace mscclpp
