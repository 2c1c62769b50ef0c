"""Models for CTranslate2, written by its own specifications."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.encoding import Learned
from regard.attention.position import Added, Shaw
from regard.engine.prepare import GATED, refusals
from regard.errors import UserError
from regard.exchange.installed import installed
from regard.models.gpt import Gpt
from regard.models.transformer import Transformer
from regard.nn.embed import Embedding

ROWS = 1024  # of the table that sinusoids become: CTranslate2 cuts longer sources anyway, unless told not to
POSITIONS = ("sinusoid", "learned", "rotary", "shaw")
FLAGS = {"shaw": "relative_position", "alibi": "alibi"}
FUNCTIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}


def write_ctranslate2(folder: Path, model: Any, source: list[str], target: list[str], unknown: str) -> None:
    """model.bin, config.json and the names of all tokens; raises UserError with everything that it cannot have."""
    if reasons := _refusals(model):
        raise UserError(f"CTranslate2 cannot have model.{'; model.'.join(reasons)}")
    config, specs = model.config, installed("ctranslate2.specs")
    shape, made = _shape(config, specs), specs.transformer_spec
    if not config.encoder_layers:
        # Without config.context: CTranslate2 has a window, but fails on prompts that are longer.
        decoder = made.TransformerDecoderSpec(config.num_layers, with_encoder_attention=False, **shape)
        spec = specs.TransformerDecoderModelSpec(decoder)
        spec.register_vocabulary(target)
        _embedding(decoder, decoder.embeddings, model.embedding)
    else:
        shape |= {"layernorm_embedding": config.embedding_norm}
        encoder = made.TransformerEncoderSpec(config.encoder_layers, **shape)
        decoder = made.TransformerDecoderSpec(config.decoder_layers, **shape)
        spec = specs.TransformerSpec(encoder, decoder)
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
        spec.config.decoder_start_token = target[model.start]
        _embedding(encoder, encoder.embeddings[0], model.source_embedding)
        _embedding(decoder, decoder.embeddings, model.target_embedding)
        _stack(encoder, model.encoder)
    _stack(decoder, model.decoder)
    decoder.projection.weight = _numbers(model.head.table)
    if model.head.bias is not None:
        decoder.projection.bias = _numbers(model.head.bias)
    spec.config.unk_token, spec.config.layer_norm_epsilon = unknown, config.norm_eps
    spec.config.bos_token, spec.config.eos_token = target[model.start], target[model.end]
    spec.validate()
    spec.optimize()  # equal tables are stored once
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))


def decode_ctranslate2(folder: Path, rows: list[list[str]], longest: int) -> list[list[str]]:
    """Greedy tokens for sources, or after prompts where the model has no encoder; with the end token if it was said."""
    library = installed("ctranslate2")
    on: dict[str, Any] = dict(device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)
    greedy: dict[str, Any] = dict(beam_size=1, return_end_token=True)
    try:
        if (folder / "vocabulary.json").exists():  # an encoder-decoder has two, or a shared one
            # One by one: where one prompt is a single token, it would give back parts of the others.
            greedy |= dict(max_length=longest, include_prompt_in_result=False, max_batch_size=1)
            return [each.sequences[0] for each in library.Generator(str(folder), **on).generate_batch(rows, **greedy)]
        greedy |= dict(max_decoding_length=longest, min_decoding_length=0)
        return [each.hypotheses[0] for each in library.Translator(str(folder), **on).translate_batch(rows, **greedy)]
    except RuntimeError as error:  # of texts that are longer than the table of positions
        raise UserError(f"{folder}: CTranslate2 cannot decode these texts ({error}); try shorter ones") from error


def _refusals(model: Any) -> list[str]:
    config = model.config
    if not isinstance(model, Transformer | Gpt):
        return [f"kind: {config.kind}, only transformer and gpt"]
    positions = POSITIONS + ("alibi",) * (not config.encoder_layers)
    known = {"placement": ("pre", "post"), "score": ("scaled_dot",), "position.place": ("embedding",)}
    marks = ["start and end: not both, only tokens"] * (min(config.start, config.end) < 0)
    return [*refusals(config, {**known, "position.kind": positions}), *marks]


def _shape(config: Any, specs: Any) -> dict[str, Any]:
    """What their encoder and decoder are told alike."""
    attention, place = config.attention, config.position
    shape = {
        "num_heads": attention.num_heads,
        "num_heads_kv": attention.groups,
        "head_dim": attention.head_width,
        "pre_norm": config.placement == "pre",
        "rms_norm": config.norm == "rms",
        "activation": specs.common_spec.Activation[FUNCTIONS[GATED.get(config.activation, config.activation)]],
        "ffn_glu": config.activation in GATED,
    }
    if place.kind == "rotary":
        interleaved = place.layout == "interleaved"
        shape |= {"rotary_dim": attention.head_width, "rotary_base": place.base, "rotary_interleave": interleaved}
    elif place.kind in FLAGS:
        shape[FLAGS[place.kind]] = True
    return shape


def _embedding(spec: Any, table: Any, embedding: Embedding) -> None:
    table.weight = _numbers(embedding.table)
    spec.scale_embeddings = embedding.scale != 1.0
    if isinstance(embedding.position, Added):
        encoding = embedding.position.encoding
        rows = len(encoding.table) if isinstance(encoding, Learned) else ROWS
        spec.position_encodings.encodings = _numbers(encoding(torch.arange(rows)[None], None)[0])
    if not isinstance(embedding.norm, nn.Identity):
        _norm(spec.layernorm_embedding, embedding.norm)


def _stack(spec: Any, stack: Any) -> None:
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        own, across, thinks = block.self_attention, block.cross_attention, block.feedforward
        _linear(layer.self_attention.linear[0], own.to_q, own.to_k, own.to_v)
        _linear(layer.self_attention.linear[1], own.to_out)
        _norm(layer.self_attention.layer_norm, block.self_residual.norm)
        if isinstance(own.position, Shaw):
            layer.self_attention.relative_position_keys = _numbers(own.position.key_table)
            layer.self_attention.relative_position_values = _numbers(own.position.value_table)
        if across is not None:
            _linear(layer.attention.linear[0], across.to_q)
            _linear(layer.attention.linear[1], across.to_k, across.to_v)
            _linear(layer.attention.linear[2], across.to_out)
            _norm(layer.attention.layer_norm, block.cross_residual.norm)
        _linear(layer.ffn.linear_0, thinks.gate or thinks.up)
        if thinks.gate is not None:
            _linear(layer.ffn.linear_0_noact, thinks.up)
        _linear(layer.ffn.linear_1, thinks.down)
        _norm(layer.ffn.layer_norm, block.feedforward_residual.norm)
    if not isinstance(stack.norm, nn.Identity):
        _norm(spec.layer_norm, stack.norm)


def _norm(spec: Any, norm: Any) -> None:
    spec.gamma = _numbers(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _numbers(norm.bias)


def _linear(spec: Any, *maps: Any) -> None:
    spec.weight = _numbers(*(each.weight for each in maps))
    if maps[0].bias is not None:
        spec.bias = _numbers(*(each.bias for each in maps))


def _numbers(*tensors: Tensor) -> Any:
    """One below the other, as numpy's."""
    return torch.cat([tensor.detach().float().cpu() for tensor in tensors]).numpy()
