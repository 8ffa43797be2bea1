"""Tiny models with random weights, made on the fly: every family the sampler must serve."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

VOCABULARY, END, PAD, BEGIN = 9, 2, 1, 0
SPECIAL = {"eos_token_id": END, "pad_token_id": PAD, "bos_token_id": BEGIN, "vocab_size": VOCABULARY}
ENCODER_DECODER = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
    "decoder_start_token_id": BEGIN,
    "forced_eos_token_id": None,
    "init_std": 0.25,
    **SPECIAL,
}
DECODER = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
    **SPECIAL,
}
T5 = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": PAD,
    "initializer_factor": 3.0,
    **SPECIAL,
}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "initializer_range": 0.5, **SPECIAL}
FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "marian": (MarianMTModel, MarianConfig, ENCODER_DECODER),
    "bart": (BartForConditionalGeneration, BartConfig, ENCODER_DECODER),
    "mbart": (MBartForConditionalGeneration, MBartConfig, ENCODER_DECODER),
    "m2m_100": (M2M100ForConditionalGeneration, M2M100Config, ENCODER_DECODER),
    "t5": (T5ForConditionalGeneration, T5Config, T5),
    "llama": (LlamaForCausalLM, LlamaConfig, DECODER),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, DECODER),
    "mistral": (MistralForCausalLM, MistralConfig, DECODER | {"sliding_window": 3}),
    "gemma2": (
        Gemma2ForCausalLM,
        Gemma2Config,
        DECODER | {"sliding_window": 3, "query_pre_attn_scalar": 8, "initializer_range": 0.1},
    ),
    "gpt2": (GPT2LMHeadModel, GPT2Config, GPT2),
}
ENCODER_DECODERS = ("marian", "bart", "mbart", "m2m_100", "t5")


def model(family: str, seed: int = 0, **changes: Any) -> Any:
    """A model of a family, the same for the same seed."""
    factory, config, settings = FAMILIES[family]
    torch.manual_seed(seed)
    return factory(config(**settings | changes)).eval()
