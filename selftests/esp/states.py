# SPDX-License-Identifier: GPL-2.0
"""IPsec states over netlink: made, and read, without another process.

A test of a hundred cases makes a hundred states, and in an emulated machine a process costs more
than all else of a case.
"""

import struct

from net import *
from xfrm import *
from xfrm import _address

NEWSA, DELSA, GETSA, FLUSHSA = 0x10, 0x11, 0x12, 0x1C
MODES = {"transport": 0, "tunnel": 1, "beet": 4}
ALG_AUTH, ALG_CRYPT, ENCAP, REPLAY_VAL, REPLAY_THRESH, ETIMER_THRESH = 1, 2, 4, 10, 11, 12
ALG_AEAD, MARK, REPLAY_ESN_VAL, OFFLOAD_DEV, SET_MARK, SET_MARK_MASK, IF_ID = (
    18, 21, 23, 28, 29, 30, 31)
FLAG_AF_UNSPEC, FLAG_ESN = 32, 128
OFFLOAD_INBOUND = 2
ESPINUDP = 2


def _algorithm(name, key=b"", icv=None):
    head = name.encode().ljust(64, b"\0") + struct.pack("=I", len(key) * 8)
    return head + (struct.pack("=I", icv * 8) if icv is not None else b"") + key


# Attributes, and how many bytes of each packet they take: IV, ICV
GCM = (attribute(ALG_AEAD, _algorithm("rfc4106(gcm(aes))", bytes(range(20)), 16)), 8, 16)
NULL = (attribute(ALG_CRYPT, _algorithm("ecb(cipher_null)")) +
        attribute(ALG_AUTH, _algorithm("digest_null")), 0, 0)
CBC = (attribute(ALG_CRYPT, _algorithm("cbc(aes)", bytes(16))) +
       attribute(ALG_AUTH, _algorithm("hmac(sha1)", bytes(20))), 16, 12)


class States(Policies):
    """The states (and policies) of a namespace."""

    def make(self, src, dst, spi, mode="transport", algorithm=GCM, window=32, seq=0, seq_hi=0,
             oseq=0, oseq_hi=0, esn=False, encap=None, sel=None, reqid=1, dev=None, inbound=True,
             limits=(INFINITE,) * 4, times=(0,) * 4, output_mark=None, mark=None, if_id=0,
             unspec=False, extra=b"", kind=NEWSA):
        """A message that adds a state. limits: soft and hard, bytes, then packets; times: soft and
        hard seconds since it was added, then since it was first used; dev: the number of a device
        to give it to; encap: both ports."""
        flags = (FLAG_ESN if esn else 0) | (FLAG_AF_UNSPEC if unspec else 0)
        bitmap = esn or window > 32
        data = sel or bytes(56)
        data += struct.pack("=16s4sBxxx16s8Q", _address(dst), struct.pack("!I", spi), 50,
                            _address(src), *limits, *times)
        data += bytes(32 + 12) + struct.pack("=IIHBBBxxxxxxx", 0, reqid, family(dst), MODES[mode],
                                             0 if bitmap else window, flags)
        data += algorithm[0] + extra
        if bitmap:
            words = (window + 31) // 32
            data += attribute(REPLAY_ESN_VAL, struct.pack("=6I", words, oseq, seq, oseq_hi, seq_hi,
                                                          window) + bytes(4 * words))
        elif seq or oseq:
            data += attribute(REPLAY_VAL, struct.pack("=3I", oseq, seq, 0))
        if encap:
            data += attribute(ENCAP, struct.pack("=H2s2sxx16s", ESPINUDP,
                                                 *(struct.pack("!H", port) for port in encap),
                                                 bytes(16)))
        if dev:
            data += attribute(OFFLOAD_DEV, struct.pack("=iBxxx", dev,
                                                       OFFLOAD_INBOUND if inbound else 0))
        if mark:
            data += attribute(MARK, struct.pack("=II", *mark))
        if output_mark:
            data += attribute(SET_MARK, struct.pack("=I", output_mark))
        if if_id:
            data += attribute(IF_ID, struct.pack("=I", if_id))
        return kind, data

    @staticmethod
    def gone_state(dst, spi):
        return DELSA, struct.pack("=16s4sHBx", _address(dst), struct.pack("!I", spi), family(dst),
                                  50)

    FLUSH_STATES = (FLUSHSA, b"\0")

    def get(self, dst, spi):
        """What the kernel says of a state: (the structure, {attribute: bytes}), or None"""
        self.seq += 1
        request = self.gone_state(dst, spi)[1]
        self.nl.send(struct.pack("=IHHII", 16 + len(request), GETSA, NLM_F_REQUEST, self.seq, 0) +
                     request)
        answer = self.nl.recv(65536)
        length, kind = struct.unpack("=IH", answer[:6])
        if kind == NLMSG_ERROR:
            return None
        attributes, at = {}, 16 + 224
        while at + 4 <= length:
            size, kind = struct.unpack("=HH", answer[at:at + 4])
            attributes[kind] = answer[at + 4:at + size]
            at += (size + 3) & ~3
        return answer[16:16 + 224], attributes

    def figures(self, dst, spi):
        """Packets, bytes, position and bits of the window, and what it refused as late, as seen,
        and as not authentic"""
        got = self.get(dst, spi)
        if got is None:
            return "no state"
        info, attributes = got
        size, packets = struct.unpack("=2Q", info[160:176])
        late, seen, failed = struct.unpack("=3I", info[192:204])
        if REPLAY_ESN_VAL in attributes:
            data = attributes[REPLAY_ESN_VAL]
            words, _, seq, _, seq_hi, _ = struct.unpack("=6I", data[:24])
            bits = struct.unpack(f"={words}I", data[24:24 + 4 * words])
            window = f"{seq_hi:x}.{seq:x}:" + " ".join(f"{word:08x}" for word in bits)
        elif REPLAY_VAL in attributes:
            _, seq, bits = struct.unpack("=3I", attributes[REPLAY_VAL])
            window = f"{seq:x}:{bits:08x}"
        else:
            window = "none"
        return f"{packets} packets {size} bytes @{window} {late}/{seen}/{failed}"
