// How trajectories of worlds that reward turns are shown: what each turn got, what came together, how it ended.
// What `Kind` offers is what list, detail and filters ask of every kind.
"use strict";

Kinds.game = (() => {
  const { make } = Dom;
  const filters = [["ended", "Ended"], ["cut", "Cut short"]];
  const jumps = [["dialogue", "Dialogue", "d"]];
  const search = "Search tasks, dialogues";
  const partner = { name: "World", opens: "begins" };

  // A row's kind goes by how it ended: a return may be good or bad, which only its world knows.
  function outcome(value, row) {
    if (!row) return "plain";
    if (row.truncated === null) return "ungraded";
    return row.truncated ? "cut" : "ended";
  }

  const score = (row) => row?.score ?? "return"; // what the world calls a reward
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const returns = (rows) => rows.map((row) => row.reward).filter((value) => value !== null);
  const ended = (rows) => rows.filter((row) => row.outcome === "ended").length;

  // At most two digits behind the point, and none where there is nothing to say.
  const written = (value) => (Number.isFinite(value) ? String(Math.round(value * 100) / 100).replace("-", "−") : "–");

  // What is said of the rows listed, as [name, value, something beside it].
  function figures(rows) {
    const known = returns(rows);
    const range = known.length > 1 ? `${written(Math.min(...known))} to ${written(Math.max(...known))}` : "";
    return [
      [`Mean ${score(rows[0])}`, written(Words.overTasks(rows, (row) => row.reward)), range],
      ["Ended by the world", Words.percent(ended(rows) / rows.length)],
    ];
  }

  // What is said of a task's repeats.
  const group = (rows) => [`${ended(rows)} of ${rows.length} ended`, `mean ${score(rows[0])} ${written(mean(returns(rows)))}`];

  // The grades in the header, as [name, value].
  const grades = (row) => [[Words.phrase(score(row)), row.reward]];

  // The parts of the page, as [id, title, notes, ...content].
  const sections = (row, settings) => [["dialogue", "Dialogue", [], secret(row), Chat.render(row, settings, say)]];

  // What the agent was not told, shut until somebody asks for it.
  function secret(row) {
    if (!row.hidden) return null;
    const { button, content } = Chat.fold("hidden", "hidden from the agent", row.hidden, false);
    return make("div", {}, button, content);
  }

  function say(message) {
    return { marks: message.reward === undefined ? [] : [badge(message.reward)], nodes: Chat.prose(message.content) };
  }

  function badge(value) {
    return make(
      "span",
      { class: `turn-reward${value > 0 ? " gain" : ""}`, title: `Reward of this turn: ${value}` },
      make("span", { class: "visually-hidden", text: "reward " }),
      written(value),
    );
  }

  const block = (text) => make("pre", { class: "code", text });

  return { filters, jumps, search, help: [], keys: {}, partner, bar: false, written, outcome, figures, group, grades, sections, block };
})();
