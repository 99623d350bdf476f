// What a critic says of every turn: a strip along the dialogue, and in each turn what the critic saw beside what
// the agent saw, and what else might have been said.
"use strict";

const Credit = (() => {
  const { make } = Dom;
  const WAYS = [["hidden", "with the hidden solution"], ["without_hidden", "without it"]];
  const WHY = {
    no_prompt: "the file has no prompt of this turn",
    no_tokens: "the turn has no text",
    too_long: "prompt and turn are longer than the critic's context",
    no_reference: "the file has no log-probabilities of this turn to compare with",
    not_finite: "the model gives no number",
  };

  const signed = (value) => (value === null || value === undefined ? "–" : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`);
  const plain = (value) => (value === null || value === undefined ? "–" : value.toFixed(3).replace("-", "−"));
  const nameOf = (path) => String(path ?? "critic").split("/").filter(Boolean).at(-1) ?? "critic";

  // A table of the turns' scores by colour and number, for each file of scores.
  function strips(row, goToTurn) {
    return (row.credit ?? []).map((scores) => strip(scores, turnsOf(row), goToTurn));
  }

  const turnsOf = (row) => row.messages.filter((message) => message.role === "assistant").length;

  function strip(scores, count, goToTurn) {
    const ways = WAYS.filter(([way]) => Object.values(scores.turns).some((turn) => turn[way]));
    const values = Object.values(scores.turns).flatMap((turn) => ways.map(([way]) => Math.abs(turn[way]?.advantage ?? 0)));
    const most = Math.max(...values, 1e-9);
    const turns = [...Array(count).keys()];
    const head = turns.map((turn) => make("th", { scope: "col" }, make("button", { class: "turn-link", type: "button", title: `Go to turn ${turn + 1}`, text: String(turn + 1), onclick: () => goToTurn(turn) })));
    const body = ways.map(([way, words]) => make("tr", {}, make("th", { scope: "row", text: words }), turns.map((turn) => cell(scores.turns[turn]?.[way], most))));
    return make(
      "figure",
      { class: "strip" },
      make("figcaption", {}, make("strong", { text: "Critic's score of every turn" }), ` ${nameOf(scores.critic)}`, digest(scores), notes(scores, count)),
      make("div", { class: "strip-scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { text: "turn" }), head)), make("tbody", {}, body))),
    );
  }

  const digest = (scores) => {
    const made = String(scores.made.critic ?? "");
    return made.startsWith("sha256:") ? make("span", { class: "muted", title: made, text: ` sha256 ${made.slice(7, 15)}` }) : null;
  };

  function notes(scores, count) {
    const missing = count - Object.keys(scores.turns).length;
    const words = [];
    if (scores.other) words.push(`${Words.plural(scores.other, "score")} of other texts than these`);
    if (missing > 0) words.push(`${Words.plural(missing, "turn")} not scored`);
    const reasons = Object.values(scores.turns).flatMap((turn) => WAYS.map(([way]) => turn[way]?.why)).filter(Boolean);
    for (const [reason, all] of Map.groupBy(reasons, (one) => one)) words.push(`${Words.plural(all.length, "score")} missing: ${WHY[reason] ?? reason}`);
    return words.length ? make("span", { class: "muted", text: ` (${words.join("; ")})` }) : null;
  }

  function cell(view, most) {
    const value = view?.advantage;
    const known = value !== null && value !== undefined;
    const element = make("td", { class: `heat${known ? (value < 0 ? " less" : " more") : ""}`, title: known ? `critic ${plain(view.critic)}, reference ${plain(view.reference)}` : why(view), text: signed(value) });
    if (known) element.style.setProperty("--heat", (Math.abs(value) / most).toFixed(3));
    return element;
  }

  const why = (view) => (view ? `No score: ${WHY[view.why] ?? view.why}.` : "Not scored.");

  // What a turn shows: {marks, folds}.
  function ofTurn(row, turn, prompt, message) {
    const all = (row.credit ?? []).filter((scores) => scores.turns[turn]);
    const marks = all.map((scores) => badge(scores.turns[turn], nameOf(scores.critic), all.length > 1));
    const folds = all.length ? [Chat.fold("critic", "what the critic saw", () => [saw(row, all, turn, prompt)], false)] : [];
    const others = row.alternatives?.[turn];
    if (others?.candidates.length) folds.push(Chat.fold("critic", Words.plural(others.candidates.length, "alternative"), () => [alternatives(others, message.output ?? message.content)], false));
    return { marks, folds };
  }

  function badge(views, critic, named) {
    const view = views.hidden ?? views.without_hidden;
    const words = views.hidden ? "with the hidden solution" : "without it";
    const value = view.advantage;
    const kind = value === null ? "" : value < 0 ? " less" : " more";
    return make("span", { class: `score${kind}`, title: value === null ? why(view) : `${critic}, ${words}: ${plain(value)}` }, make("span", { class: "visually-hidden", text: "critic's score " }), named ? `${critic} ` : null, signed(value));
  }

  function saw(row, all, turn, prompt) {
    const rows = all.flatMap((scores) =>
      WAYS.filter(([way]) => scores.turns[turn][way]).map(([way, words]) => {
        const view = scores.turns[turn][way];
        return make("tr", {}, make("th", { scope: "row", text: `${nameOf(scores.critic)}, ${words}` }), [signed(view.advantage), plain(view.critic), plain(view.reference)].map((text) => make("td", { text })), make("td", { text: view.why ? WHY[view.why] ?? view.why : "" }));
      }),
    );
    const head = ["prompt", "score", "critic", "reference", "why none"].map((text, i) => make("th", { scope: "col" }, make("span", { class: i % 4 ? "" : "visually-hidden", text })));
    return make(
      "div",
      { class: "saw" },
      make("table", { class: "numbers" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)),
      make(
        "div",
        { class: "two" },
        make("div", {}, make("h4", { text: "What the agent saw" }), make("pre", { tabindex: "0", text: prompt })),
        make("div", {}, make("h4", { text: "What the critic saw" }), make("pre", { tabindex: "0" }, make("mark", { class: "told", text: row.told ?? "" }), prompt)),
      ),
    );
  }

  // Candidates, the best first; the bar is a score's place between the worst and the best.
  function alternatives({ candidates, scored, file }, taken) {
    const ordered = [...candidates].sort((a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity));
    return make("div", { class: "saw" }, make("p", { class: "muted", text: scored ? `Sampled for this turn and scored by the critic (${file}).` : `Sampled for this turn (${file}); not scored.` }), candidateTable(ordered, taken));
  }

  function candidateTable(candidates, taken) {
    const counts = new Map();
    for (const { text } of candidates) counts.set(text, (counts.get(text) ?? 0) + 1);
    const scores = candidates.map((one) => one.score).filter((score) => score !== null);
    const [low, high] = [Math.min(...scores), Math.max(...scores)];
    const seen = new Set();
    const once = candidates.filter(({ text }) => !seen.has(text) && seen.add(text));
    const body = once.map((one) => {
      const bar = make("td", { class: "number", text: signed(one.score) });
      if (one.score !== null) bar.style.setProperty("--share", high > low ? ((one.score - low) / (high - low)).toFixed(3) : "1");
      const often = counts.get(one.text) > 1 ? `${counts.get(one.text)} times` : "";
      const marks = [often, one.cut ? "cut off" : "", one.text === taken ? "this was said" : ""].filter(Boolean).join(", ");
      return make("tr", { class: one.text === taken ? "taken" : "" }, bar, make("td", { class: "number", text: plain(one.logprob) }), make("td", {}, make("span", { class: "said", text: one.text || "(nothing)" }), marks ? make("span", { class: "muted", text: ` ${marks}` }) : null));
    });
    const head = [["score", "number"], ["log-prob.", "number"], ["candidate", ""]].map(([text, kind]) => make("th", { scope: "col", class: kind, text }));
    return make("div", { class: "scroller" }, make("table", { class: "candidates" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, body)));
  }

  return { strips, ofTurn, candidateTable, signed };
})();
