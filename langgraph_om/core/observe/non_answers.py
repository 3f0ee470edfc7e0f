"""Lines by which an answer shows that it is none.

It says, in usual words of usual languages, that there is nothing worth noting; it refuses; or it
leaves the form not filled in. Every pattern here is used on a bounded part of a line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from langgraph_om.core.content.text import compile_late

_MAX_LINE_CHARS: Final = 100
"""A line that is longer says something."""

_MAX_HEAD_CHARS: Final = 300
"""Of a line, what is read to know a refusal or a form."""

# No group is repeated possessively: Python 3.11.2 then goes on behind what it has not matched.
_LABEL: Final = compile_late(
    r"[ \t]*+(?:(?:[-*+•–—‣◦▪▸●○·・]|\d{1,4}[.)]|[a-zA-Z]\)|\([a-z]\)|->|→)[ \t]++)?"
    r"[*_]{0,3}(?P<mark>[🔴🟡🟢✅📌]|<?MARK>?(?![a-zA-Z]))?\ufe0f?[*_ \t]*+"
    r"(?P<time>[\[(]\d{1,2}:\d\d[^()\[\]]{0,12}[\])])?[*_ \t]*+"
)
"""What stands before the text of an item: bullet, mark and time."""

# --- Nothing to note ------------------------------------------------------------------------------


def _collect(*texts: str) -> frozenset[str]:
    return frozenset(word for text in texts for word in text.split())


_NOTHING: Final = _collect(
    "none nothing nil null empty nichts keine keins leer aucun aucune rien néant vide",
    "ninguna ninguno nada vacío nessuna nessuno niente nulla nenhuma nenhum vazio geen niets",
    "brak nic žádné žádná žádný нет ничего отсутствуют немає нічого inga inget ingen ingenting",
    "intet mitään yok hiçbiri boş אין 없음 없습니다 없다",
) | {"n/a", "n / a", "n. a", "n.a"}
"""Words that alone say that there is nothing."""
_NOT: Final = _collect(
    "no not any without kein keinerlei keinen ohne pas aucunes sans sin sem senza não non ningún",
    "żadnych nie не никаких ei zonder без",
)
"""Words that say so of the word that follows."""
_NOTES: Final = _collect(
    "observation observations noteworthy notable noting note memorable remembering recording",
    "beobachtung beobachtungen notizen bemerkenswertes erwähnenswertes notierenswertes",
    "remarquable noter notables observación observaciones destacable reseñable anotar",
    "osservazione osservazioni annotare observação observações notável anotações",
    "observatie observaties waarneming waarnemingen noemenswaardigs vermeldenswaard",
    "obserwacji наблюдений наблюдения примечательного спостережень pozorování observationer",
    "observasjoner havaintoja gözlem gözlemler תצפיות ملاحظات 관찰 관찰된",
)
"""Words for what is asked for: nobody says of a fact that there is no such thing."""
_MATTER: Final = _collect(
    "information info fact facts update updates change changes detail details content entries",
    "informationen fakten einträge informations faits información novedades hechos informazioni",
    "novità informações fatos informatie feiten informacji faktów информации фактов",
)
_FILL: Final = _collect(
    "new to report record of add was were is are there this the time here in for from so far yet",
    "at moment conversation exchange session chat further additional other just only small talk",
    "smalltalk greeting greetings chitchat made found noted recorded needed required worth be have",
    "has been since previous already covered by beyond these those significant relevant important",
    "new happened occurred notes mention remember memory observed detected available currently",
    "neu neue neuen neues weitere weiteren relevanten wichtigen zu vermerken notieren berichten",
    "vorhanden gefunden gab es gibt diesem dieser gespräch wichtiges besonderes relevantes",
    "nouvelle nouvelles nouveau nouveaux à signaler de d l n y il a pour le moment dans cette",
    "nueva nuevas nuevo nuevos que registrar informar se hay relevante interés por ahora esta",
    "nuova nuove nuovo nuovi da segnalare ci sono di rilevante degno nota nova novas novo novos há",
    "registrar relatar digno nieuwe nieuws te melden er zijn nowych nowego do zapisania",
    "новых новые нового нових нове заметить отметить записи для nová nové nových nya nye nytt ny",
    "uusia uutta yeni kayda değer bir şey herhangi חדשות جديدة 새로운 해당 사항 특이사항",
    "기록할 내용",
)
_SPACED: Final = ("tidak ada", "không có", "लاشيء", "कुछ नहीं", "कोई नहीं")
_SPACED_NOTHING: Final = ("لا شيء", "لا يوجد", "لا توجد", *_SPACED)
_HAN_NOTHING: Final = _collect(
    "暂无 暫無 没有 沒有 无 無し 無 空 なし ありません ございません ない"
)
_HAN_NOTES: Final = _collect(
    "观察结果 观察 觀察 值得记录 值得記錄 记录 記錄 特記事項 観察事項 観察 観測 記録"
)
_HAN_FILL: Final = _collect(
    "新的 新 的 内容 內容 任何 可 需要 信息 特に 特記 新しい 新たな",
    "新規 事項 すべき する こと 該当 は の に も",
)
_WORD: Final = compile_late(
    "|".join(
        (
            r"n/a\b|n / a\b|n\. ?a\b",
            *sorted({*_SPACED_NOTHING, *_HAN_NOTHING, *_HAN_NOTES, *_HAN_FILL}, key=len)[::-1],
            r"[^\W_]+",
        )
    )
)
_ALONE: Final = _NOTHING | _HAN_NOTHING | {*_SPACED_NOTHING}
_STRONG: Final = _NOTES | _HAN_NOTES
_KNOWN: Final = _ALONE | _NOT | _STRONG | _MATTER | _FILL | _HAN_FILL


def says_nothing_to_note(text: str) -> bool:
    """Return whether each line says, in usual words of usual languages, that there is nothing."""
    lines = [line for line in text.split("\n") if line.strip()]
    return bool(lines) and all(map(_denies, lines))


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _denies(line: str) -> bool:
    if len(line) > _MAX_LINE_CHARS:
        return False
    label = _LABEL.match(line)
    text = line[label.end() :] if label else line
    words = _WORD.findall(_fold(text))
    if not words or not _KNOWN.issuperset(words):
        return False
    is_denied = not _ALONE.isdisjoint(words)
    if label and (label["mark"] or label["time"]):  # An item is a fact, unless it is about items.
        names_notes = not _STRONG.isdisjoint(words) and (is_denied or not _NOT.isdisjoint(words))
        return names_notes or (is_denied and len(words) == 1 and not label["time"])
    return is_denied or not (_NOT.isdisjoint(words) or (_STRONG | _MATTER).isdisjoint(words))


# --- Refusals -------------------------------------------------------------------------------------

_CANNOT: Final = (
    r"(?:can't|cannot|can not|won't|will not|(?:am |'m |are |'re )(?:unable|not able) to)"
)
_HELP: Final = (
    r"(?:(?:assist|comply|help (?:you|with)|do (?:that|this)|fulfil"
    r"|(?:continue|engage|proceed) with)"
    r"|(?:answer|create|generate|observe|process|provide|record|summari[sz]e)\b.{0,40}"
    r"\b(?:this|that|these|it|request|conversation|content|observations|notes)\b)"
)
_REFUSALS: Final = (
    rf"(?:unfortunately|sorry|(?:i'm|i am|we're)\b.{{0,12}}\bsorry|i apologi[sz]e)\b.{{0,20}}\bi ?"
    rf"(?:{_CANNOT}|must decline)"
    rf"|(?:i|we) ?(?:{_CANNOT}|decline to|refuse to|(?:must|have to) (?:decline|refuse) to) {_HELP}"
    r"|as an ai\b"
    # German
    r"|(?:es )?(?:tut mir|tut uns|leider|entschuldigung).{0,40}\b(?:kann ich|ich kann)\b.{0,60}"
    r"\bnicht\b"
    r"|(?:dabei |das )?(?:kann ich|ich kann)\b.{0,40}\bnicht (?:helfen|unterstützen|bearbeiten"
    r"|beantworten|nachkommen)"
    # French
    r"|(?:je suis|nous sommes)? ?(?:vraiment )?désolée?s?\b.{0,20}\bje ne\b"
    r"|je ne (?:peux|suis|puis).{0,12} (?:vous |t'|pas )*(?:aider|répondre|assister|traiter"
    r"|capable|en mesure)"
    # Spanish, Portuguese, Italian
    r"|(?:lo siento|lo lamento|disculpa|desculpe|sinto muito|lamento|mi dispiace|scusa)\b.{0,20}"
    r"\b(?:no puedo|no podemos|não posso|non posso|não consigo|non sono in grado)\b"
    r"|(?:no puedo|não posso|non posso) (?:ayudar|asistir|cumplir|ajudar|atender|aiutar|assister)"
    # Dutch, Polish, Russian
    r"|(?:het spijt me|sorry)\b.{0,20}\bik\b.{0,40}\bniet\b"
    r"|przykro mi\b.{0,20}\bnie mogę\b"
    r"|(?:извините|простите|к сожалению|мне жаль)\b.{0,20}\b(?:я )?не (?:могу|смогу|в состоянии)\b"
    r"|я не могу (?:помочь|выполнить|обработать|ответить|предоставить)"
    # Chinese, Japanese, Korean
    r"|(?:很|非常|十分)?(?:抱歉|对不起|對不起).{0,12}(?:无法|不能|無法)"
    r"|我(?:无法|不能|無法)(?:协助|協助|帮助|幫助|提供|满足|处理|處理|回答|完成)"
    r"|.{0,20}(?:対応|お手伝い|お答え|協力|お応え)(?:すること)?(?:は|が)?(?:でき|いたしかね)"
    r"|申し訳(?:ありません|ございません).{0,40}(?:でき|かね)"
    r"|죄송.{0,40}(?:없습니다|어렵습니다)"
)
_REFUSES: Final = compile_late(_REFUSALS, re.IGNORECASE)

_NOT_DONE: Final = (
    r"\b(?:i|we)\b.{0,24}?(?:n't\b|\bnot\b|\bnever\b|\bcannot\b|\brefus|\bdeclin|\bignor)"
)
_DISTANCES: Final = compile_late(rf"{_NOT_DONE}|\binject(?:s|ed|ion)\b", re.IGNORECASE)
"""What the words before a list say when the list is not to be believed."""
_WILL_NOT_NOTE: Final = compile_late(
    r"(?:(?:so|therefore|but|and),? )?(?:i|we) ?"
    r"(?:'ll|will|did|do|have|am|'ve|'m|wo|can|could|ca)? ?"
    r"(?:n't|not|never|refused? to|declined? to) .{0,20}"
    r"\b(?:record|follow|not(?:e|ing)|stor|sav|keep|obey|comply|includ|act(?:ed)? on|treat)",
    re.IGNORECASE,
)


def is_refused(before: Sequence[str], items: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether an answer is a refusal, or says of its list that it is not to be believed.

    Args:
        before: The lines before the first item that are no date headings.
        items: The items, without what is indented below them.
        after: The lines after the first item that belong to none.
    """
    if any(_refuses(line) or _DISTANCES.search(_head(line)) for line in before if items):
        return True
    if any(_refuses(line) or _WILL_NOT_NOTE.match(_head(line)) for line in (*before, *after)):
        return True
    if not items or not _refuses(items[0]):
        return False
    return not any(map(_is_labelled, items)) or all(map(_refuses, items))


def _head(line: str) -> str:
    head = line[:_MAX_HEAD_CHARS].replace("’", "'")
    label = _LABEL.match(head)
    return head[label.end() :] if label else head


def _refuses(line: str) -> bool:
    return _REFUSES.match(_head(line)) is not None


def _is_labelled(line: str) -> bool:
    label = _LABEL.match(line)
    return label is not None and bool(label["mark"] or label["time"])


# --- A review in our colours ----------------------------------------------------------------------

_VERDICT: Final = compile_late(
    r"[ \t]*+(?:[-*+•–] )?[*_]{0,3}[🔴🟡🟢✅📌]\ufe0f?[ *_]{0,4}"
    r"(?:block(?:er|ing)|critical|severe|major|medium|moderate|minor|high|low|nit(?:pick)?|warnings?"
    r"|suggestions?|security|performance|style|strengths?|must fix|should fix|nice to have|issues?"
    r"|pass(?:ed)?|fail(?:ed)?)\b[^:\n]{0,30}[:–—]",
    re.IGNORECASE,
)


def is_verdict(item: str) -> bool:
    """Return whether the mark of an item says how grave something is: `🔴 **Critical**: x`."""
    return _VERDICT.match(item) is not None


# --- The form, not filled in ----------------------------------------------------------------------

_BLANK: Final = r"\.{2,}|…+|[<{\[]{1,2}(?!unknown|none|n/a)[^<>{}\[\]\d]{1,60}[>}\]]{1,2}"
_UNIT: Final = r"(?:y{2,4}|m{1,4}|d{1,2}|month|day|year|date)"
_BLANK_DATE: Final = compile_late(
    rf"date[ \t]*:[ \t*_`]*(?:{_BLANK}|{_UNIT}(?:[ ,./-]{{1,2}}{_UNIT}){{0,2}})", re.IGNORECASE
)
_BLANK_TIME: Final = compile_late(r"[\[(<{]{1,2}(?:hh?:mm?|xx:xx)\b", re.IGNORECASE)
_BLANK_TEXT: Final = compile_late(rf"{_BLANK}|text|observation(?: text)?", re.IGNORECASE)


def is_blank_form(dates: Sequence[str], entries: Sequence[str]) -> bool:
    """Return whether an answer echoes the form: a date or time to fill in, or only such texts.

    Args:
        dates: The date headings.
        entries: The other lines that are not below an item.
    """
    if any(_BLANK_DATE.fullmatch(line.rstrip(" \t*_`").lstrip(" \t#*_>`")) for line in dates):
        return True
    heads = [_head(line).strip() for line in entries]
    if any(map(_BLANK_TIME.match, heads)):
        return True
    return bool(heads) and all(map(_BLANK_TEXT.fullmatch, heads))
