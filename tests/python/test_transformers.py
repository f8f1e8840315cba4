"""transformers' models by attn_implementation="anymask": logits and gradients of "eager", on tiny random models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anymask as am

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import anymask.integrations.transformers as hook  # noqa: E402

hook.register()

COMMON: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
MODELS: dict[str, Any] = {
    "llama": lambda: transformers.LlamaConfig(**COMMON),
    "qwen3": lambda: transformers.Qwen3Config(**COMMON, use_sliding_window=True, sliding_window=7, max_window_layers=1),
    "mistral": lambda: transformers.MistralConfig(**COMMON, sliding_window=7),
    "gemma2": lambda: transformers.Gemma2Config(
        **COMMON, sliding_window=7, attn_logit_softcapping=5.0, query_pre_attn_scalar=16
    ),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **COMMON, sliding_window=7, layer_types=["sliding_attention", "full_attention"]
    ),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **COMMON,
        sliding_window=7,
        num_local_experts=2,
        num_experts_per_tok=1,
        layer_types=["sliding_attention", "full_attention"],
    ),
}


def make(kind: str, implementation: str) -> Any:
    torch.manual_seed(0)
    config = MODELS[kind]()
    config._attn_implementation = implementation
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
    for name, parameter in model.named_parameters():
        if "sinks" in name:
            torch.nn.init.normal_(parameter)
    return model.eval()


INPUTS = {
    "plain": {},
    "packed": {"position_ids": torch.tensor([[*range(9), *range(1), *range(14)]] * 2)},
    "right padding": {"attention_mask": torch.tensor([[1] * 24, [1] * 15 + [0] * 9])},
    "left padding": {"attention_mask": torch.tensor([[1] * 24, [0] * 9 + [1] * 15])},
}


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("kind", MODELS)
def test_logits_and_gradients_are_those_of_eager(kind: str, inputs: str) -> None:
    ids = torch.randint(1, 64, (2, 24), generator=torch.Generator().manual_seed(1))
    real = INPUTS[inputs].get("attention_mask", torch.ones(2, 24)).bool()
    results = []
    for implementation in ("anymask", "eager"):
        model = make(kind, implementation)
        logits = model(ids, use_cache=False, **INPUTS[inputs]).logits
        logits[real].square().mean().backward()
        results.append((logits[real].detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}))
    (got, got_grads), (want, want_grads) = results
    assert (got - want).abs().max() < 1e-4 * max(1.0, want.abs().max())
    assert got_grads.keys() == want_grads.keys()
    for name, grad in want_grads.items():
        assert (got_grads[name] - grad).abs().max() < 1e-4 * max(1e-2, grad.abs().max()), name


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("kind", MODELS)
def test_greedy_text_with_a_cache_is_that_of_eager(kind: str, cache: str) -> None:
    ids = torch.randint(1, 64, (2, 12), generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1] * 12, [0] * 5 + [1] * 7])
    texts = [
        make(kind, i).generate(
            ids, attention_mask=mask, max_new_tokens=8, do_sample=False, cache_implementation=cache
        )
        for i in ("anymask", "eager")
    ]
    assert torch.equal(*texts)


def test_a_compiled_model_is_eager_and_breaks_at_its_masks_alone() -> None:
    torch._dynamo.reset()
    model, eager = make("gemma3", "anymask"), make("gemma3", "eager")
    compiled = torch.compile(model, backend="eager")
    for n in (8, 13):
        ids = torch.randint(1, 64, (1, n), generator=torch.Generator().manual_seed(n))
        got, want = compiled(ids, use_cache=False).logits, eager(ids, use_cache=False).logits
        assert (got - want).abs().max() < 1e-4
    torch._dynamo.reset()
    found = torch._dynamo.explain(model)(torch.ones(1, 8, dtype=torch.long), use_cache=False)
    reasons = [str(x.reason) for x in found.break_reasons]
    assert reasons and not any("_anymask" in x or "Import" in x for x in reasons), reasons


def test_known_functions_become_expressions() -> None:
    from transformers import masking_utils

    packed = torch.tensor([[0, 0, 0, 1, 1, 2]])
    function = masking_utils.and_masks(
        masking_utils.remap_positions_for_packed_sequence(
            masking_utils.sliding_window_causal_mask_function(3), torch.tensor([[0, 1, 2, 0, 1, 0]])
        ),
        masking_utils.packed_sequence_mask_function(packed),
    )
    mask = hook.make_mask(1, 6, 6, mask_function=function)
    assert str(mask) == "window(2, -1) & causal & documents([[0, 3, 5, 6]])" or "@" in str(mask)
    want = masking_utils.sdpa_mask(1, 6, 6, mask_function=function, allow_is_causal_skip=False)
    np.testing.assert_array_equal(mask.dense(6), want[0, 0].numpy())


def test_an_unknown_function_is_evaluated() -> None:
    mask = hook.make_mask(1, 6, 9, q_offset=3, mask_function=lambda b, h, q, kv: (q + kv) % 2 == 0)
    np.testing.assert_array_equal(mask.dense(6, 9), (np.arange(3, 9)[:, None] + np.arange(9)) % 2 == 0)


def test_dropout_is_refused() -> None:
    model = make("llama", "anymask")
    model.config.attention_dropout = 0.5
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    with pytest.raises(am.UnsupportedError, match=r"dropout is 0\.5"):
        model.train()(torch.ones(1, 4, dtype=torch.long))
