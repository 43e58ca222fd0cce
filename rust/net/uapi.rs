// SPDX-License-Identifier: GPL-2.0

//! Numbers that user space and the kernel agreed on, under their C names.

/// The `socket` expression.
///
/// C header: [`include/uapi/linux/netfilter/nf_tables.h`](srctree/include/uapi/linux/netfilter/nf_tables.h)
#[allow(missing_docs)] // They are documented in the C header.
pub mod nft_socket {
    use nf_bindings as bindings;

    pub const NFT_REG32_MAX: u32 = bindings::nft_registers___NFT_REG_MAX - 1;

    pub const NFTA_SOCKET_KEY: u32 = bindings::nft_socket_attributes_NFTA_SOCKET_KEY;
    pub const NFTA_SOCKET_DREG: u32 = bindings::nft_socket_attributes_NFTA_SOCKET_DREG;
    pub const NFTA_SOCKET_LEVEL: u32 = bindings::nft_socket_attributes_NFTA_SOCKET_LEVEL;

    pub const NFT_SOCKET_TRANSPARENT: u32 = bindings::nft_socket_keys_NFT_SOCKET_TRANSPARENT;
    pub const NFT_SOCKET_MARK: u32 = bindings::nft_socket_keys_NFT_SOCKET_MARK;
    pub const NFT_SOCKET_WILDCARD: u32 = bindings::nft_socket_keys_NFT_SOCKET_WILDCARD;
    pub const NFT_SOCKET_CGROUPV2: u32 = bindings::nft_socket_keys_NFT_SOCKET_CGROUPV2;
}
