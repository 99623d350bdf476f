// The right side: one trajectory, part by part.
"use strict";

const Detail = (() => {
  const { make } = Dom;

  // settings: {thoughts, prompts}: whether those are open. actions: {select(row), back(), beside(), picture(id)}.
  function render(row, browse, settings, actions) {
    return [header(row, browse, actions), ...parts(row, settings, actions, ""), provenance(row)];
  }

  // Several runs' rows of one task, side by side: [{entry, row, picture}], those without a row left empty.
  function renderBeside(columns, browse, settings, actions) {
    const own = columns.find(({ entry }) => entry === browse.selected).row;
    const head = header(own, browse, actions);
    const shown = columns.map(({ entry, row, picture }, run) => {
      const name = make("h3", { class: "run-name" }, make("span", { class: "run-letter", text: Words.letter(run) }), ` ${browse.runs[run].name}`);
      if (!row) return make("div", { class: "column" }, name, make("p", { class: "nothing", text: "This run has no row of this task." }));
      const facts = make("p", { class: "facts" }, grades(row), fact("Ended", Words.stop(row.stop)), fact("Repeat", make("span", { text: String(entry.repeat) })));
      return make("div", { class: "column" }, name, facts, parts(row, settings, { ...actions, picture }, `-${run}`), provenance(row));
    });
    return [head, make("div", { class: "columns" }, shown)];
  }

  function parts(row, settings, actions, suffix) {
    const shown = Kind.sections(row, settings, actions).map(([id, ...rest]) => section(`${id}${suffix}`, ...rest));
    const strips = Credit.strips(row, (turn) => goToTurn(Dom.byId(`dialogue${suffix}`), turn));
    const dialogue = shown.find((element) => element.id === `dialogue${suffix}`);
    if (dialogue) dialogue.querySelector(".section-head").after(...strips);
    return shown;
  }

  function goToTurn(section, turn) {
    section?.querySelector(`.turn[data-turn="${turn}"]`)?.scrollIntoView({ block: "center" });
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
      [Kind.partner.name, human === "nobody" ? null : human],
      ["Run", browse.runs.length > 1 ? `${Words.letter(browse.selected.run)} ${browse.runs[browse.selected.run].name}` : null],
      ["Ended", row.stop === undefined ? null : row.stop === "ended" ? "By the world" : Words.stop(row.stop)],
      ["Task", row.task_id],
    ].filter(([, value]) => value !== undefined && value !== null);
    return make(
      "header",
      { class: "detail-head" },
      make(
        "div",
        { class: "detail-title" },
        make("button", { class: "ghost back", type: "button", text: "← List", onclick: actions.back }),
        make("h2", { text: browse.tasks[browse.selected.task].summary || "(no description)", title: row.name ?? row.description }),
        repeats(browse, actions),
        browse.runs.length > 1 ? make("button", { id: "beside", class: "ghost", type: "button", "aria-pressed": String(Boolean(actions.isBeside)), title: "Runs side by side (s)", text: "Side by side", onclick: actions.beside }) : null,
        make("button", { class: "ghost print", type: "button", title: "Print this row", text: "Print", onclick: () => print() }),
      ),
      make(
        "div",
        { class: "facts" },
        grades(row),
        facts.map(([name, value]) => fact(name, make("span", { class: "fact-value", text: String(value), title: String(value) }))),
        make("nav", { class: "jumps", "aria-label": "Parts of this trajectory" }, Kind.jumps.map(jump)),
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
    const place = Dom.byId(id) ?? Dom.byId(`${id}-0`);
    if (head && place) detail.scrollTo({ top: place.offsetTop - head.offsetHeight });
  }

  const fact = (name, ...value) => make("span", { class: "fact" }, make("span", { class: "fact-name", text: name }), value);

  const grades = (row) => Kind.grades(row).map(([name, value]) => fact(name, Show.reward(value, name)));

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
      make("span", { text: `Repeat ${browse.selected.repeat}${browse.selected.turn === undefined ? "" : `, turn ${browse.selected.turn + 1}`}` }),
      rows.length > 1 ? make("span", { class: "muted", text: `${rows.indexOf(browse.selected) + 1} of ${rows.length}` }) : null,
      rows.length > 1 ? step(1, "Next repeat (])", "›") : null,
    );
  }

  function provenance(row) {
    if (!Object.keys(row.provenance ?? {}).length) return null;
    const { button, content } = Chat.fold("provenance", "how this row was made", JSON.stringify(row.provenance, null, 2), false);
    return make("footer", {}, button, content);
  }

  return { render, renderBeside, goTo };
})();
