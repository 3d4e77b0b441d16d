// Calls of the Python object that a communicator is. Callers of the host's classes may be any thread.
#pragma once

#include <Python.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace mscclpp {
namespace native {

/// Holds the interpreter's lock.
class Lock {
 public:
  Lock() : state_(PyGILState_Ensure()) {}
  ~Lock() { PyGILState_Release(state_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  PyGILState_STATE state_;
};

/// A reference to a Python object. Copied and destroyed by any thread.
class Object {
 public:
  Object() = default;
  /// Takes a new reference.
  static Object owned(PyObject* object) { return Object(object); }
  /// Takes a reference of another owner.
  static Object borrowed(PyObject* object) {
    Py_XINCREF(object);
    return Object(object);
  }
  Object(const Object& other) : object_(other.object_) {
    if (object_ == nullptr) return;
    Lock lock;
    Py_INCREF(object_);
  }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object other) {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() {
    // After the interpreter has ended, there is nothing to release.
    if (object_ == nullptr || !Py_IsInitialized()) return;
    Lock lock;
    Py_DECREF(object_);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  explicit Object(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

/// An exception of Python, which `restore` raises there again.
class PythonError : public std::runtime_error {
 public:
  /// Takes the exception that is set. The caller holds the lock.
  static PythonError taken() {
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != nullptr && value != nullptr) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return PythonError(Object::owned(value));
  }
  void restore() const {
    PyObject* value = exception_.get();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  }

 private:
  explicit PythonError(Object exception) : std::runtime_error(text(exception.get())), exception_(std::move(exception)) {}
  static std::string text(PyObject* exception) {
    if (exception == nullptr) return "a call of Python has failed";
    const Object text = Object::owned(PyObject_Str(exception));
    const char* utf8 = text.get() == nullptr ? nullptr : PyUnicode_AsUTF8(text.get());
    if (utf8 == nullptr) PyErr_Clear();
    return utf8 == nullptr ? Py_TYPE(exception)->tp_name : utf8;
  }
  Object exception_;
};

/// Returns a new reference, or throws the exception that is set. The caller holds the lock.
inline Object checked(PyObject* object) {
  if (object == nullptr) throw PythonError::taken();
  return Object::owned(object);
}

/// What failures say of a thrown value that has no text.
inline constexpr const char* kNotAnException = "the native algorithm has thrown what is no std::exception";

/// Returns a new text of Python, with U+FFFD in place of bytes that are not UTF-8, or null with an exception set. The caller holds the lock.
inline PyObject* decoded(const char* text) {
  return PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::char_traits<char>::length(text)), "replace");
}

/// Calls a method with arguments in the notation of `Py_BuildValue`. The caller holds the lock.
template <typename... Arguments>
Object call(const Object& on, const char* method, const char* format, Arguments... arguments) {
  return checked(PyObject_CallMethod(on.get(), method, format, arguments...));
}

/// Returns a number. The caller holds the lock.
inline std::uint64_t number(const Object& object) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(object.get());
  if (PyErr_Occurred() != nullptr) throw PythonError::taken();
  return value;
}

/// Copies the bytes of an object, which must be as many as expected. The caller holds the lock.
inline void copy_bytes(const Object& object, void* to, Py_ssize_t expected) {
  char* bytes = nullptr;
  Py_ssize_t found = 0;
  if (PyBytes_AsStringAndSize(object.get(), &bytes, &found) != 0) throw PythonError::taken();
  if (found != expected) {
    throw std::length_error("expected " + std::to_string(expected) + " bytes, found " + std::to_string(found));
  }
  if (expected > 0) std::char_traits<char>::copy(static_cast<char*>(to), bytes, static_cast<size_t>(expected));
}

}  // namespace native
}  // namespace mscclpp
