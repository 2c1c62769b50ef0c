"""The settings of Hugging Face's GPT-2, Llama, BERT, Marian, Pegasus and BART, and what they are here; both ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from regard.attention.config import PositionConfig
from regard.errors import UserError
from regard.exchange import names
from regard.exchange.weights import Rule
from regard.models.config import BertConfig, GptConfig, ModelConfig, TransformerConfig

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
ACTIVATIONS |= {"silu": "silu", "swish": "silu"}
LARGEST = 1 << 31
FRACTIONS = ("eps", "epsilon", "theta")  # end the names of numbers that need not be whole


class Given:
    """A foreign config.json: values by name, and all that is wrong with them at once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values, self.problems = values, list[str]()

    def number(self, name: str, default: float | None = None) -> Any:
        value = self.values.get(name)
        value = default if value is None else value
        kinds = int | float if name.endswith(FRACTIONS) else int
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < LARGEST:
            shown = "missing" if value is None else f"{value!r:.60}"
            self.problems.append(f"{name} is {shown}; it has to be a number above 0")
            return 1
        return value

    def rate(self, name: str) -> float:
        """Of dropout; 0 where they do not say."""
        value = self.values.get(name) or 0.0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
            self.problems.append(f"{name} is {value!r}; it has to be a number from 0 to below 1")
            return 0.0
        return float(value)

    def only(self, name: str, default: Any, *known: Any) -> Any:
        """A value among those that are known here."""
        value = self.values.get(name, default)
        if not any(value is each or (value == each and not isinstance(value, bool)) for each in known):
            self.problems.append(f"{name} is {value!r}, and Regard knows {', '.join(map(repr, known))}")
            return known[0]
        return value

    def token(self, name: str, default: int) -> int:
        """Its id, or the first of several."""
        value = self.values.get(name)
        value = value[0] if isinstance(value, list) and value else value
        return value if isinstance(value, int) else default


@dataclass(frozen=True, kw_only=True)
class Family:
    """One kind of foreign model: what is called otherwise, what is always so, and the rest as two functions."""

    architecture: str
    shape: type[ModelConfig]
    numbers: dict[str, str]
    """Settings of ours, and what they are called there."""
    fixed: dict[str, Any]
    """Settings of ours that all of them have."""
    known: dict[str, Any] = field(default_factory=dict)
    """Settings of theirs, and the one value that is known here."""
    rates: dict[str, str]
    """Rates of dropout of theirs, and what they are here; of two that are one here, the last counts."""
    activation: str = ""
    """What theirs is called."""
    read: Callable[[Given], dict[str, Any]]
    write: Callable[[Any], dict[str, Any]]
    rules: Callable[[Any], list[Rule]]
    prefix: str
    """Of their names; it is missing where the trunk alone was saved."""
    ignored: str
    """Names that hold nothing of their own, as a pattern."""
    sinusoids: tuple[str, ...] = ()
    """Names under which they store what could be computed."""

    def to_ours(self, values: Mapping[str, Any]) -> ModelConfig:
        """Raises UserError with everything that is unknown here."""
        given = Given(values)
        settings = {ours: given.number(theirs) for ours, theirs in self.numbers.items()}
        for name, value in self.known.items():
            given.only(name, value, value)
        if self.activation:
            settings["activation"] = ACTIVATIONS[given.only(self.activation, None, *ACTIVATIONS)]
        settings |= {ours: given.rate(theirs) for theirs, ours in self.rates.items()}
        settings |= self.read(given)
        if given.problems:
            raise UserError("; ".join(given.problems))
        return self.shape(**self.fixed, **settings)

    def to_theirs(self, config: Any) -> dict[str, Any]:
        """Raises UserError with everything that these models cannot have."""
        fixed = {ours: value for ours, value in self.fixed.items() if ours != "output_bias"}  # which may be zeros
        problems = [f"{k}: {getattr(config, k)}, not {v}" for k, v in fixed.items() if getattr(config, k) != v]
        if self.activation and config.activation not in ACTIVATIONS.values():
            problems.append(f"activation: {config.activation}, not {', '.join(dict.fromkeys(ACTIVATIONS.values()))}")
        if problems:
            raise UserError(f"{self.architecture} cannot have model.{'; model.'.join(problems)}")
        values = {theirs: getattr(config, ours) for ours, theirs in self.numbers.items()}
        values |= {theirs: getattr(config, ours) for theirs, ours in self.rates.items()}
        if self.activation:
            values[self.activation] = next(t for t, ours in ACTIVATIONS.items() if ours == config.activation)
        return {"architectures": [self.architecture], **self.known, **values, **self.write(config)}


def _learned(given: Given, name: str) -> PositionConfig:
    return PositionConfig(kind="learned", max_length=given.number(name))


def _length(config: Any) -> int:
    if config.position.kind != "learned":
        raise UserError(f"its positions are learned, and these are {config.position.kind}")
    return int(config.position.max_length)


def _read_gpt2(given: Given) -> dict[str, Any]:
    return {
        "hidden": given.number("n_inner", 4 * given.number("n_embd")),
        "position": _learned(given, "n_positions"),
        "tied": given.only("tie_word_embeddings", True, True, False),
        "start": given.token("bos_token_id", 50256),
        "end": given.token("eos_token_id", 50256),
    }


def _write_gpt2(config: GptConfig) -> dict[str, Any]:
    tokens = {"bos_token_id": config.start, "eos_token_id": config.end}
    lengths = {"n_inner": config.hidden, "n_positions": _length(config)}
    return {**lengths, **tokens, "tie_word_embeddings": config.tied}


def _read_llama(given: Given) -> dict[str, Any]:
    turning = given.values.get("rope_parameters") or given.values.get("rope_scaling") or {}
    turning = turning if isinstance(turning, dict) else {"type": turning}
    Given.only(given, "rope_type", turning.get("rope_type", turning.get("type", "default")), "default")
    base = Given({"rope_theta": 10000.0, **turning, **given.values}).number("rope_theta")
    bias = given.only("attention_bias", False, False, True)
    given.only("mlp_bias", False, bias)
    return {
        "num_kv_heads": given.number("num_key_value_heads", given.number("num_attention_heads")),
        "head_width": given.number("head_dim") if given.values.get("head_dim") else None,
        "position": PositionConfig(kind="rotary", layout="halves", base=float(base)),
        "bias": bias,
        "tied": given.only("tie_word_embeddings", False, True, False),
        "start": given.token("bos_token_id", 1),
        "end": given.token("eos_token_id", 2),
    }


def _write_llama(config: GptConfig) -> dict[str, Any]:
    if config.position.kind != "rotary":
        raise UserError(f"its positions are rotary, and these are {config.position.kind}")
    base = {"rope_theta": config.position.base}
    return {
        "num_key_value_heads": config.attention.groups, "head_dim": config.attention.head_width,
        **base, "rope_parameters": {"rope_type": "default", **base}, "max_position_embeddings": 2048,
        "attention_bias": config.bias, "mlp_bias": config.bias, "tie_word_embeddings": config.tied,
        "bos_token_id": config.start, "eos_token_id": config.end,
    }  # fmt: skip


def _read_mistral(given: Given) -> dict[str, Any]:
    settings = {name: value for name, value in _read_llama(given).items() if name != "bias"}
    return {**settings, "context": given.number("sliding_window") if given.values.get("sliding_window") else None}


def _write_mistral(config: GptConfig) -> dict[str, Any]:
    return {**_write_llama(config), "sliding_window": config.context, "max_position_embeddings": config.context or 2048}


def _read_bert(given: Given) -> dict[str, Any]:
    named = given.values.get("architectures")
    values = {"architectures": named[0] if isinstance(named, list) and named else "BertModel"}
    heads = Given(values)
    kind = heads.only("architectures", "BertModel", "BertModel", "BertForMaskedLM", "BertForPreTraining")
    given.problems += heads.problems
    last = given.number("vocab_size") - 1
    return {
        "position": _learned(given, "max_position_embeddings"),
        "tied": given.only("tie_word_embeddings", True, True, False),
        "pooler": kind != "BertForMaskedLM",
        "next_sentence": kind == "BertForPreTraining",
        "guesses": kind != "BertModel",
        "start": given.token("cls_token_id", min(101, last)),
        "end": given.token("sep_token_id", min(102, last)),
        "mask": given.token("mask_token_id", min(103, last)),
    }


def _write_bert(config: BertConfig) -> dict[str, Any]:
    heads = ("BertForPreTraining" if config.next_sentence else "BertForMaskedLM") if config.guesses else "BertModel"
    return {
        "architectures": [heads], "max_position_embeddings": _length(config), "tie_word_embeddings": config.tied,
        "pad_token_id": 0, "cls_token_id": config.start, "sep_token_id": config.end, "mask_token_id": config.mask,
    }  # fmt: skip


def _read_pair(given: Given) -> dict[str, Any]:
    for name in ("attention_heads", "ffn_dim"):
        both = given.number(f"encoder_{name}")
        given.only(f"decoder_{name}", both, both)
    return {
        "source_vocabulary": given.number("vocab_size"),
        "scaled_embedding": given.only("scale_embedding", False, True, False),
        "end": given.token("eos_token_id", 2),
        "start": given.token("decoder_start_token_id", 2),
    }


def _read_marian(given: Given) -> dict[str, Any]:
    return {**_read_pair(given), "position": PositionConfig(layout="halves")}


def _read_bart(given: Given) -> dict[str, Any]:
    return {**_read_pair(given), "position": _learned(given, "max_position_embeddings")}


def _write_pair(config: TransformerConfig) -> dict[str, Any]:
    return {
        "decoder_attention_heads": config.num_heads, "decoder_ffn_dim": config.hidden,
        "scale_embedding": config.scaled_embedding,
        "decoder_start_token_id": config.start, "eos_token_id": config.end, "forced_eos_token_id": None,
        "pad_token_id": config.start if 0 in (config.start, config.end) else 0, "bos_token_id": config.start,
    }  # fmt: skip


def _write_marian(config: TransformerConfig) -> dict[str, Any]:
    place = config.position
    if (place.kind, place.base, place.place) != ("sinusoid", 10000.0, "embedding"):
        raise UserError(f"its positions are sinusoid, and these are {place.kind}")
    return {**_write_pair(config), "max_position_embeddings": 1024}


def _write_bart(config: TransformerConfig) -> dict[str, Any]:
    return {**_write_pair(config), "max_position_embeddings": _length(config)}


_PLAIN = {"norm": "layer", "bias": True, "score": "scaled_dot", "head_width": None, "num_kv_heads": None}
_PAIR: dict[str, Any] = dict(
    shape=TransformerConfig,
    numbers={"target_vocabulary": "vocab_size", "width": "d_model", "encoder_layers": "encoder_layers",
             "decoder_layers": "decoder_layers", "num_heads": "encoder_attention_heads", "hidden": "encoder_ffn_dim"},
    rates={"dropout": "dropout", "attention_dropout": "attention_dropout", "activation_dropout": "hidden_dropout"},
    activation="activation_function",
    rules=names.encoder_decoder,
    prefix="model.",
)  # fmt: skip
_PAIR_FIXED = {**_PLAIN, "placement": "post", "tied": "all", "output_bias": True, "norm_eps": 1e-5}
_PAIR_KNOWN = {"tie_word_embeddings": True, "normalize_before": False, "add_final_layer_norm": False}
_REPEATED = r"lm_head\.weight|model\.(encoder|decoder)\.embed_tokens\.weight"

FAMILIES: dict[str, Family] = {
    "gpt2": Family(
        architecture="GPT2LMHeadModel",
        shape=GptConfig,
        numbers={"vocabulary": "vocab_size", "width": "n_embd", "num_heads": "n_head", "num_layers": "n_layer",
                 "norm_eps": "layer_norm_epsilon"},
        fixed={**_PLAIN, "placement": "pre"},
        known={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
        rates={"resid_pdrop": "dropout", "embd_pdrop": "dropout", "attn_pdrop": "attention_dropout"},
        activation="activation_function",
        read=_read_gpt2,
        write=_write_gpt2,
        rules=names.gpt2,
        prefix="transformer.",
        ignored=r"lm_head\.weight|.*\.attn\.(masked_)?bias",
    ),
    "llama": Family(
        architecture="LlamaForCausalLM",
        shape=GptConfig,
        numbers={"vocabulary": "vocab_size", "width": "hidden_size", "hidden": "intermediate_size",
                 "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads", "norm_eps": "rms_norm_eps"},
        fixed={"norm": "rms", "placement": "pre", "activation": "swiglu", "score": "scaled_dot", "context": None},
        known={"hidden_act": "silu", "sliding_window": None},
        rates={"attention_dropout": "attention_dropout"},
        read=_read_llama,
        write=_write_llama,
        rules=names.llama,
        prefix="model.",
        ignored=r"lm_head\.weight|.*rotary_emb\.inv_freq",
    ),
    "bert": Family(
        architecture="BertModel",
        shape=BertConfig,
        numbers={"vocabulary": "vocab_size", "width": "hidden_size", "hidden": "intermediate_size",
                 "num_layers": "num_hidden_layers", "num_heads": "num_attention_heads", "norm_eps": "layer_norm_eps",
                 "segments": "type_vocab_size"},
        fixed={**_PLAIN, "placement": "post", "embedding_norm": True},
        known={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
        rates={"hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout"},
        activation="hidden_act",
        read=_read_bert,
        write=_write_bert,
        rules=names.bert,
        prefix="bert.",
        ignored=r".*position_ids|cls\.predictions\.decoder\.(weight|bias)",
    ),
    "marian": Family(
        architecture="MarianMTModel",
        fixed={**_PAIR_FIXED, "embedding_norm": False},
        known={**_PAIR_KNOWN, "static_position_embeddings": True, "share_encoder_decoder_embeddings": True,
               "normalize_embedding": False},
        read=_read_marian,
        write=_write_marian,
        ignored=_REPEATED + r"|.*embed_positions\.weight",
        **_PAIR,
    ),
    "pegasus": Family(  # Marian with its norms before the sub-layers
        architecture="PegasusForConditionalGeneration",
        fixed={**_PAIR_FIXED, "placement": "pre", "embedding_norm": False},
        known={"tie_word_embeddings": True},
        read=_read_marian,
        write=_write_marian,
        ignored=_REPEATED + r"|.*embed_positions\.weight",
        sinusoids=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
        **_PAIR,
    ),
    "bart": Family(
        architecture="BartForConditionalGeneration",
        fixed={**_PAIR_FIXED, "embedding_norm": True},
        known=_PAIR_KNOWN,
        read=_read_bart,
        write=_write_bart,
        ignored=_REPEATED,
        **_PAIR,
    ),
}  # fmt: skip
FAMILIES["mistral"] = replace(  # Llama with a window
    FAMILIES["llama"],
    architecture="MistralForCausalLM",
    fixed={**{k: v for k, v in FAMILIES["llama"].fixed.items() if k != "context"}, "bias": False},
    known={"hidden_act": "silu"},
    read=_read_mistral,
    write=_write_mistral,
)
