"""Bytes as docs/protocol.md has them (sections 1, 3): encoding, keys, hashes, signatures.

Written from that page; it shares nothing with the program. Needs Debian's python3-nacl.
"""
import hashlib
import struct

from nacl import bindings
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

NONE = bytes(32)
MOST = (1 << 64) - 1
UNSIGNED = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
SIGNED = {0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
BYTES = {0xC4: 1, 0xC5: 2, 0xC6: 4}
TEXT = {0xD9: 1, 0xDA: 2, 0xDB: 4}
ARRAY = {0xDC: 2, 0xDD: 4}


class Refused(Exception):
    """What was received is not what the page allows; nothing changes."""


def need(held, why):
    if not held:
        raise Refused(why)


# ---- encoding (3) ----

def head(size, leads, first=0, limit=0):
    """The shortest head: within the first byte below the limit, else after a lead."""
    if size < limit:
        return bytes([first | size])
    for lead, width in leads.items():
        if size < 1 << 8 * width:
            return bytes([lead]) + size.to_bytes(width, "big")
    raise ValueError(size)


def pack(value):
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int) and value >= 0:
        return head(value, UNSIGNED, 0, 128)
    if isinstance(value, int):
        if value >= -32:
            return struct.pack("b", value)
        for lead, width in SIGNED.items():
            if value >= -(1 << 8 * width - 1):
                return bytes([lead]) + value.to_bytes(width, "big", signed=True)
    if isinstance(value, bytes):
        return head(len(value), BYTES) + value
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogateescape")
        return head(len(text), TEXT, 0xA0, 32) + text
    return head(len(value), ARRAY, 0x90, 16) + b"".join(map(pack, value))


class Reader:
    def __init__(self, data):
        self.data, self.at, self.values = data, 0, 0

    def take(self, count):
        need(self.at + count <= len(self.data), "ends too early")
        self.at += count
        return self.data[self.at - count:self.at]

    def number(self, width, signed=False):
        return int.from_bytes(self.take(width), "big", signed=signed)

    def value(self, depth):
        self.values += 1
        need(depth <= 12 and self.values <= 65536, "too deep, or too many values")
        lead = self.number(1)
        if lead < 0x80 or lead >= 0xE0:
            return lead if lead < 0x80 else lead - 256
        if lead in (0xC2, 0xC3):
            return lead == 0xC3
        if lead in UNSIGNED or lead in SIGNED:
            return self.number((UNSIGNED | SIGNED)[lead], lead in SIGNED)
        if lead in BYTES:
            return self.take(self.number(BYTES[lead]))
        if 0xA0 <= lead < 0xC0 or lead in TEXT:
            text = self.take(lead & 31 if lead < 0xC0 else self.number(TEXT[lead]))
            need(not any(byte < 0x20 or byte == 0x7F for byte in text), "control characters")
            return text.decode("utf-8", "surrogateescape")
        need(0x90 <= lead < 0xA0 or lead in ARRAY, "a type that is not used")
        count = lead & 15 if lead < 0xA0 else self.number(ARRAY[lead])
        need(count <= 4096, "an array that is too long")
        return [self.value(depth + 1) for _ in range(count)]


def unpack(data):
    need(len(data) <= 4 << 20, "too long")
    reader = Reader(data)
    value = reader.value(1)
    need(reader.at == len(data), "something follows")
    need(pack(value) == data, "not in canonical form")
    return value


def is_list(form):
    return isinstance(form, list)


def fits(value, form):
    """Has a value this form? A form is u, i, b, T, B, id, sig or any; a list of forms, one for
    each field; or a tuple (form,) of any number."""
    if form == "any":
        return True
    if isinstance(form, tuple):
        return is_list(value) and all(fits(one, form[0]) for one in value)
    if is_list(form):
        return is_list(value) and len(value) == len(form) and all(map(fits, value, form))
    if form in "ui":
        low, high = (0, MOST) if form == "u" else (-(1 << 63), (1 << 63) - 1)
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    kind, size = {"b": (bool, 0), "T": (str, 0), "B": (bytes, 0), "id": (bytes, 32),
                  "sig": (bytes, 64)}[form]
    return isinstance(value, kind) and (not size or len(value) == size)


def read(data, form):
    value = unpack(data)
    need(fits(value, form), "other fields than the page has")
    return value


# ---- hashes and keys (1) ----

def blake(data, size=32):
    return hashlib.blake2b(data, digest_size=size).digest()


def mix(hashed, value):
    z = (hashed + 0x9E3779B97F4A7C15 + value * 0xD6E8FEB86659FD93) & MOST
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MOST
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MOST
    return z ^ z >> 31


def prefix(identity):
    return int.from_bytes(identity[:8], "big")


def derive(secret, number):
    return hashlib.blake2b(b"", digest_size=32, key=secret, person=b"flotilla" + bytes(8),
                           salt=number.to_bytes(8, "little") + bytes(8)).digest()


def curve_of(identity):
    return bindings.crypto_sign_ed25519_pk_to_curve25519(identity)


class Key:
    """An Ed25519 pair and the same pair mapped to Curve25519."""

    def __init__(self, seed):
        self.key = SigningKey(seed)
        self.id = bytes(self.key.verify_key)
        self.curve = curve_of(self.id)
        self.curve_secret = bindings.crypto_sign_ed25519_sk_to_curve25519(
            bytes(self.key) + self.id)

    def __lt__(self, other):
        return self.id < other.id

    def sign(self, data):
        return self.key.sign(data).signature


def right(signer, data, signature):
    try:
        VerifyKey(signer).verify(data, signature)
        return True
    except (BadSignatureError, ValueError):
        return False


def signed(key, purpose, swarm, body):
    return pack([body, key.sign(purpose + swarm + body)])
