// What every turn was worth, where it was measured, and what critics and other methods say of it: a strip along the dialogue,
// and in each turn what the critic saw beside what the agent saw, and what else might have been said.
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

  const signed = (value) => (value === null || value === undefined ? "–" : `${Math.abs(value) < 0.005 ? "" : value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`);
  const plain = (value) => (value === null || value === undefined ? "–" : value.toFixed(3).replace("-", "−"));
  const nameOf = (path) => String(path ?? "critic").split("/").filter(Boolean).at(-1) ?? "critic";

  // A table of the turns' scores by colour and number, for each file of scores; below what turns were worth, if that was measured.
  function strips(row, goToTurn) {
    const all = row.credit ?? [];
    const measured = all.find((scores) => Object.values(scores.turns).some((turn) => turn.measured));
    const scored = all.filter((scores) => waysOf(scores).length);
    const said = (row.messages ?? []).filter((message) => message.role === "assistant").map((message) => message.content);
    return measured ? [recorder(measured, scored, said, goToTurn)] : scored.map((scores) => strip(scores, said.length, goToTurn));
  }

  // The methods of a file, [name, view of a turn]; a critic is one with the solution and one without.
  function waysOf(scores) {
    const turns = Object.values(scores.turns);
    const names = [...new Set(turns.flatMap((turn) => Object.keys(turn.scores ?? {})))];
    if (names.length) return names.map((name) => [name, (turn) => turn?.scores && { advantage: turn.scores[name] ?? null, why: turn.why?.[name] ?? "the method gives none" }]);
    return WAYS.filter(([way]) => turns.some((turn) => turn[way])).map(([way, words]) => [words, (turn) => turn?.[way]]);
  }

  function tableOf(count, goToTurn, body) {
    const turns = [...Array(count).keys()];
    const head = turns.map((turn) => make("th", { scope: "col" }, make("button", { class: "turn-link", type: "button", title: `Go to turn ${turn + 1}`, text: String(turn + 1), onclick: () => goToTurn(turn) })));
    return make("div", { class: "strip-scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", { text: "turn" }), head)), make("tbody", {}, body)));
  }

  const mostOf = (scores, view) => Math.max(...Object.values(scores.turns).map((turn) => Math.abs(view(turn)?.advantage ?? 0)), 1e-9);

  function strip(scores, count, goToTurn) {
    const ways = waysOf(scores);
    const most = Math.max(...ways.map(([, view]) => mostOf(scores, view)));
    const body = ways.map(([words, view]) => make("tr", {}, make("th", { scope: "row", text: words }), [...Array(count).keys()].map((turn) => cell(view(scores.turns[turn]), most))));
    const title = scores.critic ? "Critic's score of every turn" : "Scores of every turn";
    return make("figure", { class: "strip" }, make("figcaption", {}, make("strong", { text: title }), ` ${nameOf(scores.critic ?? scores.file)}`, digest(scores), notes(scores, count)), tableOf(count, goToTurn, body));
  }

  // 1 or -1 where the interval of what a turn was worth excludes 0.
  const clear = (measured) => (measured ? (measured.low > 1e-9) - (measured.high < -1e-9) : 0);

  // What every turn was worth, with its interval; below it what each method believes, marked where it has the other sign.
  function recorder(measured, all, said, goToTurn) {
    const turns = [...said.keys()];
    const worth = turns.map((turn) => measured.turns[turn]?.measured);
    const known = worth.filter(Boolean);
    const [low, high] = [Math.min(0, ...known.map((one) => one.low)), Math.max(0, ...known.map((one) => one.high))];
    const place = (value) => ((value - low) / (high - low || 1)).toFixed(4);
    const drawn = worth.map((one) => {
      const element = make("td", { class: "worth" });
      if (!one) return element;
      const kind = ["less", "unclear", "more"][clear(one) + 1];
      const interval = `${signed(one.low)} to ${signed(one.high)}`;
      const picture = make("span", { class: `interval ${kind}`, "aria-hidden": "true" }, make("span", { class: "zero" }), make("span", { class: "reach" }), make("span", { class: "mean" }));
      for (const [name, value] of [["low", one.low], ["high", one.high], ["mean", one.advantage], ["zero", 0]]) picture.style.setProperty(`--${name}`, place(value));
      element.title = `${interval}; value before ${plain(one.before.mean)} (${Words.plural(one.before.n, "continuation")}), after ${plain(one.after.mean)} (${one.after.n || "the end"})`;
      element.append(picture, make("strong", { text: signed(one.advantage) }), make("span", { class: "muted", text: interval }));
      return element;
    });
    const against = turns.map(() => []); // a judge's number, 0 to 10, has no sign
    const body = all.flatMap((scores) =>
      waysOf(scores).map(([words, view]) => {
        const named = all.length > 1 && scores.critic ? `${nameOf(scores.critic)}, ${words}` : words;
        const cells = turns.map((turn) => {
          const element = cell(view(scores.turns[turn]), mostOf(scores, view));
          if (words !== "judge" && clear(worth[turn]) * (view(scores.turns[turn])?.advantage ?? 0) < 0) {
            against[turn].push(named);
            element.classList.add("against");
            element.title = `contradicts the measurement; ${element.title}`;
          }
          return element;
        });
        return make("tr", {}, make("th", { scope: "row", text: named }), cells);
      }),
    );
    const told = turns.filter((turn) => against[turn].length).map((turn) => make("li", {}, make("button", { class: "turn-link", type: "button", text: `turn ${turn + 1}`, onclick: () => goToTurn(turn) }), ` ${signed(worth[turn].advantage)}: ${against[turn].join("; ")}`));
    const settings = measured.settings ?? {};
    const effort = measured.turns[0]?.measured?.allocation === "fixed" ? `${settings.continuations} continuations of every state` : `until intervals were ±${settings.target_error}`;
    const about = ` ${settings.measure ?? "reward"} gained, measured by playing on (${effort}), with 95 % intervals${body.length ? "; below, what methods believe, each in its own units" : ""}`;
    const says = said.map((text) => make("td", { class: "says", title: text }, make("span", { text })));
    return make(
      "figure",
      { class: "strip recorder" },
      make("figcaption", {}, make("strong", { text: "What every turn was worth:" }), make("span", { class: "muted", text: about }), notes(measured, said.length)),
      told.length ? make("div", { class: "contradicted" }, make("p", { text: "Turns where a method's sign contradicts the measurement:" }), make("ul", {}, told)) : null,
      tableOf(said.length, goToTurn, [make("tr", {}, make("th", { scope: "row", text: "says" }), says), make("tr", {}, make("th", { scope: "row", text: "worth" }), drawn), ...body]),
    );
  }

  const digest = (scores) => {
    const made = String(scores.made.critic ?? "");
    return made.startsWith("sha256:") ? make("span", { class: "muted", title: made, text: ` sha256 ${made.slice(7, 15)}` }) : null;
  };

  function notes(scores, count) {
    const missing = count - Object.values(scores.turns).filter((turn) => Object.keys(turn).length).length;
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
    const element = make("td", { class: `heat${known ? (value < 0 ? " less" : " more") : ""}`, title: !known ? why(view) : view.critic === undefined ? plain(value) : `critic ${plain(view.critic)}, reference ${plain(view.reference)}`, text: signed(value) });
    if (known) element.style.setProperty("--heat", (Math.abs(value) / most).toFixed(3));
    return element;
  }

  const why = (view) => (view ? `No score: ${WHY[view.why] ?? view.why}.` : "Not scored.");

  // What a turn shows: {marks, folds}.
  function ofTurn(row, turn, prompt, message) {
    const all = (row.credit ?? []).filter((scores) => WAYS.some(([way]) => scores.turns[turn]?.[way]));
    const marks = all.map((scores) => badge(scores.turns[turn], nameOf(scores.critic), all.length > 1));
    const measured = (row.credit ?? []).map((scores) => scores.turns[turn]?.measured).find(Boolean);
    if (measured) marks.unshift(make("span", { class: `score${[" less", "", " more"][clear(measured) + 1]}`, title: "measured by playing on, with its 95 % interval", text: `worth ${signed(measured.advantage)} (${signed(measured.low)} to ${signed(measured.high)})` }));
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
    return make("span", { class: `score${kind}`, title: value === null ? why(view) : `${critic}, ${words}: ${plain(value)}` }, `${named ? critic : "critic"} ${signed(value)}`);
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
