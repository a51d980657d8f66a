"""`name_server.py ADDRESS NAME`: says over DNS that NAME is at ADDRESS, and prints a line for every
connection to port 6443 there."""

import socket
import struct
import sys
import threading

address, name = sys.argv[1], sys.argv[2].rstrip(".")


def answer(query):
    """RFC 1035, section 4: the question again, and one A record for NAME."""
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    question = query[12 : at + 5]
    [kind] = struct.unpack("!H", query[at + 1 : at + 3])
    known = ".".join(labels).lower() == name.lower()
    records = 1 if known and kind == 1 else 0
    flags = 0x8180 if known else 0x8183
    head = query[:2] + struct.pack("!HHHHH", flags, 1, records, 0, 0)
    record = struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(address)
    return head + question + record * records


def names():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        print("ready", flush=True)
        while True:
            query, client = server.recvfrom(512)
            server.sendto(answer(query), client)


with socket.create_server((address, 6443)) as listener:
    threading.Thread(target=names, daemon=True).start()
    while True:
        connection, _ = listener.accept()
        connection.close()
        print("connected", flush=True)
