// What `compile_native` calls of a compiled source, by name. Each function returns a new reference, or null with an exception set.
#pragma once

#include <new>

#include "mscclpp/algorithm.hpp"
#include "mscclpp/native/launch.hpp"

namespace mscclpp {
namespace native {

/// Sets an exception of Python. Exceptions of C++ may have any bytes as their text.
inline void set_exception(PyObject* type, const char* text) {
  const Object message = Object::owned(decoded(text));
  if (message.get() != nullptr) PyErr_SetObject(type, message.get());
}

/// Sets the exception of Python for the one that is thrown.
inline void set_exception() {
  try {
    throw;
  } catch (const PythonError& error) {
    error.restore();
  } catch (const BaseError& error) {
    const Object module = Object::owned(PyImport_ImportModule("mscclpp_rs"));
    const Object type = Object::owned(module.get() == nullptr ? nullptr : PyObject_GetAttrString(module.get(), "Error"));
    if (type.get() != nullptr) set_exception(type.get(), error.what());
  } catch (const std::invalid_argument& error) {
    set_exception(PyExc_ValueError, error.what());
  } catch (const std::length_error& error) {
    set_exception(PyExc_ValueError, error.what());
  } catch (const std::out_of_range& error) {
    set_exception(PyExc_IndexError, error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    set_exception(PyExc_RuntimeError, error.what());
  } catch (...) {
    set_exception(PyExc_RuntimeError, kNotAnException);
  }
}

template <typename Function>
PyObject* guarded(const Function& function) {
  try {
    return function().release();
  } catch (...) {
    set_exception();
    return nullptr;
  }
}

/// Returns the algorithm of a capsule.
inline Algorithm& algorithm(PyObject* capsule) {
  void* pointer = PyCapsule_GetPointer(capsule, ALGORITHM_NATIVE_CAPSULE_NAME);
  if (pointer == nullptr) throw PythonError::taken();
  const auto& found = *static_cast<std::shared_ptr<Algorithm>*>(pointer);
  if (found == nullptr) throw std::invalid_argument("expected a capsule with an algorithm, found an empty pointer");
  return *found;
}

/// Returns None.
inline Object none() { return Object::borrowed(Py_None); }

}  // namespace native
}  // namespace mscclpp

#define MSCCLPP_EXPORT extern "C" __attribute__((visibility("default"))) PyObject*

/// Returns the names of the kernels that the source launches.
MSCCLPP_EXPORT mscclpp_native_kernels() {
  using namespace mscclpp::native;
  return guarded([] {
    const Object names = checked(PyList_New(0));
    for (const KernelEntry* entry = KernelEntry::first(); entry != nullptr; entry = entry->next) {
      const Object name = checked(PyUnicode_FromString(entry->name.c_str()));
      if (PyList_Append(names.get(), name.get()) != 0) throw PythonError::taken();
    }
    return names;
  });
}

/// Takes the kernels, a list in the order of their names.
MSCCLPP_EXPORT mscclpp_native_bind(PyObject* kernels) {
  using namespace mscclpp::native;
  return guarded([&] {
    Py_ssize_t at = 0;
    for (KernelEntry* entry = KernelEntry::first(); entry != nullptr; entry = entry->next, ++at) {
      PyObject* kernel = PyList_GetItem(kernels, at);
      if (kernel == nullptr) throw PythonError::taken();
      const Object handle = checked(PyObject_GetAttrString(kernel, "handle"));
      entry->handle = reinterpret_cast<void*>(number(handle));
      Py_INCREF(kernel);
      PyObject* before = std::exchange(entry->kernel, kernel);
      Py_XDECREF(before);
    }
    return none();
  });
}

/// Returns name, collective, smallest and largest message, buffer mode, ranks, ranks per node, and tags of a capsule's algorithm.
MSCCLPP_EXPORT mscclpp_native_describe(PyObject* capsule) {
  using namespace mscclpp::native;
  return guarded([&] {
    const mscclpp::Algorithm& found = algorithm(capsule);
    const Object tags = checked(PyDict_New());
    for (const auto& [name, value] : found.tags()) {
      const Object number = checked(PyLong_FromUnsignedLongLong(value));
      if (PyDict_SetItemString(tags.get(), name.c_str(), number.get()) != 0) throw PythonError::taken();
    }
    const auto range = found.messageRange();
    const auto constraint = found.constraint();
    return checked(Py_BuildValue("ssKKiiiO", found.name().c_str(), found.collective().c_str(),
                                 static_cast<unsigned long long>(range.first), static_cast<unsigned long long>(range.second),
                                 static_cast<int>(found.bufferMode()), constraint.worldSize, constraint.nRanksPerNode, tags.get()));
  });
}

/// Makes a call. `arguments`: the communicator in Python with rank, size and ranks per node; addresses and bytes of input and output; type,
/// reduction, stream, blocks, threads, whether memory is symmetric, the type of sums, and a dictionary of extras.
MSCCLPP_EXPORT mscclpp_native_execute(PyObject* capsule, PyObject* arguments) {
  using namespace mscclpp::native;
  return guarded([&] {
    PyObject *host = nullptr, *extras = nullptr;
    int rank = 0, size = 0, per_node = 0, dtype = 0, op = 0, blocks = 0, threads = 0, symmetric = 0, sums = 0;
    unsigned long long input = 0, input_bytes = 0, output = 0, output_bytes = 0, stream = 0;
    if (!PyArg_ParseTuple(arguments, "OiiiKKKKiiKiipiO!", &host, &rank, &size, &per_node, &input, &input_bytes, &output, &output_bytes,
                          &dtype, &op, &stream, &blocks, &threads, &symmetric, &sums, &PyDict_Type, &extras)) {
      throw PythonError::taken();
    }
    std::unordered_map<std::string, std::uintptr_t> pointers;
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(extras, &at, &key, &value);) {
      const char* name = PyUnicode_AsUTF8(key);
      if (name == nullptr) throw PythonError::taken();
      pointers[name] = static_cast<std::uintptr_t>(number(Object::borrowed(value)));
    }
    auto made = std::make_shared<Host>(Host{Object::borrowed(host), rank, size, per_node});
    const mscclpp::CommResult result = algorithm(capsule).execute(
        std::make_shared<mscclpp::Communicator>(std::move(made)), reinterpret_cast<const void*>(input), reinterpret_cast<void*>(output),
        input_bytes, output_bytes, static_cast<mscclpp::DataType>(dtype), static_cast<mscclpp::ReduceOp>(op),
        reinterpret_cast<cudaStream_t>(stream), nullptr, blocks, threads, symmetric != 0, pointers, static_cast<mscclpp::DataType>(sums));
    return checked(PyLong_FromLong(static_cast<long>(result)));
  });
}

/// Sets the smallest and the largest message.
MSCCLPP_EXPORT mscclpp_native_set_range(PyObject* capsule, PyObject* range) {
  using namespace mscclpp::native;
  return guarded([&] {
    unsigned long long least = 0, most = 0;
    if (!PyArg_ParseTuple(range, "KK", &least, &most)) throw PythonError::taken();
    algorithm(capsule).setMessageSizeRange(least, most);
    return none();
  });
}

/// Drops the contexts.
MSCCLPP_EXPORT mscclpp_native_reset(PyObject* capsule) {
  using namespace mscclpp::native;
  return guarded([&] {
    algorithm(capsule).reset();
    return none();
  });
}

#undef MSCCLPP_EXPORT
