// Exceptions of the host's classes. In Python they are `mscclpp_rs.Error`.
#pragma once

#if !defined(MSCCLPP_DEVICE_COMPILE)

#include <stdexcept>
#include <string>

namespace mscclpp {

enum class ErrorCode { SystemError, InternalError, RemoteError, InvalidUsage, Timeout, Aborted, ExecutorError };

inline std::string errorToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::SystemError:
      return "SystemError";
    case ErrorCode::InternalError:
      return "InternalError";
    case ErrorCode::RemoteError:
      return "RemoteError";
    case ErrorCode::InvalidUsage:
      return "InvalidUsage";
    case ErrorCode::Timeout:
      return "Timeout";
    case ErrorCode::Aborted:
      return "Aborted";
    case ErrorCode::ExecutorError:
      return "ExecutorError";
  }
  return "UnknownError";
}

class BaseError : public std::runtime_error {
 public:
  BaseError(const std::string& message, int errorCode) : std::runtime_error(message), errorCode_(errorCode) {}
  int getErrorCode() const { return errorCode_; }

 private:
  int errorCode_;
};

class Error : public BaseError {
 public:
  Error(const std::string& message, ErrorCode errorCode)
      : BaseError(message + " (" + errorToString(errorCode) + ")", static_cast<int>(errorCode)) {}
  ErrorCode getErrorCode() const { return static_cast<ErrorCode>(BaseError::getErrorCode()); }
};

class SysError : public BaseError {
 public:
  using BaseError::BaseError;
};

class CudaError : public BaseError {
 public:
  CudaError(const std::string& message, int errorCode);
};

class CuError : public BaseError {
 public:
  using BaseError::BaseError;
};

}  // namespace mscclpp

#include <cuda_runtime.h>

namespace mscclpp {

inline CudaError::CudaError(const std::string& message, int errorCode)
    : BaseError(message + " (" + cudaGetErrorString(static_cast<cudaError_t>(errorCode)) + ", " + std::to_string(errorCode) + ")",
                errorCode) {}

}  // namespace mscclpp

#endif
