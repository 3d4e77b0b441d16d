//! Kernels with which PyTorch computes each element of a contiguous result from elements of contiguous tensors, and perhaps a scalar: sums,
//! differences, products, quotients and comparisons. The host executes them, once the stream has reached them.

use std::ffi::c_void;

use super::functor;
use super::host;
use super::numbers::{Number, Type};
use crate::error::{self, Code};

/// What a kernel computes of `a` and `b`, elements of tensors or the functor's scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// `a + alpha * b`.
    Add,
    Multiply,
    Divide,
    /// Whether they have an order, which the functor states.
    Compare,
    /// Whether they are equal, or different.
    Equal,
}

/// Where the functor's scalar is among the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scalar {
    None,
    First,
    Second,
}

/// Names of functors, which their types follow, and of those that they call; what they do, and where they have a scalar.
const FUNCTORS: [(&str, &str, Operation, Scalar); 11] = [
    ("15CUDAFunctor_addI", "", Operation::Add, Scalar::None),
    ("21CUDAFunctorOnSelf_addI", "", Operation::Add, Scalar::Second),
    ("22CUDAFunctorOnOther_addI", "", Operation::Add, Scalar::First),
    ("14CompareFunctorI", "", Operation::Compare, Scalar::None),
    ("13BinaryFunctorI", "10MulFunctorI", Operation::Multiply, Scalar::None),
    ("13AUnaryFunctorI", "10MulFunctorI", Operation::Multiply, Scalar::First),
    ("13BUnaryFunctorI", "10MulFunctorI", Operation::Multiply, Scalar::Second),
    ("13BinaryFunctorI", "10DivFunctorI", Operation::Divide, Scalar::None),
    ("13BinaryFunctorI", "16CompareEqFunctorI", Operation::Equal, Scalar::None),
    ("13AUnaryFunctorI", "16CompareEqFunctorI", Operation::Equal, Scalar::First),
    ("13BUnaryFunctorI", "16CompareEqFunctorI", Operation::Equal, Scalar::Second),
];

/// A kernel that computes elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elementwise {
    of_type: Type,
    scalar_type: Type,
    operation: Operation,
    scalar: Scalar,
}

impl Elementwise {
    /// Returns what the kernel of this name computes, if it is one of these.
    pub(super) fn of(name: &str) -> Option<Self> {
        let text = functor(name)?;
        // Loads and stores that convert, and tensors that are not contiguous.
        if text.contains("WithCast") || text.contains("5arrayIPcLm4E") {
            return None;
        }
        FUNCTORS.iter().find_map(|&(outer, inner, operation, scalar)| {
            let (_, rest) = text.split_once(outer)?;
            let (of_type, rest) = Type::parse(rest)?;
            let tensors = if scalar == Scalar::None { "EESt5arrayIPcLm3EE" } else { "EESt5arrayIPcLm2EE" };
            let is_known = rest.contains(tensors) && (inner.is_empty() == rest.starts_with('E'));
            // Scalars have the type of the functor that is called; sums call none.
            let scalar_type = match inner {
                "" => of_type.scalar(),
                inner => Type::parse(rest.split_once(inner)?.1).map_or(of_type, |(called, _)| called),
            };
            is_known.then_some(Self { of_type, scalar_type, operation, scalar })
        })
    }

    /// Executes the kernel, and waits for the stream.
    ///
    /// # Safety
    /// The arguments must be those of such a kernel: the number of elements, the functor, and the addresses of the tensors.
    pub(super) unsafe fn run(self, arguments: *const *const c_void, stream: usize) -> Result<(), Code> {
        let num_sources = if self.scalar == Scalar::None { 2 } else { 1 };
        // SAFETY: guaranteed by the caller: there are as many addresses, and the functor has these bytes.
        let (count, functor, result, sources) = unsafe {
            let addresses = (*arguments.add(2)).cast::<u64>();
            let sources: Vec<u64> = (1..=num_sources).map(|at| addresses.add(at).read()).collect();
            let functor = std::slice::from_raw_parts((*arguments.add(1)).cast::<u8>(), self.functor_bytes());
            ((*arguments).cast::<i32>().read(), functor.to_vec(), addresses.read(), sources)
        };
        let count = usize::try_from(count).unwrap_or(0);
        if count == 0 {
            return Ok(());
        }
        let read = |address: u64| Ok(self.of_type.read(&host::read(address, count * self.of_type.bytes, stream)?));
        let sources: Vec<Vec<Number>> = sources.into_iter().map(read).collect::<Result<_, Code>>()?;
        let results = self.compute(&functor, &sources)?;
        host::write(result, &results, stream)
    }

    /// Returns the bytes of the functor, which has its scalars after what it is made of: an order, or nothing.
    fn functor_bytes(self) -> usize {
        let scalar = self.scalar_type.bytes;
        match (self.operation, self.scalar) {
            (Operation::Add, Scalar::None) => scalar,
            (Operation::Add, _) | (Operation::Multiply | Operation::Divide, Scalar::First | Scalar::Second) => {
                2 * scalar
            }
            (Operation::Compare | Operation::Equal, Scalar::None) => 4,
            (Operation::Compare | Operation::Equal, _) => scalar.max(4) + scalar,
            (Operation::Multiply | Operation::Divide, Scalar::None) => 0,
        }
    }

    fn compute(self, functor: &[u8], sources: &[Vec<Number>]) -> Result<Vec<u8>, Code> {
        let Self { of_type, scalar_type: scalars, operation, scalar } = self;
        let number = |at: usize| scalars.read(functor.get(at..at + scalars.bytes).unwrap_or_default()).first().copied();
        let order = || functor.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
        // Sums have the scalar first, and then what one operand is multiplied by; other functors have it last.
        let (operand, alpha) = match (operation, scalar) {
            (Operation::Add, Scalar::None) => (None, number(0)),
            (Operation::Add, _) => (number(0), number(scalars.bytes)),
            (_, Scalar::None) => (None, None),
            _ => (number(functor.len() - scalars.bytes), None),
        };
        let pairs = (0..sources[0].len()).map(|at| {
            let own = sources[0][at];
            match (scalar, operand) {
                (Scalar::First, Some(operand)) => (operand, own),
                (Scalar::Second, Some(operand)) => (own, operand),
                _ => (own, sources[1][at]),
            }
        });
        let numbers =
            |combine: &dyn Fn(Number, Number) -> Number| of_type.write(pairs.clone().map(|(a, b)| combine(a, b)));
        let truths =
            |compare: &dyn Fn(Number, Number) -> bool| pairs.clone().map(|(a, b)| u8::from(compare(a, b))).collect();
        Ok(match (operation, order()) {
            (Operation::Add, _) => {
                let alpha = alpha.ok_or(error::NOT_SUPPORTED)?;
                numbers(&|a, b| a.plus(b.times(alpha)))
            }
            (Operation::Multiply, _) => numbers(&Number::times),
            (Operation::Divide, _) if of_type.is_integer() => return Err(error::NOT_SUPPORTED),
            (Operation::Divide, _) => numbers(&|a, b| Number::Float(a.float() / b.float())),
            (Operation::Compare, Some(0)) => truths(&|a, b| a >= b),
            (Operation::Compare, Some(1)) => truths(&|a, b| a > b),
            (Operation::Compare, Some(2)) => truths(&|a, b| a <= b),
            (Operation::Compare, Some(3)) => truths(&|a, b| a < b),
            (Operation::Equal, Some(0)) => truths(&|a, b| a == b),
            (Operation::Equal, Some(1)) => truths(&|a, b| a != b),
            _ => return Err(error::NOT_SUPPORTED),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(functor: &str) -> Option<Elementwise> {
        Elementwise::of(&format!("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_{functor}ELb0EEEviT0_T1_"))
    }

    #[test]
    fn names_are_recognized() {
        let known = [
            ("15CUDAFunctor_addIfEESt5arrayIPcLm3EE", Operation::Add, Scalar::None, 4),
            ("21CUDAFunctorOnSelf_addIN3c104HalfEEESt5arrayIPcLm2EE", Operation::Add, Scalar::Second, 2),
            ("22CUDAFunctorOnOther_addIlEESt5arrayIPcLm2EE", Operation::Add, Scalar::First, 8),
            (
                "13AUnaryFunctorIN3c104HalfES4_S4_NS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EE",
                Operation::Multiply,
                Scalar::First,
                2,
            ),
            (
                "13BinaryFunctorIddbNS0_51_GLOBAL__N__68c48bfe_18_CompareEQKernel_cu_d8008c9616CompareEqFunctorIdEEEESt5arrayIPcLm3EE",
                Operation::Equal,
                Scalar::None,
                8,
            ),
            (
                "50_GLOBAL__N__30bf7ff7_17_CompareKernels_cu_8f1b29aa14CompareFunctorIhEESt5arrayIPcLm3EE",
                Operation::Compare,
                Scalar::None,
                1,
            ),
        ];
        for (name, operation, scalar, bytes) in known {
            let found = of(name).unwrap_or_else(|| panic!("{name} is not known"));
            assert_eq!((found.operation, found.scalar, found.of_type.bytes), (operation, scalar, bytes), "{name}");
        }
        let others = [
            "15CUDAFunctor_addIN3c107complexIfEEEESt5arrayIPcLm3EE",
            "13BinaryFunctorIfffNS0_15binary_internal10MaxFunctorIfEEEESt5arrayIPcLm3EE",
            "13AUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESA_NS0_6memory12LoadWithCastILi1EEE",
        ];
        assert!(others.into_iter().all(|name| of(name).is_none()));
    }

    #[test]
    fn elements_are_computed() {
        let floats = |numbers: [f32; 2]| numbers.map(|number| Number::Float(f64::from(number))).to_vec();
        let run = |name: &str, functor: &[u8], sources: &[Vec<Number>]| {
            of(name).expect("a kernel").compute(functor, sources).expect("results")
        };
        let bytes = |numbers: [f32; 2]| numbers.map(f32::to_ne_bytes).concat();
        let (a, b) = (floats([1.5, -2.0]), floats([2.0, -2.0]));
        let two = [floats([1.5, -2.0]), floats([2.0, -2.0])];
        // `a - b`, `3 * a`, `5 - a`.
        assert_eq!(run("15CUDAFunctor_addIfEESt5arrayIPcLm3EE", &(-1.0_f32).to_ne_bytes(), &two), bytes([-0.5, 0.0]));
        let times = "13AUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm2EE";
        assert_eq!(run(times, &bytes([0.0, 3.0]), std::slice::from_ref(&a)), bytes([4.5, -6.0]));
        let minus = "22CUDAFunctorOnOther_addIfEESt5arrayIPcLm2EE";
        assert_eq!(run(minus, &bytes([5.0, -1.0]), &[a]), bytes([3.5, 7.0]));
        let order = |number: i32| number.to_ne_bytes();
        assert_eq!(run("14CompareFunctorIfEESt5arrayIPcLm3EE", &order(1), &two), [0, 0]);
        assert_eq!(run("14CompareFunctorIfEESt5arrayIPcLm3EE", &order(2), &two), [1, 1]);
        let equal = "13AUnaryFunctorIffbNS0_16CompareEqFunctorIfEEEESt5arrayIPcLm2EE";
        assert_eq!(run(equal, &[order(1), 2.0_f32.to_ne_bytes()].concat(), &[b]), [0, 1]);
    }
}
