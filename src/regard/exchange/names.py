"""What the weights of Hugging Face's GPT-2, Llama, BERT, Marian and BART are called, beside what ours are."""

from __future__ import annotations

from dataclasses import replace

from regard.exchange.weights import Rule
from regard.models.config import BertConfig, GptConfig, TransformerConfig


def _same(*pairs: tuple[str, str]) -> list[Rule]:
    return [Rule((ours,), theirs) for ours, theirs in pairs]


def _affine(ours: str, theirs: str, bias: bool = True) -> list[Rule]:
    return _same(*((f"{ours}.{leaf}", f"{theirs}.{leaf}") for leaf in (("weight", "bias") if bias else ("weight",))))


def _inside(prefix: str, rules: list[Rule]) -> list[Rule]:
    return [replace(rule, theirs=prefix + rule.theirs) for rule in rules]


def _head(config: GptConfig) -> list[Rule]:
    return [] if config.tied else _same(("head.table", "lm_head.weight"))


def gpt2(config: GptConfig) -> list[Rule]:
    rules = _same(("embedding.table", "wte.weight"), ("embedding.position.encoding.table", "wpe.weight"))
    rules += _affine("decoder.norm", "ln_f")
    for i in range(config.num_layers):
        ours, theirs = f"decoder.blocks.{i}", f"h.{i}"
        rules += _affine(f"{ours}.self_residual.norm", f"{theirs}.ln_1")
        rules += _affine(f"{ours}.feedforward_residual.norm", f"{theirs}.ln_2")
        for leaf in ("weight", "bias"):
            turned = leaf == "weight"
            parts = tuple(f"{ours}.self_attention.to_{part}.{leaf}" for part in "qkv")
            rules.append(Rule(parts, f"{theirs}.attn.c_attn.{leaf}", turned))
            rules.append(Rule((f"{ours}.self_attention.to_out.{leaf}",), f"{theirs}.attn.c_proj.{leaf}", turned))
            rules.append(Rule((f"{ours}.feedforward.up.{leaf}",), f"{theirs}.mlp.c_fc.{leaf}", turned))
            rules.append(Rule((f"{ours}.feedforward.down.{leaf}",), f"{theirs}.mlp.c_proj.{leaf}", turned))
    return [*_inside("transformer.", rules), *_head(config)]


def llama(config: GptConfig) -> list[Rule]:
    rules = _same(("embedding.table", "embed_tokens.weight"), ("decoder.norm.weight", "norm.weight"))
    for i in range(config.num_layers):
        ours, theirs = f"decoder.blocks.{i}", f"layers.{i}"
        rules += _affine(f"{ours}.self_residual.norm", f"{theirs}.input_layernorm", bias=False)
        rules += _affine(f"{ours}.feedforward_residual.norm", f"{theirs}.post_attention_layernorm", bias=False)
        for part, name in (("q", "q"), ("k", "k"), ("v", "v"), ("out", "o")):
            rules += _affine(f"{ours}.self_attention.to_{part}", f"{theirs}.self_attn.{name}_proj", config.bias)
        for part in ("gate", "up", "down"):
            rules += _affine(f"{ours}.feedforward.{part}", f"{theirs}.mlp.{part}_proj", config.bias)
    return [*_inside("model.", rules), *_head(config)]


def bert(config: BertConfig) -> list[Rule]:
    rules = _same(
        ("embedding.table", "embeddings.word_embeddings.weight"),
        ("embedding.position.encoding.table", "embeddings.position_embeddings.weight"),
        ("embedding.segment_table", "embeddings.token_type_embeddings.weight"),
    )
    rules += _affine("embedding.norm", "embeddings.LayerNorm")
    for i in range(config.num_layers):
        ours, theirs = f"encoder.blocks.{i}", f"encoder.layer.{i}"
        for part, name in (("q", "query"), ("k", "key"), ("v", "value")):
            rules += _affine(f"{ours}.self_attention.to_{part}", f"{theirs}.attention.self.{name}")
        rules += _affine(f"{ours}.self_attention.to_out", f"{theirs}.attention.output.dense")
        rules += _affine(f"{ours}.self_residual.norm", f"{theirs}.attention.output.LayerNorm")
        rules += _affine(f"{ours}.feedforward.up", f"{theirs}.intermediate.dense")
        rules += _affine(f"{ours}.feedforward.down", f"{theirs}.output.dense")
        rules += _affine(f"{ours}.feedforward_residual.norm", f"{theirs}.output.LayerNorm")
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
        for i in range(getattr(config, f"{side}_layers")):
            ours, theirs = f"{side}.blocks.{i}", f"{side}.layers.{i}"
            looks = (("self", "self_attn"), ("cross", "encoder_attn"))
            for name, attention in looks if side == "decoder" else looks[:1]:
                for part, letter in (("q", "q_proj"), ("k", "k_proj"), ("v", "v_proj"), ("out", "out_proj")):
                    rules += _affine(f"{ours}.{name}_attention.to_{part}", f"{theirs}.{attention}.{letter}")
                rules += _affine(f"{ours}.{name}_residual.norm", f"{theirs}.{attention}_layer_norm")
            rules += _affine(f"{ours}.feedforward.up", f"{theirs}.fc1")
            rules += _affine(f"{ours}.feedforward.down", f"{theirs}.fc2")
            rules += _affine(f"{ours}.feedforward_residual.norm", f"{theirs}.final_layer_norm")
        if config.placement == "pre":
            rules += _affine(f"{side}.norm", f"{side}.layer_norm")
    bias, name = ("head.bias",), "final_logits_bias"
    zeros = Rule((), name, lead=True, zeros=(config.target_vocabulary,))
    return [*_inside("model.", rules), Rule(bias, name, lead=True) if config.output_bias else zeros]
