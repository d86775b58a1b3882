"""Which arguments `params` may have: those that shape a request, and none that leads it, its key or a copy elsewhere.

litellm has some 350 arguments of its own, among them addresses (`sagemaker_base_url`), callbacks that are sent every prompt,
and files of credentials. Each release adds some, so what is not listed here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

_SAMPLING = """
    temperature top_p top_k top_a min_p typical_p n best_of seed stop stop_sequences stop_token_ids bad_words logit_bias
    logprobs top_logprobs prompt_logprobs max_tokens max_completion_tokens max_output_tokens max_new_tokens min_tokens num_predict
    n_predict n_probs presence_penalty frequency_penalty repetition_penalty repeat_penalty repeat_last_n length_penalty
    no_repeat_ngram_size mirostat mirostat_eta mirostat_tau tfs_z num_ctx num_keep do_sample use_beam_search early_stopping
    ignore_eos include_stop_str_in_output skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens candidate_count
    random_seed safe_prompt raw keep_alive priority cache_prompt
"""
_REASONING = """
    reasoning_effort reasoning include_reasoning separate_reasoning reasoning_format thinking thinking_config enable_thinking think
    verbosity
"""
_FORM = """
    response_format response_mime_type response_schema format grammar json_schema regex ebnf guided_json guided_regex guided_choice
    guided_grammar guided_decoding_backend guided_whitespace_pattern structured_outputs tools tool_choice tool_config
    parallel_tool_calls functions function_call strict modalities audio prediction web_search_options
"""
_TEMPLATE = """
    chat_template_kwargs add_generation_prompt continue_final_message add_special_tokens documents mm_processor_kwargs
    media_io_kwargs
"""
_SERVICE = """
    user metadata store service_tier safety_identifier safety_settings generation_config prompt_cache_key prompt_cache_retention
    cache_control_injection_points performanceConfig requestMetadata guardrailConfig provider transforms
    extra_headers headers extra_body drop_params allowed_openai_params additional_drop_params custom_llm_provider mock_response
    organization
"""
_IN_ADDRESSES = frozenset(["api_version", "aws_region_name", "vertex_location", "vertex_project"])
"""Arguments that litellm writes into a provider's address."""
_ALLOWED = _IN_ADDRESSES.union(*map(str.split, (_SAMPLING, _REASONING, _FORM, _TEMPLATE, _SERVICE)))
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


def argument_refused(params: Mapping[str, Any]) -> str | None:
    """Why an argument cannot stand in `params`; None where all can."""
    for name, value in params.items():
        if name not in _ALLOWED:
            near = get_close_matches(name, sorted(_ALLOWED), n=1, cutoff=0.8)
            cure = f"did you mean {near[0]}?" if near else "what only a server knows goes in `extra_body`"
            return f"{name!r:.80} cannot stand in params: it is not an argument of a request; {cure}"
        if name in _IN_ADDRESSES and not (isinstance(value, str) and _PLAIN.fullmatch(value)):
            return f"{name} in params may have letters, digits and ._:- only, because it is part of an address"
    return None
