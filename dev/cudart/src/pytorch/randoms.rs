//! Random numbers of contiguous tensors, for `randn`, `normal_`, `rand` and `uniform_`. They are determined by the generator's seed and
//! offset, as PyTorch's are, but are other ones.

use std::ffi::c_void;

use super::host;
use super::numbers::{Number, Type};
use crate::error::Code;

/// A kernel of random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Randoms {
    of_type: Type,
    /// The type of the distribution's parameters.
    parameters: Type,
    is_normal: bool,
}

impl Randoms {
    /// Returns what the kernel of this name computes, if it is one of these.
    pub(super) fn of(name: &str) -> Option<Self> {
        let text = name.split_once("distribution_elementwise_grid_stride_kernelI")?.1;
        let distribution = |name: &str| text.split_once(name).map(|(_, types)| types);
        let (normal, uniform) = (distribution("20normal_and_transformI"), distribution("21uniform_and_transformI"));
        let (of_type, rest) = Type::parse(normal.or(uniform)?)?;
        let (parameters, _) = Type::parse(rest)?;
        let is_normal = normal.is_some();
        (!of_type.is_integer()).then_some(Self { of_type, parameters, is_normal })
    }

    /// Executes the kernel, and waits for the stream.
    ///
    /// # Safety
    /// The arguments must be those of such a kernel: the number of elements, the generator's state, the distribution, and a functor with
    /// the address, the distance of elements and the parameters.
    pub(super) unsafe fn run(self, arguments: *const *const c_void, stream: usize) -> Result<(), Code> {
        let bytes = self.parameters.bytes;
        // After an address and a number of 4 bytes.
        let begin = 12_usize.next_multiple_of(bytes);
        // SAFETY: guaranteed by the caller.
        let (count, state, address, parameters) = unsafe {
            let functor = (*arguments.add(3)).cast::<u8>();
            (
                (*arguments).cast::<i64>().read(),
                (*arguments.add(1)).cast::<[u64; 2]>().read(),
                functor.cast::<u64>().read(),
                std::slice::from_raw_parts(functor.add(begin), 2 * bytes).to_vec(),
            )
        };
        // A mean and a deviation; or the length of a range, and where it begins, which has the type of elements.
        let last = if self.is_normal { self.parameters } else { self.of_type };
        let number =
            |of: Type, at: usize| of.read(&parameters[at..at + of.bytes]).first().copied().map_or(0.0, Number::float);
        let (first, second) = (number(self.parameters, 0), number(last, bytes));
        let mut generator = Generator(state[0] ^ state[1].rotate_left(32));
        let numbers = (0..count).map(|_| {
            let number = match self.is_normal {
                true => first + second * generator.normal(),
                false => second + first * generator.uniform(),
            };
            Number::Float(number)
        });
        let results = self.of_type.write(numbers);
        if results.is_empty() { Ok(()) } else { host::write(address, &results, stream) }
    }
}

/// SplitMix64.
struct Generator(u64);

impl Generator {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number of 0..1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number of the normal distribution, by the method of Box and Muller.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognized() {
        let name = |of: &str, types: &str| {
            format!(
                "_ZN2at6native43distribution_elementwise_grid_stride_kernelIfLi4EZNS0_{of}I{types}PNS_17CUDAGeneratorImplE"
            )
        };
        let half = Randoms::of(&name("20normal_and_transform", "N3c104HalfEf")).expect("known");
        assert_eq!((half.of_type.bytes, half.parameters.bytes, half.is_normal), (2, 4, true));
        assert!(Randoms::of(&name("21uniform_and_transform", "dd")).is_some_and(|found| !found.is_normal));
        assert!(Randoms::of(&name("21random_from_to_kernel", "ll")).is_none());
    }

    #[test]
    fn normal_numbers_have_their_mean_and_deviation() {
        let mut generator = Generator(7);
        let numbers: Vec<f64> = (0..10_000).map(|_| generator.normal()).collect();
        let mean = numbers.iter().sum::<f64>() / 1e4;
        let square = numbers.iter().map(|number| number * number).sum::<f64>() / 1e4;
        assert!(mean.abs() < 0.05 && (square - 1.0).abs() < 0.05, "{mean} {square}");
    }
}
