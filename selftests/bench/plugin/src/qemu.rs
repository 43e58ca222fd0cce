// SPDX-License-Identifier: GPL-2.0

//! The part of QEMU's plugin interface that is used here, safe to call. All `unsafe` code of the
//! plugin is in this file. Pointers are QEMU's own, and used within the callback they came with.

use qemu_plugin_sys as sys;
use std::ffi::{c_char, c_uint, c_void, CStr};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// What QEMU compares with what it offers before it calls [`qemu_plugin_install`].
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: i32 = sys::QEMU_PLUGIN_VERSION as i32;

/// QEMU's entry. Arguments are those of `-plugin file=...,name=value`.
///
/// # Safety
///
/// `argv` holds `argc` strings.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: sys::qemu_plugin_id_t,
    _info: *const c_void,
    argc: i32,
    argv: *const *const c_char,
) -> i32 {
    let mut arguments = Vec::new();
    for number in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: by this function's contract there is such an element.
        let argument = unsafe { *argv.add(number) };
        // SAFETY: and it is a string.
        let argument = unsafe { CStr::from_ptr(argument) };
        arguments.push(argument.to_string_lossy().into_owned());
    }
    if let Err(message) = crate::install(&arguments) {
        eprintln!("contended: {message}");
        return 1;
    }
    // SAFETY: the identity is the one given; the function lives as long as the plugin.
    unsafe { sys::qemu_plugin_register_vcpu_tb_trans_cb(id, Some(translated)) };
    0
}

extern "C" fn translated(_id: sys::qemu_plugin_id_t, tb: *mut sys::qemu_plugin_tb) {
    crate::translated(&TranslationBlock {
        tb,
        _life: PhantomData,
    });
}

/// Instructions that are being translated.
pub struct TranslationBlock<'a> {
    tb: *mut sys::qemu_plugin_tb,
    _life: PhantomData<&'a ()>,
}

impl<'a> TranslationBlock<'a> {
    /// Address of the first instruction.
    pub fn address(&self) -> u64 {
        // SAFETY: the block lives as long as `self`.
        unsafe { sys::qemu_plugin_tb_vaddr(self.tb) }
    }

    pub fn len(&self) -> usize {
        // SAFETY: as above.
        unsafe { sys::qemu_plugin_tb_n_insns(self.tb) }
    }

    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'a>> + '_ {
        (0..self.len()).map(|number| {
            // SAFETY: as above, and there are more instructions than `number`.
            let insn = unsafe { sys::qemu_plugin_tb_get_insn(self.tb, number) };
            Instruction {
                insn,
                _life: PhantomData,
            }
        })
    }

    /// Call [`crate::executed`] with `number`, and how many instructions there are, each time the
    /// block begins while the gate is open.
    pub fn when_executed(&self, gate: &Gate, number: usize) {
        let data = self.len() << NUMBER_BITS | number;
        assert!(data & NUMBER_MASK == number, "too many blocks");
        // SAFETY: as above; the scoreboard is never freed.
        unsafe {
            sys::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                self.tb,
                Some(executed),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_NO_REGS,
                sys::qemu_plugin_cond::QEMU_PLUGIN_COND_NE,
                gate.entry(),
                0,
                data as *mut c_void,
            )
        };
    }
}

/// A block's number, below its length, is what a callback gets.
const NUMBER_BITS: u32 = 48;
const NUMBER_MASK: usize = (1 << NUMBER_BITS) - 1;

extern "C" fn executed(vcpu: c_uint, data: *mut c_void) {
    let data = data as usize;
    crate::executed(
        vcpu as usize,
        data & NUMBER_MASK,
        (data >> NUMBER_BITS) as u64,
    );
}

/// An instruction: where it is, and how many precede it in its block.
#[derive(Clone, Copy)]
pub struct Site {
    pub pc: u64,
    pub index: u64,
}

/// Addresses are of so many bits; the others are the same as the highest one.
const ADDRESS_BITS: u32 = 48;

impl Site {
    /// As what a callback gets. The guest must not have longer addresses (5-level paging).
    fn pack(self) -> *mut c_void {
        let packed = self.pc & ((1 << ADDRESS_BITS) - 1) | self.index << ADDRESS_BITS;
        assert!(Self::unpack(packed).pc == self.pc, "address too long");
        packed as *mut c_void
    }

    fn unpack(packed: u64) -> Self {
        let unused = u64::BITS - ADDRESS_BITS;
        Self {
            pc: ((packed << unused) as i64 >> unused) as u64,
            index: packed >> ADDRESS_BITS,
        }
    }
}

/// One instruction that is being translated.
pub struct Instruction<'a> {
    insn: *mut sys::qemu_plugin_insn,
    _life: PhantomData<&'a ()>,
}

impl Instruction<'_> {
    pub fn address(&self) -> u64 {
        // SAFETY: the instruction lives as long as `self`.
        unsafe { sys::qemu_plugin_insn_vaddr(self.insn) }
    }

    /// Its first eight bytes; zeroes behind its end.
    pub fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        // SAFETY: as above; not more is written than there is room for.
        unsafe {
            sys::qemu_plugin_insn_data(self.insn, bytes.as_mut_ptr().cast::<c_void>(), bytes.len())
        };
        bytes
    }

    /// Call [`crate::marked`] with `what` each time it is executed.
    pub fn when_executed(&self, what: usize) {
        // SAFETY: as above; the function lives as long as the plugin.
        unsafe {
            sys::qemu_plugin_register_vcpu_insn_exec_cb(
                self.insn,
                Some(marked),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_NO_REGS,
                what as *mut c_void,
            )
        };
    }

    /// Call [`crate::written`] each time it writes memory: stores, and atomic operations. So many
    /// instructions precede it in its block.
    pub fn when_it_writes(&self, index: usize) {
        let site = Site {
            pc: self.address(),
            index: index as u64,
        };
        self.on_write(written, site.pack());
    }

    /// Call [`crate::named`] each time it writes memory.
    pub fn when_it_names_a_lock(&self) {
        self.on_write(named, std::ptr::null_mut());
    }

    fn on_write(&self, callback: OnWrite, data: *mut c_void) {
        // SAFETY: As above.
        unsafe {
            sys::qemu_plugin_register_vcpu_mem_cb(
                self.insn,
                Some(callback),
                sys::qemu_plugin_cb_flags::QEMU_PLUGIN_CB_NO_REGS,
                sys::qemu_plugin_mem_rw::QEMU_PLUGIN_MEM_W,
                data,
            )
        };
    }
}

type OnWrite = extern "C" fn(c_uint, sys::qemu_plugin_meminfo_t, u64, *mut c_void);

extern "C" fn marked(vcpu: c_uint, what: *mut c_void) {
    crate::marked(vcpu as usize, what as usize);
}

extern "C" fn written(
    vcpu: c_uint,
    info: sys::qemu_plugin_meminfo_t,
    address: u64,
    site: *mut c_void,
) {
    let access = Access::new(info, address);
    crate::written(vcpu as usize, &access, Site::unpack(site as u64));
}

extern "C" fn named(
    _vcpu: c_uint,
    info: sys::qemu_plugin_meminfo_t,
    address: u64,
    _data: *mut c_void,
) {
    crate::named(&Access::new(info, address));
}

/// A write that is happening.
pub struct Access<'a> {
    info: sys::qemu_plugin_meminfo_t,
    pub address: u64,
    _life: PhantomData<&'a ()>,
}

/// Where a write goes to.
pub enum Place {
    Memory(u64),
    Device,
    Unknown,
}

impl Access<'_> {
    fn new(info: sys::qemu_plugin_meminfo_t, address: u64) -> Self {
        Self {
            info,
            address,
            _life: PhantomData,
        }
    }

    /// What is stored; its lower half if that is more than 64 bits.
    pub fn value(&self) -> u64 {
        // SAFETY: The information is that of the access.
        let value = unsafe { sys::qemu_plugin_mem_get_value(self.info) };
        use sys::qemu_plugin_mem_value_type as kind;
        // SAFETY: The type says which of the union's fields it is, in this and the other lines.
        match value.type_ {
            kind::QEMU_PLUGIN_MEM_VALUE_U8 => unsafe { value.data.u8_ }.into(),
            // SAFETY: As above.
            kind::QEMU_PLUGIN_MEM_VALUE_U16 => unsafe { value.data.u16_ }.into(),
            // SAFETY: As above.
            kind::QEMU_PLUGIN_MEM_VALUE_U32 => unsafe { value.data.u32_ }.into(),
            // SAFETY: As above.
            kind::QEMU_PLUGIN_MEM_VALUE_U64 => unsafe { value.data.u64_ },
            // SAFETY: As above.
            kind::QEMU_PLUGIN_MEM_VALUE_U128 => unsafe { value.data.u128_ }.low,
        }
    }

    /// Bytes that are written.
    pub fn size(&self) -> u64 {
        // SAFETY: the information is that of the access.
        1 << unsafe { sys::qemu_plugin_mem_size_shift(self.info) }
    }

    pub fn place(&self) -> Place {
        // SAFETY: called in the callback of this access only, as there is no other `Access`.
        let place = unsafe { sys::qemu_plugin_get_hwaddr(self.info, self.address) };
        if place.is_null() {
            return Place::Unknown;
        }
        // SAFETY: it is valid until the callback ends.
        if unsafe { sys::qemu_plugin_hwaddr_is_io(place) } {
            return Place::Device;
        }
        // SAFETY: as above.
        Place::Memory(unsafe { sys::qemu_plugin_hwaddr_phys_addr(place) })
    }
}

/// A variable for each vCPU that generated code looks at by itself: whether to call us at all.
pub struct Gate {
    score: *mut sys::qemu_plugin_scoreboard,
}

// SAFETY: QEMU's functions for it may be called on any thread.
unsafe impl Send for Gate {}
// SAFETY: as above; a vCPU that sees a new value a little later counts from a little later on.
unsafe impl Sync for Gate {}

impl Gate {
    /// The one gate, closed at first.
    pub fn get() -> &'static Self {
        static GATE: OnceLock<Gate> = OnceLock::new();
        GATE.get_or_init(|| Self {
            // SAFETY: may be called at any time once the plugin is being installed.
            score: unsafe { sys::qemu_plugin_scoreboard_new(size_of::<u64>()) },
        })
    }

    fn entry(&self) -> sys::qemu_plugin_u64 {
        sys::qemu_plugin_u64 {
            score: self.score,
            offset: 0,
        }
    }

    pub fn set(&self, open: bool) {
        // SAFETY: no arguments.
        let vcpus = unsafe { sys::qemu_plugin_num_vcpus() };
        for vcpu in 0..vcpus.unsigned_abs() {
            // SAFETY: the scoreboard is never freed, and there is such a vCPU.
            unsafe { sys::qemu_plugin_u64_set(self.entry(), vcpu, u64::from(open)) };
        }
    }
}
