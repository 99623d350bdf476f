// How trajectories of Backend Programming are shown: the answer beside the hidden function, test by test results.
// What `Kind` offers is what list, detail and filters ask of every kind.
"use strict";

Kinds.code = (() => {
  const { make } = Dom;
  const NO_ANSWER = "No answer";
  const filters = [["solved", "Solved"], ["partial", "Partial"], ["zero", "Zero"], ["ungraded", "Ungraded"]];
  const jumps = [["dialogue", "Dialogue", "d"], ["answer", "Answer", "a"], ["tests", "Tests", "e"]];
  const search = "Search tasks, dialogues, answers";
  const help = [];
  const keys = {};
  const partner = { name: "Human", opens: "states the task" };

  // The reward's kind: what filters, colours and counts go by.
  function outcome(value) {
    if (value === null || value === undefined) return "ungraded";
    if (value >= 1) return "solved";
    return value > 0 ? "partial" : "zero";
  }

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  // What is said of the rows listed, as [name, value, something beside it].
  function figures(rows) {
    const known = (value) => value !== null && value !== undefined;
    const passed = (name) => Words.percent(Words.overTasks(rows, (row) => row[name]));
    const success = (name) => Words.percent(Words.overTasks(rows, (row) => (known(row[name]) ? Number(row[name] >= 1) : null)));
    const also = (written) => (rows.some((row) => known(row.published)) ? `published ${written("published")}` : "");
    return [
      ["Success", success("reward"), also(success)],
      ["Tests passed", passed("reward"), also(passed)],
    ];
  }

  // What is said of a task's repeats.
  function group(rows) {
    const rewards = rows.map((row) => row.reward).filter((value) => value !== null);
    const solved = rewards.filter((value) => value >= 1).length;
    return rewards.length ? [`${solved} of ${rows.length} solved`, `mean ${Words.reward(mean(rewards))}`] : null;
  }

  // The grades in the header, as [name, value].
  function grades(row) {
    const { fixed, published, lenient } = row.grades;
    if (fixed === undefined && published === undefined) return [["Reward", row.reward]];
    const shown = [["Fixed", fixed], ["Published", published]];
    if (lenient !== undefined && lenient !== fixed) shown.push(["Lenient", lenient]);
    if (row.reward !== fixed && row.reward !== published) shown.unshift(["Reward", row.reward]);
    return shown;
  }

  // The parts of the page, as [id, title, notes, ...content].
  function sections(row, settings) {
    const passed = row.tests.filter((test) => test.outcome === "passed").length;
    const graded = row.tests.some((test) => test.outcome !== undefined);
    return [
      ["dialogue", "Dialogue", [], Chat.render(row, settings, say)],
      ["answer", "Answer and hidden function", ...comparison(row)],
      [
        "tests",
        "Hidden tests",
        graded ? [make("span", { text: `${passed} of ${row.tests.length} passed` })] : [],
        gradingNotes(row),
        tests(row, graded),
      ],
    ];
  }

  // What follows the answer marker is set as code.
  function say(message, turn, isAnswer) {
    const [before, code] = Chat.aroundMarker(message.content, isAnswer);
    if (code === null) return { marks: [], nodes: Chat.prose(before) };
    const block = code.includes("```") ? Chat.prose(code) : [Python.block(code.trimEnd().replace(/^\s*\n/, ""))];
    return { marks: [], nodes: [...Chat.prose(before), Chat.handsIn(), ...block] };
  }

  // ---- answer

  function comparison(row) {
    if (row.code === null || row.code.trim() === NO_ANSWER) {
      return [[], Chat.note("No answer was handed in.", "p"), Python.block(row.hidden)];
    }
    const left = row.code.split("\n");
    const right = row.hidden.split("\n");
    const rows = Diff.lines(left, right);
    const changed = rows.filter((line) => !line.same);
    const notes = [];
    if (changed.length) {
      notes.push(make("span", { class: "removed", text: `−${changed.filter((line) => line.left !== null).length}` }));
      notes.push(make("span", { class: "added", text: `+${changed.filter((line) => line.right !== null).length}` }));
    } else notes.push(make("span", { text: "the same code" }));
    if (row.answer.includes("```")) notes.push(make("span", { text: "shown without its fence" }));
    return [notes, diffTable(rows, Python.lines(row.code), Python.lines(row.hidden), left, right)];
  }

  function diffTable(rows, leftTokens, rightTokens, left, right) {
    const body = rows.map((line) => {
      const both = !line.same && line.left !== null && line.right !== null;
      const marks = both ? Diff.words(left[line.left], right[line.right]) : null;
      return make(
        "tr",
        { class: line.same ? "same" : "changed" },
        diffCells(line.left, leftTokens, marks?.[0], line.same ? "" : "removed"),
        diffCells(line.right, rightTokens, marks?.[1], line.same ? "" : "added"),
      );
    });
    const columns = ["line", "source", "line", "source"].map((kind) => make("col", { class: kind }));
    const head = ["Answer", "Hidden function"].map((name) => make("th", { scope: "col", colspan: "2", text: name }));
    return make("table", { class: "diff" }, make("colgroup", {}, columns), make("thead", {}, make("tr", {}, head)), make("tbody", {}, body));
  }

  function diffCells(line, tokens, marked, kind) {
    if (line === null) return [make("td", { class: "line none" }), make("td", { class: "source none" })];
    const sign = kind && make("span", { class: "visually-hidden", text: kind === "added" ? "only in the hidden function: " : "only in the answer: " });
    return [
      make("td", { class: `line ${kind}`, data: { line: line + 1 } }),
      make("td", { class: `source ${kind}` }, sign || null, make("code", {}, Python.nodes(tokens[line], marked))),
    ];
  }

  // ---- tests

  function gradingNotes(row) {
    const notes = Object.entries(row.grading_notes).map(([way, words]) => Chat.note(`${Words.phrase(way)} grading: ${words}`));
    return notes.length ? make("ul", { class: "grading-notes", role: "list" }, notes) : null;
  }

  function tests(row, graded) {
    if (!row.tests.length) return make("p", { class: "muted", text: "The task has none." });
    const columns = graded ? ["Outcome", "Test", "Expected", "Got"] : ["Test"];
    const body = row.tests.map((test) => {
      const call = make("td", {}, make("span", { class: "test-name", text: test.name ?? "" }), make("code", {}, Python.nodes(Python.lines(test.expression ?? "")[0])));
      if (!graded) return make("tr", {}, call);
      const kind = test.outcome === "passed" ? "passed" : "failed";
      return make(
        "tr",
        { class: kind },
        make("td", {}, make("span", { class: `outcome ${kind}`, text: `${kind === "passed" ? "✓" : "✗"} ${Words.phrase(test.outcome ?? "unknown")}` })),
        call,
        value("Expected", test.expected),
        value("Got", test.got, test.detail),
      );
    });
    return make(
      "table",
      { class: `tests${graded ? "" : " ungraded"}` },
      make("thead", {}, make("tr", {}, columns.map((name) => make("th", { scope: "col", text: name })))),
      make("tbody", {}, body),
    );
  }

  function value(label, literal, detail) {
    return make(
      "td",
      { data: { label } },
      literal === undefined ? make("span", { class: "muted", text: detail ? "" : "–" }) : make("code", { text: literal }),
      detail ? make("p", { class: "detail-text", text: detail }) : null,
    );
  }

  return { filters, jumps, search, help, keys, partner, bar: true, written: Words.reward, outcome, figures, group, grades, sections, block: Python.block };
})();
