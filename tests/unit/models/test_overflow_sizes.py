"""What providers' errors say of how long a prompt was, and how long it may be."""

from __future__ import annotations

import pytest

from langgraph_om.models.retries import read_overflow

ERRORS = {
    "OpenAI": (
        (
            "This model's maximum context length is 128000 tokens. However, your messages "
            "resulted in 150123 tokens. Please reduce the length of the messages."
        ),
        (150123, 128000),
    ),
    "OpenAI, with an answer's room": (
        (
            "This model's maximum context length is 8192 tokens. However, you requested "
            "9500 tokens (8500 in the messages, 1000 in the completion)."
        ),
        (8500, 7192),
    ),
    "OpenAI, Responses": (
        (
            "Input tokens exceed the configured limit of 272000 tokens. Your messages "
            "resulted in 300000 tokens. Please reduce the length of the messages."
        ),
        (300000, 272000),
    ),
    "OpenAI, without numbers": (
        ("Your input exceeds the context window of this model. Please adjust your input."),
        (None, None),
    ),
    "Anthropic": (
        ("prompt is too long: 215432 tokens > 200000 maximum"),
        (215432, 200000),
    ),
    "Anthropic, with an answer's room": (
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, "
            "decrease input length or `max_tokens` and try again"
        ),
        (188240, 178667),
    ),
    "Bedrock": (
        (
            "An error occurred (ValidationException) when calling the Converse operation: "
            "The model returned the following errors: prompt is too long: 205001 tokens > "
            "200000 maximum"
        ),
        (205001, 200000),
    ),
    "Bedrock, without numbers": (
        ("Input is too long for requested model."),
        (None, None),
    ),
    "Google": (
        (
            "400 The input token count (1200000) exceeds the maximum number of tokens "
            "allowed (1048576)."
        ),
        (1200000, 1048576),
    ),
    "Google, one number": (
        ("The input token count exceeds the maximum number of tokens allowed 1048576."),
        (None, 1048576),
    ),
    "vLLM": (
        (
            "You passed 9001 input tokens and requested 500 output tokens. However, the "
            "model's context length is only 8192 tokens, resulting in a maximum input "
            "length of 7692 tokens."
        ),
        (9001, 7692),
    ),
    "vLLM, the decoder": (
        (
            "The decoder prompt (length 5000) is longer than the maximum model length of "
            "4096. Make sure that `max_model_len` is no smaller than the number of text "
            "tokens."
        ),
        (5000, 4096),
    ),
    "llama.cpp": (
        (
            "request (9000 tokens) exceeds the available context size (8192 tokens), try "
            "increasing it"
        ),
        (9000, 8192),
    ),
    "Ollama": (
        ("the input length exceeds the context length"),
        (None, None),
    ),
    "OpenRouter": (
        (
            "This endpoint's maximum context length is 131072 tokens. However, you "
            "requested about 140500 tokens (139500 of text input, 1000 in the output). "
            "Please reduce the length."
        ),
        (139500, 130072),
    ),
    "text-generation-inference": (
        ("Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
        (5000, 4095),
    ),
    "an answer that is too long": (
        (
            "This model's maximum context length is 8192 tokens. However, you requested "
            "10500 tokens (500 in the messages, 10000 in the completion)."
        ),
        (500, None),
    ),
    "with commas": (
        ("Prompt is too long: 1,250,000 tokens > 1,000,000 maximum"),
        (1250000, 1000000),
    ),
}


@pytest.mark.parametrize("provider", ERRORS)
def test_sizes_are_read_from_the_error(provider: str) -> None:
    text, sizes = ERRORS[provider]
    assert read_overflow(ValueError(text)) == sizes


def test_the_error_behind_an_error_is_read_too() -> None:
    error = RuntimeError("the call failed")
    error.__cause__ = ValueError(ERRORS["Anthropic"][0])
    assert read_overflow(error) == (215_432, 200_000)
