"""The ready hook: texts of skills and secrets stay out of memory."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_om import InlineBuffering, ObservationalMemory, create_memory_agent, redactor
from langgraph_om.testing import ExtractiveObserver, ScriptedChatModel

KEY = "sk-" + "proj-" + "a1B2" * 8


@pytest.mark.parametrize(
    "secret",
    [
        KEY,
        "sk_" + "live_" + "0aB1" * 6,
        "ghp_" + "a1B2" * 9,
        "AKIA" + "ABCD1234" * 2,
        "xoxb-" + "12345-abcde",
        "AIza" + "b" * 35,
        "eyJ" + "hbGciOiJIUzI1." + "eyJzdWIiOiIx." + "SflKxwRJSMeKKF2",
        "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "github_" + "pat_" + "11A_" + "bC2d" * 9,
        "glrt-" + "t1_" + "bC2d" * 5,
        "sk-" + "ant-api03-" + "a_B-" * 20,
        "pypi-" + "AgEI" * 10,
        "lsv2_" + "pt_" + "0a1b" * 8,
        "SK" + "0a1b" * 8,
        "https://hooks.slack" + ".com/services/T0/B0/" + "bC2d" * 6,
    ],
)
def test_secrets_are_hidden_by_their_form(secret: str) -> None:
    said = redactor()(f"Use {secret} for it.", {})
    assert said == "Use [secret] for it."


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("password: hunter22", "password: [secret]"),
        ('"api_key": "0a1b2c3d"', '"api_key": "[secret]"'),
        ("DB_PASSWORD=hunter22 make", "DB_PASSWORD=[secret] make"),
        ("Authorization: Bearer abcdefgh1", "Authorization: Bearer [secret]"),
        ("postgresql://ana:hunter22@db/x", "postgresql://ana:[secret]@db/x"),
        ("rediss://:hunter22@cache", "rediss://:[secret]@cache"),
        ("token=ab12" + "cd34" * 4, "token=[secret]"),
        ('{"clientSecret": "correct horse"}', '{"clientSecret": "[secret]"}'),
        ("AWS_SECRET_ACCESS_KEY=aB3/" + "cD4+" * 9, "AWS_SECRET_ACCESS_KEY=[secret]"),
        (
            "AccountName=a;AccountKey=" + "aB3d" * 21 + "ab==;X=y",
            "AccountName=a;AccountKey=[secret];X=y",
        ),
        ("Mein Passwort ist hunter22", "Mein Passwort ist [secret]"),
        ("deploy --api-key hunter22 now", "deploy --api-key [secret] now"),
    ],
)
def test_secrets_are_hidden_by_the_name_before_them(text: str, left: str) -> None:
    assert redactor()(text, {}) == left
    assert redactor(secrets=False)(text, {}) == text


@pytest.mark.parametrize(
    "text",
    [
        "The password is in the vault, and the token is 128-bit.",
        "https://example.org/a:b and sk-learn, which is task-based",
        "commit 4008d5b5a2b3c4d5e6f708192a3b4c5d6e7f8091 of 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        '"integrity": "sha512-' + "aB3d" * 21 + 'ab=="',
        "api_key = settings.api_key; password = getpass(); connect(token=token)",
        "ALTER TABLE users ADD CONSTRAINT pk_users_and_their_organizations_2024 PRIMARY KEY (id)",
        "call_" + "aB3d" * 6 + " answered msg_" + "01aB" * 6,
        "max_tokens=100000, tokenizer: cl100k_base",
    ],
)
def test_prose_code_ids_and_hashes_stay(text: str) -> None:
    assert redactor()(text, {}) == text


@pytest.mark.parametrize("unit", ["-", "eyJ", "-eyJ.", "sk-", "-----BEGIN PRIVATE KEY-----"])
def test_reading_is_linear_in_the_text(unit: str) -> None:
    spent = []
    for count in (20_000, 160_000):
        began = time.process_time()
        redactor()(unit * (count // len(unit)), {})
        spent.append(time.process_time() - began)
    assert spent[1] < 24 * max(spent[0], 0.005)


def reads(tool: str, **args: Any) -> list[BaseMessage]:
    call = {"name": tool, "args": args, "id": "c"}
    return [
        HumanMessage("Go."),
        AIMessage("", tool_calls=[call]),
        ToolMessage("The whole skill.", tool_call_id="c", name=tool),
    ]


def test_texts_of_skills_are_left_out_and_their_calls_stay() -> None:
    for talk in (reads("skill", name="pdf"), reads("read_file", path="/skills/pdf/SKILL.md")):
        shown = redactor()(talk, {})
        assert shown[1].tool_calls == talk[1].tool_calls
        assert shown[2].text == f"[the result of {talk[2].name} is left out]"
        assert talk[2].text == "The whole skill.", "the message itself stays as it is"
        assert redactor(skills=False)(talk, {})[2].text == "The whole skill."
    other = reads("read_file", path="/notes.md")
    assert redactor()(other, {})[2].text == "The whole skill."
    assert "left out" in redactor(tools=["read_file"])(other, {})[2].text


def test_secrets_are_hidden_in_arguments_and_blocks() -> None:
    call = {"name": "login", "args": {"user": "ana", "password": "hunter22"}, "id": "c"}
    image = {"type": "image", "base64": "QUJD", "mime_type": "image/png"}
    talk = [AIMessage([{"type": "text", "text": f"key {KEY}"}, image], tool_calls=[call])]
    [shown] = redactor()(talk, {})
    assert shown.tool_calls[0]["args"] == {"user": "ana", "password": "[secret]"}
    assert shown.content == [{"type": "text", "text": "key [secret]"}, image]


def test_nothing_secret_reaches_the_record() -> None:
    model = ScriptedChatModel("ok", observer=ExtractiveObserver().reply)
    memory = ObservationalMemory(
        model,
        observation={"message_tokens": 20, "buffer_tokens": False},
        buffering=InlineBuffering(),
        hooks={"before_observation": redactor(), "after_observation": redactor()},
    )
    graph = create_memory_agent(model, memory=memory, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    for text in (f"My key is {KEY}, please keep it for the deployment of the site.", "Thanks."):
        graph.invoke({"messages": [("user", text)]}, config)
    record = graph.get_state(config).values["om"]
    assert "[secret]" in json.dumps(record)
    assert KEY not in json.dumps(record)
