// Launches with a thread of the operating system for every CUDA thread; see dev_threads.h.
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "dev.h"

/// What the threads of a block share. Nothing in here orders anything but the barrier, or it would hide what the device code
/// leaves unordered.
struct ThreadBlock {
  static constexpr size_t kVariables = 8, kBytes = 32 << 10;

  explicit ThreadBlock(uint32_t threads) {
    pthread_barrier_init(&barrier, nullptr, threads);
    for (auto& memory : shared) memory = std::make_unique<std::max_align_t[]>(kBytes / sizeof(std::max_align_t));
  }
  ~ThreadBlock() { pthread_barrier_destroy(&barrier); }

  pthread_barrier_t barrier;
  /// In how many threads a predicate holds; the counts take turns, so that one is read while the next is made.
  std::atomic<uint32_t> holds[3] = {};
  std::atomic<const void*> names[kVariables] = {};
  std::unique_ptr<std::max_align_t[]> shared[kVariables];
};

extern "C" {

thread_local SimThread* sim_thread = nullptr;
static thread_local uint32_t meetings = 0;

uint32_t threads_meet(bool predicate) {
  ThreadBlock& block = *sim_thread->its_block;
  std::atomic<uint32_t>& count = block.holds[meetings % 3];
  if (predicate) count.fetch_add(1, std::memory_order_relaxed);
  pthread_barrier_wait(&block.barrier);
  // Nobody counts here before everybody has left the next meeting.
  block.holds[(meetings + 2) % 3].store(0, std::memory_order_relaxed);
  meetings += 1;
  return count.load(std::memory_order_relaxed);
}

void* threads_shared(const void* name, size_t bytes) {
  ThreadBlock& block = *sim_thread->its_block;
  if (bytes > ThreadBlock::kBytes) return nullptr;
  for (size_t i = 0; i < ThreadBlock::kVariables; ++i) {
    const void* there = nullptr;
    if (block.names[i].compare_exchange_strong(there, name, std::memory_order_relaxed) || there == name) {
      return block.shared[i].get();
    }
  }
  return nullptr;
}

extern const SimModule sim_modules[];

/// A kernel of a module; null if there is none.
const SimKernel* threads_find(const char* module, const char* name) {
  for (const SimModule* m = sim_modules; m->name != nullptr; ++m) {
    if (std::strcmp(m->name, module) != 0) continue;
    for (const SimKernel* k = m->kernels; k->name != nullptr; ++k) {
      if (std::strcmp(k->name, name) == 0) return k;
    }
  }
  return nullptr;
}

/// Runs a launch to its end.
void threads_run(const SimKernel* kernel, uint32_t blocks, uint32_t threads, const void* argument) {
  std::vector<std::unique_ptr<ThreadBlock>> all;
  for (uint32_t block = 0; block < blocks; ++block) all.push_back(std::make_unique<ThreadBlock>(threads));
  std::vector<std::thread> running;
  for (uint32_t number = 0; number < blocks * threads; ++number) {
    SimThread thread{number % threads, threads, number / threads, blocks, all[number / threads].get()};
    running.emplace_back([=]() mutable {
      sim_thread = &thread;
      meetings = 0;
      kernel->run(argument);
    });
  }
  for (std::thread& thread : running) thread.join();
}
}
