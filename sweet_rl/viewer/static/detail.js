// The right side: one trajectory, as a chat, as a diff, and test by test.
"use strict";

// Small marks that the list and the detail share.
const Show = (() => {
  const { make } = Dom;

  function reward(value, label = "Reward") {
    const fill = make("span", { class: "reward-fill" });
    fill.style.width = `${100 * Math.min(Math.max(value ?? 0, 0), 1)}%`;
    return make(
      "span",
      { class: `reward ${Words.outcome(value)}`, title: `${label} ${value ?? "not known"}` },
      make("span", { class: "reward-bar", "aria-hidden": "true" }, fill),
      make("span", { class: "visually-hidden", text: `${label} ` }),
      make("span", { text: value === null || value === undefined ? "ungraded" : Words.reward(value) }),
    );
  }

  const failures = (count) =>
    count ? make("span", { class: "flagged", text: `⚑ ${count}`, title: Words.plural(count, "failure"), "aria-label": Words.plural(count, "failure") }) : null;

  return { reward, failures };
})();

const Detail = (() => {
  const { make } = Dom;
  const ANSWER_MARKER = "I WANT TO ANSWER:";
  const OUTPUT_MARKER = "OUTPUT:";
  const NO_RESPONSE = "No response.";
  const UNEXPLAINED = "The simulated human could not be asked; the file does not say why.";
  const NO_ANSWER = "No answer";
  const JUMPS = [["dialogue", "Dialogue", "d"], ["answer", "Answer", "a"], ["tests", "Tests", "e"]];
  const folds = new WeakMap(); // a folded text to the function that shows or hides it
  const FENCE = /```([^\n`]*)\n([\s\S]*?)(?:```|$)/g;

  // settings: {thoughts, prompts}: whether those are open. actions: {select(row), back()}.
  function render(row, browse, settings, actions) {
    const passed = row.tests.filter((test) => test.outcome === "passed").length;
    const graded = row.tests.some((test) => test.outcome !== undefined);
    return [
      header(row, browse, actions),
      section("dialogue", "Dialogue", [], chat(row, settings)),
      section("answer", "Answer and hidden function", ...comparison(row)),
      section(
        "tests",
        "Hidden tests",
        graded ? [make("span", { text: `${passed} of ${row.tests.length} passed` })] : [],
        gradingNotes(row),
        tests(row, graded),
      ),
      provenance(row),
    ];
  }

  function section(id, title, notes, ...content) {
    return make(
      "section",
      { id, "aria-labelledby": `${id}-title` },
      make("div", { class: "section-head" }, make("h3", { id: `${id}-title`, text: title }), make("p", { class: "notes" }, notes)),
      content,
    );
  }

  // ---- header

  function header(row, browse, actions) {
    const { agent_model: agent, env_model: human } = row.provenance;
    const facts = [
      ["Agent", agent],
      ["Human", human],
      ["Ended", Words.stop(row.stop)],
      ["Task", row.task_id],
    ].filter(([, value]) => value !== undefined && value !== null);
    return make(
      "header",
      { class: "detail-head" },
      make(
        "div",
        { class: "detail-title" },
        make("button", { class: "ghost back", type: "button", text: "← List", onclick: actions.back }),
        make("h2", { text: browse.tasks[browse.selected.task].summary || "(no description)", title: row.description }),
        repeats(browse, actions),
      ),
      make(
        "div",
        { class: "facts" },
        grades(row),
        facts.map(([name, value]) => fact(name, make("span", { class: "fact-value", text: String(value), title: String(value) }))),
        make("nav", { class: "jumps", "aria-label": "Parts of this trajectory" }, JUMPS.map(jump)),
      ),
    );
  }

  function jump([id, text, key]) {
    return make("button", { class: "fold", type: "button", text, title: `${text} (${key})`, onclick: () => goTo(id) });
  }

  // Below the header, which stays where it is and is as high as its facts need.
  function goTo(id) {
    const detail = Dom.byId("detail");
    const head = detail.querySelector(".detail-head");
    if (head) detail.scrollTo({ top: Dom.byId(id).offsetTop - head.offsetHeight });
  }

  const fact = (name, ...value) => make("span", { class: "fact" }, make("span", { class: "fact-name", text: name }), value);

  function grades(row) {
    const { fixed, published } = row.grades;
    const labelled = (name, value) => fact(name, Show.reward(value, name));
    if (fixed === undefined && published === undefined) return [labelled("Reward", row.reward)];
    const shown = [labelled("Fixed", fixed), labelled("Published", published)];
    if (row.reward !== fixed && row.reward !== published) shown.unshift(labelled("Reward", row.reward));
    return shown;
  }

  function repeats(browse, actions) {
    const rows = browse.repeats[browse.selected.task];
    const step = (by, label, text) => {
      const target = browse.sibling(by);
      return make("button", { class: "ghost", type: "button", "aria-label": label, title: label, text, disabled: target === null, onclick: () => actions.select(target) });
    };
    return make(
      "div",
      { class: "stepper" },
      rows.length > 1 ? step(-1, "Previous repeat ([)", "‹") : null,
      make("span", { text: `Repeat ${browse.selected.repeat}` }),
      rows.length > 1 ? make("span", { class: "muted", text: `${rows.indexOf(browse.selected) + 1} of ${rows.length}` }) : null,
      rows.length > 1 ? step(1, "Next repeat (])", "›") : null,
    );
  }

  // ---- dialogue

  function chat(row, settings) {
    const entries = [];
    const failures = Map.groupBy(row.failures, (entry) => entry.turn ?? -1); // those of no turn come last
    const explained = new Set(failures.keys());
    let agentTurn = -1;
    let prompt = "";
    row.messages.forEach((message, i) => {
      if (message.role !== "assistant") {
        entries.push(other(message, i === 0));
        if (message.content === NO_RESPONSE && !explained.has(agentTurn)) entries.push(note(UNEXPLAINED));
        return;
      }
      agentTurn++;
      prompt = message.more === undefined ? message.input : prompt + message.more;
      entries.push(agent(message, agentTurn, prompt, settings, i === row.messages.length - 1 && row.answer !== null));
      entries.push(...(failures.get(agentTurn) ?? []).map(failure));
      failures.delete(agentTurn);
    });
    if (!row.messages.length) entries.push(note("Nothing was said."));
    entries.push(...[...failures.values()].flat().map(failure));
    entries.push(make("li", { class: "ending", text: ending(row, agentTurn + 1) }));
    if (row.error) entries.push(failure(row.error));
    return make("ol", { class: "chat", role: "list" }, entries);
  }

  function ending(row, turns) {
    const after = `after ${Words.plural(turns, "agent turn")}`;
    return row.stop ? `${Words.stop(row.stop)} ${after}` : `Ended ${after}`;
  }

  function agent(message, turn, prompt, settings, isAnswer) {
    const thought = thoughtOf(message);
    const folds = [
      thought ? fold("thoughts", thought.title, thought.text, settings.thoughts) : null,
      prompt ? fold("prompts", "exact prompt", prompt, settings.prompts) : null,
    ].filter(Boolean);
    return make(
      "li",
      { class: "turn assistant" },
      make(
        "p",
        { class: "speaker" },
        make("strong", { text: "Agent" }),
        make("span", { text: `turn ${turn + 1}` }),
        folds.map(({ button }) => button),
      ),
      folds.map(({ content }) => content),
      make("div", { class: "bubble" }, text(message.content, isAnswer)),
      message.finish === "length" ? note("Cut off: the token limit was reached.", "p") : null,
    );
  }

  // What the agent wrote beyond what the human saw.
  function thoughtOf(message) {
    if (message.output === undefined) return null;
    if (message.content && message.output.endsWith(OUTPUT_MARKER + message.content)) {
      return { title: "thoughts", text: message.output.slice(0, -(OUTPUT_MARKER + message.content).length).trim() };
    }
    return { title: "raw output", text: message.output };
  }

  function other(message, isFirst) {
    const speaker = message.role === "system" ? "System" : "Human";
    return make(
      "li",
      { class: `turn ${message.role}` },
      make(
        "p",
        { class: "speaker" },
        make("strong", { text: speaker }),
        isFirst ? make("span", { text: "states the task" }) : null,
      ),
      make("div", { class: "bubble" }, text(message.content, false)),
    );
  }

  function failure(entry) {
    const status = entry.status ? ` (HTTP ${entry.status})` : "";
    const attempts = entry.attempts > 1 ? ` after ${entry.attempts} attempts` : "";
    const element = note("");
    element.append(make("strong", { text: `${Words.phrase(entry.kind)}${status}${attempts}` }), entry.detail ? `: ${entry.detail}` : "");
    return element;
  }

  const note = (words, tag = "li") => make(tag, { class: "flag", text: words });

  // A text that is shown on demand, and the button that shows it.
  function fold(kind, title, words, open) {
    const content = make("pre", { class: `folded ${kind}`, text: words });
    const button = make("button", { class: "fold", type: "button", text: title, onclick: () => show(content.hidden) });
    const show = (shown) => {
      content.hidden = !shown;
      button.setAttribute("aria-expanded", String(shown));
    };
    folds.set(content, show);
    show(open);
    return { button, content };
  }

  function showFolds(contents, shown) {
    for (const content of contents) folds.get(content)(shown);
  }

  // A message: prose, with fenced code, and what follows the answer marker, set as code.
  function text(content, isAnswer) {
    const marker = isAnswer ? content.indexOf(ANSWER_MARKER) : -1;
    if (marker < 0) return prose(content);
    const code = content.slice(marker + ANSWER_MARKER.length);
    return [
      ...prose(content.slice(0, marker)),
      make("p", { class: "handed-in", text: "Hands in its answer" }),
      ...(code.includes("```") ? prose(code) : [Python.block(code.replace(/^\s*\n|\s+$/g, ""))]),
    ];
  }

  function prose(content) {
    const parts = [];
    const say = (words) => words.trim() && parts.push(make("p", { text: words.trim() }));
    let end = 0;
    for (const match of content.matchAll(FENCE)) {
      say(content.slice(end, match.index));
      parts.push(Python.block(match[2].replace(/\n$/, "")));
      end = match.index + match[0].length;
    }
    say(content.slice(end));
    return parts;
  }

  // ---- answer

  function comparison(row) {
    if (row.code === null || row.code.trim() === NO_ANSWER) {
      return [[], note("No answer was handed in.", "p"), Python.block(row.hidden)];
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
    const notes = Object.entries(row.grading_notes).map(([way, words]) => note(`${Words.phrase(way)} grading: ${words}`));
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

  function provenance(row) {
    if (!Object.keys(row.provenance).length) return null;
    const { button, content } = fold("provenance", "how this row was made", JSON.stringify(row.provenance, null, 2), false);
    return make("footer", {}, button, content);
  }

  return { render, showFolds, goTo };
})();
