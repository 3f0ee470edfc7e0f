"""The chat model of the examples: of the provider that has a key, or else a stand-in."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel

Offline = TypeVar("Offline")
PROVIDERS = (
    ("GOOGLE_API_KEY", "langchain_google_genai", "ChatGoogleGenerativeAI", "gemini-flash-latest"),
    ("OPENAI_API_KEY", "langchain_openai", "ChatOpenAI", "gpt-6-luna"),
    ("ANTHROPIC_API_KEY", "langchain_anthropic", "ChatAnthropic", "claude-haiku-5-5"),
)


def choose_model(offline: Offline) -> BaseChatModel | Offline:
    """Return a real model if there is a key and the provider's package, and say which."""
    for key, package, client, name in PROVIDERS:
        if os.environ.get(key):
            try:
                make: Any = getattr(import_module(package), client)
            except ImportError:
                print(f"{key} is set; to use it: pip install {package.replace('_', '-')}")
            else:
                print(f"Models: {name}")
                model: BaseChatModel = make(model=name)
                return model
    print("Models: offline (a scripted agent, an extractive memory)")
    return offline
