#!/usr/bin/python3
"""Make tests/data/gpt2_float64.fixture: a small GPT-2 by PyTorch in float64.

    /usr/bin/python3 tests/make_fixture.py tests/data/gpt2_float64.fixture

Needs Debian's python3-torch; the tests need only the file. It holds weights, three batches of
tokens, the loss and all gradients of the first batch, and the weights after three steps of AdamW,
one on each batch. Weights are rounded to float32 before anything is computed; what is computed is
stored as float32.

The file: a line "flotilla fixture 1", a line "NAME COUNT" for each array, an empty line, then
the arrays as little-endian float32 in that order.

AdamW's epsilon is 1e-5 here: the gradient of the keys' bias is zero in exact arithmetic, and with
1e-8 the update would be made of the noise of whoever computes it.
"""
import math
import struct
import sys

import torch
import torch.nn.functional as F

BLOCKS, HEADS, HIDDEN, CONTEXT, VOCABULARY, SEQUENCES = 2, 4, 40, 48, 256, 3
RATE, BETAS, EPSILON, DECAY, STEPS = 1e-3, (0.9, 0.95), 1e-5, 0.1, 3


def shapes():
    yield "transformer.wte.weight", (VOCABULARY, HIDDEN)
    yield "transformer.wpe.weight", (CONTEXT, HIDDEN)
    for i in range(BLOCKS):
        h = f"transformer.h.{i}."
        yield h + "ln_1.weight", (HIDDEN,)
        yield h + "ln_1.bias", (HIDDEN,)
        yield h + "attn.c_attn.weight", (HIDDEN, 3 * HIDDEN)
        yield h + "attn.c_attn.bias", (3 * HIDDEN,)
        yield h + "attn.c_proj.weight", (HIDDEN, HIDDEN)
        yield h + "attn.c_proj.bias", (HIDDEN,)
        yield h + "ln_2.weight", (HIDDEN,)
        yield h + "ln_2.bias", (HIDDEN,)
        yield h + "mlp.c_fc.weight", (HIDDEN, 4 * HIDDEN)
        yield h + "mlp.c_fc.bias", (4 * HIDDEN,)
        yield h + "mlp.c_proj.weight", (4 * HIDDEN, HIDDEN)
        yield h + "mlp.c_proj.bias", (HIDDEN,)
    yield "transformer.ln_f.weight", (HIDDEN,)
    yield "transformer.ln_f.bias", (HIDDEN,)


def loss_of(w, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x = w["transformer.wte.weight"][inputs] + w["transformer.wpe.weight"]
    mask = torch.tril(torch.ones(CONTEXT, CONTEXT, dtype=torch.bool))
    for i in range(BLOCKS):
        p = {k[len(f"transformer.h.{i}."):]: v for k, v in w.items()
             if k.startswith(f"transformer.h.{i}.")}
        y = F.layer_norm(x, (HIDDEN,), p["ln_1.weight"], p["ln_1.bias"], 1e-5)
        q, k, v = (y @ p["attn.c_attn.weight"] + p["attn.c_attn.bias"]).chunk(3, -1)
        q, k, v = (t.view(SEQUENCES, CONTEXT, HEADS, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(HIDDEN // HEADS)
        y = scores.masked_fill(~mask, -math.inf).softmax(-1) @ v
        y = y.transpose(1, 2).reshape(SEQUENCES, CONTEXT, HIDDEN)
        x = x + y @ p["attn.c_proj.weight"] + p["attn.c_proj.bias"]
        y = F.layer_norm(x, (HIDDEN,), p["ln_2.weight"], p["ln_2.bias"], 1e-5)
        y = y @ p["mlp.c_fc.weight"] + p["mlp.c_fc.bias"]
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
        x = x + y @ p["mlp.c_proj.weight"] + p["mlp.c_proj.bias"]
    x = F.layer_norm(x, (HIDDEN,), w["transformer.ln_f.weight"], w["transformer.ln_f.bias"], 1e-5)
    logits = x @ w["transformer.wte.weight"].t()
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main(path):
    torch.manual_seed(1)
    weights = {}
    for name, shape in shapes():
        w = torch.randn(shape, dtype=torch.float64) * 0.1
        if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")):
            w = w + 1
        weights[name] = w.float().double().requires_grad_()
    tokens = torch.randint(0, VOCABULARY, (STEPS, SEQUENCES, CONTEXT + 1))
    tokens[:, :, 7] = tokens[:, :, 3]  # some come twice

    arrays = [("tokens", tokens)]
    arrays += [("weight " + n, w.detach().clone()) for n, w in weights.items()]
    optimizer = torch.optim.AdamW(
        [{"params": [w for w in weights.values() if w.dim() > 1], "weight_decay": DECAY},
         {"params": [w for w in weights.values() if w.dim() == 1], "weight_decay": 0}],
        lr=RATE, betas=BETAS, eps=EPSILON)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(weights, tokens[step])
        loss.backward()
        if step == 0:
            arrays.append(("loss", loss.detach().reshape(1)))
            arrays += [("gradient " + n, w.grad.clone()) for n, w in weights.items()]
        optimizer.step()
    arrays += [("after " + n, w.detach()) for n, w in weights.items()]

    with open(path, "wb") as out:
        out.write(b"flotilla fixture 1\n")
        for name, array in arrays:
            out.write(f"{name.replace(' ', ':')} {array.numel()}\n".encode())
        out.write(b"\n")
        for _, array in arrays:
            values = array.double().reshape(-1).tolist()
            out.write(struct.pack(f"<{len(values)}f", *values))
    print(f"{path}: loss {loss_of(weights, tokens[0]).item():.6f} after {STEPS} steps")


main(sys.argv[1])
