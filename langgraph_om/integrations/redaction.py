"""Hooks that keep skills and secrets out of what the Observer and the Reflector see and write."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

SKILL_TOOLS: Final = ("skill", "skill_search", "skill_read", "load_skill", "read_skill")
"""Names of tools that return a skill's text."""
_SKILL_FILE: Final = "SKILL.md"
"""The file of a skill, which other tools read."""

_FORMS: Final = {
    "age, Dynatrace, New Relic": r"AGE-SECRET-KEY-1\w{58}|dt0c01\.\w{24}\.\w{64}|NRAK-\w{27}",
    "Airtable": r"pat\w{14}\.[0-9a-f]{64}",
    "Atlassian": r"AT(?:ATT3|BB|CTT3)[\w=-]{20,}",
    "AWS": r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b|ABSK[\w+/=]{90,}",
    "Azure": (
        r"[\w~.]{3}\dQ~[\w~.-]{31,34}|\w{52,76}(?:AZDO\w{4}|JQQJ99\w{10,30})"
        r"|[\w+/]{76}\+A[A-Za-z]{2}[\w+/]{6}=="
    ),
    "Brevo, Mailchimp, Mailgun": r"xkeysib-[\w-]{60,}|[0-9a-f]{32}-us\d{1,2}\b|key-[0-9a-f]{32}\b",
    "Cerebras, Groq, xAI": r"csk-[^\W_]{30,}|gsk_[^\W_]{30,}|xai-[\w-]{30,}",
    "Databricks, DigitalOcean, Doppler": (
        r"dapi[0-9a-f]{32}(?:-\d)?|do[opr]_v1_[0-9a-f]{64}|dp\.[a-z]{2,5}\.[\w.-]{30,}"
    ),
    "Discord": r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}",
    "Docker, Fly, Netlify": r"dckr_[op]at_[\w-]{20,}|fo1_[\w-]{30,}|nfp_[^\W_]{30,}",
    "E2B, Firecrawl, Fireworks": r"e2b_[0-9a-f]{40}|fc-[0-9a-f]{32}|fw_[^\W_]{22,}",
    "Figma, Linear": r"figd_[\w-]{30,}|lin_(?:api|oauth)_\w{30,}",
    "GitHub": r"gh[opsur]_[^\W_]{30,}|github_pat_\w{20,}",
    "GitLab": r"gl[a-z]{2,5}-(?=[\w.-]{0,99}?\d)[\w.-]{20,}|GR1348941[\w-]{20}",
    "Google": r"AIza[\w-]{35}|AQ\.A[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|1//0[\w-]{40,}",
    "Grafana": r"gls?a_\w{32,}|glc_[\w+/=]{32,}",
    "HashiCorp": r"hv[sbr]\.[\w-]{24,}|[^\W_]{14}\.atlasv1\.[\w-]{60,}",
    "Heroku, Postman": r"HRKU-[\w-]{36,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    "Hugging Face": r"(?:hf|api_org)_[^\W_]{30,}",
    "JWT": r"(?<![\w-])eyJ[\w-]{10,}+\.[\w-]{10,}+(?:\.[\w-]*+){1,3}",
    "Langfuse, LangSmith": r"[sp]k-lf-[0-9a-f-]{36}|ls(?:v2_\w{2}|_)_\w{20,}",
    "Notion": r"(?:ntn|secret)_[^\W_]{40,}",
    "npm, PyPI, RubyGems": r"npm_[^\W_]{30,}|pypi-[\w-]{30,}|rubygems_[0-9a-f]{48}",
    "NVIDIA, Perplexity, Replicate": r"nvapi-[\w-]{40,}|pplx-[^\W_]{30,}|r8_[^\W_]{30,}",
    "OpenAI, Anthropic, Stripe": (
        r"sk-(?:admin|ant|or|proj|svcacct)-[\w-]{16,}"
        r"|(?<!-)(?:sk|rk|pk)[-_](?=[\w-]{0,200}?\d)(?=[\w-]{0,200}?[^\W_]{16})[\w-]+"
    ),
    "Pinecone, Jina, Tavily": r"pcsk_\w{30,}|jina_[^\W_]{40,}|tvly-[\w-]{20,}",
    "PlanetScale, Pulumi": r"pscale_[a-z]{2,5}_[\w.-]{30,}|pul-[0-9a-f]{40}",
    "Private key": (
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]++|-(?!-{4}))*+-----END[A-Z ]{1,40}-----"
        r"|(?:\s|\\[nr]|[A-Za-z0-9+/=]{20,}+)*+)"
    ),
    "Resend, Sentry": r"re_[^\W_]{8}_[^\W_]{20,}|sntry[su]_[\w+/=]{40,}",
    "SendGrid": r"SG\.[\w-]{16,32}\.[\w-]{30,64}",
    "Shopify, Square": r"shp[a-z]{2}_[0-9a-fA-F]{32}|sq0\w{3}-[\w-]{22,}|EAAA[\w-]{56,}",
    "Slack": r"xox[a-z](?:\.xox[a-z])?-[\w-]{10,}|xapp-\d-[\w-]{20,}",
    "Stripe webhook": r"whsec_[\w+/=]{20,}",
    "Supabase": r"sb(?:p|_secret)_(?=\w{0,99}?\d)\w{20,}",
    "Telegram": r"\d{8,10}:AA[\w-]{30,40}",
    "Together, Weights & Biases": r"(?:tgp|wandb)_v\d_[\w-]{30,}",
    "Twilio": r"(?:SK|AC)[0-9a-f]{32}\b",
    "Webhook": (
        r"https://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks"
        r"|[\w.-]{1,80}\.webhook\.office\.com)/[\w/@.-]{20,}"
    ),
}
"""By whose it is, what says by its form that it is a secret.

No pattern may look further ahead than a fixed length or to the end of one run of characters, so
that reading stays linear in the text. Each needs a beginning of its own: ids, hashes and base64
stay.
"""
_SURE_NAME: Final = (
    r"(?=[acekmlpsп密パ])"  # takes two thirds of the time away
    r"(?:pass(?:word|wd|phrase|code)|passwort|kennwort|contraseña|senha|mot de passe|пароль"
    r"|密码|密碼|パスワード|\bpwd|client[_ -]?secret"
    r"|(?:api|access|account|auth|encryption|license|master|private|secret|service|shared|signing"
    r"|storage|subscription)[_ -]?key)(?-i:\d{1,3}(?!\w)|(?:_[A-Z0-9]{1,20}){1,3})?"
)
_VAGUE_NAME: Final = r"(?:token|secret|credentials?|session[_-]?id)(?-i:(?:_[A-Z0-9]{1,20}){1,3})?"
_IS: Final = r"\\?[\"']?\s{0,5}(?::=|=>|[:=>：])\s{0,5}\\?[\"']?"
_SAID: Final = r"(?:\s{1,5}(?:is|was|es|ist|est|é|это)\s{1,5}[\"'“«`]?|[是は])"
_CODE: Final = (
    r"(?!\[|\$[{(A-Z_]|[A-Za-z_][\w.]{0,200}[(\[]|[a-z_]{1,40}\.[a-z_.]{1,80}\b|(?:Secret)?str\b"
    r"|[{<]?(?:[\w.-]{0,60}[_.-])?(?:key|password|secret|token|value)\b)"
)
"""Not a value but what stands for one, such as `getpass()`, `settings.password`, `$TOKEN`."""
_VALUE: Final = r"(?:(?<=\")[^\"\n]{4,500}(?=\")|(?<=')[^'\n]{4,500}(?=')|[^\s\"',;<]{6,500})"
_DIGIT: Final = r"(?=[^\s\"',;<]{0,200}?\d)"
_LETTER: Final = r"(?=[^\s\"',;<]{0,200}?[A-Za-z])"
_NAMES: Final = {
    "Password or key": rf"(?i)({_SURE_NAME}(?:{_IS}|{_SAID}{_DIGIT})){_CODE}{_VALUE}",
    "Token": (
        rf"(?i)({_VAGUE_NAME}(?:{_IS}|{_SAID})){_CODE}{_DIGIT}{_LETTER}[^\s\"',;<]{{9,4000}}"
    ),
    "Option of a command": (
        r"((?<![\w-])--[\w-]{0,40}(?:password|token|secret|key)\s{1,5})[^\s$-]\S{5,500}"
    ),
    "User of curl": r"(\s(?:-u|--user)\s{1,5}[\"']?[^\s:/]{1,80}:)(?![/\d])[^\s\"']{4,200}",
    ".netrc": r"(\blogin\s{1,5}\S{1,80}\s{1,5}password\s{1,5})\S{1,200}",
    "Header": (
        rf"(?i)(\bauthorization{_IS}(?:\w{{1,20}}\s{{1,5}}|(?=\S{{0,200}}?\d)))[^\s\"']{{8,4000}}"
    ),
    "Bearer, SSWS": r"(?i)(\b(?:bearer|ssws)\s{1,5})(?=\S{0,200}?\d)[\w.~+/=-]{16,4000}",
    "Cookie": r"(?i)(\bcookie\s{0,5}:\s{0,5})(?=\S{1,80}=\S{8})[^\n]{9,4000}",
    "URL": r"(?i)(?<![\w+.-])([a-z][a-z0-9+.-]{1,30}://[^\s:/@]{0,200}:)[^\s/\"'<>]{1,200}(?=@)",
    "Query": r"(?i)([?&](?:key|code|auth|sig|signature|x-amz-[a-z-]{1,30})=)[^\s&#\"'<>]{16,4000}",
}
"""By where it stands, a secret (what is hidden) behind the name of one (the first group)."""
_SECRETS: Final = (
    (re.compile("(?<![A-Za-z0-9])(?:" + "|".join(_FORMS.values()) + ")", re.ASCII), "[secret]"),
    *((re.compile(pattern), r"\g<1>[secret]") for pattern in _NAMES.values()),
)
_UNREAD: Final = frozenset({"data", "base64", "bytes", "id", "type", "mime_type", "signature"})
"""Keys of a block whose values are no text."""
_HIDDEN: Final = "[secret]"

Redactor = Callable[[Any, Mapping[str, Any]], Any]


def redactor(*, skills: bool = True, secrets: bool = True, tools: Collection[str] = ()) -> Redactor:
    """Return a hook that hides skill texts and secrets.

    Use it for any of the four hooks that change something:

        hooks = {"before_observation": redactor(), "after_observation": redactor()}

    Calls stay, so that it is known what was used. What the Actor is shown does not change.

    Args:
        skills: Whether to leave out results of tools that return a skill's text: tools with a usual
            name, and any call with the path of a `SKILL.md`.
        secrets: Whether to hide keys, tokens, passwords and the like, recognized by their form or
            by the name before them.
        tools: Names of more tools whose results to leave out.
    """
    hidden = {*tools, *(SKILL_TOOLS if skills else ())}

    def redact(value: Any, about: Mapping[str, Any]) -> Any:
        """Return messages or a text without what is to be hidden."""
        if isinstance(value, str):
            return hide_secrets(value) if secrets else value
        messages: Sequence[BaseMessage] = value
        left_out = _find_calls(messages, hidden, skills=skills)
        changed = [_leave_out(message, left_out, hidden) for message in messages]
        return [_hide(message) for message in changed] if secrets else changed

    return redact


def hide_secrets(text: str) -> str:
    """Return a text with `[secret]` in the place of keys, tokens and passwords."""
    for pattern, left in _SECRETS:
        text = pattern.sub(left, text)
    return text


def _find_calls(
    messages: Sequence[BaseMessage], names: Collection[str], *, skills: bool
) -> set[str]:
    """Return the ids of calls whose results are left out."""
    calls = [call for each in messages if isinstance(each, AIMessage) for call in each.tool_calls]
    return {
        str(call["id"])
        for call in calls
        if call["name"] in names or (skills and _SKILL_FILE in str(call["args"]))
    }


def _leave_out(message: BaseMessage, calls: set[str], names: Collection[str]) -> BaseMessage:
    if not isinstance(message, ToolMessage):
        return message
    if message.tool_call_id not in calls and message.name not in names:
        return message
    told = f"[the result of {message.name or 'this call'} is left out]"
    return message.model_copy(update={"content": told, "artifact": None})


def _hide(message: BaseMessage) -> BaseMessage:
    changed: dict[str, Any] = {"content": _hide_in(message.content)}
    if isinstance(message, AIMessage):
        changed["tool_calls"] = [
            {**call, "args": _hide_in(call["args"])} for call in message.tool_calls
        ]
    return message.model_copy(update=changed)


def _hide_in(value: Any) -> Any:
    """Return a JSON value with secrets hidden in its texts, and in what keys name so."""
    if isinstance(value, str):
        return hide_secrets(value)
    if isinstance(value, Mapping):
        return {key: _hide_under(key, inner) for key, inner in value.items()}
    return [_hide_in(inner) for inner in value] if isinstance(value, list) else value


def _hide_under(key: Any, value: Any) -> Any:
    if key in _UNREAD:
        return value
    hidden = _hide_in(value)
    if hidden != value or not isinstance(value, str):
        return hidden
    named = f'{key}="{value}"'
    return value if hide_secrets(named) == named else _HIDDEN
