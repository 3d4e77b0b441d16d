// Training steps of a network with one hidden layer: x -> relu(x W + b) -> y = h V + c, mean squared error.
// The parameters are one array: W by hidden unit, b, V, c.
#include "dev.h"

struct Step {
  /// `kInputs` values of each sample, and its target.
  const float* inputs;
  const float* targets;
  float* parameters;
  /// Of the hidden units, and of the errors, of each sample.
  float* hidden;
  float* errors;
  /// As many as parameters, then the loss.
  float* gradients;
  uint32_t samples;
  float rate;
};

constexpr uint32_t kInputs = 2, kHidden = 8;
constexpr uint32_t kBias = kInputs * kHidden, kOut = kBias + kHidden, kOutBias = kOut + kHidden, kParameters = kOutBias + 1;

// The threads of all blocks share the work, whatever their number: a simulated block has few.
DEV uint32_t first() { return dev_block() * dev_threads() + dev_thread(); }
DEV uint32_t all_threads() { return dev_blocks() * dev_threads(); }

KERNEL(256) forward(KERNEL_PARAM Step step) {
  for (uint32_t sample = first(); sample < step.samples; sample += all_threads()) {
    const float* x = step.inputs + kInputs * sample;
    const float* p = step.parameters;
    float y = p[kOutBias];
    for (uint32_t unit = 0; unit < kHidden; ++unit) {
      float h = p[kBias + unit];
      for (uint32_t i = 0; i < kInputs; ++i) h += p[kInputs * unit + i] * x[i];
      if (h < 0) h = 0;
      step.hidden[kHidden * sample + unit] = h;
      y += p[kOut + unit] * h;
    }
    step.errors[sample] = y - step.targets[sample];
  }
}

/// Returns the gradient of a parameter, or, after the last one, the loss.
DEV float gradient(const Step& step, uint32_t at) {
  const uint32_t unit = at < kBias ? at / kInputs : at < kOut ? at - kBias : at - kOut;
  float sum = 0;
  for (uint32_t sample = 0; sample < step.samples; ++sample) {
    const float error = step.errors[sample];
    const float h = at < kOutBias ? step.hidden[kHidden * sample + unit] : 0;
    const float through = h > 0 ? 2 * error * step.parameters[kOut + unit % kHidden] : 0;
    if (at == kParameters) sum += error * error;
    else if (at == kOutBias) sum += 2 * error;
    else if (at >= kOut) sum += 2 * error * h;
    else if (at >= kBias) sum += through;
    else sum += through * step.inputs[kInputs * sample + at % kInputs];
  }
  return sum / static_cast<float>(step.samples);
}

KERNEL(256) backward(KERNEL_PARAM Step step) {
  for (uint32_t at = first(); at <= kParameters; at += all_threads()) step.gradients[at] = gradient(step, at);
}

KERNEL(256) update(KERNEL_PARAM Step step) {
  for (uint32_t at = first(); at < kParameters; at += all_threads()) step.parameters[at] -= step.rate * step.gradients[at];
}

// For simulated devices.
SIM_KERNEL(forward, Step)
SIM_KERNEL(backward, Step)
SIM_KERNEL(update, Step)
