// What a block of threads has at hand, in shared memory: facts of its launch, and a window of its operations.
#pragma once
#include "place.h"

namespace mscclpp {

enum Action : uint8_t {
  kNop = 0,
  kCopy = 1,
  kPack = 2,
  kUnpack = 3,
  kForward = 4,
  kReduce = 5,
  kPort = 6,
  kPortForward = 7,
  /// `kReduce` and `kForward` with multicast addresses beside the members' own.
  kSwitch = 8,
  kSwitchForward = 9,
  kPutSignal = 10,
  kPortSignal = 11,
  kWait = 12,
  kFlush = 13,
  kAcquire = 14,
  kRelease = 15,
  kMeet = 16,
  kLoop = 17,
};

/// Bits of `Instr.flags`.
enum Flag : uint8_t { kRelaxed = 1, kThenSignal = 2, kThenFlush = 4, kUsesPackets = 8 };

constexpr uint32_t kWindowInstrs = 32;
constexpr uint32_t kWindowPlaces = 192;
constexpr uint32_t kWindowIds = 96;

/// An operation's range, before a loop's window narrows it.
struct Range {
  uint64_t start;
  uint64_t len;
  /// If all of its operands are one run each up to this byte of their references, and nothing is to be done behind it.
  uint64_t end;
  uint32_t whole;
  uint32_t reserved;
};

/// Changed between two block syncs only, by `refill`; `failed` by any thread.
struct Window {
  /// Launches before this one.
  uint64_t sequence;
  /// What packets carry: never 0.
  uint32_t flag;
  /// The block's number in `Launch.agents`.
  uint32_t agent;
  uint32_t fifo;
  /// Whether a wait of the block has given up.
  SHARED_FLAG failed;
  /// The block's last operation, operand and id.
  uint32_t instrs_end, operands_end, ids_end;
  /// The window holds the operations `first..end`, and references and ids from these numbers on.
  uint32_t first, end, first_place, first_id;
  Instr instrs[kWindowInstrs];
  Range ranges[kWindowInstrs];
  Place places[kWindowPlaces];
  /// First bytes of the places that are one run.
  char* heads[kWindowPlaces];
  Id ids[kWindowIds];
};

DEV Window& window() {
  SHARED(Window, the_window, 1);
  return the_window[0];
}

/// The operation that a thread is at, and the iteration of the loop that it is in, 0 outside of loops. In shared memory:
/// hardly an operation needs them, and in registers they would take the room of data in flight.
DEV uint32_t& pc() {
  SHARED(uint32_t, pcs, kMostThreads);
  return pcs[dev_thread()];
}
DEV uint32_t& iteration() {
  SHARED(uint32_t, iterations, kMostThreads);
  return iterations[dev_thread()];
}

/// Of `len` bytes from byte `at` of references that are one run each, those that something is to be done with.
DEV uint64_t len_in(const Range& range, uint64_t at, uint64_t len) {
  const uint64_t room = at < range.end ? range.end - at : 0;
  return len < room ? len : room;
}

/// Reference `number` of all, of an operation with more of them than the window holds.
DEV Place place_outside(const Launch& launch, uint32_t number) {
  return place_of(launch, reinterpret_cast<const Operand*>(launch.operands)[number], window().sequence);
}

/// `span_at` for a reference that is not one run, or not in the window.
DEV_CALL Span span_elsewhere(const Launch& launch, uint32_t number, uint64_t at, uint64_t len) {
  const uint32_t in_window = number - window().first_place;
  if (in_window < kWindowPlaces) return span_of(launch, window().places[in_window], at, len);
  return span_of(launch, place_outside(launch, number), at, len);
}

/// The run that begins at byte `at` of reference `number` of all and stands for `1..=len` padded bytes (0 if `len` is 0).
DEV Span span_at(const Launch& launch, uint32_t number, uint64_t at, uint64_t len) {
  const uint32_t in_window = number - window().first_place;
  if (in_window >= kWindowPlaces) return span_elsewhere(launch, number, at, len);
  const Place& place = window().places[in_window];
  if (place.split | place.wraps) return span_elsewhere(launch, number, at, len);
  const uint64_t room = place.limit > at ? place.limit - at : 0;
  return Span{place.at + place.scale() * at, len < room ? len : room, len};
}

/// The kind of memory of reference `number` of all.
DEV uint32_t space_of(const Launch& launch, uint32_t number) {
  const uint32_t in_window = number - window().first_place;
  return in_window < kWindowPlaces ? window().places[in_window].space
                                   : reinterpret_cast<const Operand*>(launch.operands)[number].space;
}

DEV_CALL char* packets_outside(const Launch& launch, uint32_t number) { return place_outside(launch, number).at; }

/// The first packet of reference `number` of all.
DEV char* packets_of(const Launch& launch, uint32_t number) {
  const uint32_t in_window = number - window().first_place;
  return in_window < kWindowPlaces ? window().heads[in_window] : packets_outside(launch, number);
}

/// Channel, semaphore or barrier `number` of all.
DEV Id id_at(const Launch& launch, uint32_t number) {
  uint32_t in_window = number - window().first_id;
  return in_window < kWindowIds ? window().ids[in_window] : reinterpret_cast<const Id*>(launch.ids)[number];
}

}  // namespace mscclpp
