#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A transparent proxy for tproxy.nft: passes on TCP (port 50080) and UDP (port 50053).

usage: tproxy.py [TAG]

For each session there are two sockets with addresses that are not this machine's: towards the
client one with the server's address, towards the server one with the client's. IP_TRANSPARENT
allows that. The rule "socket transparent 1" finds them, so that packets for them get here.

Each session is a line on standard output. TAG is put before what servers answer, to show that
it came this way. Needs CAP_NET_ADMIN.
"""

import select
import socket
import struct
import sys
import threading

TCP_PORT, UDP_PORT = 50080, 50053
IP_RECVORIGDSTADDR, IPV6_RECVORIGDSTADDR = 20, 74  # python has no names for these
ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
TAG = sys.argv[1].encode() + b" " if len(sys.argv) > 1 else b""


def transparent(family, kind, address, peer=None):
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, 75, 1)    # IPV6_TRANSPARENT
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    else:
        s.setsockopt(socket.IPPROTO_IP, 19, 1)      # IP_TRANSPARENT
    s.bind(address)
    if peer:
        s.connect(peer)
    return s


def tell(protocol, client, server):
    print(f"{protocol}: {client[0]} port {client[1]} to {server[0]} port {server[1]}", flush=True)


# TCP: the accepted socket has the address that the client meant to speak to.

def pump(source, target, tag=b""):
    while data := source.recv(65536):
        target.sendall(tag + data)
        tag = b""
    target.shutdown(socket.SHUT_WR)


def tcp_session(downstream, client):
    server = downstream.getsockname()
    tell("TCP", client, server)
    with downstream, transparent(downstream.family, socket.SOCK_STREAM, client,
                                 server) as upstream:
        requests = threading.Thread(target=pump, args=(downstream, upstream), daemon=True)
        requests.start()
        pump(upstream, downstream, TAG)
        requests.join()


def tcp(family):
    listener = transparent(family, socket.SOCK_STREAM, (ANY[family], TCP_PORT))
    listener.listen()
    while True:
        threading.Thread(target=tcp_session, args=listener.accept(), daemon=True).start()


# UDP: of a new session the first packet comes to the socket that is bound to no address, with
# the destination in a control message. The others come to the socket made for the session.

def original_destination(family, control):
    for _, kind, data in control:
        if family == socket.AF_INET6 and kind == IPV6_RECVORIGDSTADDR:
            port, address = struct.unpack_from("!H4x16s", data, 2)
            return socket.inet_ntop(family, address), port
        if family == socket.AF_INET and kind == IP_RECVORIGDSTADDR:
            port, address = struct.unpack_from("!H4s", data, 2)
            return socket.inet_ntop(family, address), port
    raise ValueError("no original destination")


def udp_session(family, client, server, first):
    tell("UDP", client, server)
    upstream = transparent(family, socket.SOCK_DGRAM, client, server)
    downstream = transparent(family, socket.SOCK_DGRAM, server, client)
    upstream.send(first)
    # Until nothing was said for half a minute.
    while ready := select.select((upstream, downstream), (), (), 30)[0]:
        for source in ready:
            data = source.recv(65536)
            if source is upstream:
                downstream.send(TAG + data)
            else:
                upstream.send(data)
    upstream.close()
    downstream.close()


def udp(family):
    new = transparent(family, socket.SOCK_DGRAM, (ANY[family], UDP_PORT))
    if family == socket.AF_INET6:
        new.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 1)
    else:
        new.setsockopt(socket.IPPROTO_IP, IP_RECVORIGDSTADDR, 1)
    while True:
        data, control, _, client = new.recvmsg(65536, 256)
        server = original_destination(family, control)
        threading.Thread(target=udp_session, args=(family, client[:2], server, data),
                         daemon=True).start()


def main():
    for family in ANY:
        for serve in tcp, udp:
            threading.Thread(target=serve, args=(family,), daemon=True).start()
    threading.Event().wait()


main()
