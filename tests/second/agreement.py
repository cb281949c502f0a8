"""The agreement of docs/protocol.md (7), written from that page: a step machine.

In: received(), tick(), lost(), propose(). Out: `out`, a list of (receiver, kind, body) and of
(None, "PERSIST", state), in order: what follows a state may leave when that is durable.
`judge(decree, body, adopted)` says what is wrong with a decree (empty: nothing). Times are in
seconds.
"""
import random

from wire import NONE, blake, need, pack, read, right

BEAT, SILENCE, REACH, NEVER = 0.4, 2.0, 1 << 20, -1e9
AGAIN, CANDIDACY, PROPOSAL, PAUSE = 0.3, 3.0, 10.0, 0.3
ALIVE, STALE_EPOCH, STALE_TERM, BEHIND, NO_VOTER, WRONG = range(1, 7)
RECOVERY, LINKS = 8, 64
FORMS = {
    "BEAT": ["u", "u", "id", "id"], "BEAT_REPLY": ["u", "u"], "PREVOTE": ["u", "u", "id"],
    "PREVOTE_REPLY": ["u", "u", "u", "u", "u", "B"], "VOTE": ["u", "u", "id"],
    "VOTE_REPLY": ["u", "u", "u", "u", "u", "B"], "PROPOSE": ["u", "b", "B"],
    "ACCEPT": ["u", "u", "id", "sig"], "REJECT": ["u", "u", "id", "u", "u", "u", "T"],
    "COMMIT": ["b", ("B",), "B", "B"], "FETCH": ["u"]}


def quorum(voters, agreeing):
    """Each weighs 1; of an even number the first weighs 2; more than half of the weight."""
    extra = len(voters) % 2 == 0
    weight = sum(voter in agreeing for voter in voters) + (extra and voters[0] in agreeing)
    return 2 * weight > len(voters) + extra


def voters_most(members):
    return members if members <= 9 else 7 if members <= 200 else 9


class Decree:
    """A header."""

    def __init__(self, header):
        self.header, self.hash = header, blake(header)
        (version, self.swarm, self.generation, self.epoch, self.previous, self.cause, flat,
         self.voters, self.body) = read(
             header, ["u", "id", "u", "u", "id", "u", ("any",), ("id",), "id"])
        ids = flat[::2]
        self.members = dict(zip(ids, flat[1::2]))
        founding = self.epoch == 1
        need(version == 1 and self.epoch < 1 << 63 and self.cause <= 9, "header out of range")
        need(len(flat) % 2 == 0 and 2 <= len(flat) <= 2048, "members")
        need(all(isinstance(one, bytes) and len(one) == 32 for one in ids), "members")
        need(all(isinstance(one, int) for one in flat[1::2]), "members")
        need(all(low < high for low, high in zip(ids, ids[1:])) and ids[0] != NONE, "order")
        need(1 <= len(self.voters) <= 9 and len(set(self.voters)) == len(self.voters)
             and set(self.voters) <= set(ids), "voters")
        need(self.generation == self.epoch >> 32 and self.epoch & 0xFFFFFFFF > 0, "generation")
        need(founding == (self.cause == 0) == (self.swarm == NONE), "founding")
        need(self.previous != NONE and (self.cause != RECOVERY or self.generation > 0), "cause")

    def of(self):
        """The swarm's id."""
        return self.swarm if self.swarm != NONE else self.hash

    def words(self, term):
        word = "recover" if self.cause == RECOVERY else "accept"
        return pack([word, self.of(), self.generation, self.epoch, term, self.hash])


def decree_read(data):
    header, body = read(data, ["B", "B"])
    decree = Decree(header)
    need(blake(body) == decree.body, "the body is another one's")
    return decree, body


class Link:
    def __init__(self, data):
        self.data = data
        header, self.term, self.mask, signatures = read(data, ["B", "u", "u", "B"])
        self.decree = Decree(header)
        self.signatures = [signatures[at:at + 64] for at in range(0, len(signatures), 64)]
        need(self.term < 1 << 63 and self.mask < 1 << 9
             and len(signatures) == 64 * bin(self.mask).count("1"), "signatures")

    def follows(self, before):
        """May it come after this decree (None: as the founding)?"""
        decree, voters = self.decree, (before or self.decree).voters
        if before:
            need(decree.epoch == before.epoch + 1 and decree.previous == before.hash
                 and decree.generation == before.generation
                 and decree.swarm == before.of(), "it does not follow")
        else:
            need(decree.epoch == 1 and len(decree.members) == 1, "no founding")
        need(self.mask >> len(voters) == 0, "unknown voters")
        signers = [voter for at, voter in enumerate(voters) if self.mask >> at & 1]
        need(quorum(voters, signers), "no quorum")
        words = decree.words(self.term)
        need(all(right(*one) for one in
                 ((voter, words, sign) for voter, sign in zip(signers, self.signatures))),
             "a signature is wrong")

    def recovers(self, swarm, keys):
        need(self.decree.cause == RECOVERY and self.decree.swarm == swarm and self.mask == 1
             and any(right(key, self.decree.words(self.term), self.signatures[0])
                     for key in keys), "no recovery of this swarm by its secret")


class Agreement:
    def __init__(self, key, incarnation, keys, now, judge):
        self.key, self.id, self.incarnation, self.judge = key, key.id, incarnation, judge
        self.keys = keys                # admission keys whose recoveries count
        self.links, self.body, self.root = [], b"", b""
        self.promised, self.voted, self.amnesia, self.accepted = 0, NONE, 0, None
        self.role, self.leader, self.leader_term, self.previous_leader = "OBSERVER", None, 0, None
        self.seen, self.heard, self.gone, self.leader_gone = 0, {}, set(), False
        self.leader_heard, self.candidacy, self.no_candidate = NEVER, NEVER, NEVER
        self.term, self.granted, self.refused, self.began, self.asked = 0, {}, set(), now, NEVER
        self.open = self.renewing = self.yielded = self.stubborn = False
        self.renew_at, self.beat_at, self.poll_at, self.poll = None, NEVER, now + 1, 0
        self.proposal, self.verdict, self.refusal = None, None, None
        self.behind, self.told, self.out, self.news = None, {}, [], []

    # ---- what is ----

    @property
    def decree(self):
        return self.links[-1].decree

    def votes(self):
        return not self.amnesia and self.id in self.decree.voters

    def floor(self):
        return max(self.promised, self.leader_term)

    def known(self):
        return max(self.floor(), self.seen)

    def within(self, term):
        return term <= self.known() + REACH

    def note(self, term):
        if term > self.known():
            self.seen = min(term, self.known() + REACH)

    def idle(self):
        return (self.role == "LEADER" and self.open and not self.proposal
                and self.renew_at is None)

    # ---- effects ----

    def send(self, to, kind, body):
        self.out.append((to, kind, pack(body)))

    def persist(self):
        accepted = pack([self.accepted[1].header, self.accepted[2]]) if self.accepted else b""
        numbers = pack([self.id, self.decree.of(), self.promised, self.voted, self.amnesia,
                        self.accepted[0] if self.accepted else 0, len(self.links)])
        sections = [numbers] + [link.data for link in self.links]
        sections += [pack([self.decree.header, self.body]), accepted, self.root]
        told = b"".join(len(one).to_bytes(8, "little") + one for one in sections)
        self.out.append((None, "PERSIST", b"flagree2" + blake(told) + told))

    def recently(self, now, to, kind):
        if now - self.told.get((to, kind), NEVER) < 0.1:
            return True
        self.told[to, kind] = now
        return False

    def commit(self, above):
        links = [link for link in self.links if link.decree.epoch > above] or self.links[-1:]
        every = links[0] is self.links[0] and links[0].decree.epoch > above
        return [every, [link.data for link in links], self.body, self.root]

    def tell(self, now, to, above):
        if not self.recently(now, to, "COMMIT"):
            self.send(to, "COMMIT", self.commit(above))

    def ask(self, now, to):
        if not self.recently(now, to, "FETCH"):
            self.send(to, "FETCH", [self.decree.epoch])

    def catch_up(self, now, peer, epoch):
        if epoch < self.decree.epoch:
            self.tell(now, peer, epoch)
        elif epoch > self.decree.epoch:
            self.ask(now, peer)

    # ---- roles ----

    def lead_by(self, leader, term=0):
        if leader is None and self.leader is not None:
            self.previous_leader = self.leader
        elif leader is not None:
            self.leader_term, self.previous_leader = term, None
        self.leader = leader

    def arm(self, now, by_rank=False):
        voters = self.decree.voters
        before = voters[:voters.index(self.id)] if self.id in voters else []
        rank = sum(one not in self.gone and one not in (self.leader, self.previous_leader)
                   for one in before)
        self.candidacy = (now + 0.1 * rank + random.random() * 0.04 if by_rank else
                          now + SILENCE + 0.5 * rank + random.random() * 0.1)

    def drop(self):
        self.proposal, self.renew_at = None, None

    def step_down(self):
        self.role = "FOLLOWER" if self.votes() else "OBSERVER"
        self.renewing = False
        self.drop()
        if self.leader == self.id:
            self.lead_by(None)

    def follow(self, now, leader, term):
        if self.role not in ("FOLLOWER", "OBSERVER"):
            self.step_down()
        self.lead_by(leader, term)
        self.leader_heard, self.leader_gone, self.yielded = now, False, False
        self.gone.discard(leader)
        self.arm(now)

    # ---- elections ----

    def round(self, now, role, term):
        self.role, self.term, self.refused = role, term, set()
        self.granted, self.began = {self.id: self.accepted}, now
        self.round_ask(now)

    def round_ask(self, now):
        early = self.role == "PRECANDIDATE"
        for voter in self.decree.voters:
            if voter not in self.granted and (early or voter not in self.refused):
                self.send(voter, "PREVOTE" if early else "VOTE",
                          [self.term, self.decree.epoch, self.decree.hash])
        self.asked = now

    def stand_early(self, now):
        self.renewing = self.role == "LEADER" or self.renewing
        if not self.renewing:
            self.lead_by(None)
        self.drop()
        self.news.append("asks for pre-votes in term %d" % (self.known() + 1))
        self.round(now, "PRECANDIDATE", self.known() + 1)
        self.count(now)

    def count(self, now):
        voters = self.decree.voters
        if self.role == "PRECANDIDATE" and quorum(voters, self.granted):
            self.promised, self.voted = self.term, self.id
            self.persist()
            self.round(now, "CANDIDATE", self.term)
        if self.role != "CANDIDATE":
            return
        if quorum(voters, self.granted):
            accepted = [one for one in self.granted.values() if one]
            empty = {voter for voter, one in self.granted.items() if not one}
            adopt = accepted and quorum(voters, set(voters) - empty)
            everybody = len(self.granted) + len(self.refused) == len(voters)
            if not (adopt and self.stubborn and not everybody and now - self.began < PAUSE):
                self.win(now, max(accepted, key=lambda one: one[0]) if adopt else None)
        elif not quorum(voters, set(voters) - self.refused):
            self.lose(now)

    def win(self, now, adopted):
        self.role, self.renewing, self.leader_gone, self.yielded = "LEADER", False, False, False
        self.stubborn, self.renew_at = False, None
        self.lead_by(self.id, self.term)
        self.heard = {voter: now for voter in self.decree.voters}
        self.news.append("leads in term %d" % self.term)
        self.beat(now)
        self.open = adopted is None
        if adopted:
            self.put(now, adopted[1], adopted[2], True)

    def lose(self, now):
        self.step_down()
        self.arm(now, True)
        self.candidacy += 0.04 + random.random() * 0.15

    def beat(self, now, successor=NONE):
        for member in self.decree.members:
            if member != self.id:
                self.send(member, "BEAT",
                          [self.leader_term, self.decree.epoch, self.decree.hash, successor])
        self.beat_at = now + BEAT

    def resign(self, now):
        others = [one for one in self.decree.voters if one != self.id and one not in self.gone]
        if self.role != "LEADER" or not others:
            return
        lately = [one for one in others if now - self.heard.get(one, NEVER) < 3 * BEAT]
        self.beat(now, (lately or others)[0])
        self.no_candidate = now + 10
        self.step_down()
        self.arm(now)

    # ---- messages ----

    def received(self, kind, sender, data, now):
        body = read(data, FORMS[kind])
        if kind in ("BEAT", "PREVOTE", "VOTE") and body[1] == self.decree.epoch \
                and body[2] != self.decree.hash:
            if self.root:
                self.tell(now, sender, 0)
            need(False, "another decree than ours for this epoch")
        getattr(self, "on_" + kind)(sender, body, now)
        if sender in self.decree.voters:
            self.heard[sender] = now
            if sender not in (self.leader, self.previous_leader):
                self.gone.discard(sender)

    def on_BEAT(self, sender, body, now):
        term, epoch, _, successor = body
        if epoch < self.decree.epoch:
            return self.tell(now, sender, epoch)
        if epoch > self.decree.epoch:
            self.ask(now, sender)
        else:
            need(sender in self.decree.voters, "a beat of who does not vote")
            lowest = self.floor() if self.votes() else max(
                self.links[-1].term, self.leader_term if self.leader else 0)
            ours = self.role == "LEADER" and term <= self.leader_term
            if not self.within(term):
                self.note(term)
            elif term >= lowest and not ours:
                self.follow(now, sender, term)
                if successor != NONE:
                    self.lead_by(None)
                    self.leader_gone = True
                    self.arm(now + 0.6, True)
                    self.candidacy = now if successor == self.id else self.candidacy
        self.send(sender, "BEAT_REPLY", [self.floor(), self.decree.epoch])

    def on_BEAT_REPLY(self, sender, body, now):
        term, epoch = body
        if epoch > self.decree.epoch:
            self.ask(now, sender)
        if self.role != "LEADER":
            return
        self.catch_up(now, sender, epoch)
        if term > self.leader_term and sender in self.decree.voters:
            self.note(term)
            self.step_down()
            self.arm(now, True)

    def leader_lives(self, now, candidate):
        return self.role == "LEADER" or (
            self.leader not in (None, candidate) and not self.leader_gone
            and now - self.leader_heard < SILENCE)

    def refuse(self, sender, term, epoch):
        if epoch < self.decree.epoch:
            return STALE_EPOCH
        if not self.votes() or epoch == self.decree.epoch and sender not in self.decree.voters:
            return NO_VOTER
        return STALE_TERM if term <= self.floor() or not self.within(term) else 0

    def on_PREVOTE(self, sender, body, now):
        term, epoch, _ = body
        if sender == self.leader and epoch >= self.decree.epoch:
            self.leader_heard = now
        if sender in self.decree.voters and not self.within(term):
            self.note(term)
        self.prevote(sender, term, epoch, now)
        self.catch_up(now, sender, epoch)

    def prevote(self, sender, term, epoch, now):
        reason = self.refuse(sender, term, epoch) or (
            ALIVE if self.leader_lives(now, sender) else 0)
        self.send(sender, "PREVOTE_REPLY",
                  [term, reason, self.floor(), self.decree.epoch, 0, b""])
        self.refusal = (sender, term, epoch, now) if reason == ALIVE else None
        voters = self.decree.voters
        if reason == 0 and self.role == "PRECANDIDATE" and not self.yielded \
                and sender in voters and voters.index(sender) < voters.index(self.id):
            self.step_down()
            self.yielded, self.candidacy = True, now + 0.6 + random.random() * 0.1

    def on_VOTE(self, sender, body, now):
        term, epoch, _ = body
        again = term == self.promised and self.voted == sender and epoch >= self.decree.epoch
        reason = self.refuse(sender, term, epoch)
        reason = 0 if again and reason == STALE_TERM else reason
        if reason == 0 and term != self.promised:
            if self.role != "FOLLOWER":
                self.step_down()
            if self.leader != sender:
                self.lead_by(None)
            self.promised, self.voted = term, sender
            self.persist()
            self.arm(now)
        reply = [term, reason, self.floor(), self.decree.epoch, 0, b""]
        if reason == 0 and self.accepted and self.accepted[1].epoch == epoch + 1:
            reply[4:] = self.accepted[0], pack([self.accepted[1].header, self.accepted[2]])
        self.send(sender, "VOTE_REPLY", reply)
        self.catch_up(now, sender, epoch)

    def on_PREVOTE_REPLY(self, sender, body, now):
        term, reason, theirs, epoch, _, _ = body
        if sender in self.decree.voters:
            self.note(theirs)
        if epoch > self.decree.epoch:
            self.ask(now, sender)
        if self.role != "PRECANDIDATE" or term != self.term or sender not in self.decree.voters:
            return
        if reason == 0:
            self.granted[sender] = None
            self.count(now)
        elif reason == STALE_TERM and theirs >= term:
            self.stand_early(now)

    def on_VOTE_REPLY(self, sender, body, now):
        term, reason, theirs, epoch, accepted_term, accepted = body
        need((accepted_term == 0) == (accepted == b""), "half an acceptance")
        ours = (self.role == "CANDIDATE" and term == self.term and sender in self.decree.voters
                and sender not in self.granted)
        vote = None
        if ours and reason == 0 and accepted:
            decree, contents = decree_read(accepted)
            need(accepted_term < self.term, "accepted in a later term")
            need(decree.epoch == self.decree.epoch + 1 and decree.previous == self.decree.hash
                 and decree.swarm == self.decree.of(), "it does not follow ours")
            vote = (accepted_term, decree, contents)
        if sender in self.decree.voters:
            self.note(theirs)
        if epoch > self.decree.epoch:
            self.ask(now, sender)
        if ours:
            if reason == 0:
                self.granted[sender] = vote
            else:
                self.refused.add(sender)
            self.count(now)

    # ---- decisions ----

    def propose(self, now, cause, members, voters, body):
        """Members: a dict of incarnations by id. Only while idle()."""
        flat = [field for member in sorted(members) for field in (member, members[member])]
        before = self.decree
        header = pack([1, before.of(), before.generation, before.epoch + 1, before.hash, cause,
                       flat, voters, blake(body)])
        self.put(now, Decree(header), body, False)

    def put(self, now, decree, body, adopted):
        self.drop()
        willing = not adopted or bool(self.accepted) and self.accepted[1].hash == decree.hash
        self.proposal = {"decree": decree, "body": body, "adopted": adopted, "began": now,
                         "signed": {}, "refused": set()}
        self.put_again(now)
        self.news.append("proposes epoch %d" % decree.epoch)
        if willing or not self.judge(decree, body, True):
            self.proposal["willing"] = True
        else:
            self.proposal["refused"].add(self.id)
        self.proposal_count(now)

    def put_again(self, now):
        proposal = self.proposal
        message = [self.leader_term, proposal["adopted"],
                   pack([proposal["decree"].header, proposal["body"]])]
        for voter in self.decree.voters:
            if voter != self.id and voter not in proposal["signed"] \
                    and voter not in proposal["refused"]:
                self.send(voter, "PROPOSE", message)
        proposal["sent"] = now

    def proposal_count(self, now):
        proposal, voters = self.proposal, self.decree.voters
        accepting = set(proposal["signed"]) | ({self.id} if "willing" in proposal else set())
        if quorum(voters, accepting):
            decree, signed = proposal["decree"], proposal["signed"]
            words = decree.words(self.leader_term)
            signed.update({self.id: self.key.sign(words)} if self.id in accepting else {})
            mask = sum(1 << at for at, voter in enumerate(voters) if voter in signed)
            link = Link(pack([decree.header, self.leader_term, mask,
                              b"".join(signed[one] for one in voters if one in signed)]))
            before = self.decree
            self.store([link], proposal["body"])
            for member in set(before.members) | set(decree.members):
                if member != self.id:
                    self.send(member, "COMMIT", self.commit(before.epoch))
            self.settle(now)
        elif not quorum(voters, set(voters) - proposal["refused"]):
            self.drop()
            self.stubborn, self.open, self.renew_at = True, False, now + PAUSE

    def on_PROPOSE(self, sender, body, now):
        term, adopted, data = body
        decree, contents = decree_read(data)
        reason = 0
        if decree.epoch <= self.decree.epoch:
            reason = STALE_EPOCH
            self.tell(now, sender, decree.epoch - 1)
        elif decree.epoch > self.decree.epoch + 1:
            reason = BEHIND
            self.ask(now, sender)
        elif not self.votes():
            reason = NO_VOTER
        elif term < self.floor() or not self.within(term):
            reason = STALE_TERM
            if sender in self.decree.voters:
                self.note(term)
        if reason:
            return self.reject(sender, term, decree, reason, "")
        need(sender in self.decree.voters, "a proposal of who does not vote")
        need(decree.previous == self.decree.hash and decree.swarm == self.decree.of()
             and decree.generation == self.decree.generation and decree.cause != RECOVERY
             and len(decree.voters) <= voters_most(len(decree.members)), "it does not follow")
        known = bool(self.accepted) and self.accepted[1].hash == decree.hash
        need(not self.accepted or self.accepted[0] != term or known, "a second one in a term")
        need(self.role != "LEADER" or term != self.leader_term, "a second leader of a term")
        self.follow(now, sender, term)
        if not known and (not self.verdict or self.verdict[0] != decree.hash
                          or self.verdict[2] and self.verdict[1] != term):
            self.verdict = (decree.hash, term, self.judge(decree, contents, adopted))
        if not known and self.verdict[2]:
            return self.reject(sender, term, decree, WRONG, self.verdict[2])
        if term > self.promised:
            self.promised, self.voted = term, sender
        if not known or self.accepted[0] != term:
            self.accepted = (term, decree, contents)
            self.persist()
        self.news.append("accepts epoch %d" % decree.epoch)
        self.send(sender, "ACCEPT",
                  [term, decree.epoch, decree.hash, self.key.sign(decree.words(term))])

    def reject(self, to, term, decree, reason, text):
        self.send(to, "REJECT", [term, decree.epoch, decree.hash, reason, self.floor(),
                                 self.decree.epoch, text[:127]])

    def answers(self, sender, term, hashed):
        return (self.role == "LEADER" and self.proposal is not None
                and sender in self.decree.voters and term == self.leader_term
                and hashed == self.proposal["decree"].hash)

    def on_ACCEPT(self, sender, body, now):
        term, _, hashed, signature = body
        if self.answers(sender, term, hashed):
            need(right(sender, self.proposal["decree"].words(term), signature), "no signature")
            self.proposal["signed"][sender] = signature
            self.proposal["refused"].discard(sender)
            self.proposal_count(now)

    def on_REJECT(self, sender, body, now):
        term, _, hashed, reason, theirs, epoch, text = body
        need(1 <= reason <= 6, "no reason")
        if epoch > self.decree.epoch:
            self.ask(now, sender)
        if not self.answers(sender, term, hashed):
            return
        if reason == STALE_TERM:
            self.note(theirs)
            if theirs > self.leader_term:
                self.step_down()
                self.arm(now, True)
        elif reason == BEHIND:
            self.tell(now, sender, epoch)
        elif reason in (WRONG, NO_VOTER):
            self.news.append("is refused: " + text)
            if sender not in self.proposal["signed"]:
                self.proposal["refused"].add(sender)
            self.proposal_count(now)

    # ---- the chain ----

    def store(self, links, body):
        """These links follow ours, or begin a generation; the body is the last one's."""
        if links[-1].decree.generation != self.decree.generation:
            self.step_down()
            self.lead_by(None)
        for link in links:
            if link.decree.epoch != self.decree.epoch + 1:
                self.links = []
            self.links = (self.links + [link])[-LINKS:]
            if link.decree.cause == RECOVERY:
                self.root = link.data
        self.body, self.verdict, self.refusal, self.behind = body, None, None, None
        if links[-1].term > self.promised:
            self.promised, self.voted = links[-1].term, NONE
        if self.accepted and self.accepted[1].epoch <= self.decree.epoch:
            self.accepted = None
        self.drop()
        if self.decree.members.get(self.id, -1) >= self.amnesia:
            self.amnesia = 0
        self.gone &= set(self.decree.voters)
        self.persist()
        self.news.append("is in epoch %d of generation %d" % (
            self.decree.epoch & 0xFFFFFFFF, self.decree.generation))

    def settle(self, now):
        if self.votes() and self.role == "LEADER" and self.promised == self.leader_term:
            self.heard = {voter: self.heard.get(voter, now) for voter in self.decree.voters}
            if self.open:
                self.beat(now)
            else:
                self.stand_early(now)
            return
        stood = self.role not in ("FOLLOWER", "OBSERVER")
        self.step_down()
        removed = self.leader is not None and self.leader not in self.decree.voters
        if removed:
            self.lead_by(None)
        if self.votes():
            self.arm(now, stood or removed or len(self.decree.voters) == 1
                     or self.decree.cause == RECOVERY)

    def on_COMMIT(self, sender, body, now):
        every, links, contents, root = body
        need(1 <= len(links) <= LINKS, "links")
        root, links = Link(root) if root else None, [Link(link) for link in links]
        at, ours, new = self.decree, self.root, []
        for link in ([root] if root else []) + links:
            recovery = link.decree.cause == RECOVERY
            if recovery and link.decree.generation == at.generation and link.data != ours \
                    and Link(ours).decree.hash != link.decree.hash:
                link.recovers(self.decree.of(), self.keys)
                self.tell(now, sender, 0)
                need(False, "another recovery to our generation")
            if link is root or (link.decree.generation <= at.generation if recovery
                                else link.decree.epoch <= at.epoch):
                continue
            if recovery:
                link.recovers(self.decree.of(), self.keys)
                ours = link.data
            elif link.decree.epoch > at.epoch + 1:
                if not every:
                    return self.ask(now, sender)
                self.behind = self.behind or now
                need(False, "decrees between are missing")
            else:
                link.follows(at)
            at = link.decree
            new.append(link)
        if new:
            need(at.body == blake(contents), "the body is another one's")
            self.store(new, contents)
            self.settle(now)

    def on_FETCH(self, sender, body, now):
        self.catch_up(now, sender, body[0])

    def trust(self, now, data):
        """Begin with a COMMIT from who has the secret: its first link is believed, unless it is a
        founding or a recovery, which prove themselves."""
        _, links, body, root = read(data, FORMS["COMMIT"])
        links, before = [Link(link) for link in links], None
        need(links and links[-1].decree.body == blake(body), "the body is another one's")
        swarm = links[-1].decree.of()
        if root:
            Link(root).recovers(swarm, self.keys)
        for link in links:
            if link.decree.cause == RECOVERY:
                link.recovers(swarm, self.keys)
            elif before or link.decree.epoch == 1:
                link.follows(before)
            before = link.decree
        self.links, self.root = links[:1], root
        listed = self.decree.members.get(self.id, 0)
        self.amnesia = 0 if listed >= self.incarnation else self.incarnation
        self.store(links, body)
        self.settle(now)

    # ---- time ----

    def lost(self, node, now):
        """A member is gone (section 9)."""
        if node in self.decree.voters:
            self.gone.add(node)
        if node != self.leader or self.leader_gone:
            return
        self.leader_gone = True
        if self.role == "FOLLOWER":
            before = self.candidacy
            self.arm(now, True)
            self.candidacy = min(before, self.candidacy)
        if self.refusal and now - self.refusal[3] < 3:
            self.prevote(*self.refusal[:3], now)

    def tick(self, now):
        voters = self.decree.voters
        if self.role == "LEADER":
            words = {voter for voter in voters if now - self.heard.get(voter, NEVER) <= SILENCE}
            if not quorum(voters, words | {self.id}):
                self.step_down()
                self.arm(now)
            elif now >= self.beat_at:
                self.beat(now)
        elif self.role == "PRECANDIDATE" and now - self.began >= CANDIDACY:
            self.lose(now) if self.renewing else self.stand_early(now)
        elif self.role == "CANDIDATE" and now - self.began >= CANDIDACY:
            self.lose(now)
        elif self.role in ("PRECANDIDATE", "CANDIDATE") and now - self.asked >= AGAIN:
            self.round_ask(now)
            self.count(now)
        elif self.role == "FOLLOWER" and now >= max(self.candidacy, self.no_candidate):
            self.stand_early(now)
        elif self.role == "OBSERVER" and now - self.leader_heard > 2 * SILENCE:
            self.lead_by(None)
        self.tick_decision(now)

    def tick_decision(self, now):
        proposal = self.proposal
        if self.role != "LEADER":
            led = self.leader is not None and now - self.leader_heard < SILENCE
            if (not led or self.behind) and now >= self.poll_at:
                everybody = self.decree.voters + list(self.decree.members)
                others = [one for one in everybody if one != self.id]
                self.poll, self.poll_at = self.poll + 1, now + 1
                if others:
                    self.ask(now, others[self.poll % len(others)])
        elif self.renew_at is not None and now >= self.renew_at:
            self.stand_early(now)
        elif proposal and now - proposal["began"] >= PROPOSAL:
            self.resign(now)
            if self.role == "LEADER":
                self.stand_early(now)
        elif proposal and now - proposal["sent"] >= AGAIN:
            self.put_again(now)
