"""The formats of logs that `verdict import` reads, each a function from a file to its rows."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verdict_cli.features.imports.logs import (
    LogPlace,
    LogRow,
    as_text,
    conversation_or_text,
    items_at,
    lists_at,
    not_in_format,
    object_rows,
    parsed,
    unique_names,
)
from verdict_cli.language.conversation import looks_like_conversation
from verdict_cli.messages import JsonObject
from verdict_cli.regex import regex
from verdict_cli.storage.file_reads import report_read


@object_rows("messages", "data")
def chat_lines(place: LogPlace, line: JsonObject, index: int) -> LogRow:
    """A line of OpenAI's chat form: a request, one of a batch, a fine-tuning example, or a logged request with its response."""
    request = next(
        (line[key] for key in ("body", "request") if isinstance(line.get(key), dict)), line
    )
    response = line.get("response") or {}
    response = response.get("body", response) if isinstance(response, dict) else {}
    error = line.get("error") or response.get("error")
    messages = _chat_messages(line, request, response)
    if messages is None and not error:
        for key, name in _OTHER_LINES.items():
            if key in line:
                raise place.error(
                    f"this is {name}, not a line of chat",
                    "`verdict import json` reads its objects as they are",
                )
        messages = place.required(request, "messages", list)
    scores, metadata = (
        value if isinstance(value := line.get(key), dict) else {} for key in ("scores", "metadata")
    )
    failed = {}
    if error:
        failed["error"] = error.get("message") if isinstance(error, dict) else str(error)
    return place.row(
        identity=line.get("custom_id") or line.get("id") or index,
        messages=messages,
        scores=scores,
        model=response.get("model") or request.get("model"),
        target=line.get("target"),
        metadata=metadata,
        **failed,
    )


_OTHER_LINES = {
    "preferred_output": "a pair of preferences for fine-tuning",
    "spec": "a log of openai/evals",
    "sample_id": "a log of openai/evals",
}


def _chat_messages(line: JsonObject, request: JsonObject, response: JsonObject) -> list[Any] | None:
    """The messages of a request and its reply, of chat completions or of the Responses API; None where there are none."""
    choices = response.get("choices") or line.get("choices") or []
    replied = (
        [choices[0]["message"]]
        if choices and isinstance(choices[0], dict) and "message" in choices[0]
        else []
    )
    messages = request.get("messages")
    if looks_like_conversation(messages) or (replied and messages is None):
        return [*(messages or ()), *replied]
    if "preferred_output" in line or ("input" not in request and "output" not in response):
        return None
    prompt = request.get("input") or []
    prompt = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    system = request.get("instructions") or response.get("instructions")
    instructions = [{"role": "system", "content": system}] if isinstance(system, str) else []
    return [*instructions, *prompt, *(response.get("output") or ())]


_LM_EVAL_KEYS = frozenset(
    ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash", "target_hash")
)  # fmt: skip
"""The keys of a sample that are not metrics, where older versions do not name the metrics."""
_TASK = regex(r"samples_(.+?)_\d{4}-\d{2}-\d{2}T")


@object_rows("samples")
def lm_eval_samples(place: LogPlace, sample: JsonObject, _: int) -> LogRow:
    """A document of the LM Evaluation Harness (`lm_eval --log_samples`, `samples_TASK_TIME.jsonl`). `output` is the filtered
    response; of a multiple-choice task, the index of the likeliest choice."""
    identity = place.required(sample, "doc_id", int)
    filtered = "filtered_resps" in sample
    responses = place.required(sample, "filtered_resps", list) if filtered else sample.get("resps")
    if not isinstance(responses, list):
        raise place.error("it has no responses", "run lm_eval with --log_samples")
    prompt, text = conversation_or_text(_lm_eval_prompt(sample.get("arguments")))
    output = _lm_eval_output(responses)
    filter_name, task = sample.get("filter"), _TASK.match(place.path.name)
    names = sample.get("metrics") or sample.keys() - _LM_EVAL_KEYS
    return place.row(
        identity=identity if filter_name in (None, "none") else f"{identity}/{filter_name}",
        input=text,
        output=output,
        messages=[*prompt, {"role": "assistant", "content": str(output)}] if prompt else None,
        target=sample.get("target"),
        scores={name: sample[name] for name in sorted(names) if name in sample},
        metadata={"doc": sample.get("doc"), **({"task": task[1]} if task else {})},
    )


def _lm_eval_prompt(arguments: Any) -> Any:
    """The prompt: `arguments` is a list of lists in old versions, a mapping `gen_args_0: {arg_0: …}` in newer ones. With
    `--apply_chat_template` to an API model, it is a list of messages as JSON."""
    if isinstance(arguments, dict):
        arguments = [*arguments.values()]
    first = arguments[0] if arguments else None
    if isinstance(first, dict):
        first = [first.get("arg_0")]
    prompt = first[0] if isinstance(first, list) and first else first
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    return parsed(prompt, ("[",))


def _lm_eval_output(responses: list[Any]) -> Any:
    first = responses[0] if responses else None
    if isinstance(first, str) or first is None:
        return first
    likelihoods = [
        response[0] if isinstance(response, list) and response else response
        for response in responses
    ]
    try:
        numbers = [float(likelihood) for likelihood in likelihoods]
    except (TypeError, ValueError):
        return first[0] if isinstance(first, list) and len(first) == 1 else first
    return max(range(len(numbers)), key=numbers.__getitem__) if len(numbers) > 1 else first


_OBSERVATIONS = frozenset(
    ("SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL")
)


@object_rows("data", "traces", "trace")
def langfuse_traces(place: LogPlace, trace: JsonObject, _: int) -> LogRow | None:
    """A trace of Langfuse, of an export or a page of its public API; of an export of observations, a generation."""
    kind = str(trace.get("type") or "").upper()
    if kind in _OBSERVATIONS:
        return None
    generation = kind == "GENERATION"
    names = ("traceId", "trace_id") if generation else ("id",)
    trace_id = next((trace[name] for name in names if trace.get(name)), None)
    if not isinstance(trace_id, str):
        raise place.error(f"it has no `{names[0]}`")
    prompt, text = _langfuse_conversation(trace.get("input"))
    replied, output = _langfuse_conversation(trace.get("output"))
    generations = [
        observation
        for observation in trace.get("observations") or []
        if isinstance(observation, dict) and observation.get("model")
    ]
    if prompt is not None and replied is None and output is not None:
        replied = [{"role": "assistant", "content": as_text(output)}]
    metadata = parsed(trace.get("metadata"))
    if not isinstance(metadata, dict):
        metadata = {} if metadata is None else {"metadata": metadata}
    scores, comments = _langfuse_scores(parsed(trace.get("scores")) or {})
    more = {"span_id": trace["id"]} if generation else {}
    more |= {"explanations": comments} if comments else {}
    return place.row(
        identity=place.required(trace, "id", str),
        input=text,
        output=output,
        messages=[*prompt, *(replied or ())] if prompt is not None else replied,
        target=trace.get("expectedOutput"),
        scores=scores,
        model=trace.get("model") or (generations[-1]["model"] if generations else None),
        metadata=metadata
        | {key: trace[key] for key in ("name", "sessionId", "userId", "tags") if trace.get(key)},
        trace_id=trace_id,
        **more,
    )


def _langfuse_conversation(value: Any) -> tuple[Any, Any]:
    """(messages, anything else) of an input or output, which may be JSON as a text, a message, or `{"messages": […]}`."""
    value = parsed(value)
    if isinstance(value, dict) and looks_like_conversation(value.get("messages")):
        return value["messages"], None
    if looks_like_conversation([value]):
        return [value], None
    return conversation_or_text(value)


def _langfuse_scores(scores: Any) -> tuple[JsonObject, JsonObject]:
    """The scores and their comments by name: a list of score objects in the API, `{name: [values]}` or `{name: value}` in
    exports. Repeated names are numbered."""
    if isinstance(scores, dict):
        pairs = [
            (name, value)
            for name, values in scores.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        names = unique_names([name for name, _ in pairs])
        return dict(zip(names, (value for _, value in pairs), strict=True)), {}
    values = [(score, _langfuse_value(score)) for score in scores if isinstance(score, dict)]
    valid_scores = [(score, value) for score, value in values if value is not None]
    names = unique_names([str(score.get("name")) for score, _ in valid_scores])
    comments = {
        name: score["comment"]
        for name, (score, _) in zip(names, valid_scores, strict=True)
        if score.get("comment")
    }
    return dict(zip(names, (value for _, value in valid_scores), strict=True)), comments


def _langfuse_value(score: JsonObject) -> Any:
    """The value of a score: the API gives a category as 0 with its name beside it."""
    value, text = score.get("value"), score.get("stringValue", score.get("string_value"))
    kind = str(score.get("dataType", score.get("data_type")) or "").upper()
    if kind == "BOOLEAN" and value in (0, 1):
        return bool(value)
    if kind in ("CATEGORICAL", "TEXT", "CORRECTION") and text is not None:
        return text
    return text if value is None else value


_REFERENCES = ("equals", "similar", "factuality", "model-graded-factuality", "answer-relevance")
"""Assertions of promptfoo whose value is the reference answer."""


_STRIPPED = "the output was left out of the file: PROMPTFOO_STRIP_RESPONSE_OUTPUT was set"


@object_rows("results.results", "results")
def promptfoo_results(place: LogPlace, result: JsonObject, index: int) -> LogRow:
    """A test case and prompt of promptfoo (`promptfoo eval -o out.json` or `.jsonl`, and older exports)."""
    raw = place.within("prompt").required(place.required(result, "prompt", dict), "raw", str)
    prompt, text = conversation_or_text(parsed(raw, ("[",)))
    response = result.get("response") or {}
    output = response.get("output") if isinstance(response, dict) else response
    is_stripped = output == "[output stripped]"
    output = None if is_stripped else output
    text = None if text == "[prompt stripped]" else text
    grading = result.get("gradingResult") or {}
    provider = result.get("provider")
    case = result.get("testCase") or {}
    components = [part for part in grading.get("componentResults") or [] if isinstance(part, dict)]
    # Before version 3 of the results, a test case has no assertions, only those that were graded.
    assertions = case.get("assert") or [part.get("assertion") for part in components]
    references = (
        part for part in assertions if isinstance(part, dict) and part.get("type") in _REFERENCES
    )
    replied = prompt and output is not None
    return place.row(
        identity=result.get("id") or f"{result.get('testIdx', index)}-{result.get('promptIdx', 0)}",
        input=text,
        output=output,
        messages=[*prompt, {"role": "assistant", "content": as_text(output)}]
        if replied
        else prompt,
        target=next((part.get("value") for part in references), None),
        scores={
            "pass": result.get("success"),
            "score": result.get("score"),
            **_promptfoo_scores(result, components),
        },
        model=provider.get("id") if isinstance(provider, dict) else provider,
        metadata={
            "vars": result.get("vars") or case.get("vars") or {},
            **(case.get("metadata") or {}),
        },
        explanations={"score": grading.get("reason")},
        error=result.get("error") or (_STRIPPED if is_stripped else None),
    )


def _promptfoo_scores(result: JsonObject, components: list[JsonObject]) -> JsonObject:
    """The scores of named metrics, and of each assertion without a metric by its type."""
    unnamed = [part for part in components if not (part.get("assertion") or {}).get("metric")]
    kinds = unique_names(
        [str((part.get("assertion") or {}).get("type", "assertion")) for part in unnamed]
    )
    scores = dict(zip(kinds, (part.get("score") for part in unnamed), strict=True))
    return {**scores, **(result.get("namedScores") or {})}


def deepeval_cases(path: Path) -> Iterator[LogRow]:
    """The test cases of a run of DeepEval (`DEEPEVAL_RESULTS_FOLDER`, or `.deepeval/.latest_test_run.json`), then the
    conversational ones. Raises DataError for a file with neither, and a case without input."""
    heads = ("", "testRunData.")
    lists = lists_at(
        path, [head + kind for head in heads for kind in ("testCases", "conversationalTestCases")]
    )
    if not lists:
        raise not_in_format(
            path,
            "not a test run of DeepEval: it has no `testCases`",
            "set DEEPEVAL_RESULTS_FOLDER to get one",
        )
    for name in lists:
        for index, case in items_at(path, name):
            place = LogPlace(path, f"{name}[{index}]")
            with place.known_shape():
                yield _deepeval_row(place, case)


def _deepeval_row(place: LogPlace, case: Any) -> LogRow:
    place.required({place.name: case}, place.name, dict)
    identity = place.required(case, "name", str)
    metrics = [metric for metric in case.get("metricsData") or [] if isinstance(metric, dict)]
    by_name = dict(
        zip(unique_names([str(metric.get("name")) for metric in metrics]), metrics, strict=True)
    )
    turns = _deepeval_messages(place, case)
    return place.row(
        identity=identity,
        input=case.get("scenario") if turns is not None else place.required(case, "input", str),
        output=case.get("actualOutput"),
        messages=turns,
        target=case.get("expectedOutput") or case.get("expectedOutcome"),
        scores={
            "pass": case.get("success"),
            **{name: metric.get("score") for name, metric in by_name.items()},
        },
        metadata=case.get("metadata") or case.get("additionalMetadata"),
        explanations={name: metric.get("reason") for name, metric in by_name.items()},
        context=case.get("context"),
        retrieval_context=case.get("retrievalContext"),
        tools_called=case.get("toolsCalled"),
        expected_tools=case.get("expectedTools"),
    )


def _deepeval_messages(place: LogPlace, case: JsonObject) -> list[JsonObject] | None:
    """The messages of a conversational test case; None for another one. Before DeepEval 3, each of its turns was a test
    case with an input and an output."""
    messages = []
    if "turns" in case:
        for index, turn in enumerate(place.required(case, "turns", list)):
            inside = place.within(f"turns[{index}]")
            role, content = (
                inside.required(turn, "role", str),
                inside.required(turn, "content", str),
            )
            messages.append({"role": role, "content": content, **_tool_calls(inside, turn)})
        return messages
    if "testCases" not in case:
        return None
    for index, inner in enumerate(place.required(case, "testCases", list)):
        inside = place.within(f"testCases[{index}]")
        output = inside.required(inner, "actualOutput", str)
        messages.append({"role": "user", "content": inside.required(inner, "input", str)})
        messages.append({"role": "assistant", "content": output, **_tool_calls(inside, inner)})
    return messages


def _tool_calls(place: LogPlace, turn: JsonObject) -> JsonObject:
    calls = [
        {"name": place.required(call, "name", str), "arguments": call.get("inputParameters") or {}}
        for call in turn.get("toolsCalled") or []
    ]
    return {"tool_calls": calls} if calls else {}


LARGEST_SAMPLE = 1 << 30
"""Bytes of a sample, decompressed: a small archive can hold a huge one."""
_ZSTANDARD = 93
_LOCAL_HEADER = 30
_ATTACHMENT = "attachment://"


def inspect_samples(path: Path) -> Iterator[LogRow]:
    """The samples of a log of Inspect (`.eval`, and `.json` of `--log-format json`), of a `.eval` archive in the order of its summaries. A log without samples, because its evaluation failed
    at once, has no rows.

    Raises:
        DataError: the file is neither form, is truncated, or a sample has no id or messages.
    """
    if zipfile.is_zipfile(path):
        yield from _archive(path)
        return
    if path.suffix == ".eval":
        raise not_in_format(
            path, "not an Inspect log: the archive is damaged or truncated", "copy it again"
        )
    (head,) = [item for _, item in items_at(path, "eval")]
    model = LogPlace(path, "eval").required(head, "model", str)
    for index, sample in items_at(path, "samples"):
        place = LogPlace(path, f"samples[{index}]")
        with place.known_shape():
            yield _inspect_row(place, sample, model)


def _archive(path: Path) -> Iterator[LogRow]:
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        head = next(
            (name for name in ("header.json", "_journal/start.json") if name in names), None
        )
        if head is None:
            raise not_in_format(path, "not an Inspect log: the archive has no header.json")
        model = LogPlace(path, f"{head}: eval").required(
            _member(path, archive, head).get("eval"), "model", str
        )
        entries = [
            info
            for info in archive.infolist()
            if info.filename.startswith("samples/") and info.filename.endswith(".json")
        ]
        # A sample that was written twice is in the archive twice; its last entry counts.
        samples = list({info.filename: info for info in entries}.values())
        done, total = 0, sum(info.compress_size for info in samples)
        for info in samples:
            sample = _member(path, archive, info.filename)
            done += info.compress_size
            report_read(path, "bytes", done, total)
            place = LogPlace(path, info.filename)
            with place.known_shape():
                yield _inspect_row(place, sample, model)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> JsonObject:
    try:
        value = json.loads(_content(path, archive, archive.getinfo(name)))
    except (
        ValueError,
        RecursionError,
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
    ) as error:
        raise not_in_format(
            path, f"{name}: not a valid part of an Inspect log: {error!s:.100}"
        ) from None
    if not isinstance(value, dict):
        raise not_in_format(path, f"{name} is not an object")
    return value


def _content(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.file_size > LARGEST_SAMPLE:
        raise not_in_format(path, f"{info.filename} is larger than {LARGEST_SAMPLE >> 20} MiB")
    if info.compress_type != _ZSTANDARD:
        return archive.read(info)
    # zipfile reads Zstandard from Python 3.14 on. The data follow the local header, whose names can differ in length.
    import pyarrow

    with path.open("rb") as stream:
        stream.seek(info.header_offset)
        header = stream.read(_LOCAL_HEADER)
        if len(header) < _LOCAL_HEADER:
            raise EOFError("it is cut off")
        name, extra = struct.unpack("<HH", header[26:30])
        stream.seek(name + extra, 1)
        packed = stream.read(info.compress_size)
    try:
        content: bytes = pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd").read(
            info.file_size + 1
        )
    except OSError as error:
        raise EOFError(str(error)) from None
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise EOFError("its checksum is wrong")
    return content


def _inspect_row(place: LogPlace, sample: Any, model: str) -> LogRow:
    identity, epoch = place.required(sample, "id", (int, str)), sample.get("epoch") or 1
    sample = _with_attachments(sample, sample.get("attachments") or {})
    scores = sample.get("scores") or {}
    messages = sample.get("messages") or []
    prompt, text = conversation_or_text(sample.get("input"))
    output = sample.get("output") or {}
    error = sample.get("error") or {}
    return place.row(
        identity=identity if epoch == 1 else f"{identity}/{epoch}",
        input=text,
        output=output.get("completion"),
        messages=messages or prompt,
        target=sample.get("target"),
        scores={
            name: score.get("value") if isinstance(score, dict) else score
            for name, score in scores.items()
        },
        model=output.get("model") or model,
        metadata=sample.get("metadata"),
        epoch=epoch,
        explanations={
            name: score.get("explanation")
            for name, score in scores.items()
            if isinstance(score, dict)
        },
        error=error.get("message"),
    )


def _with_attachments(value: Any, attachments: dict[str, str]) -> Any:
    """The value with long texts and images, which the log keeps once, in their places."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        # Events repeat every message; no row has them.
        return {
            key: _with_attachments(item, attachments)
            for key, item in value.items()
            if key not in ("events", "attachments")
        }
    return value
