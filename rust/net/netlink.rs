// SPDX-License-Identifier: GPL-2.0

//! Netlink attributes: what user space sends, what it may send, and what it gets back.
//!
//! C header: [`include/net/netlink.h`](srctree/include/net/netlink.h)

use core::marker::PhantomData;
use kernel::{
    error::to_result,
    prelude::*, //
};
use logic::byteorder::Be32;
use nf_bindings as bindings;

/// What is accepted for one attribute: `struct nla_policy`.
#[repr(transparent)]
pub struct Policy(bindings::nla_policy);

// SAFETY: Plain data, never written.
unsafe impl Sync for Policy {}

impl Policy {
    /// The attribute is not looked at.
    #[inline]
    pub const fn unspecified() -> Self {
        Self(pin_init::zeroed())
    }

    /// An `__be32` of any value.
    #[inline]
    pub const fn be32() -> Self {
        let mut policy: bindings::nla_policy = pin_init::zeroed();
        policy.type_ = bindings::NLA_U32 as u8;
        Self(policy)
    }

    /// An `__be32` whose value is at most `max`; a larger one is refused with `ERANGE`.
    #[inline]
    pub const fn be32_max(max: u32) -> Self {
        let mut policy: bindings::nla_policy = pin_init::zeroed();
        policy.type_ = bindings::NLA_BE32 as u8;
        policy.validation_type = bindings::nla_policy_validation_NLA_VALIDATE_MAX as u8;
        policy.__bindgen_anon_1.__bindgen_anon_1.max = max as i16;
        assert!(max <= i16::MAX as u32, "the limit is a 16-bit field");
        Self(policy)
    }
}

/// The parsed attributes of a request, by type: the array that C calls `tb`.
///
/// # Invariants
///
/// `tb` points to `len` pointers, each NULL or an attribute that stays valid during `'a`.
pub struct Attrs<'a> {
    tb: *const *const bindings::nlattr,
    len: usize,
    _attrs: PhantomData<&'a bindings::nlattr>,
}

impl Attrs<'_> {
    /// Wraps C's array.
    ///
    /// # Safety
    ///
    /// `tb` must point to `len` pointers, each NULL or an attribute, valid during the lifetime
    /// that is chosen for the result.
    pub(crate) unsafe fn from_raw(tb: *const *const bindings::nlattr, len: usize) -> Self {
        // INVARIANT: By the requirement on this function.
        Self {
            tb,
            len,
            _attrs: PhantomData,
        }
    }

    /// The attribute of type `attr`, or NULL.
    fn raw(&self, attr: u32) -> *const bindings::nlattr {
        let attr = attr as usize;
        if attr >= self.len {
            return core::ptr::null();
        }
        // SAFETY: By the type's invariants there are `len` pointers.
        unsafe { self.tb.wrapping_add(attr).read() }
    }

    /// Whether the attribute was sent.
    pub fn has(&self, attr: u32) -> bool {
        !self.raw(attr).is_null()
    }

    /// The value of a 32-bit attribute in network byte order, in the machine's byte order.
    /// `EINVAL` where it was not sent (or is too short, which a policy excludes before).
    pub fn be32(&self, attr: u32) -> Result<u32> {
        let nla = self.raw(attr);
        if nla.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: Not NULL, so it is an attribute by the type's invariants.
        let len = usize::from(unsafe { (*nla).nla_len });
        if len < size_of::<bindings::nlattr>() + size_of::<u32>() {
            return Err(EINVAL);
        }
        let payload = nla.wrapping_add(1).cast::<u32>();
        // SAFETY: The payload follows the header, and it is long enough.
        let value = unsafe { payload.read_unaligned() };
        Ok(Be32::from_raw(value).to_host())
    }

    /// The attribute itself, for a C function that takes one. `EINVAL` where it was not sent.
    pub(crate) fn required(&self, attr: u32) -> Result<*const bindings::nlattr> {
        let nla = self.raw(attr);
        if nla.is_null() {
            Err(EINVAL)
        } else {
            Ok(nla)
        }
    }
}

/// A message that answers a dump: attributes can be added at its end.
pub struct DumpMessage<'a>(&'a mut bindings::sk_buff);

impl DumpMessage<'_> {
    /// Wraps C's message.
    ///
    /// # Safety
    ///
    /// `skb` must point to a netlink message under construction that nobody else uses during the
    /// lifetime that is chosen for the result.
    pub(crate) unsafe fn from_raw(skb: *mut bindings::sk_buff) -> Self {
        // SAFETY: By the requirement on this function.
        Self(unsafe { &mut *skb })
    }

    /// The pointer for C.
    pub(crate) fn as_raw(&mut self) -> *mut bindings::sk_buff {
        self.0
    }

    /// Adds a 32-bit attribute in network byte order. `EMSGSIZE` where there is no room.
    pub fn put_be32(&mut self, attr: u32, value: u32) -> Result {
        let value = Be32::from_host(value).raw();
        // SAFETY: The message is valid, and the value is as long as said.
        to_result(unsafe {
            bindings::nla_put(
                self.as_raw(),
                attr as i32,
                size_of_val(&value) as i32,
                (&raw const value).cast(),
            )
        })
    }
}
