// How preference pairs are shown: what both sides begin with, then the preferred beside the rejected.
"use strict";

Kinds.pairs = (() => {
  const { make } = Dom;
  const filters = [["pair", "Pairs"], ["other", "Other rows"]];
  const jumps = [["pair", "Pair", "c"], ["before", "Before", "d"]];
  const search = "Search pairs";
  const partner = { name: "Human", opens: "" };

  const outcome = (value, row) => (row ? (row.stop === "pair" ? "pair" : "other") : "plain");

  function figures(rows) {
    const longer = rows.filter((row) => row.turns > 0).length;
    return [["Preferred is longer", Words.percent(longer / rows.length)]];
  }

  function size(row) {
    if (!row.turns) return "of one length";
    return `preferred is ${Words.plural(Math.abs(row.turns), "character")} ${row.turns > 0 ? "longer" : "shorter"}`;
  }

  function sections(row) {
    const side = (name, text) => make("div", { class: `side-of-pair ${name}` }, make("h4", { text: Words.phrase(name) }), make("pre", { text }));
    return [
      ["pair", "Preferred and rejected", [], make("div", { class: "two" }, side("chosen", row.chosen), side("rejected", row.rejected))],
      ["before", "What both begin with", [], make("pre", { class: "code", text: row.before })],
    ];
  }

  const block = (text) => make("pre", { class: "code", text });

  return { filters, jumps, search, help: [], keys: {}, partner, size, graded: false, reasons: "Any kind of row", bar: false, written: String, outcome, figures, group: (rows) => [Words.plural(rows.length, "pair")], grades: () => [], sections, block };
})();
