#!/usr/bin/python3
"""Make tests/data/protocol.vectors: bytes to hold an implementation of docs/protocol.md against.

    python3 tests/second/vectors.py > tests/data/protocol.vectors

Written from that page; it shares nothing with the program. Needs Debian's python3-nacl; the tests
need only the file, and hold the program against it (tests/node/test_vectors.c). A line is a
name, a space and bytes in hexadecimal; numbers are eight bytes, big-endian; "#" begins a comment.
"""
import base64
import struct

from nacl import bindings

from wire import NONE, Key, blake, derive, mix, pack, prefix, signed

BOOT = 1 << 32


def bits(value):
    """A double travels as the unsigned of its bits."""
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def philox(key, low, high):
    """The first word of Philox4x32-10."""
    most = (1 << 32) - 1
    x = [low & most, low >> 32, high & most, high >> 32]
    k = [key & most, key >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [q >> 32 ^ x[1] ^ k[0], q & most, p >> 32 ^ x[3] ^ k[1], p & most]
        k = [(k[0] + 0x9E3779B9) & most, (k[1] + 0xBB67AE85) & most]
    return x[0]


def permute(seed, turn, count, index):
    half = 1
    while 4 ** half < count:
        half += 1
    while True:
        left, right = divmod(index, 2 ** half)
        for number in range(4):
            word = philox(seed, right, turn ^ number << 56)
            left, right = right, left ^ word % 2 ** half
        index = left * 2 ** half + right
        if index < count:
            return index


def say(name, data):
    if isinstance(data, int):
        data = data.to_bytes(8, "big")
    print(name, data.hex())
    return data


def header(swarm, epoch, previous, cause, members, voters, body):
    flat = [field for member in sorted(members) for field in (member.id, members[member])]
    return pack([1, swarm, epoch >> 32, epoch, previous, cause, flat,
                 [voter.id for voter in voters], blake(body)])


def link(word, swarm, epoch, head_bytes, term, mask, keys):
    words = pack([word, swarm, epoch >> 32, epoch, term, blake(head_bytes)])
    return words, pack([head_bytes, term, mask, b"".join(key.sign(words) for key in keys)])


a, b, token = Key(bytes([0x0A]) * 32), Key(bytes([0x0B]) * 32), Key(bytes([0x70]) * 32)
secret, next_secret = bytes([0x5E]) * 32, bytes([0x5F]) * 32
admission, next_admission = Key(derive(secret, 3)), Key(derive(next_secret, 3))


def admit(swarm, node):
    return admission.sign(b"admit-1\0" + swarm + node.id)


def record(swarm, node, name, epoch, links):
    return signed(node, b"rec1", swarm, pack([
        node.id, BOOT, 3, False, name, "zone-" + name, "127.0.0.1:7700", "cpu", 2, 1 << 33, epoch,
        0, 1, 0, admit(swarm, node), links]))


def began(has_data):
    return [True, -1, [0, 0], False, False, [0, 0], 0, 0, has_data, []]


def report(swarm, node, its_record, term, epoch, job=NONE, progress=None, profile=None):
    return signed(node, b"report1\0", swarm, pack([
        node.id, term, epoch, job, its_record, progress or began(False),
        profile or [1000000, []], False]))


def policy(requests=(), version=1, before=NONE, key=admission):
    return [version, key.id, before, 0, [], [], [], [], list(requests)]


def view(its_policy, reports=(), state=0, job=b"", submitter=NONE, ended="", plan=()):
    return pack([2, state, job, submitter, 0, ended, its_policy, list(reports), [], list(plan)])


print("# keys of the seeds 32 x 0a (a), 32 x 0b (b), 32 x 70 (token), secret 32 x 5e, next 32 x 5f")
for name, key in (("a", a), ("b", b), ("token", token)):
    say(name + ".id", key.id)
    say(name + ".curve", key.curve)
say("join.public", bindings.crypto_scalarmult_base(derive(secret, 1)))
say("joiner.public", bindings.crypto_scalarmult_base(derive(secret, 2)))
say("admission.id", admission.id)
ephemeral = bytes([0xE0]) * 32
public = bindings.crypto_scalarmult_base(ephemeral)
say("secret.sealed.b", public + bindings.crypto_box(
    secret, blake(public + b.curve, 24), b.curve, ephemeral))

print("# the founding by a, previous 32 x 4e, boot 1")
founding_view = say("founding.view", view(policy()))
founding = say("founding.header", header(NONE, 1, bytes([0x4E]) * 32, 0, {a: BOOT}, [a],
                                         founding_view))
swarm = say("swarm", blake(founding))
words, founding_link = link("accept", swarm, 1, founding, 1, 1, [a])
say("founding.accept", words)
say("founding.link", founding_link)

print("# what gossip says; a's record has one link, from b")
say("a.admission", admit(swarm, a))
its_link = [b.id, 330, 318, 500, 56, 2, 7, 0, 329, 327, 328]
a_record = say("a.record", record(swarm, a, "a", 1, [its_link]))
b_record = say("b.record", record(swarm, b, "b", 1, []))
accused = a.sign(b"acc1" + swarm + b.id + BOOT.to_bytes(8, "big") + b"\x01")
say("a.accuses.b", accused)
say("message", pack([0x1122334455667788, b.id, False, BOOT, 3,
                     [[[a_record], []],
                      [[prefix(b.id), BOOT, 3], [[a.id, 1, admit(swarm, a), accused]]]],
                     [prefix(b.id)]]))
salt = 0x0123456789ABCDEF
word = sum(mix(mix(mix(mix(salt, prefix(node.id)), BOOT), 3), 1) for node in (a, b))
say("digest.hash", pack([salt, 0, False, [word % (1 << 64)], []]))
say("digest.list", pack([salt, 0, True, [0],
                         [[prefix(node.id), BOOT, 3, 1] for node in sorted((a, b))]]))
say("mix", mix(1, 2))
say("weight", mix(((mix(prefix(a.id), 0) + mix(prefix(b.id), 0)) % (1 << 64))
                  ^ mix(prefix(token.id), 0), 0))
print("# sample 3 of 1000 in pass 2 of seed 1 x 2^32 + 5")
say("sample", permute((1 << 32) + 5, 2, 1000, 3))

print("# epoch 2: b joins, in term 1; both have reported")
reports = {node: report(swarm, node, its, 1, 1) for node, its in ((a, a_record), (b, b_record))}
say("a.report", reports[a])
second_view = say("second.view", view(policy(), [reports[node] for node in sorted(reports)]))
members = {a: BOOT, b: BOOT}
second = say("second.header", header(swarm, 2, swarm, 1, members, [a, b], second_view))
words, second_link = link("accept", swarm, 2, second, 1, 1, [a])
say("second.accept", words)
say("second.link", second_link)
say("commit", pack([True, [founding_link, second_link], second_view, b""]))

print("# epoch 3: a run of 2 layers in 2 stages that a and b share; a accepts it in term 2")
job = [NONE, blake(b"data"), 4096, "run", 100, 1, bits(1e-3), bits(0.9), bits(0.95), bits(1e-8),
       bits(0.1), bits(1.0), 10, 20, 200, 3, 2, 4, 64, 32, 256, 16, 2, 0, 4, ["zone-a", "zone-b"],
       b"name: run\n"]
job[0] = blake(pack(job))
job = say("job", pack(job))
job_id = job[5:37]
say("job.id", job_id)
progress = [True, 40, [3, 77], True, True, [3, 77], bits(1.5), 99, True,
            [[1, 40, [3, 77], 0, 2, 99], [3, 20, [3, 77], 0, 4, 98]]]
profile = [1100000, [[1, 10, 20, 5, 11, 21, 6, 12, 22, 7], [4, 40, 80, 5, 41, 81, 6, 42, 82, 7]]]
say("report.run", report(swarm, a, a_record, 2, 2, job_id, progress, profile))
computing = [report(swarm, node, its, 2, 2, job_id, began(True), profile)
             for node, its in sorted(((a, a_record), (b, b_record)))]
numbers = [sorted(members).index(node) for node in (a, b)]
plan = [4, False, 123456, [4], [[0, 2, [numbers[0]]], [2, 2, [numbers[1]]]]]
third_view = say("third.view", view(policy(), computing, 1, job, a.id, "", [plan]))
third = say("third.header", header(swarm, 3, blake(second), 5, members, [a, b], third_view))
say("second.hash", blake(second))
say("third.hash", blake(third))
decree = say("third.decree", pack([third, third_view]))
words, _ = link("accept", swarm, 3, third, 2, 1, [a])

print("# bodies of the agreement's frames, in term 2 unless they say otherwise")
say("beat", pack([1, 2, blake(second), NONE]))
say("beat_reply", pack([2, 2]))
say("vote_ask", pack([2, 2, blake(second)]))
say("vote_reply", pack([3, 0, 3, 2, 2, decree]))
say("vote_refused", pack([2, 3, 7, 2, 0, b""]))
say("propose", pack([2, True, decree]))
say("accept", pack([2, 3, blake(third), a.sign(words)]))
say("reject", pack([2, 3, blake(third), 6, 2, 2, "its voters do not follow"]))
say("fetch", pack([2]))

print("# frames from a to b: the beat on a connection of their own; a sign of life, carried")
say("frame.direct", pack([2, swarm, 16, a.id, b.id, 7, pack([1, 2, blake(second), NONE]), b""]))
carried = pack([2, swarm, 65, a.id, b.id, BOOT + 1, pack([False]), bytes(64)])[:-66]
say("frame.carried", carried + pack(a.sign(carried)))

print("# policy: a replaces the secret by the next one, which is seen in the view of epoch 3")
ask = [a.id, 1, 1, NONE, next_admission.id, NONE, 0, 0, False, 0, [], bytes(64)]
rotate = say("rotate", signed(a, b"policy1\0", swarm, pack(ask)))
say("rotated.view", view(policy([rotate], 2, admission.id, next_admission), computing))

print("# joining: b by the secret, and by the invite of the token")
address = "127.0.0.1:7710"
asks = b.sign(b"join1\0" + NONE + b.id + address.encode())
say("join.request", pack([2, NONE, b.id, address, asks]))
asks = b.sign(b"join1\0" + swarm + b.id + address.encode())
proof = token.sign(b"invite1\0" + swarm + token.id + b.id)
say("join.invited", pack([2, swarm, b.id, address, asks, token.id, proof]))
text = pack([["127.0.0.1:7700"], bindings.crypto_scalarmult_base(derive(secret, 1)), swarm,
             bytes([0x70]) * 32])
text = base64.b32encode(text + blake(text)[:4]).decode().lower().rstrip("=")
say("invite", ("swarm1:" + text).encode())

print("# b, which joined with epoch 2, recovers alone: generation 1, term 2")
recovered = (1 << 32) + 3
lone_view = view(policy(), (), 0, b"", NONE, "")
lone = say("recovery.header", header(swarm, recovered, blake(second), 8, {b: BOOT}, [b], lone_view))
words, root = link("recover", swarm, recovered, lone, 2, 1, [admission])
say("recovery.signs", words)
say("recovery.link", root)
say("recovery.commit", pack([True, [root], lone_view, root]))

print("# agree.state of a, which promised b term 3 and accepted the third decree in term 2")


def state(node, numbers, sections):
    told = [pack([node.id, swarm] + numbers)] + sections
    told = b"".join(len(part).to_bytes(8, "little") + part for part in told)
    return b"flagree2" + blake(told) + told


say("a.state", state(a, [3, b.id, 0, 2, 2],
                     [founding_link, second_link, pack([second, second_view]), decree, b""]))
say("b.state", state(b, [2, NONE, 0, 0, 1], [root, pack([lone, lone_view]), b"", root]))

print("# the header of a data chunk: 5 of 9 bytes, at 4, of message 6, channel 3 (reduce), follows")
say("chunk", struct.pack("<4sBBBBIIQQQQQQ", b"FLCK", 1, 1, 3, 2, 1, 5, recovered,
                         prefix(blake(lone)), 40, 9, 4, 6) + b"hello")
