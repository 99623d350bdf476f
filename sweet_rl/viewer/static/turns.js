// How turns with sampled candidates are shown: what was said before, and the candidates by their score.
"use strict";

Kinds.turns = (() => {
  const { make } = Dom;
  const filters = [["scored", "Scored"], ["sampled", "Not scored"]];
  const jumps = [["candidates", "Candidates", "c"], ["dialogue", "Dialogue", "d"]];
  const search = "Search dialogues, candidates";
  const partner = { name: "Human", opens: "states the task" };
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const written = (value) => (Number.isFinite(value) ? Words.reward(value) : "–");

  const outcome = (value, row) => (row ? row.stop : "plain"); // the rewards are those of whole dialogues

  function figures(rows) {
    const spreads = rows.map((row) => row.spread).filter((value) => value !== null);
    return [
      ["Candidates", Words.integer(rows.reduce((sum, row) => sum + row.turns, 0))],
      ["Best minus worst score", spreads.length ? mean(spreads).toFixed(2) : "–", "mean"],
    ];
  }

  const group = (rows) => [Words.plural(rows.length, "turn")];
  const grades = (row) => [["Reward of the dialogue", row.reward]];

  function sections(row, settings) {
    const solution = Chat.fold("source", "hidden solution", row.hidden, false);
    const prompt = Chat.fold("prompts", "exact prompt", row.prompt, settings.prompts);
    const ordered = [...row.candidates].sort((a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity));
    const none = row.candidates.length ? null : Chat.note(`No candidates: ${row.error?.kind ?? "the file does not say why"}.`, "p");
    const before = { ...row, messages: row.messages, failures: [], answer: null, error: null, stop: undefined };
    return [
      ["candidates", `Turn ${row.turn + 1}: ${Words.plural(row.candidates.length, "candidate")}`, [solution.button, prompt.button], solution.content, prompt.content, make("p", { class: "taken-turn" }, make("strong", { text: "Said: " }), row.taken), none, none ? null : Credit.candidateTable(ordered, row.taken)],
      ["dialogue", "Before this turn", [], Chat.render(before, settings, (message) => ({ marks: [], nodes: Chat.prose(message.content) }))],
    ];
  }

  const block = (text) => make("pre", { class: "code", text });

  return { filters, jumps, search, help: [], keys: {}, partner, size: (row) => Words.plural(row.turns, "candidate"), reasons: "Scored or not", bar: false, written, outcome, figures, group, grades, sections, block };
})();
