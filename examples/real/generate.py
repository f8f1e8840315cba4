"""SmolLM2-135M in transformers with attn_implementation="anymask": packed prompts, drafts, one prefix for many.

    .venv/bin/python examples/real/generate.py

Each answer is compared with that of plain calls; greedy text with that of "eager".
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any

import numpy as np
import torch
import transformers

import anymask as am
from smollm2 import SmolLM2

PROMPTS = ("The capital of France is", "Water boils at a temperature of", "The opposite of cold is")


def in_transformers(file: SmolLM2) -> Any:  # noqa: ANN401 - transformers' model
    """The model with the weights of the file, whose rotary pairs are interleaved where transformers has halves."""
    config = transformers.LlamaConfig(
        vocab_size=len(file.weight("token_embd.weight")), hidden_size=file.h_q * file.d,
        intermediate_size=len(file.weight("blk.0.ffn_up.weight")), num_hidden_layers=file.num_layers,
        num_attention_heads=file.h_q, num_key_value_heads=file.h_kv, tie_word_embeddings=True,
        max_position_embeddings=file.max_positions, rms_norm_eps=float(file.epsilon),
        bos_token_id=None, eos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": file.rope_base})  # fmt: skip

    def halves(name: str, heads: int) -> np.ndarray[Any, Any]:
        w = file.weight(name)
        return w.reshape(heads, file.d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)

    weights = {"model.embed_tokens.weight": file.weight("token_embd.weight"),
               "lm_head.weight": file.weight("token_embd.weight"),
               "model.norm.weight": file.weight("output_norm.weight")}
    plain = {"self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate",
             "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm"}
    for i in range(file.num_layers):
        weights[f"model.layers.{i}.self_attn.q_proj.weight"] = halves(f"blk.{i}.attn_q.weight", file.h_q)
        weights[f"model.layers.{i}.self_attn.k_proj.weight"] = halves(f"blk.{i}.attn_k.weight", file.h_kv)
        for theirs, name in plain.items():
            weights[f"model.layers.{i}.{theirs}.weight"] = file.weight(f"blk.{i}.{name}.weight")
    model: Any = transformers.LlamaForCausalLM(config)
    model.load_state_dict({name: torch.from_numpy(np.array(w)) for name, w in weights.items()})
    model.set_attn_implementation("anymask")
    return model.eval()


class Check:
    """Compares logits, and remembers the worst."""

    def __init__(self) -> None:
        self.fine = True

    def same(self, what: str, got: torch.Tensor, want: torch.Tensor) -> None:
        """Within a thousandth of the largest logit, and the same most likely tokens."""
        error = float((got - want).abs().max() / want.abs().max())
        right = error < 1e-3 and torch.equal(got.argmax(-1), want.argmax(-1))
        self.fine = self.fine and right
        print(f"{what}: logits {'equal' if right else 'DIFFER'}, {error:.1e} of the largest apart")


def as_tensor(mask: am.Mask, s_q: int, s_kv: int) -> torch.Tensor:
    """[1, 1, s_q, s_kv], the form in which transformers hands a mask of one's own to the layers."""
    return torch.from_numpy(mask.dense(s_q, s_kv))[None, None]


def main() -> int:
    """Four comparisons; 1 when one fails."""
    torch.set_grad_enabled(False)
    am.integrations.transformers.register()
    file = SmolLM2()
    tokenizer, model, check = file.tokenizer(), in_transformers(file), Check()
    prompts = [torch.tensor([tokenizer.encode(text).ids]) for text in PROMPTS]

    # Packed: positions that restart are documents.
    packed = model(torch.cat(prompts, 1), position_ids=torch.cat([torch.arange(p.shape[1]) for p in prompts])[None],
                   use_cache=False).logits
    check.same("packed prompts", packed, torch.cat([model(p).logits for p in prompts], 1))

    # Greedy text.
    def greedy(ids: torch.Tensor) -> torch.Tensor:
        plain = {"attention_mask": torch.ones_like(ids), "do_sample": False}
        found: torch.Tensor = model.generate(ids, max_new_tokens=8, **plain)
        return found

    ours = greedy(prompts[0])
    model.set_attn_implementation("eager")
    theirs = greedy(prompts[0])
    model.set_attn_implementation("anymask")
    check.fine = check.fine and torch.equal(ours, theirs)
    print(f"greedy: {tokenizer.decode(ours[0].tolist())!r}, {'as' if torch.equal(ours, theirs) else 'NOT as'} eager's")

    # A tree of drafts over a cached context: the greedy text is one path, a wrong guess hangs beside each of its nodes.
    context, text = prompts[0][:, :-1], ours[0, prompts[0].shape[1] - 1 :]
    tokens, parents, depths, tip = [int(text[0])], [-1], [0], 0
    for depth, token in enumerate(text[1:5].tolist(), 1):
        tokens += [token, (token + 7) % model.config.vocab_size]
        parents += [tip, tip]
        depths += [depth, depth]
        tip = len(tokens) - 2
    n, length = len(tokens), context.shape[1]
    cache = transformers.DynamicCache(config=model.config)
    model(context, cache=cache)
    tree = model(torch.tensor([tokens]), position_ids=length + torch.tensor([depths]), cache=cache,
                 attention_mask=as_tensor(am.tree(parents), n, length + n)).logits[0]  # fmt: skip
    alone = []
    for node in range(n):
        path, at = [], node
        while at >= 0:
            path.append(tokens[at])
            at = parents[at]
        alone.append(model(torch.cat([context, torch.tensor([path[::-1]])], 1)).logits[0, -1])
    check.same(f"tree of {n} drafts over a cache of {length}", tree, torch.stack(alone))

    # Many continuations of one prefix, in one call.
    ends = [tokenizer.encode(end).ids for end in (" Paris, the", " London and", " a city", " not known")]
    prefix = prompts[0].shape[1]
    lengths = [len(end) for end in ends]
    total = prefix + sum(lengths)
    positions = torch.cat([torch.arange(prefix), *(prefix + torch.arange(n) for n in lengths)])
    ids = torch.cat([prompts[0], torch.tensor([list(chain(*ends))])], 1)
    shared = as_tensor(am.shared_prefix(prefix, lengths), total, total)
    together = model(ids, position_ids=positions[None], use_cache=False, attention_mask=shared).logits[0, prefix:]
    apart = [model(torch.cat([prompts[0], torch.tensor([end])], 1)).logits[0, prefix:] for end in ends]
    check.same(f"{len(ends)} continuations of one prefix", together, torch.cat(apart))
    return 0 if check.fine else 1


if __name__ == "__main__":
    sys.exit(main())
