//! `dsl!`: declares a function of the authoring API once.

/// The public type of a parameter kind.
macro_rules! parameter {
    (usize) => { usize };
    (i64) => { i64 };
    (BufferKind) => { $crate::types::BufferKind };
    (BlockSync) => { $crate::types::BlockSync };
    (ReduceOp) => { $crate::types::ReduceOp };
    // Named as imported where it is written, so that rustc points there and not here.
    ($($argument:tt)+) => { impl $($argument)+ };
}

/// The type of a parameter in the body.
macro_rules! resolved {
    (usize, $value:ident, $program:expr) => {
        $value
    };
    (i64, $value:ident, $program:expr) => {
        $value
    };
    (BufferKind, $value:ident, $program:expr) => {
        $value
    };
    (BlockSync, $value:ident, $program:expr) => {
        $value
    };
    (ReduceOp, $value:ident, $program:expr) => {
        $value
    };
    ($argument:ident, $value:ident, $program:expr) => {
        $crate::dsl::$argument::resolve($value, $program)
    };
}

/// Converts an untyped value to an argument.
macro_rules! dynamic {
    (usize, $value:expr) => {
        $crate::dsl::args::DynArg($value).usize()
    };
    (i64, $value:expr) => {
        $crate::dsl::args::DynArg($value).i64()
    };
    (BufferKind, $value:expr) => {
        $crate::dsl::registry::enum_argument($value)
    };
    (BlockSync, $value:expr) => {
        $crate::dsl::registry::enum_argument($value)
    };
    (ReduceOp, $value:expr) => {
        $crate::dsl::registry::enum_argument($value)
    };
    ($argument:ident, $value:expr) => {
        $crate::dsl::args::DynArg($value)
    };
}

/// Declares the methods of one type.
///
/// `table NAME` names the registry table; `by value self` or `by ref self` declares the receiver of the methods; `for`
/// lists the types on which the evaluator may call the methods. The body has `this` and the resolved arguments.
macro_rules! dsl {
    (@method [$($receiver:tt)*] $slf:ident [$(#[doc = $doc:literal])* fn $name:ident($this:ident $(, $arg:ident: $kind:tt)*) $(-> $ret:ty)? $(where [$($bound:tt)*])? $body:block]) => {
        $(#[doc = $doc])*
        #[track_caller]
        #[allow(clippy::should_implement_trait, reason = "names of the field")]
        pub fn $name($($receiver)* $(, $arg: parameter!($kind))*) $(-> $ret)? $(where $($bound)*)? {
            let $this = $slf;
            $this.program().mark();
            $(let $arg = resolved!($kind, $arg, $this.program());)*
            $body
        }
    };
    (@methods $receiver:tt $slf:ident $($(#[doc = $doc:literal])* fn $name:ident $params:tt $(-> $ret:ty)? $(where $bound:tt)? $body:block)*) => {
        $(dsl! { @method $receiver $slf [$(#[doc = $doc])* fn $name $params $(-> $ret)? $(where $bound)? $body] })*
    };
    (@table $table:ident [$($dynamic:ty),*] $($(#[doc = $doc:literal])* fn $name:ident $params:tt $(-> $ret:ty)? $(where $bound:tt)? $body:block)*) => {
        dsl! { @each $table [$($dynamic),*] [$( [concat!($($doc, "\n"),*), concat!($(stringify!($ret))?), $name $params] )*] }
    };
    (@each $table:ident [$($dynamic:ty),*] $methods:tt) => {
        pub(super) const $table: &[&[$crate::dsl::registry::Method]] = &[$(dsl!(@type $dynamic, $methods)),*];
    };
    (@type $dynamic:ty, [$($method:tt)*]) => {
        &[$(dsl!(@entry $dynamic, $method)),*]
    };
    (@entry $dynamic:ty, [$doc:expr, $returns:expr, $name:ident ($this:ident $(, $arg:ident: $kind:tt)*)]) => {
        $crate::dsl::registry::Method {
            name: stringify!($name),
            params: &[$($crate::dsl::registry::Param { name: stringify!($arg), kind: $crate::dsl::args::Kind::$kind },)*],
            returns: $returns,
            doc: $doc,
            call: |program, receiver, args| {
                const PARAMS: &[$crate::dsl::registry::Param] =
                    &[$($crate::dsl::registry::Param { name: stringify!($arg), kind: $crate::dsl::args::Kind::$kind },)*];
                $crate::dsl::registry::check_arguments(PARAMS, args)?;
                #[allow(unused_mut, unused_variables, reason = "functions without parameters take none")]
                let mut values = args.iter();
                $(let $arg = values.next().unwrap_or(&$crate::dsl::registry::Value::Unit);)*
                let this = <$dynamic as $crate::dsl::registry::Receiver>::receive(program, receiver)?;
                #[allow(clippy::let_unit_value, clippy::unit_arg, reason = "some functions return nothing")]
                let result = this.$name($(dynamic!($kind, $arg)),*);
                Ok($crate::dsl::registry::IntoValue::into_value(result))
            },
        }
    };
    // A trait for lists of handles. An empty list belongs to no program: its methods return the default and record nothing.
    (table $table:ident; for [$($dynamic:ty),*]; $(#[doc = $about:literal])* trait $trait:ident[$($param:tt),*] for [$element:ty] where [$($bound:tt)*] {
        $($(#[doc = $doc:literal])* fn $name:ident($this:ident $(, $arg:ident: $kind:tt)*) -> $ret:ty $body:block)*
    }) => {
        $(#[doc = $about])*
        pub trait $trait<$($param),*> where $($bound)* {
            $(
                $(#[doc = $doc])*
                #[track_caller]
                fn $name(&self $(, $arg: parameter!($kind))*) -> $ret;
            )*
        }
        impl<$($param),*> $trait<$($param),*> for [$element] where $($bound)* {
            $(
                #[track_caller]
                fn $name(&self $(, $arg: parameter!($kind))*) -> $ret {
                    let Some(first) = self.first() else { return <$ret>::default() };
                    first.program().mark();
                    $(let $arg = resolved!($kind, $arg, first.program());)*
                    let $this = self;
                    $body
                }
            )*
        }
        dsl! { @table $table [$($dynamic),*] $($(#[doc = $doc])* fn $name($this $(, $arg: $kind)*) -> $ret $body)* }
    };
    (table $table:ident; by value $slf:ident; for [$($dynamic:ty),*]; impl[$($generics:tt)*] $target:ty { $($methods:tt)* }) => {
        impl<$($generics)*> $target {
            dsl! { @methods [$slf] $slf $($methods)* }
        }
        dsl! { @table $table [$($dynamic),*] $($methods)* }
    };
    (table $table:ident; by ref $slf:ident; for [$($dynamic:ty),*]; impl[$($generics:tt)*] $target:ty { $($methods:tt)* }) => {
        impl<$($generics)*> $target {
            dsl! { @methods [&$slf] $slf $($methods)* }
        }
        dsl! { @table $table [$($dynamic),*] $($methods)* }
    };
}
