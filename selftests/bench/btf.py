# SPDX-License-Identifier: GPL-2.0
"""The kernel's own description of its types (BTF): what is at an offset of a structure."""

import struct

INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT = range(1, 12)
FUNC_PROTO, VAR, DATASEC, DECL_TAG, ENUM64 = 13, 14, 15, 17, 19
EXTRA = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
EACH = {STRUCT: 12, UNION: 12, ENUM: 8, FUNC_PROTO: 8, DATASEC: 12, ENUM64: 12}


class Btf:
    def __init__(self, data, base=None):
        """base: that of vmlinux, for a module's"""
        self.base = base
        _, _, _, head, type_off, type_len, str_off, str_len = struct.unpack_from("=HBBIIIII", data)
        self.strings = data[head + str_off:head + str_off + str_len]
        self.string_base = len(base.strings) if base else 0
        self.data, self.types = data, list(base.types) if base else [None]
        self.structs = dict(base.structs) if base else {}
        at = head + type_off
        end = at + type_len
        while at < end:
            name, info, size = struct.unpack_from("=III", data, at)
            kind, count, by_bits = info >> 24 & 31, info & 0xFFFF, info >> 31
            if kind in (STRUCT, UNION):
                text = self._name(name)
                if text and kind == STRUCT:
                    self.structs.setdefault(text, len(self.types))
            self.types.append((kind, size, self, at + 12, count, by_bits, name))
            at += 12 + EXTRA.get(kind, 0) + EACH.get(kind, 0) * count

    def _name(self, at):
        if self.base and at < self.string_base:
            return self.base._name(at)
        at -= self.string_base
        return self.strings[at:self.strings.index(b"\0", at)].decode()

    def _plain(self, number):
        while self.types[number] and self.types[number][0] in (TYPEDEF, VOLATILE, CONST, RESTRICT):
            number = self.types[number][1]
        return number

    def _size(self, number):
        number = self._plain(number)
        if not self.types[number]:
            return 0
        kind, size, owner, at, *_ = self.types[number]
        if kind == ARRAY:
            element, _, count = struct.unpack_from("=III", owner.data, at)
            return self._size(element) * count
        return 8 if kind == PTR else size

    def _members(self, number):
        _, _, owner, at, count, by_bits, _ = self.types[number]
        for index in range(count):
            name, kind, offset = struct.unpack_from("=III", owner.data, at + 12 * index)
            yield owner._name(name), kind, (offset & 0xFFFFFF if by_bits else offset) // 8

    def offset(self, name, member):
        """That of a member, also in unions and structures without a name; None if there is none."""
        return self._offset(self.structs[name], member)

    def _offset(self, number, member):
        for name, kind, offset in self._members(number):
            if name == member:
                return offset
            kind = self._plain(kind)
            if not name and self.types[kind][0] in (STRUCT, UNION):
                inner = self._offset(kind, member)
                if inner is not None:
                    return offset + inner
        return None

    def member(self, name, offset):
        """What is there, as C names it: 'sk.sk_refcnt'; '' if there is nothing."""
        return ".".join(self._path(self.structs[name], offset))

    def _path(self, number, offset):
        number = self._plain(number)
        if not self.types[number]:
            return []
        if self.types[number][0] == ARRAY:
            _, _, owner, at, *_ = self.types[number]
            element, _, _ = struct.unpack_from("=III", owner.data, at)
            size = self._size(element)
            return self._path(element, offset % size) if size else []
        if self.types[number][0] not in (STRUCT, UNION):
            return []
        for name, kind, begin in self._members(number):
            if begin <= offset < begin + self._size(kind):
                return ([name] if name else []) + self._path(kind, offset - begin)
        return []
