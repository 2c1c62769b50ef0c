"""What the weights of Hugging Face's GPT-2, Llama, BERT, Marian and BART are called, beside what ours are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from regard.exchange.weights import Rule
from regard.models.config import BertConfig, GptConfig, TransformerConfig

PARTS = ("q", "k", "v", "out")  # of attention


def _same(*pairs: tuple[str, str]) -> list[Rule]:
    return [Rule((ours,), theirs) for ours, theirs in pairs]


def _affine(ours: str, theirs: str, bias: bool = True) -> list[Rule]:
    return _same(*((f"{ours}.{leaf}", f"{theirs}.{leaf}") for leaf in (("weight", "bias") if bias else ("weight",))))


def _inside(prefix: str, rules: list[Rule]) -> list[Rule]:
    return [replace(rule, theirs=prefix + rule.theirs) for rule in rules]


def _layers(count: int, ours: str, theirs: str, parts: Mapping[str, str], bias: bool = True) -> list[Rule]:
    """Maps and norms of all layers."""
    pairs = [(f"{ours}.{i}.{a}", f"{theirs}.{i}.{b}") for i in range(count) for a, b in parts.items()]
    return [rule for pair in pairs for rule in _affine(*pair, bias)]


def _head(config: GptConfig) -> list[Rule]:
    return [] if config.tied else _same(("head.table", "lm_head.weight"))


def gpt2(config: GptConfig) -> list[Rule]:
    rules = _same(("embedding.table", "wte.weight"), ("embedding.position.encoding.table", "wpe.weight"))
    rules += _affine("decoder.norm", "ln_f")
    norms = {"self_residual.norm": "ln_1", "feedforward_residual.norm": "ln_2"}
    rules += _layers(config.num_layers, "decoder.blocks", "h", norms)
    for i in range(config.num_layers):
        ours, theirs = f"decoder.blocks.{i}", f"h.{i}"
        for leaf, turned in (("weight", True), ("bias", False)):
            parts = tuple(f"{ours}.self_attention.to_{part}.{leaf}" for part in "qkv")
            rules.append(Rule(parts, f"{theirs}.attn.c_attn.{leaf}", turned))
            rules.append(Rule((f"{ours}.self_attention.to_out.{leaf}",), f"{theirs}.attn.c_proj.{leaf}", turned))
            rules.append(Rule((f"{ours}.feedforward.up.{leaf}",), f"{theirs}.mlp.c_fc.{leaf}", turned))
            rules.append(Rule((f"{ours}.feedforward.down.{leaf}",), f"{theirs}.mlp.c_proj.{leaf}", turned))
    return [*_inside("transformer.", rules), *_head(config)]


def llama(config: GptConfig) -> list[Rule]:
    rules = _same(("embedding.table", "embed_tokens.weight"), ("decoder.norm.weight", "norm.weight"))
    norms = {"self_residual.norm": "input_layernorm", "feedforward_residual.norm": "post_attention_layernorm"}
    maps = {f"self_attention.to_{ours}": f"self_attn.{theirs}_proj" for ours, theirs in zip(PARTS, "qkvo", strict=True)}
    maps |= {f"feedforward.{part}": f"mlp.{part}_proj" for part in ("gate", "up", "down")}
    rules += _layers(config.num_layers, "decoder.blocks", "layers", norms, bias=False)
    rules += _layers(config.num_layers, "decoder.blocks", "layers", maps, config.bias)
    return [*_inside("model.", rules), *_head(config)]


def bert(config: BertConfig) -> list[Rule]:
    tables = {"table": "word", "position.encoding.table": "position", "segment_table": "token_type"}
    rules = [Rule((f"embedding.{a}",), f"embeddings.{b}_embeddings.weight") for a, b in tables.items()]
    rules += _affine("embedding.norm", "embeddings.LayerNorm")
    maps = zip(PARTS, ("self.query", "self.key", "self.value", "output.dense"), strict=True)
    parts = {f"self_attention.to_{ours}": f"attention.{theirs}" for ours, theirs in maps}
    parts |= {"feedforward.up": "intermediate.dense", "feedforward.down": "output.dense"}
    parts |= {"self_residual.norm": "attention.output.LayerNorm", "feedforward_residual.norm": "output.LayerNorm"}
    rules += _layers(config.num_layers, "encoder.blocks", "encoder.layer", parts)
    if config.pooler:
        rules += _affine("pooler", "pooler.dense")
    if not config.guesses:
        return _inside("bert.", rules)
    heads = _affine("guess.map", "transform.dense") + _affine("guess.norm", "transform.LayerNorm")
    heads += _same(("guess.head.bias", "bias"))
    if not config.tied:
        heads += _same(("guess.head.table", "decoder.weight"))
    follows = _affine("follows", "cls.seq_relationship") if config.next_sentence else []
    return [*_inside("bert.", rules), *_inside("cls.predictions.", heads), *follows]


def encoder_decoder(config: TransformerConfig) -> list[Rule]:
    """Marian's, Pegasus's and BART's."""
    rules = _same(("source_embedding.table", "shared.weight"))
    for side, embedding in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
        if config.position.kind == "learned":  # BART leaves two rows unused
            rules.append(Rule((f"{embedding}.position.encoding.table",), f"{side}.embed_positions.weight", skip=2))
        if config.embedding_norm:
            rules += _affine(f"{embedding}.norm", f"{side}.layernorm_embedding")
        parts = {"feedforward.up": "fc1", "feedforward.down": "fc2", "feedforward_residual.norm": "final_layer_norm"}
        for name, theirs in (("self", "self_attn"), ("cross", "encoder_attn"))[: 1 if side == "encoder" else 2]:
            parts |= {f"{name}_attention.to_{part}": f"{theirs}.{part}_proj" for part in PARTS}
            parts[f"{name}_residual.norm"] = f"{theirs}_layer_norm"
        rules += _layers(getattr(config, f"{side}_layers"), f"{side}.blocks", f"{side}.layers", parts)
        if config.placement == "pre":
            rules += _affine(f"{side}.norm", f"{side}.layer_norm")
    bias, name = ("head.bias",), "final_logits_bias"
    zeros = Rule((), name, lead=True, zeros=(config.target_vocabulary,))
    return [*_inside("model.", rules), Rule(bias, name, lead=True) if config.output_bias else zeros]
