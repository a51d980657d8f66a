//! Functions that the verifier checks by themselves.
//!
//! The verifier follows a call of an ordinary function with all that it knows at that moment, once for each way that leads
//! there. A *global function*, whose symbol is visible, it checks once, for all values of its arguments (Linux 5.6,
//! `Documentation/bpf/verifier.rst`), and of its result it knows the type alone. So the work of the verifier is the sum of
//! these functions, and no longer their product.
//!
//! Such a function takes the packet, pointers to types of known size, and numbers, five at most; it returns a number. A
//! pointer may be null for all that the verifier knows, so it is looked at first. What is behind a pointer is all bytes:
//! references in it cannot be followed, and on Linux 6.1 a value on the stack must have no padding.

use sluice_bpf_abi::{Counter, Hook};

/// A parameter of a global function.
pub trait Argument: Sized {
    /// The type of the register that carries it.
    type Raw;

    /// The register's content for this value.
    fn raw(self) -> Self::Raw;

    /// The value of a register; `None` for a null pointer.
    ///
    /// # Safety
    ///
    /// The value is that of [`Self::raw`], and is used during the call alone.
    unsafe fn of(raw: Self::Raw) -> Option<Self>;
}

impl<T> Argument for &T {
    type Raw = *const T;

    #[inline(always)]
    fn raw(self) -> Self::Raw {
        self
    }

    #[inline(always)]
    unsafe fn of(raw: Self::Raw) -> Option<Self> {
        // SAFETY: as the caller says.
        unsafe { raw.as_ref() }
    }
}

impl<T> Argument for &mut T {
    type Raw = *mut T;

    #[inline(always)]
    fn raw(self) -> Self::Raw {
        self
    }

    #[inline(always)]
    unsafe fn of(raw: Self::Raw) -> Option<Self> {
        // SAFETY: as the caller says.
        unsafe { raw.as_mut() }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            type Raw = Self;

            #[inline(always)]
            fn raw(self) -> Self::Raw {
                self
            }

            #[inline(always)]
            unsafe fn of(raw: Self::Raw) -> Option<Self> {
                Some(raw)
            }
        }
    )*};
}
numbers!(u32, u64, Hook, Counter);

/// Declares a global function whose body is an ordinary one. `else`: what it returns for a null pointer, which nobody
/// passes.
macro_rules! global {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident(ctx $(, $arg:ident: $type:ty)*) -> $result:ty = $body:ident else $none:expr
    ) => {
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name(ctx: &aya_ebpf::programs::TcContext $(, $arg: $type)*) -> $result {
            #[unsafe(no_mangle)]
            #[inline(never)]
            unsafe fn $name(
                skb: *mut aya_ebpf::bindings::__sk_buff
                $(, $arg: <$type as $crate::global::Argument>::Raw)*
            ) -> $result {
                let ctx = aya_ebpf::programs::TcContext::new(skb);
                $(
                    // SAFETY: the one caller is below.
                    let Some($arg) = (unsafe { $crate::global::Argument::of($arg) }) else {
                        return $none;
                    };
                )*
                $body(&ctx $(, $arg)*)
            }
            // SAFETY: the arguments are used during the call alone.
            unsafe { $name(ctx.skb.skb $(, $crate::global::Argument::raw($arg))*) }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty = $body:ident else $none:expr
    ) => {
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name($($arg: $type),*) -> $result {
            #[unsafe(no_mangle)]
            #[inline(never)]
            unsafe fn $name($($arg: <$type as $crate::global::Argument>::Raw),*) -> $result {
                $(
                    // SAFETY: the one caller is below.
                    let Some($arg) = (unsafe { $crate::global::Argument::of($arg) }) else {
                        return $none;
                    };
                )*
                $body($($arg),*)
            }
            // SAFETY: the arguments are used during the call alone.
            unsafe { $name($($crate::global::Argument::raw($arg)),*) }
        }
    };
}
pub(crate) use global;
