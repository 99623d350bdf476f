// How trajectories of Frontend Design are shown: drafts against the target, what was said, metrics by turn.
// What `Kind` offers is what list, detail and filters ask of every kind.
"use strict";

Kinds.design = (() => {
  const { make } = Dom;
  const HIGH = 0.8;
  const MIDDLE = 0.5;
  const PLACEHOLDER = "[SEE RENDERED HTML]";
  const filters = [["high", `≥ ${HIGH}`], ["middle", `≥ ${MIDDLE}`], ["low", `< ${MIDDLE}`], ["ungraded", "Ungraded"]];
  const jumps = [["pages", "Pages", "c"], ["dialogue", "Dialogue", "d"], ["metrics", "Metrics", "e"]];
  const search = "Search tasks, dialogues, pages";
  const partner = { name: "Human", opens: "states the task" };

  function outcome(value) {
    if (value === null || value === undefined) return "ungraded";
    if (value >= HIGH) return "high";
    return value >= MIDDLE ? "middle" : "low";
  }

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const known = (values) => values.filter((value) => value !== null && value !== undefined);
  const score = (value) => (Number.isFinite(value) ? Words.reward(value) : "–");

  // What is said of the rows listed, as [name, value, something beside it].
  function figures(rows, browse) {
    const byTask = Map.groupBy(rows.filter((row) => row.reward !== null), (row) => row.task);
    const best = [...byTask.values()].map((repeats) => Math.max(...repeats.map((row) => row.reward)));
    const shown = [["Mean score", score(Words.overTasks(rows, (row) => row.reward)), browse.metric ?? ""]];
    if (browse.hasRepeats) shown.push(["Best of each task", score(mean(best))]);
    const floors = known(rows.map((row) => row.floor));
    if (floors.length) shown.push(["A blank page", score(mean(floors))]);
    return shown;
  }

  // What is said of a task's repeats.
  function group(rows) {
    const rewards = known(rows.map((row) => row.reward));
    return rewards.length ? [`best ${score(Math.max(...rewards))}`, `mean ${score(mean(rewards))}`] : null;
  }

  // The grades in the header, as [name, value].
  const grades = (row) => [[row.metric ? Words.phrase(row.metric) : "Score", row.reward]];

  // The parts of the page, as [id, title, notes, ...content].
  function sections(row, settings, { picture }) {
    const drafts = new Map(row.drafts.map((draft) => [draft.turn, draft]));
    const frames = framesOf(row);
    const answer = frames.findLastIndex((frame) => frame.isAnswer);
    const stage = Compare.stage(frames, picture, answer >= 0 ? answer : Math.max(frames.length - 2, 0));
    const source = Chat.fold("source", "source of the target", row.hidden, false);
    const chat = Chat.render(row, settings, (message, turn, isAnswer) => say(message, turn, isAnswer, drafts, frames, stage, picture));
    const none = frames.length > 1 ? null : Chat.note("No page was drawn.", "p");
    return [
      ["pages", "Pages", [source.button], source.content, none, stage.element],
      ["dialogue", "Dialogue", [], chat],
      ["metrics", "Metrics", [], ...metrics(row)],
    ];
  }

  // Drafts turn by turn, an answer that is none of them, and the target.
  function framesOf(row) {
    const handedIn = row.answer;
    const frames = row.drafts.map((draft) => {
      const isAnswer = handedIn !== null && handedIn.turn === draft.turn;
      const stored = isAnswer && row.metric ? row.reward : undefined;
      const failed = draft.failure ? `${Words.phrase(draft.failure)}.` : undefined;
      return {
        turn: draft.turn,
        name: `Turn ${draft.turn + 1}`,
        title: isAnswer ? `Turn ${draft.turn + 1}, the answer` : `Turn ${draft.turn + 1}`,
        picture: draft.picture,
        note: failed,
        reward: scoreOf(draft, row) ?? stored,
        isAnswer,
      };
    });
    if (handedIn?.picture) {
      frames.push({ name: "Answer", title: "The answer", picture: handedIn.picture, reward: row.metric ? row.reward : undefined, isAnswer: true });
    }
    return [...frames, { name: "Target", title: "Target", picture: row.target }];
  }

  const scoreOf = (draft, row) => draft.grades?.[row.metric ?? "combined"] ?? draft.grades?.combined;

  // Words, the page's source on demand, and its picture.
  function say(message, turn, isAnswer, drafts, frames, stage, picture) {
    const draft = drafts.get(turn);
    const place = frames.findIndex((frame) => frame.turn === turn);
    const [before, after] = Chat.aroundMarker(message.content, isAnswer);
    const source = message.html === undefined ? null : Chat.fold("source", PLACEHOLDER, message.html, false);
    const nodes = words(before, source);
    if (after !== null) nodes.push(Chat.handsIn(), ...words(after, source));
    if (source) nodes.push(source.content);
    if (draft) {
      const open = () => look(stage, place);
      nodes.push(make("div", { class: "shots" }, shot(frames[place], picture, open), shot(frames.at(-1), picture, open)));
    }
    const marks = place >= 0 && frames[place].reward !== undefined ? [Show.reward(frames[place].reward, frames[place].title), change(frames, place)] : [];
    return { marks, nodes };
  }

  // What the turn gained or lost against the last score before it.
  function change(frames, place) {
    const before = frames.slice(0, place).findLast((frame) => frame.reward !== undefined);
    if (before === undefined) return null;
    const by = Number(score(frames[place].reward)) - Number(score(before.reward)); // of what one reads
    const text = Math.abs(by) < 0.005 ? "±0.00" : `${by > 0 ? "+" : "−"}${Math.abs(by).toFixed(2)}`;
    return make("span", { class: `change ${text.startsWith("+") ? "up" : text.startsWith("−") ? "down" : ""}`, text, title: "against the draft before" });
  }

  // Prose in which the placeholder of a page opens the page's source.
  function words(content, source) {
    const parts = content.split(PLACEHOLDER);
    if (source === null || parts.length === 1) return Chat.prose(content);
    source.button.classList.add("placeholder");
    return parts.flatMap((part, i) => [...(i === 1 ? [source.button] : i ? [make("p", { text: PLACEHOLDER })] : []), ...Chat.prose(part)]);
  }

  function shot(frame, picture, onclick) {
    const shown = Compare.address(frame, picture)
      ? make(
          "button",
          { type: "button", class: "shot", title: "Compare", "aria-label": `${frame.title}: compare`, onclick },
          Compare.image(frame, picture, { loading: "lazy", alt: "" }),
        )
      : make("p", { class: "no-picture", text: Compare.why(frame) });
    return make("figure", {}, shown, make("figcaption", { text: frame.name }));
  }

  function look(stage, place) {
    stage.show(place);
    Detail.goTo("pages");
  }

  // ---- metrics

  function metrics(row) {
    const graded = row.drafts.filter((draft) => draft.grades);
    const told = graded.find((draft) => draft.turn === row.answer?.turn)?.grades ?? {};
    const columns = graded.map((draft) => [`Turn ${draft.turn + 1}`, draft.grades]);
    if (Object.keys(row.grades).some((name) => score(row.grades[name]) !== score(told[name]))) columns.push(["Answer", row.grades]);
    const floors = Object.entries(row.floors).map(([name, values]) => [Words.phrase(name), values]);
    const names = [...new Set([...columns, ...floors].flatMap(([, values]) => Object.keys(values)))];
    const notes = row.grading_notes.map((text) => Chat.note(Words.phrase(text), "li"));
    const content = [notes.length ? make("ul", { class: "grading-notes", role: "list" }, notes) : null];
    if (!names.length) return [...content, make("p", { class: "muted", text: "This row has not been graded: sweet-rl evaluate_html does it." })];
    const head = [make("th", { scope: "col", text: "Metric" }), ...[...columns, ...floors].map(([name], i) => make("th", { scope: "col", text: name, class: i >= columns.length ? "floor" : "" }))];
    const body = names.map((name) =>
      make(
        "tr",
        { class: name === row.metric ? "chosen" : "" },
        make("th", { scope: "row", text: name === row.metric ? `${name} (the score)` : name }),
        columns.map(([, values]) => cell(values[name])),
        floors.map(([, values]) => cell(values[name], "floor")),
      ),
    );
    content.push(make("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": "Metrics" }, make("table", { class: "grades" }, make("thead", {}, make("tr", {}, head)), make("tbody", {}, body))));
    if (row.drafts.length > 1 && !row.drafts.some((draft) => draft.grades)) {
      content.push(make("p", { class: "muted hint", text: "The metrics of every turn are shown with --metrics." }));
    }
    return content;
  }

  function cell(value, more = "") {
    const element = make("td", { class: more }, make("span", { text: value === undefined ? "–" : score(value) }));
    if (value !== undefined) element.style.setProperty("--share", String(Math.min(Math.max(value, 0), 1)));
    return element;
  }

  const block = (text) => make("pre", { class: "code", text });

  return { filters, jumps, search, help: Compare.help, keys: Compare.keys, partner, bar: true, written: Words.reward, outcome, figures, group, grades, sections, block };
})();
