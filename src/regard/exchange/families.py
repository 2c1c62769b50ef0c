"""The settings of Hugging Face's GPT-2, Llama, BERT, Marian, Pegasus and BART, and what they are here; both ways."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from regard.attention.config import PositionConfig
from regard.errors import UserError
from regard.exchange import weights
from regard.models.config import BertConfig, GptConfig, ModelConfig, TransformerConfig

ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
ACTIVATIONS |= {"silu": "silu", "swish": "silu"}
LARGEST = 1 << 31
NO_MARK = -1  # the start or end of a model that has none
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

    def maybe(self, name: str) -> Any:
        return self.number(name) if self.values.get(name) else None

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
    """One kind of foreign model: tables by their names of settings, and a function for what no table can say."""

    architecture: str
    shape: type[ModelConfig]
    numbers: dict[str, str]  # those that every folder has to give, and what they are here
    fixed: dict[str, Any]  # settings of ours that all of them have
    known: dict[str, Any] = field(default_factory=dict)  # settings of theirs, and the one value that is known here
    rates: dict[str, str]  # of dropout, and what they are here; of two that are one here, the last counts
    activation: str = ""  # what theirs is called
    positions: str  # their kind
    read: Callable[[Given], dict[str, Any]]  # the settings of ours that no table gives
    defaults: dict[str, bool | int]  # switches and ids, where a folder does not say; `writes` has what they are here
    writes: dict[
        str, Any
    ]  # all else: the name of a setting of ours, a function of them all, or what is always the same
    weights: dict[str, str]  # parts of names of our weights, and what they are called there
    ignored: str  # names of weights that hold nothing of their own, as a pattern
    sinusoids: tuple[str, ...] = ()  # names under which they store what could be computed

    def to_ours(self, values: Mapping[str, Any]) -> ModelConfig:
        """Raises UserError with everything that is unknown here."""
        given = Given(values)
        settings = {ours: given.number(theirs) for theirs, ours in self.numbers.items()}
        for name, value in self.known.items():
            given.only(name, value, value)
        if self.activation:
            settings["activation"] = ACTIVATIONS[given.only(self.activation, None, *ACTIVATIONS)]
        settings |= {ours: given.rate(theirs) for theirs, ours in self.rates.items()}
        settings |= self.read(given)
        if self.positions == "learned":
            name = next(theirs for theirs, ours in self.writes.items() if ours == "position.max_length")
            settings["position"] = PositionConfig(kind="learned", max_length=given.number(name))
        for name, default in self.defaults.items():
            value = given.only(name, default, True, False) if isinstance(default, bool) else given.token(name, default)
            settings[self.writes[name]] = value
        if given.problems:
            raise UserError("; ".join(given.problems))
        for name, mark in (("bos_token_id", "start"), ("eos_token_id", "end")) if self.shape is GptConfig else ():
            if values.get(name, 0) is None or not 0 <= settings[mark] < settings["vocabulary"]:
                settings[mark] = NO_MARK
        return self.shape(**{**settings, **self.fixed})

    def to_theirs(self, config: Any) -> dict[str, Any]:
        """Raises UserError with everything that these models cannot have."""
        fixed = {ours: value for ours, value in self.fixed.items() if ours != "output_bias"}  # which may be zeros
        problems = [f"{k}: {getattr(config, k)}, not {v}" for k, v in fixed.items() if getattr(config, k) != v]
        if self.activation and config.activation not in ACTIVATIONS.values():
            problems.append(f"activation: {config.activation}, not {', '.join(dict.fromkeys(ACTIVATIONS.values()))}")
        if problems:
            raise UserError(f"{self.architecture} cannot have model.{'; model.'.join(problems)}")
        place = config.position
        plain = place.kind != "sinusoid" or (place.base, place.place) == (10000.0, "embedding")
        if place.kind != self.positions or not plain:
            raise UserError(f"its positions are {self.positions}, and these are {place.kind}")
        values = {theirs: getattr(config, ours) for theirs, ours in {**self.numbers, **self.rates}.items()}
        if self.activation:
            values[self.activation] = next(t for t, ours in ACTIVATIONS.items() if ours == config.activation)
        for name, value in self.writes.items():
            value = attrgetter(value) if isinstance(value, str) else value
            value = value(config) if callable(value) else value
            values[name] = None if value == NO_MARK else value
        return {"architectures": [self.architecture], **self.known, **values}


def _read_llama(given: Given) -> dict[str, Any]:
    turning = given.values.get("rope_parameters") or given.values.get("rope_scaling") or {}
    turning = turning if isinstance(turning, dict) else {"type": turning}
    given.only("rope_type", turning.get("rope_type", turning.get("type", "default")), "default")
    base = Given({"rope_theta": 10000.0, **turning, **given.values}).number("rope_theta")
    bias = given.only("attention_bias", False, False, True)
    given.only("mlp_bias", False, bias)
    return {
        "num_kv_heads": given.number("num_key_value_heads", given.number("num_attention_heads")),
        "head_width": given.maybe("head_dim"),
        "position": PositionConfig(kind="rotary", layout="halves", base=float(base)),
        "bias": bias,
    }


def _read_bert(given: Given) -> dict[str, Any]:
    named = given.values.get("architectures")
    heads = Given({"architectures": named[0] if isinstance(named, list) and named else "BertModel"})
    kind = heads.only("architectures", None, "BertModel", "BertForMaskedLM", "BertForPreTraining")
    given.problems += heads.problems
    last = given.number("vocab_size") - 1
    return {
        "pooler": kind != "BertForMaskedLM",
        "next_sentence": kind == "BertForPreTraining",
        "guesses": kind != "BertModel",
        "start": given.token("cls_token_id", min(101, last)),
        "end": given.token("sep_token_id", min(102, last)),
        "mask": given.token("mask_token_id", min(103, last)),
    }


def _read_pair(given: Given) -> dict[str, Any]:
    for name in ("attention_heads", "ffn_dim"):
        both = given.number(f"encoder_{name}")
        given.only(f"decoder_{name}", both, both)
    return {"source_vocabulary": given.number("vocab_size"), "position": PositionConfig(layout="halves")}


_PLAIN = {"norm": "layer", "bias": True, "score": "scaled_dot", "head_width": None, "num_kv_heads": None}
_STACK = {"vocab_size": "vocabulary", "hidden_size": "width", "intermediate_size": "hidden",
          "num_hidden_layers": "num_layers", "num_attention_heads": "num_heads"}  # fmt: skip
_LLAMA = Family(
    architecture="LlamaForCausalLM",
    shape=GptConfig,
    numbers={**_STACK, "rms_norm_eps": "norm_eps"},
    fixed={"norm": "rms", "placement": "pre", "activation": "swiglu", "score": "scaled_dot", "context": None},
    known={"hidden_act": "silu", "sliding_window": None},
    rates={"attention_dropout": "attention_dropout"},
    positions="rotary",
    read=_read_llama,
    defaults={"tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2},
    writes={
        "num_key_value_heads": "attention.groups", "head_dim": "attention.head_width", "rope_theta": "position.base",
        "rope_parameters": lambda config: {"rope_type": "default", "rope_theta": config.position.base},
        "max_position_embeddings": lambda config: config.context or 2048, "attention_bias": "bias", "mlp_bias": "bias",
        "tie_word_embeddings": "tied", "bos_token_id": "start", "eos_token_id": "end",
    },
    weights=weights.LLAMA,
    ignored=r"lm_head\.weight|.*rotary_emb\.inv_freq",
)  # fmt: skip
_REPEATED = r"lm_head\.weight|model\.(encoder|decoder)\.embed_tokens\.weight"
_MARIAN = Family(
    architecture="MarianMTModel",
    shape=TransformerConfig,
    numbers={"vocab_size": "target_vocabulary", "d_model": "width", "encoder_layers": "encoder_layers",
             "decoder_layers": "decoder_layers", "encoder_attention_heads": "num_heads", "encoder_ffn_dim": "hidden"},
    fixed={**_PLAIN, "placement": "post", "tied": "all", "output_bias": True, "norm_eps": 1e-5,
           "embedding_norm": False},
    known={"tie_word_embeddings": True, "normalize_before": False, "add_final_layer_norm": False,
           "static_position_embeddings": True, "share_encoder_decoder_embeddings": True, "normalize_embedding": False},
    rates={"dropout": "dropout", "attention_dropout": "attention_dropout", "activation_dropout": "hidden_dropout"},
    activation="activation_function",
    positions="sinusoid",
    read=_read_pair,
    defaults={"scale_embedding": False, "decoder_start_token_id": 2, "eos_token_id": 2},
    writes={
        "decoder_attention_heads": "num_heads", "decoder_ffn_dim": "hidden", "scale_embedding": "scaled_embedding",
        "decoder_start_token_id": "start", "eos_token_id": "end", "forced_eos_token_id": None,
        "pad_token_id": lambda config: config.start if 0 in (config.start, config.end) else 0, "bos_token_id": "start",
        "max_position_embeddings": 1024,
    },
    weights=weights.PAIR,
    ignored=_REPEATED + r"|.*embed_positions\.weight",
)  # fmt: skip

FAMILIES: dict[str, Family] = {
    "gpt2": Family(
        architecture="GPT2LMHeadModel",
        shape=GptConfig,
        numbers={"vocab_size": "vocabulary", "n_embd": "width", "n_head": "num_heads", "n_layer": "num_layers",
                 "layer_norm_epsilon": "norm_eps"},
        fixed={**_PLAIN, "placement": "pre"},
        known={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
        rates={"resid_pdrop": "dropout", "embd_pdrop": "dropout", "attn_pdrop": "attention_dropout"},
        activation="activation_function",
        positions="learned",
        read=lambda given: {"hidden": given.number("n_inner", 4 * given.number("n_embd"))},
        defaults={"bos_token_id": 50256, "eos_token_id": 50256, "tie_word_embeddings": True},
        writes={"n_inner": "hidden", "n_positions": "position.max_length",
                "bos_token_id": "start", "eos_token_id": "end", "tie_word_embeddings": "tied"},
        weights=weights.GPT2,
            ignored=r"lm_head\.weight|.*\.attn\.(masked_)?bias",
    ),
    "llama": _LLAMA,
    "bert": Family(
        architecture="BertModel",
        shape=BertConfig,
        numbers={**_STACK, "layer_norm_eps": "norm_eps", "type_vocab_size": "segments"},
        fixed={**_PLAIN, "placement": "post", "embedding_norm": True},
        known={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
        rates={"hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout"},
        activation="hidden_act",
        positions="learned",
        read=_read_bert,
        defaults={"tie_word_embeddings": True},
        writes={
            "architectures": lambda config: [
                f"BertFor{'PreTraining' if config.next_sentence else 'MaskedLM'}" if config.guesses else "BertModel"],
            "max_position_embeddings": "position.max_length", "tie_word_embeddings": "tied", "pad_token_id": 0,
            "cls_token_id": "start", "sep_token_id": "end", "mask_token_id": "mask",
        },
        weights=weights.BERT,
            ignored=r".*position_ids|cls\.predictions\.decoder\.(weight|bias)",
    ),
    "marian": _MARIAN,
    "pegasus": replace(  # Marian with its norms before the sub-layers
        _MARIAN,
        architecture="PegasusForConditionalGeneration",
        fixed={**_MARIAN.fixed, "placement": "pre"},
        known={"tie_word_embeddings": True},
        sinusoids=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
    ),
    "bart": replace(  # Marian with learned positions, and norms after its embeddings
        _MARIAN,
        architecture="BartForConditionalGeneration",
        fixed={**_MARIAN.fixed, "embedding_norm": True},
        known={name: _MARIAN.known[name] for name in
               ("tie_word_embeddings", "normalize_before", "add_final_layer_norm")},
        positions="learned",
        writes={**_MARIAN.writes, "max_position_embeddings": "position.max_length"},
        ignored=_REPEATED,
    ),
    "mistral": replace(  # Llama with a window
        _LLAMA,
        architecture="MistralForCausalLM",
        fixed={**{k: v for k, v in _LLAMA.fixed.items() if k != "context"}, "bias": False},
        known={"hidden_act": "silu"},
        read=lambda given: {**_read_llama(given), "context": given.maybe("sliding_window")},
        writes={**_LLAMA.writes, "sliding_window": "context"},
    ),
}  # fmt: skip
