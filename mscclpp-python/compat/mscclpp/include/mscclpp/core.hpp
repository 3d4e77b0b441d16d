// Communicators, memory and connections of native algorithms. Memory and semaphores of other ranks become known when all ranks
// have entered the same call of an algorithm: `get` of a future waits for them.
#pragma once
#include "mscclpp/device.hpp"

namespace mscclpp {

template <class T>
using DeviceHandle = typename T::DeviceHandle;

}  // namespace mscclpp

#if !defined(MSCCLPP_DEVICE_COMPILE)

#include <algorithm>
#include <array>
#include <bitset>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "mscclpp/errors.hpp"
#include "mscclpp/gpu_data_types.hpp"
#include "mscclpp/native/python.hpp"

namespace mscclpp {

template <typename T>
DeviceHandle<std::remove_reference_t<T>> deviceHandle(T&& of) {
  return of.deviceHandle();
}

/// How ranks reach each other. The communicator finds out; what is asked for has no effect.
enum class Transport { Unknown, CudaIpc, IB0, IB1, IB2, IB3, IB4, IB5, IB6, IB7, Ethernet, NumTransports };

class TransportFlags {
 public:
  TransportFlags() = default;
  TransportFlags(Transport transport) : bits_(std::uint32_t{1} << static_cast<unsigned>(transport)) {}
  bool has(Transport transport) const { return (bits_ & TransportFlags(transport).bits_) != 0; }
  bool none() const { return bits_ == 0; }
  bool any() const { return bits_ != 0; }
  TransportFlags& operator|=(TransportFlags other) { return *this = *this | other; }
  TransportFlags operator|(TransportFlags other) const { return of(bits_ | other.bits_); }
  TransportFlags operator&(TransportFlags other) const { return of(bits_ & other.bits_); }
  bool operator==(TransportFlags other) const { return bits_ == other.bits_; }
  bool operator!=(TransportFlags other) const { return bits_ != other.bits_; }

 private:
  static TransportFlags of(std::uint32_t bits) {
    TransportFlags flags;
    flags.bits_ = bits;
    return flags;
  }
  std::uint32_t bits_ = 0;
};

inline TransportFlags operator|(Transport first, Transport second) { return TransportFlags(first) | second; }

inline const TransportFlags NoTransports{};
inline const TransportFlags AllIBTransports = Transport::IB0 | Transport::IB1 | Transport::IB2 | Transport::IB3 | Transport::IB4 |
                                              Transport::IB5 | Transport::IB6 | Transport::IB7;
inline const TransportFlags AllTransports = AllIBTransports | Transport::CudaIpc | Transport::Ethernet;

enum class DeviceType { Unknown, CPU, GPU };

struct Device {
  Device() = default;
  Device(DeviceType type, int id = -1) : type(type), id(id) {}
  DeviceType type = DeviceType::Unknown;
  int id = -1;
};

struct EndpointConfig {
  Transport transport;
  Device device;
  int maxWriteQueueSize;
  EndpointConfig(Transport transport = Transport::Unknown, Device device = DeviceType::GPU, int maxWriteQueueSize = -1)
      : transport(transport), device(device), maxWriteQueueSize(maxWriteQueueSize) {}
};

namespace native {

/// The communicator in Python (`_core/native_host.py`), and what does not change.
struct Host {
  Object object;
  int rank, size, ranks_per_node;
};
using HostPtr = std::shared_ptr<Host>;

/// Returns an object's implementation, or throws for one that was made without any.
template <typename T>
const T& made(const std::shared_ptr<T>& of, const char* name) {
  if (of == nullptr) throw Error(std::string("expected a ") + name + " of a communicator, found an empty one", ErrorCode::InvalidUsage);
  return *of;
}

/// A value that is found when it is asked for, by the thread that asks.
template <typename T, typename Find>
std::shared_future<T> deferred(Find find) {
  return std::async(std::launch::deferred, std::move(find)).share();
}

}  // namespace native

/// The small messages of a communicator's ranks.
class Bootstrap {
 public:
  explicit Bootstrap(native::HostPtr host) : host_(std::move(host)) {}
  int getRank() const { return host_->rank; }
  int getNranks() const { return host_->size; }
  int getNranksPerNode() const { return host_->ranks_per_node; }
  int getNranksPerIpcDomain() const { return host_->ranks_per_node; }

  void send(void* data, int size, int peer, int tag) {
    native::Lock lock;
    native::call(host_->object, "send", "iiy#", peer, tag, static_cast<const char*>(data), static_cast<Py_ssize_t>(size));
  }
  void recv(void* data, int size, int peer, int tag) {
    native::Lock lock;
    native::copy_bytes(native::call(host_->object, "recv", "ii", peer, tag), data, size);
  }
  void send(const std::vector<char>& data, int peer, int tag) {
    std::size_t size = data.size();
    send(&size, sizeof(size), peer, tag);
    send(const_cast<char*>(data.data()), static_cast<int>(size), peer, tag + 1);
  }
  void recv(std::vector<char>& data, int peer, int tag) {
    std::size_t size = 0;
    recv(&size, sizeof(size), peer, tag);
    native::Lock lock;
    const native::Object bytes = native::call(host_->object, "recv", "ii", peer, tag + 1);
    data.resize(size);
    native::copy_bytes(bytes, data.data(), static_cast<Py_ssize_t>(size));
  }
  /// Part r of `data`, of `size` bytes, is that of rank r.
  void allGather(void* data, int size) {
    native::Lock lock;
    const char* own = static_cast<const char*>(data) + static_cast<std::ptrdiff_t>(size) * host_->rank;
    const native::Object all = native::call(host_->object, "all_gather", "y#", own, static_cast<Py_ssize_t>(size));
    native::copy_bytes(all, data, static_cast<Py_ssize_t>(size) * host_->size);
  }
  void barrier() {
    native::Lock lock;
    native::call(host_->object, "barrier", nullptr);
  }

 private:
  native::HostPtr host_;
};

/// Memory of a rank that others access.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  /// The address by which this rank accesses it.
  void* data() const { return reinterpret_cast<void*>(native::made(memory_, "RegisteredMemory").address); }
  /// The address on the rank that has registered it.
  void* originalDataPtr() const { return reinterpret_cast<void*>(native::made(memory_, "RegisteredMemory").original); }
  std::size_t size() const { return native::made(memory_, "RegisteredMemory").bytes; }
  TransportFlags transports() const { return AllTransports; }

 private:
  friend class Communicator;
  struct Memory {
    std::uint64_t address, original, bytes;
    /// What keeps memory of another rank mapped.
    native::Object mapping;
  };
  std::shared_ptr<Memory> memory_;
};

/// A rank that another one has connected to.
class Connection {
 public:
  Connection() = default;
  Transport transport() const { return native::made(state_, "Connection").transport; }
  Transport remoteTransport() const { return transport(); }

 private:
  friend class Communicator;
  struct State {
    native::HostPtr host;
    int peer, tag;
    Transport transport;
  };
  std::shared_ptr<State> state_;
};

/// Counters of two ranks, by which kernels of one wait for the other.
class Semaphore {
 public:
  Semaphore() = default;
  Connection& connection() {
    native::made(state_, "Semaphore");
    return state_->connection;
  }

  /// Returns the words of the semaphore's channel for kernels: `memory_channel` or `port_channel`.
  void words(const char* kind, std::uint64_t* to, Py_ssize_t bytes) const {
    const State& state = native::made(state_, "Semaphore");
    native::Lock lock;
    native::copy_bytes(native::call(state.host->object, kind, "iK", state.peer, static_cast<unsigned long long>(state.index)), to, bytes);
  }

 private:
  friend class Communicator;
  struct State {
    native::HostPtr host;
    int peer;
    std::uint64_t index;
    Connection connection;
  };
  std::shared_ptr<State> state_;
};

template <typename T>
using NonblockingFuture = std::shared_future<T>;

/// The ranks of a call, as `mscclpp.CommGroup` has connected them.
class Communicator {
 public:
  explicit Communicator(native::HostPtr host) : host_(std::move(host)), bootstrap_(std::make_shared<Bootstrap>(host_)) {}

  std::shared_ptr<Bootstrap> bootstrap() { return bootstrap_; }
  const native::HostPtr& host() const { return host_; }

  /// Registers memory of this rank. It must be of one allocation, which exists until no rank uses it.
  RegisteredMemory registerMemory(void* pointer, std::size_t size, TransportFlags) {
    const std::uint64_t address = reinterpret_cast<std::uint64_t>(pointer);
    native::Lock lock;
    native::call(host_->object, "register_memory", "KK", static_cast<unsigned long long>(address), static_cast<unsigned long long>(size));
    return memory({address, address, size, native::Object()});
  }

  void sendMemory(RegisteredMemory memory, int remoteRank, int tag = 0) {
    const RegisteredMemory::Memory& found = native::made(memory.memory_, "RegisteredMemory");
    native::Lock lock;
    native::call(host_->object, "send_memory", "KKii", static_cast<unsigned long long>(found.original),
                 static_cast<unsigned long long>(found.bytes), remoteRank, tag);
  }
  std::shared_future<RegisteredMemory> recvMemory(int remoteRank, int tag = 0) {
    native::Lock lock;
    const std::uint64_t number = native::number(native::call(host_->object, "recv_memory", "ii", remoteRank, tag));
    return native::deferred<RegisteredMemory>([host = host_, number] {
      native::Lock lock;
      const native::Object found = native::call(host->object, "resolve", "K", static_cast<unsigned long long>(number));
      unsigned long long address = 0, original = 0, bytes = 0;
      PyObject* mapping = nullptr;
      if (!PyArg_ParseTuple(found.get(), "KKKO", &address, &original, &bytes, &mapping)) throw native::PythonError::taken();
      return memory({address, original, bytes, native::Object::borrowed(mapping)});
    });
  }
  void sendMemoryOnSetup(RegisteredMemory memory, int remoteRank, int tag) { sendMemory(std::move(memory), remoteRank, tag); }
  std::shared_future<RegisteredMemory> recvMemoryOnSetup(int remoteRank, int tag) { return recvMemory(remoteRank, tag); }
  void setup() {}

  std::shared_future<Connection> connect(const EndpointConfig& config, int remoteRank, int tag = 0) {
    if (remoteRank < 0 || remoteRank >= host_->size || remoteRank == host_->rank) {
      throw Error("connect: expected another rank below " + std::to_string(host_->size) + ", found " + std::to_string(remoteRank),
                  ErrorCode::InvalidUsage);
    }
    Connection connection;
    connection.state_ = std::make_shared<Connection::State>(Connection::State{host_, remoteRank, tag, config.transport});
    return native::deferred<Connection>([connection] { return connection; });
  }
  std::shared_future<Connection> connectOnSetup(int remoteRank, int tag, const EndpointConfig& config) {
    return connect(config, remoteRank, tag);
  }

  /// Builds semaphores of a connection. Both ranks build as many, in the same order.
  std::shared_future<Semaphore> buildSemaphore(const Connection& connection, int remoteRank, int tag = 0) {
    const Semaphore semaphore = build(connection, remoteRank, tag);
    return native::deferred<Semaphore>([semaphore] { return semaphore; });
  }

  int remoteRankOf(const Connection& connection) { return native::made(connection.state_, "Connection").peer; }
  int tagOf(const Connection& connection) { return native::made(connection.state_, "Connection").tag; }

  /// Calls a function that connects ranks, on all ranks: it returns when the functions of all ranks have returned.
  template <typename Connect>
  void connect_in(const Connect& connect) {
    {
      native::Lock lock;
      native::call(host_->object, "begin", nullptr);
    }
    try {
      connect();
    } catch (const std::exception& error) {
      fail(error.what());
      throw;
    } catch (...) {
      fail(native::kNotAnException);
      throw;
    }
    native::Lock lock;
    native::call(host_->object, "end", nullptr);
  }

  /// Builds a semaphore at once.
  Semaphore build(const Connection& connection, int remoteRank, int tag) {
    const Connection::State& found = native::made(connection.state_, "Connection");
    if (found.peer != remoteRank) {
      throw Error("buildSemaphore: expected rank " + std::to_string(found.peer) + ", that of the connection, found " +
                      std::to_string(remoteRank),
                  ErrorCode::InvalidUsage);
    }
    native::Lock lock;
    const std::uint64_t index = native::number(native::call(host_->object, "build_semaphore", "ii", remoteRank, tag));
    Semaphore semaphore;
    semaphore.state_ = std::make_shared<Semaphore::State>(Semaphore::State{host_, remoteRank, index, connection});
    return semaphore;
  }

 private:
  /// Tells the other ranks, which would wait for this one, why it has failed.
  void fail(const char* reason) {
    native::Lock lock;
    const native::Object text = native::checked(native::decoded(reason));
    native::call(host_->object, "fail", "O", text.get());
  }

  static RegisteredMemory memory(RegisteredMemory::Memory of) {
    RegisteredMemory memory;
    memory.memory_ = std::make_shared<RegisteredMemory::Memory>(of);
    return memory;
  }

  native::HostPtr host_;
  std::shared_ptr<Bootstrap> bootstrap_;
};

}  // namespace mscclpp

#endif
