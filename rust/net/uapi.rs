// SPDX-License-Identifier: GPL-2.0

//! Numbers that user space and the kernel agreed on, under their C names.

/// The `socket` expression.
///
/// C header: [`uapi/linux/netfilter/nf_tables.h`](srctree/include/uapi/linux/netfilter/nf_tables.h)
#[allow(missing_docs)] // They are documented in the C header.
pub mod nft_socket {
    use nf_bindings as bindings;

    pub const NFT_REG32_MAX: u32 = bindings::nft_registers_NFT_REG32_15;

    pub const NFTA_SOCKET_KEY: u32 = bindings::nft_socket_attributes_NFTA_SOCKET_KEY;
    pub const NFTA_SOCKET_DREG: u32 = bindings::nft_socket_attributes_NFTA_SOCKET_DREG;
    pub const NFTA_SOCKET_LEVEL: u32 = bindings::nft_socket_attributes_NFTA_SOCKET_LEVEL;

    pub const NFT_SOCKET_TRANSPARENT: u32 = bindings::nft_socket_keys_NFT_SOCKET_TRANSPARENT;
    pub const NFT_SOCKET_MARK: u32 = bindings::nft_socket_keys_NFT_SOCKET_MARK;
    pub const NFT_SOCKET_WILDCARD: u32 = bindings::nft_socket_keys_NFT_SOCKET_WILDCARD;
    pub const NFT_SOCKET_CGROUPV2: u32 = bindings::nft_socket_keys_NFT_SOCKET_CGROUPV2;
}

/// The `numgen` expression.
///
/// C header: [`uapi/linux/netfilter/nf_tables.h`](srctree/include/uapi/linux/netfilter/nf_tables.h)
#[allow(missing_docs)] // They are documented in the C header.
pub mod nft_numgen {
    use nf_bindings as bindings;

    pub use super::nft_socket::NFT_REG32_MAX;

    pub const NFTA_NG_DREG: u32 = bindings::nft_ng_attributes_NFTA_NG_DREG;
    pub const NFTA_NG_MODULUS: u32 = bindings::nft_ng_attributes_NFTA_NG_MODULUS;
    pub const NFTA_NG_TYPE: u32 = bindings::nft_ng_attributes_NFTA_NG_TYPE;
    pub const NFTA_NG_OFFSET: u32 = bindings::nft_ng_attributes_NFTA_NG_OFFSET;

    pub const NFT_NG_RANDOM: u32 = bindings::nft_ng_types_NFT_NG_RANDOM;
}
