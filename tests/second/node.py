#!/usr/bin/python3
"""A node in another language, written from docs/protocol.md: joins a swarm by its secret, gossips,
votes, leads.

    node.py SEED SECRET_FILE BASE_PORT SECONDS

It is what the page is tried with (run.sh): what it cannot do, the page does not have to say well
enough. It has no engine and no planner: it reports no profile, and refuses a view with a job. It
has three ports on 127.0.0.1 and its state in memory. Needs Debian's python3-nacl, python3-zmq.
"""
import os
import random
import statistics
import sys
import time

import zmq
from nacl import bindings
from zmq.utils.monitor import recv_monitor_message

from agreement import Agreement
from wire import (NONE, Key, Refused, curve_of, derive, fits, mix, need, pack, prefix, read, right,
                  signed, unpack)

KINDS = {1: "PING", 2: "PING_REPLY", 3: "PING_RELAY", 4: "RUMORS", 5: "DIGEST", 16: "BEAT",
         17: "BEAT_REPLY", 18: "PREVOTE", 19: "PREVOTE_REPLY", 20: "VOTE", 21: "VOTE_REPLY",
         22: "PROPOSE", 23: "ACCEPT", 24: "REJECT", 25: "COMMIT", 26: "FETCH", 32: "FREEZE",
         33: "REPORT", 34: "EVIDENCE", 35: "SUBMIT", 36: "SUBMIT_REPLY", 37: "PROGRESS",
         38: "LEAVE", 39: "EPOCH_ASK", 40: "EPOCH_REPLY", 48: "PROBE_ASK", 49: "PROBE_ANSWER",
         50: "PROBE_DONE", 51: "MEASURE", 52: "POLICY", 53: "POLICY_REPLY", 54: "SECRET",
         55: "SECRET_ASK", 60: "REACH_ASK", 61: "REACH_REPLY", 62: "CARRY", 63: "CARRIED",
         64: "CARRY_LOST", 65: "HELLO"}
NUMBERS = {name: number for number, name in KINDS.items()}
RUMOR = ["u", "id", "b", "u", "u", (["any", (["id", "u", "sig", "sig"],)],), ("u",)]
FORMS = {"PING": RUMOR, "PING_REPLY": RUMOR, "PING_RELAY": RUMOR, "RUMORS": RUMOR,
         "DIGEST": ["u", "u", "b", ("u",), (["u", "u", "u", "u"],)],
         "FREEZE": ["u", "u", "B", "b"], "REPORT": ["B", "sig"],
         "EVIDENCE": ["id", "u", "u", "T"], "SUBMIT": ["b", "B"], "PROGRESS": ["u", ("u",)],
         "LEAVE": "T", "EPOCH_ASK": ["u", "u"], "PROBE_ASK": ["u", "u", "id"],
         "PROBE_DONE": ["u"], "MEASURE": ["u", ("id",)], "REACH_ASK": ["u", "T"],
         "CARRY": ["id", "B"]}
RECORD = ["id", "u", "u", "b", "T", "T", "T", "T", "u", "u", "u", "u", "u", "u", "sig",
          (["id"] + ["u"] * 10,)]
HOLDING = ["u", "i", ["u", "u"], "i", "i", "u"]
REPORT = ["id", "u", "u", "id", "B",
          ["b", "i", ["u", "u"], "b", "b", ["u", "u"], "u", "u", "b", (HOLDING,)],
          ["i", (["i"] * 10,)], "b"]
VIEW = ["u", "u", "B", "id", "i", "T", ("any",), ("B",), ("id",), ("any",)]
BOOT = 1 << 32
JOIN, LOSS, LEAVE, RETURN = 1, 2, 3, 4


class Peer:
    """A node that a record names: the connection to it, and from it."""

    def __init__(self):
        self.data, self.record = b"", None
        self.dealer, self.monitor, self.up, self.dial_at, self.route = None, None, False, 0, None
        self.sent = {True: 0, False: 0}
        self.word, self.gaps = time.monotonic(), []
        self.refusals, self.refused_at = 0, 0

    def gone(self, now):
        """By a closed connection (9, rule 1) or by silence (rule 3)."""
        refused = self.refusals >= 2 and not self.route and now - self.refused_at >= 0.3
        return refused and now - self.word >= 0.3 or now - self.word > self.deadline()

    def heard(self, now):
        if now - self.word > 0.02:
            self.gaps = (self.gaps + [now - self.word])[-32:]
        self.word = now

    def deadline(self):
        if len(self.gaps) < 4:
            return 3
        median = statistics.median(self.gaps)
        spread = statistics.median(abs(gap - median) for gap in self.gaps)
        return min(max(4 * median + 8 * spread, 1.5), 10)


class Node:
    def __init__(self, seed, secret, port):
        self.key, self.secret, self.port = Key(os.urandom(32)), secret, port
        self.admission = Key(derive(secret, 3))
        self.address, self.incarnation, self.version = "127.0.0.1:%d" % port, BOOT, 0
        self.context, self.peers, self.keys, self.relays = zmq.Context(), {}, {}, {}
        self.zap = self.context.socket(zmq.REP)
        self.zap.bind("inproc://zeromq.zap.01")
        self.bound = {
            "join": self.listen("join", port, derive(secret, 1)),
            "control": self.listen("control", port + 1, self.key.curve_secret),
            "bulk": self.listen("bulk", port + 2, self.key.curve_secret)}
        self.gathering, self.ping_at = None, 0
        self.join(seed)

    def say(self, text):
        print("second", text, flush=True)

    # ---- sockets (2) ----

    def listen(self, domain, port, secret):
        socket = self.context.socket(zmq.ROUTER)
        socket.linger, socket.curve_server, socket.curve_secretkey = 0, True, secret
        socket.curve_publickey = bindings.crypto_scalarmult_base(secret)
        socket.zap_domain = domain.encode()
        socket.setsockopt(93, 1)
        socket.bind("tcp://127.0.0.1:%d" % port)
        return socket

    def dial(self, address, offset, server, secret):
        host, port = address.rsplit(":", 1)
        socket = self.context.socket(zmq.DEALER)
        socket.linger, socket.reconnect_ivl, socket.curve_serverkey = 0, -1, server
        socket.curve_secretkey = secret
        socket.curve_publickey = bindings.crypto_scalarmult_base(secret)
        monitor = socket.get_monitor_socket()
        socket.connect("tcp://%s:%d" % (host, int(port) + offset))
        return socket, monitor

    def admit(self):
        while self.zap.poll(0):
            version, request, _, _, _, mechanism, *key = self.zap.recv_multipart()
            known = self.keys.get(key[0]) if mechanism == b"CURVE" else None
            self.zap.send_multipart([version, request, b"200" if known else b"400", b"",
                                     known.hex().encode() if known else b"", b""])

    def connections(self, now):
        for identity, peer in self.peers.items():
            if not peer.dealer and now >= peer.dial_at:
                peer.dealer, peer.monitor = self.dial(
                    peer.record[6], 1, curve_of(identity), self.key.curve_secret)
                peer.dial_at, peer.sent[True] = now + 5, 0
            while peer.dealer and peer.monitor.poll(0):
                event = recv_monitor_message(peer.monitor)["event"]
                if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                    peer.up, peer.refusals = True, 0
                    self.tell(identity, [self.statement()])
                elif event in (zmq.EVENT_DISCONNECTED, zmq.EVENT_CLOSED,
                               zmq.EVENT_HANDSHAKE_FAILED_AUTH,
                               zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL):
                    self.hang_up(peer, now + 0.1)
            if peer.dealer and not peer.up and now >= peer.dial_at:
                self.hang_up(peer, now)

    def hang_up(self, peer, again):
        peer.dealer.disable_monitor()
        peer.monitor.close()
        peer.dealer.close()
        peer.refused_at = peer.refused_at if peer.refusals else again
        peer.route = None if peer.up else peer.route
        peer.refusals += not peer.up
        peer.dealer, peer.monitor, peer.up, peer.dial_at = None, None, False, again

    def send(self, to, kind, body):
        """A frame by our connection to the peer, else back by the peer's."""
        peer = self.peers.get(to)
        if not peer or not (peer.up or peer.route):
            return
        peer.sent[peer.up] += 1
        frame = pack([2, self.swarm, NUMBERS[kind], self.key.id, to, peer.sent[peer.up], body,
                      b""])
        try:
            if peer.up:
                peer.dealer.send(frame, zmq.NOBLOCK)
            else:
                self.bound["control"].send_multipart([peer.route, frame], zmq.NOBLOCK)
        except zmq.ZMQError:
            pass  # as a lost frame

    # ---- joining (5) ----

    def join(self, seed):
        words = b"join1\0" + NONE + self.key.id + self.address.encode()
        socket, monitor = self.dial(seed, 0, bindings.crypto_scalarmult_base(
            derive(self.secret, 1)), derive(self.secret, 2))
        socket.send(pack([2, NONE, self.key.id, self.address, self.key.sign(words)]))
        need(socket.poll(5000), "the seed does not answer")
        answer = unpack(socket.recv())
        need(answer[0] is True, answer[1])
        need(fits(answer, ["b", "id", "B", ("B",), "B"]), "the seed's answer")
        socket.disable_monitor()
        monitor.close()
        socket.close()
        self.swarm = answer[1]
        self.agree = Agreement(self.key, self.incarnation, [self.admission.id], time.monotonic(),
                               self.judge)
        self.agree.trust(time.monotonic(), answer[2])
        need(self.agree.decree.of() == self.swarm, "a decree of another swarm")
        for record in answer[3]:
            self.take(record)

    # ---- gossip (6) ----

    def record(self):
        self.version += 1
        admission = self.admission.sign(b"admit-1\0" + self.swarm + self.key.id)
        return signed(self.key, b"rec1", self.swarm, pack([
            self.key.id, self.incarnation, self.version, False, "second", "second", self.address,
            "python", 1, 1 << 30, self.agree.decree.epoch, 0, 0, 0, admission, []]))

    def statement(self):
        return [[self.record()], []]

    def open_record(self, data):
        need(len(data) <= 8192, "a record that is too long")
        body, signature = read(data, ["B", "sig"])
        fields = read(body, RECORD)
        need(right(fields[0], b"rec1" + self.swarm + body, signature), "a record's signature")
        need(right(self.admission.id, b"admit-1\0" + self.swarm + fields[0], fields[14]),
             "a record without admission")
        return fields

    def take(self, data):
        fields = self.open_record(data)
        identity, peer = fields[0], self.peers.get(fields[0])
        if identity == self.key.id:
            return
        if not peer:
            peer = self.peers[identity] = Peer()
            self.keys[curve_of(identity)] = identity
        if not peer.record or (peer.record[1:3], peer.data) < (fields[1:3], data):
            peer.record, peer.data = fields, data

    def tell(self, to, statements, asks=(), answered=False, kind="RUMORS", nonce=0, subject=NONE):
        self.send(to, kind, pack([nonce, subject, answered, self.incarnation, self.version,
                                  list(statements), list(asks)]))

    def by_prefix(self, wanted):
        return [peer for identity, peer in self.peers.items() if prefix(identity) == wanted]

    def hear(self, sender, kind, body):
        """The news in a message; what is asked, and what we lack."""
        asks, answers = [], []
        for said, accusations in body[5]:
            if fits(said, ["B"]):
                self.take(said[0])
                fields = self.open_record(said[0])
                about, incarnation, lacking = prefix(fields[0]), fields[1], False
            else:
                about, incarnation, version = read(pack(said), ["u", "u", "u"])
                known = self.by_prefix(about)
                lacking = not known or known[0].record[1:3] < [incarnation, version]
            if about == prefix(self.key.id):
                if accusations and incarnation >= self.incarnation:
                    self.incarnation = incarnation + 1  # refuted
                    for identity in self.peers:
                        self.tell(identity, [self.statement()])
            elif lacking and kind != "RUMORS":
                asks.append(about)
        for wanted in body[6]:
            answers += [[[peer.data], []] for peer in self.by_prefix(wanted)]
            answers += [self.statement()] if wanted == prefix(self.key.id) else []
        if asks or answers:
            self.tell(sender, answers, asks, bool(answers))

    on_RUMORS = hear

    def on_PING(self, sender, kind, body):
        self.hear(sender, kind, body)
        self.tell(sender, [], [], True, "PING_REPLY", body[0], body[1])

    def on_PING_RELAY(self, sender, kind, body):
        self.hear(sender, kind, body)
        nonce = random.getrandbits(63)
        self.relays[nonce] = (sender, body[0])
        self.tell(body[1], [], [], False, "PING", nonce, body[1])

    def on_PING_REPLY(self, sender, kind, body):
        self.hear(sender, kind, body)
        if body[0] in self.relays and body[1] == sender:
            asker, nonce = self.relays.pop(body[0])
            self.tell(asker, [], [], True, "PING_REPLY", nonce, sender)

    def on_DIGEST(self, sender, kind, body):
        salt, bits, lists, words, _ = body
        known = sorted((prefix(one), peer.record[1], peer.record[2], 1)
                       for one, peer in self.peers.items() if self.here(one))
        known = sorted(known + [(prefix(self.key.id), self.incarnation, self.version, 1)])
        need(bits <= 10 and (lists or len(words) == 1 << bits), "a digest")
        if lists:
            return self.tell(sender, [self.statement()], [], True)
        hashes = [0] * (1 << bits)
        for entry in known:
            hashed = salt
            for field in entry:
                hashed = mix(hashed, field)
            hashes[entry[0] >> 64 - bits] += hashed
        wrong = [at for at, word in enumerate(hashes) if word % (1 << 64) != words[at]]
        if wrong:
            told = [list(entry) for entry in known if entry[0] >> 64 - bits in wrong]
            self.send(sender, "DIGEST", pack([salt, bits, True, wrong, told]))

    # ---- other questions ----

    def on_PROBE_ASK(self, sender, kind, body):
        self.send(sender, "PROBE_ANSWER", pack([body[0], 5000]))

    def on_REACH_ASK(self, sender, kind, body):
        self.send(sender, "REACH_REPLY", pack([body[0], body[1], [3, 3, 3]]))

    def on_EPOCH_ASK(self, sender, kind, body):
        self.send(sender, "EPOCH_REPLY", pack([body[0], self.agree.decree.epoch]))

    def on_SUBMIT(self, sender, kind, body):
        self.send(sender, "SUBMIT_REPLY", pack("this leader has no planner"))

    def on_CARRY(self, sender, kind, body):
        self.send(sender, "CARRY_LOST", pack([body[0]]))

    # ---- an epoch (8) ----

    def here(self, identity):
        peer = self.peers.get(identity)
        return bool(peer) and (peer.up or bool(peer.route)) and not peer.gone(time.monotonic())

    def report(self, term):
        nothing = [True, -1, [0, 0], False, False, [0, 0], 0, 0, False, []]
        return signed(self.key, b"report1\0", self.swarm, pack([
            self.key.id, term, self.agree.decree.epoch, NONE, self.record(), nothing,
            [1000000, []], False]))

    def open_report(self, data):
        body, signature = read(data, ["B", "sig"])
        fields = read(body, REPORT)
        need(right(fields[0], b"report1\0" + self.swarm + body, signature), "its signature")
        record = self.open_record(fields[4])
        need(record[0] == fields[0], "another node's record")
        return fields, record

    def on_FREEZE(self, sender, kind, body):
        term, epoch, _, _ = body
        member = self.agree.decree.members.get(self.key.id) is not None
        asks = sender == self.agree.leader and term == self.agree.leader_term if member \
            else sender in self.agree.decree.voters
        if asks and epoch == self.agree.decree.epoch:
            self.send(sender, "REPORT", self.report(term))

    def on_REPORT(self, sender, kind, body):
        fields, _ = self.open_report(pack(body))
        gathering = self.gathering
        if gathering and fields[0] == sender and sender in gathering["asked"] \
                and fields[1:3] == [self.agree.leader_term, self.agree.decree.epoch]:
            gathering["reports"][sender] = pack(body)

    def voters(self, records):
        """Of at most nine members (7)."""
        never = unpack(self.agree.body)[6][6]
        stay = [one[0] for one in records if not one[3] and one[0] not in never]
        kept = [one for one in self.agree.decree.voters if one in stay]
        return kept + [one for one in stay if one not in kept] or self.agree.decree.voters[:1]

    def judge(self, decree, body, adopted):
        """What is wrong with this decree?"""
        try:
            view, before = read(body, VIEW), unpack(self.agree.body)
            need(view[0] == 2, "a view of another version")
            need(len(decree.members) <= 9, "a committee: this node chooses none")
            opened = [self.open_report(report) for report in view[7]]
            need([one[0][0] for one in opened] == list(decree.members), "who reported")
            need(all(decree.members[record[0]] >> 32 == record[1] >> 32
                     for _, record in opened), "a member of another boot")
            need({(one[1], one[2]) for one, _ in opened}
                 == {(opened[0][0][1], self.agree.decree.epoch)}, "reports of another epoch")
            need(decree.voters == self.voters([record for _, record in opened]), "its voters")
            need(view[6][:8] == before[6][:8] and not view[6][8], "a change of the policy")
            need(view[1] == 0 and not view[9], "a job: this node has no planner")
            need(adopted or self.key.id in decree.members, "it leaves this node out")
        except Refused as wrong:
            return str(wrong)
        return ""

    def reason(self):
        """Why there should be a new epoch, and of whom."""
        agree, members = self.agree, self.agree.decree.members
        records = {one: peer.record for one, peer in self.peers.items()}
        gone = {one for one in members if one in self.gone}
        left = {one for one in members if one in records and records[one][3]}
        here = {one for one, record in records.items() if self.here(one) and not record[3]}
        back = {one for one in here & set(members) if records[one][1] >> 32 > members[one] >> 32}
        new = here - set(members)
        former = set(unpack(agree.body)[8])
        cause = (LOSS if gone else LEAVE if left else RETURN if back or new & former else
                 JOIN if new else 0)
        return cause, sorted((set(members) | new) - gone - left | {self.key.id})

    def lead(self, now):
        agree, gathering = self.agree, self.gathering
        if not agree.idle() or gathering and gathering["epoch"] != agree.decree.epoch:
            self.gathering = None
            return
        if not gathering:
            cause, asked = self.reason()
            if not cause or not set(asked) <= {self.key.id} | set(self.peers):
                return
            gathering = self.gathering = {
                "cause": cause, "asked": asked, "began": now, "sent": 0,
                "epoch": agree.decree.epoch,
                "reports": {self.key.id: self.report(agree.leader_term)}}
        if now - gathering["sent"] >= 0.25:
            gathering["sent"] = now
            for one in gathering["asked"]:
                if one not in agree.decree.members:
                    self.send(one, "COMMIT", pack(agree.commit(agree.decree.epoch - 2)))
                if one not in gathering["reports"]:
                    self.send(one, "FREEZE",
                              pack([agree.leader_term, agree.decree.epoch, b"", False]))
        if len(gathering["reports"]) == len(gathering["asked"]) or now - gathering["began"] > 3:
            self.gathering = None
            self.propose(now, gathering)

    def propose(self, now, gathering):
        reports = [gathering["reports"][one] for one in sorted(gathering["reports"])]
        records = [self.open_report(report)[1] for report in reports]
        members = {record[0]: record[1] for record in records}
        old = unpack(self.agree.body)
        need(len(members) <= 9 and old[1] == 0, "too many, or a job is running")
        former = [one for one in old[8] if one not in members]
        former += [one for one in self.agree.decree.members if one not in members]
        body = pack([2, 0, b"", old[3], 0, old[5], old[6][:8] + [[]], reports, former[-64:], []])
        self.agree.propose(now, gathering["cause"], members, self.voters(records), body)

    # ---- the loop ----

    def receive(self, data, way, route=None):
        """A frame; `way`: whose connection it came by, as its end proved."""
        version, swarm, number, sender, to, _, body, signature = read(
            data, ["u", "id", "u", "id", "id", "u", "B", "B"])
        need(version == 2 and swarm == self.swarm and to == self.key.id and sender == way,
             "a frame that is not for us")
        need(not signature or right(sender, data[:-66], signature), "a frame's signature")
        kind, peer = KINDS[number], self.peers.get(sender)
        if peer:
            peer.heard(time.monotonic())
            peer.route = route or peer.route
        if 16 <= number <= 26:
            self.agree.received(kind, sender, body, time.monotonic())
        elif kind in FORMS:
            handler = getattr(self, "on_" + kind, None)
            fields = read(body, FORMS[kind])
            if handler:
                handler(sender, kind, fields)

    def frames(self):
        """What came, with who sent it."""
        for identity, peer in list(self.peers.items()):
            while peer.dealer and peer.dealer.poll(0):
                yield peer.dealer.recv(), identity, None
        while self.bound["control"].poll(0):
            route, data = self.bound["control"].recv_multipart(copy=False)
            yield data.bytes, bytes.fromhex(data.get("User-Id")), route.bytes
        for name in ("join", "bulk"):
            while self.bound[name].poll(0):
                self.bound[name].recv_multipart()

    def turn(self, now):
        self.admit()
        self.connections(now)
        for data, sender, route in self.frames():
            try:
                self.receive(data, sender, route)
            except Refused as wrong:
                self.say("refuses %s" % wrong)
        self.gone = {one for one in self.agree.decree.members
                     if one in self.peers and self.peers[one].gone(now)}
        for one in self.gone:
            self.agree.lost(one, now)
        self.lead(now)
        self.agree.tick(now)
        for to, kind, body in self.agree.out:
            if to:  # a state is durable in memory: this node never comes back
                self.send(to, kind, body)
        for news in self.agree.news:
            self.say(news)
        self.agree.out, self.agree.news = [], []
        if now >= self.ping_at:
            self.ping_at = now + 1
            for identity in self.peers:
                self.tell(identity, [], [], False, "PING", random.getrandbits(63), identity)

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn(time.monotonic())
            time.sleep(0.01)


def main():
    seed, secret, port, seconds = sys.argv[1:]
    with open(secret, encoding="ascii") as file:
        Node(seed, bytes.fromhex(file.read().strip()), int(port)).run(float(seconds))


if __name__ == "__main__":
    main()
