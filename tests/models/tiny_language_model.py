"""A language model of a few thousand random weights, as a GGUF file and as transformers saves it."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = [("H", "i"), ("o", "o"), ("l", "oo"), ("Ġ", "t"), ("Ġt", "h"), ("e", "r")]
WIDTH, INNER, HEADS, GROUPS, DEPTH, LIMIT = 64, 96, 4, 2, 2, 256
_TYPES = {int: 4, float: 6, str: 8, bool: 7}


def vocabulary() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    return [*MARKS, *sorted(ByteLevel.alphabet()), *("".join(pair) for pair in MERGES)]


def save_transformers(folder: Path) -> Any:
    """Save a Llama with random weights and its tokenizer, and return the model."""
    import torch
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = vocabulary()
    torch.manual_seed(5)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words),
            hidden_size=WIDTH,
            intermediate_size=INNER,
            num_hidden_layers=DEPTH,
            num_attention_heads=HEADS,
            num_key_value_heads=GROUPS,
            max_position_embeddings=LIMIT,
            rms_norm_eps=1e-5,
            rope_theta=10000.0,
            tie_word_embeddings=True,
            initializer_range=0.2,
        )
    )
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in MARKS])
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=MARKS[0]).save_pretrained(folder)
    return model


def tensors_of(model: Any) -> dict[str, np.ndarray]:
    """Name weights as GGUF does; queries and keys are laid out in pairs there."""
    found = {}
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    names = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    names |= {"gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}
    names |= {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    for name, value in state.items():
        parts = name.split(".")
        if parts[1] == "layers":
            array, heads = value, {"q_proj": HEADS, "k_proj": GROUPS}.get(parts[-2])
            if heads:
                array = value.reshape(heads, 2, -1, WIDTH).swapaxes(1, 2).reshape(value.shape)
            found[f"blk.{parts[2]}.{names[parts[-2]]}.weight"] = array
    found["token_embd.weight"] = state["model.embed_tokens.weight"]
    found["output_norm.weight"] = state["model.norm.weight"]
    return found


def fields() -> dict[str, Any]:
    words = vocabulary()
    return {
        "general.architecture": "llama",
        "llama.block_count": DEPTH,
        "llama.context_length": LIMIT,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": GROUPS,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [3 if word in MARKS else 1 for word in words],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in MERGES],
    }


def write_gguf(path: Path, said: dict[str, Any], tensors: dict[str, np.ndarray]) -> Path:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def plain(value: Any) -> bytes:
        kinds = {int: "<I", float: "<f", bool: "<?"}
        return text(value) if isinstance(value, str) else struct.pack(kinds[type(value)], value)

    def tagged(value: Any) -> bytes:
        if isinstance(value, list):
            head = struct.pack("<IIQ", 9, _TYPES[type(value[0])], len(value))
            return head + b"".join(map(plain, value))
        return struct.pack("<I", _TYPES[type(value)]) + plain(value)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(said))
    head += b"".join(text(name) + tagged(value) for name, value in said.items())
    body = b""
    for name, value in tensors.items():
        shape = value.shape[::-1]
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(body))
        body += value.astype("<f4").tobytes()
        body += bytes(-len(body) % 32)
    path.write_bytes(head + bytes(-len(head) % 32) + body)
    return path


def save_both(folder: Path) -> tuple[Path, Path]:
    """Write the same model twice: the transformers folder, and the GGUF file."""
    model = save_transformers(folder / "tiny")
    return folder / "tiny", write_gguf(folder / "tiny.gguf", fields(), tensors_of(model))
