"""Checks of a model before its first call: credentials, arguments in `params`, parameters it does not take, images."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import date
from difflib import get_close_matches
from typing import Any

from msgspec.structs import replace

from verdict_cli.errors import Refused
from verdict_cli.language.model_address import is_provider_host
from verdict_cli.llm.model_families import family, is_local
from verdict_cli.llm.providers import provider_class
from verdict_cli.llm.providers.endpoint import endpoint_address, endpoint_problem
from verdict_cli.llm.providers.price_book import entry_of
from verdict_cli.llm.providers.protocols import protocol_of
from verdict_cli.llm.providers.secrets import key_in
from verdict_cli.messages import Message, NamedValues, Request, Row
from verdict_cli.model import Model
from verdict_cli.regex import regex
from verdict_cli.removed import MODEL_PREFIX, MODEL_REPLACEMENT

_REASONING = regex(r"(?:openai/|azure/)?(o\d|gpt-5)(?!.*chat)")
"""OpenAI's reasoning models, which take no sampling parameters and return no log-probabilities."""


_NO_CHAT = (
    ("(?:text-)?embed(?:ding)?s?|voyage|bge|gte", "an embedding model"),
    ("whisper|transcribe|stt|asr|deepgram|assemblyai|scribe", "a speech recognition model"),
    ("tts|realtime|sonic|native-audio|voice|speech", "a speech model"),
    (
        "dall-e|image|imagen|canvas|nano-banana|stability|stable-diffusion|flux|recraft|ideogram",
        "an image model",
    ),
    ("sora|veo|video|seedance|[tir]2v", "a video model"),
    ("moderation", "a moderation model"),
    ("rerank(?:er|qa)?|ranker", "a reranking model"),
)
"""Names of models that write no text, and what they are."""


def model_kind_problem(model: Model) -> str | None:
    """Why the model writes no verdicts, by its name; None where it may. A model at an address of the user's own may have any name."""
    if model.api_base:
        return None
    for words, kind in _NO_CHAT:
        if re.search(rf"(?<![a-z])(?:{words})(?![a-z])", model.known_name.lower()):
            return f"model {model.name} is {kind} and writes no text"
    return None


def refused_parameter(model: Model, top_logprobs: int) -> str | None:
    """A parameter that this model does not take, with the fix; None if nothing is known.

    A model at an address of the user's own is another model, whatever its name, so nothing is known about it unless its
    `base_model` says which one it is.
    """
    entry = _known_entry(model)
    if entry is None:
        return None
    sampling = model.sampling()
    reasons = bool(entry.get("supports_reasoning"))
    always_thinks = (
        reasons
        and _REASONING.match(model.known_name)
        and not entry.get("supports_none_reasoning_effort")
    )
    refused = _refused_by_thinkers(sampling, top_logprobs) if always_thinks else None
    if refused is not None:
        return refused
    effort = sampling.get("reasoning_effort")
    if effort not in (None, "none") and not reasons and entry.get("litellm_provider") == "openai":
        return "reasoning_effort is taken by reasoning models only, which this is not; remove it"
    if effort == "none" and reasons and entry.get("supports_none_reasoning_effort") is False:
        return "reasoning_effort: none is not taken by this model; use low or minimal"
    most = entry.get("max_output_tokens")
    if model.max_tokens is not None and isinstance(most, int) and model.max_tokens > most:
        return (
            f"max_tokens is {model.max_tokens:,}, but its replies have {most:,} at most; lower it"
        )
    return None


def _refused_by_thinkers(sampling: NamedValues, top_logprobs: int) -> str | None:
    """A setting that a model which always thinks does not take."""
    for name in ("temperature", "top_p"):
        if sampling.get(name) not in (None, 1):
            return f"{name} is not taken by this reasoning model (only its default, 1); remove it"
    for name in ("presence_penalty", "frequency_penalty", "logit_bias"):
        if sampling.get(name):
            return f"{name} is not taken by this reasoning model; remove it"
    if top_logprobs:
        return "this reasoning model returns no log-probabilities; use another model, or another extractor"
    return None


def _known_entry(model: Model) -> NamedValues | None:
    """The data of the model that answers; None where it is not known which one that is."""
    if is_local(model.name):
        return None
    url, _ = endpoint_address(model)
    is_own = "://" in url and not model.base_model and not is_provider_host(url)
    return None if is_own else entry_of(model.known_name)


def retirement_date(model: Model) -> date | None:
    """When the model's provider retires it; None where unknown."""
    stated = (_known_entry(model) or {}).get("deprecation_date")
    try:
        return date.fromisoformat(stated) if isinstance(stated, str) else None
    except ValueError:
        return None


def context_window(model: Model) -> int | None:
    """The most tokens that a prompt may have; None where unknown."""
    most = (_known_entry(model) or {}).get("max_input_tokens")
    return most if isinstance(most, int) and most > 0 else None


_WITHOUT_LOGPROBS = frozenset({"bedrock", "cohere", "cohere_chat", "groq", "mistral", "perplexity"})
_WITHOUT_SEED = frozenset({"bedrock", "perplexity"})
"""Providers whose documentation has no such parameter."""


MOST_TEMPERATURE = 2.0
"""No provider takes a higher temperature."""


def doubts(model: Model, top_logprobs: int) -> list[str]:
    """What a unit needs of the model and its provider is not known to have, in sentences."""
    entry = _known_entry(model)
    if entry is None:
        return []
    provider = model.known_name.partition("/")[0]
    sampling = model.sampling()
    needs = {
        "returns no log-probabilities": top_logprobs and provider in _WITHOUT_LOGPROBS,
        "takes no seed": "seed" in sampling and provider in _WITHOUT_SEED,
        f"takes a temperature of at most 2, and temperature is {model.temperature}": (
            (model.temperature or 0) > MOST_TEMPERATURE
        ),
        "takes no tools": sampling.get("tools") and not entry.get("supports_function_calling"),
    }
    return [
        f"model {model.name} {need}, as far as is known"
        for need, is_needed in needs.items()
        if is_needed
    ]


def _protocol_refusal(model: Model, top_logprobs: int) -> str | None:
    """A setting that the API of the model's provider does not have; None if it can be sent."""
    entry = family(model)
    if entry is None:
        return None
    probe = Request(Row(0, 0, {}), "", model, (Message("user", ""),), top_logprobs=top_logprobs)
    try:
        protocol = protocol_of(entry)
        protocol.check(model)
        protocol.settings(probe, model.name, "schema")
    except Refused as error:
        return error.in_one_line()
    return None


_RESERVED = {
    "api_base": "set the model's own `api_base`",
    "api_key": "name an environment variable with api_key_env",
    "aws_bedrock_runtime_endpoint": "set it in the environment",
    "aws_sts_endpoint": "set it in the environment",
    "base_url": "set the model's own `api_base`",
    "client": "remove it",
    "fallbacks": "list the models in `model`",
    "max_retries": "set the model's own `retries`",
    "messages": "remove it",
    "model": "remove it",
    "num_retries": "set the model's own `retries`",
    "model_list": "list the models in `model`",
    "shared_session": "remove it",
    "ssl_verify": "set SSL_VERIFY in the environment",
    "stream": "remove it",
    "timeout": "set the model's own `timeout`",
    "vertex_credentials": "set GOOGLE_APPLICATION_CREDENTIALS in the environment",
}
"""Arguments that the program sets itself, with what to do instead of setting them in `params`."""
_KEY_HEADERS = {
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
}


def check_model(model: Model, top_logprobs: int = 0) -> str | None:
    """What would keep this model from answering, None if nothing is known. Sends nothing.

    ``top_logprobs`` is the number of alternatives that will be requested at each position.
    """
    if is_local(model.name):
        return provider_class(model).check(model)
    if model.name.startswith(MODEL_PREFIX):
        return f"model {model.name}: {MODEL_PREFIX}… models were removed; {MODEL_REPLACEMENT}"
    kind = model_kind_problem(model)
    if kind is not None:
        return f"{kind}; choose a chat model or a decision model"
    refused = _refused_params(model.params)
    if refused is not None:
        return f"model {model.name}: {refused}"
    if model.api_key_env and not key_in(model.api_key_env, os.environ):
        return f"model {model.name}: the environment variable {model.api_key_env} (api_key_env) is not set"
    return _check_endpoint(model, top_logprobs)


def _check_endpoint(model: Model, top_logprobs: int) -> str | None:
    # What the protocol cannot carry is known first: it holds also where no key is set.
    issue = _protocol_refusal(model, top_logprobs)
    if issue is not None:
        return issue
    # A family's endpoint without its client, whose import takes a tenth of a second.
    issue = (
        endpoint_problem(model) if family(model) is not None else provider_class(model).check(model)
    )
    if issue is not None:
        return issue
    refused = refused_parameter(model, top_logprobs)
    return None if refused is None else f"model {model.name}: {refused}"


def _refused_params(params: NamedValues) -> str | None:
    """What `params` may not hold; None if nothing is wrong."""
    for key, fix in _RESERVED.items():
        if key in params:
            return f"{key} is not allowed in params; {fix}"
    header = _key_header(params)
    if header is not None:
        return (
            f"the header {header!r:.80} is not allowed in params; keys are named with api_key_env"
        )
    secret = _environment_reference(params)
    if secret is not None:
        return f"{secret!r:.80} is not allowed in params; keys are named with api_key_env"
    return _unknown_argument(params)


def sees_images(model: Model) -> bool | None:
    """Whether the model takes images, by litellm's data file; None for a model that it does not list."""
    entry = entry_of(model.known_name)
    return None if entry is None else bool(entry.get("supports_vision"))


def with_seen_images(messages: tuple[Message, ...], model: Model) -> tuple[Message, ...]:
    """The messages; without their images for a model that is known to take none. A transcript names its images anyway."""
    for message in messages:
        if message.images and sees_images(model) is False:
            return tuple(replace(message, images=()) for message in messages)
    return messages


def _key_header(params: NamedValues) -> str | None:
    """The name of a header in `params` that would carry a key; None if there is none."""
    values = (params.get(argument) for argument in ("extra_headers", "headers"))
    names = [str(name) for headers in values if isinstance(headers, Mapping) for name in headers]
    return next((name for name in names if name.lower() in _KEY_HEADERS), None)


def _environment_reference(value: Any) -> str | None:
    """A text that litellm would replace by a secret of the environment; None if there is none."""
    if isinstance(value, str):
        return value if value.lstrip().startswith(("os.environ/", "oidc/")) else None
    if isinstance(value, Mapping):
        value = [*value.values()]
    inner = value if isinstance(value, list | tuple) else ()
    return next(filter(None, map(_environment_reference, inner)), None)


# litellm has some 350 arguments of its own, among them addresses (`sagemaker_base_url`), callbacks that are sent every prompt,
# and files of credentials. Each release adds some, so only the arguments that shape a request are allowed.
_SAMPLING_ARGUMENTS = """
    temperature top_p top_k top_a min_p typical_p n best_of seed stop stop_sequences stop_token_ids bad_words logit_bias
    logprobs top_logprobs prompt_logprobs max_tokens max_completion_tokens max_output_tokens max_new_tokens min_tokens num_predict
    n_predict n_probs presence_penalty frequency_penalty repetition_penalty repeat_penalty repeat_last_n length_penalty
    no_repeat_ngram_size mirostat mirostat_eta mirostat_tau tfs_z num_ctx num_keep do_sample use_beam_search early_stopping
    ignore_eos include_stop_str_in_output skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens candidate_count
    random_seed safe_prompt raw keep_alive priority cache_prompt
"""
_REASONING_ARGUMENTS = """
    reasoning_effort reasoning include_reasoning separate_reasoning reasoning_format thinking thinking_config enable_thinking think
    verbosity
"""
_FORM_ARGUMENTS = """
    response_format response_mime_type response_schema format grammar json_schema regex ebnf guided_json guided_regex guided_choice
    guided_grammar guided_decoding_backend guided_whitespace_pattern structured_outputs tools tool_choice tool_config
    parallel_tool_calls functions function_call strict modalities audio prediction web_search_options
"""
_TEMPLATE_ARGUMENTS = """
    chat_template_kwargs add_generation_prompt continue_final_message add_special_tokens documents mm_processor_kwargs
    media_io_kwargs
"""
_SERVICE_ARGUMENTS = """
    user metadata store service_tier safety_identifier safety_settings generation_config prompt_cache_key prompt_cache_retention
    cache_control_injection_points performanceConfig requestMetadata guardrailConfig provider transforms
    extra_headers headers extra_body drop_params allowed_openai_params additional_drop_params custom_llm_provider mock_response
    organization
"""
_IN_ADDRESSES = frozenset(["api_version", "aws_region_name", "vertex_location", "vertex_project"])
"""Arguments that litellm writes into a provider's address."""
_ALLOWED = _IN_ADDRESSES.union(
    *map(
        str.split,
        (
            _SAMPLING_ARGUMENTS,
            _REASONING_ARGUMENTS,
            _FORM_ARGUMENTS,
            _TEMPLATE_ARGUMENTS,
            _SERVICE_ARGUMENTS,
        ),
    )
)
_PLAIN = regex(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


def _unknown_argument(params: NamedValues) -> str | None:
    """Why an argument is not allowed in `params`; None if all are."""
    for name, value in params.items():
        if name not in _ALLOWED:
            near = get_close_matches(name, sorted(_ALLOWED), n=1, cutoff=0.8)
            fix = "what only a server knows goes in `extra_body`"
            if near:
                fix = f"did you mean {near[0]}?"
            return (
                f"{name!r:.80} is not allowed in params: it is not an argument of a request; {fix}"
            )
        if name in _IN_ADDRESSES and not (isinstance(value, str) and _PLAIN.fullmatch(value)):
            return f"{name} in params may have letters, digits and ._:- only, because it is part of an address"
    return None
