// What the pages do with a script: light what belongs together, and follow a run. Reading them, and
// changing something, works without it.
"use strict";
(() => {
  const all = (query, within = document) => [...within.querySelectorAll(query)];
  let kept = null; // what a click keeps lit

  const runsOf = (group) =>
    (group.dataset.lights || "").split(" ").filter(Boolean).map((run) => run.split("-").map(Number));

  const belongsTo = (place) => {
    if (place.dataset.group !== undefined) {
      const runs = runsOf(place);
      return all("[data-at]").filter((said) =>
        runs.some(([from, to]) => from <= +said.dataset.at && +said.dataset.at <= to));
    }
    const of = place.dataset.of.split(" ");
    return all("[data-group]").filter((group) => of.includes(group.dataset.group));
  };

  const light = (place) => {
    all(".lit").forEach((each) => each.classList.remove("lit"));
    if (!place || !place.isConnected) return;
    const others = belongsTo(place);
    if (others.length) [place, ...others].forEach((each) => each.classList.add("lit"));
  };

  const find = (target) => target.closest && target.closest("[data-group], [data-of]");

  document.addEventListener("pointerover", (event) => light(find(event.target) || kept));
  document.addEventListener("focusin", (event) => light(find(event.target) || kept));
  document.addEventListener("click", (event) => {
    const place = find(event.target);
    const link = event.target.closest && event.target.closest("a[data-message], a[data-of-group]");
    if (place && (link || !event.target.closest("a, button, summary, textarea"))) {
      kept = kept === place && !link ? null : place;
      light(kept);
    }
    if (!link) return;
    const goal = document.getElementById(link.hash.slice(1));
    if (!goal) return; // on another page of the conversation
    event.preventDefault();
    event.stopImmediatePropagation();
    goal.scrollIntoView({ block: "nearest" });
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") light((kept = null));
  });

  // A run goes on: show it, unless somebody writes. What is open stays open, what is scrolled stays.
  const isBusy = () => {
    const own = document.activeElement;
    return Boolean((own && own.matches("textarea, input")) || document.querySelector("details.change[open]"));
  };
  const show = () => window.htmx.ajax("GET", location.href, { target: "#page", select: "#page", swap: "outerHTML show:none" });
  const hear = () => {
    const news = document.getElementById("news");
    if (news && isBusy()) news.hidden = false;
    else show();
  };
  document.addEventListener("click", (event) => {
    if (event.target.id === "news") show();
  });

  let open = [], scrolled = [];
  document.addEventListener("htmx:beforeSwap", () => {
    open = all("details[id]:not(.change)").map((each) => [each.id, each.open]);
    scrolled = all("#conversation, #memory").map((each) => [each.id, each.scrollTop]);
  });
  document.addEventListener("htmx:afterSettle", () => {
    for (const [id, was] of open) {
      const own = document.getElementById(id);
      if (own) own.open = was;
    }
    for (const [id, top] of scrolled) {
      const own = document.getElementById(id);
      if (own) own.scrollTop = top;
    }
    open = scrolled = [];
    const told = document.getElementById("done");
    if (told && document.activeElement === document.body) told.focus({ preventScroll: true });
    watch();
  });

  // A look that takes long comes the later again.
  let timer = 0;
  const watch = (pause = 2000) => {
    clearTimeout(timer);
    if (document.querySelector("[data-live]") && !document.hidden) timer = setTimeout(look, pause);
  };
  const look = async () => {
    const page = document.querySelector("[data-live]"), begun = Date.now();
    const answer = await fetch(page.dataset.live).catch(() => null);
    const version = answer && answer.ok ? await answer.text() : "";
    if (version && version !== page.dataset.version && page.isConnected) hear();
    watch(Math.max(2000, 20 * (Date.now() - begun)));
  };
  document.addEventListener("visibilitychange", () => watch(0));
  watch();
})();
