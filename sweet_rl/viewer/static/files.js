// The first page of several files: how the runs did, then all files, to look at one or at several of a kind together.
"use strict";

const Files = (() => {
  const { make } = Dom;
  const KINDS = { code: "Trajectories", game: "Trajectories of games", design: "Trajectories of pages", turns: "Turns with candidates", pairs: "Preference pairs", metrics: "Training metrics", report: "Reports", record: "Records of runs" };
  const PLAYED = ["code", "game", "design"];
  const last = (path) => String(path).split("/").filter(Boolean).at(-1) ?? "";
  const when = (file) => file.record?.started ?? file.changed ?? "";
  const newest = (files) => [...files].sort((a, b) => when(b).localeCompare(when(a)));

  const plain = (value) => (Math.abs(value) < 10 ? value.toFixed(2) : String(Number(value.toPrecision(4)))).replace("-", "−");

  // A number of a run and its 95 % interval, in words.
  function written({ unit, mean, low, high }) {
    const share = unit === "share";
    const say = share ? (value) => (100 * value).toFixed(1) : plain;
    return [share ? `${say(mean)} %` : say(mean), low === null || high === null ? "" : `[${say(low)}, ${say(high)}]`];
  }

  // open(names): show these files. resultOf(id): how the episodes of one did, a promise.
  function render({ title, files, about }, open, resultOf) {
    const chosen = new Set();
    const rows = [];
    const together = make("button", { class: "primary", type: "button", disabled: true, text: "Look at them together", onclick: () => open([...chosen]) });
    const box = make("input", { id: "file-search", type: "search", placeholder: "Only files named", "aria-label": "Only files named", autocomplete: "off" });
    box.addEventListener("input", () => {
      for (const { file, element } of rows) element.hidden = !file.name.toLowerCase().includes(box.value.toLowerCase());
    });
    const groups = Object.keys(KINDS).map((kind) => [kind, files.filter((file) => file.kind === kind)]).filter(([, own]) => own.length);

    function choose(name, on) {
      if (on) chosen.add(name);
      else chosen.delete(name);
      for (const { file, check } of rows) if (file.name === name) check.checked = on;
      const kinds = new Set(files.filter((file) => chosen.has(file.name)).map((file) => file.kind));
      together.disabled = chosen.size < 2 || kinds.size > 1;
      together.textContent = kinds.size > 1 ? "Choose files of one kind" : chosen.size ? `Look at ${chosen.size} together` : "Look at them together";
    }

    const checkOf = (file) => make("input", { type: "checkbox", "aria-label": `Choose ${file.name}`, onchange: (event) => choose(file.name, event.target.checked) });
    const opener = (file, text, name = "file-name") => make("button", { class: name, type: "button", text, title: file.name, onclick: () => open([file.name]) });
    const models = ({ record }) => record?.models?.map(last).join(", ") || "–";
    const by = ({ record }) => (record ? make("span", { title: record.command ?? "", text: [record.stage, record.status === "finished" ? null : record.status].filter(Boolean).join(", ") }) : make("span", { class: "muted", text: "–" }));

    function line(file, ...cells) {
      const check = checkOf(file);
      const element = make("tr", {}, make("td", { class: "choice" }, check), cells.flat());
      rows.push({ file, element, check });
      return element;
    }

    const listed = (file) =>
      line(
        file,
        make("td", {}, opener(file, file.name)),
        make("td", { class: "number", text: Words.size(file.bytes) }),
        make("td", { class: "when", text: Words.date(file.changed) }),
        make("td", {}, by(file)),
        make("td", { class: "models", text: models(file) }),
      );

    const table = (style, heads, body) =>
      make("div", { class: "scroller" }, make("table", { class: style }, make("thead", {}, make("tr", {}, heads.map((text, i) => make("th", { scope: "col", class: i ? "" : "choice" }, make("span", { class: i ? "" : "visually-hidden", text }))))), make("tbody", {}, body)));

    // ---- how the runs did

    const waiting = []; // runs whose cells are still to be filled

    function run(file) {
      const cells = Object.fromEntries(["result", "agent", "world", "episodes"].map((name) => [name, make("td", { class: `of-${name}`, data: { label: name } }, make("span", { class: "muted", text: "…" }))]));
      const links = make("td", { class: "links" }, opener(file, "Dialogues", "ghost"));
      waiting.push({ file, cells, links });
      const shown = file.name.replace(/\/episodes\.jsonl$/, "").replace(/\.jsonl$/, "");
      const state = file.record && file.record.status !== "finished" ? make("span", { class: "state", text: file.record.status }) : null;
      return line(file, make("td", { class: "of-run" }, opener(file, shown), state), Object.values(cells), make("td", { class: "when", text: Words.date(when(file)) }), links);
    }

    async function fill() {
      for (const { file, cells, links } of waiting) {
        try {
          show(file, await resultOf(file.id), cells, links);
        } catch (error) {
          cells.result.replaceChildren(make("span", { class: "flagged", text: error.message }));
          for (const name of ["agent", "world", "episodes"]) cells[name].replaceChildren("–");
        }
      }
    }

    function show(file, found, cells, links) {
      cells.result.replaceChildren(...number(found));
      cells.agent.replaceChildren(make("span", { title: found.agent ?? "", text: found.agent ? last(found.agent) : "–" }));
      cells.world.replaceChildren(found.world ?? "–");
      const unknown = [found.failed ? make("span", { class: "flagged", text: `${Words.integer(found.failed)} failed` }) : null, found.ungraded ? make("span", { class: "muted", text: `${Words.integer(found.ungraded)} not graded` }) : null].filter(Boolean);
      cells.episodes.replaceChildren(make("span", { text: Words.integer(found.rows) + (found.tasks < found.rows ? ` of ${Words.plural(found.tasks, "task")}` : "") }), ...unknown);
      if (found.page) links.append(make("a", { class: "ghost", href: `reports/${file.id}`, target: "_blank", rel: "noopener", text: "Report" }));
    }

    function number({ number: found, rows: count, failed }) {
      if (!found) return [make("span", { class: "muted", text: !count ? "No episodes yet" : failed === count ? "All failed" : "Not graded" })];
      const [mean, interval] = written(found);
      const parts = [make("span", { class: "measure", text: Words.phrase(found.name) }), make("strong", { text: mean }), make("span", { class: "muted interval", title: "95 % interval", text: interval })];
      const known = interval !== "";
      if (found.unit === "share") {
        const at = (value) => `${100 * Math.min(1, Math.max(0, value))}`;
        const bar = [Dom.draw("rect", { class: "axis", x: 0, y: 5, width: 100, height: 2 }), known ? Dom.draw("rect", { class: "spread", x: at(found.low), y: 4, width: at(found.high - found.low), height: 4 }) : null, Dom.draw("rect", { class: "mean", x: at(found.mean) - 1, y: 1, width: 2, height: 10 })];
        parts.push(Dom.draw("svg", { class: "spread-bar", viewBox: "-1 0 102 12", preserveAspectRatio: "none", "aria-hidden": "true" }, bar));
      }
      return parts;
    }

    const numbers = ({ record }) =>
      Object.entries(record?.numbers ?? {})
        .filter(([name, value]) => typeof value === "number" && !/(^|[._/])(step|epoch|iteration|time|lr|learning_rate)$/.test(name))
        .slice(0, 3)
        .map(([name, value]) => make("span", { class: "last" }, make("span", { class: "measure", text: name }), make("strong", { text: plain(value) })));
    const training = (file) =>
      line(file, make("td", { class: "of-run" }, opener(file, file.name.replace(/\/metrics\.jsonl$/, ""))), make("td", { class: "of-result", data: { label: "last" } }, numbers(file).length ? numbers(file) : make("span", { class: "muted", text: "–" })), make("td", { data: { label: "stage" } }, by(file)), make("td", { class: "when", text: Words.date(when(file)) }), make("td", { class: "links" }, opener(file, "Curves", "ghost")));

    const played = newest(files.filter(({ kind }) => PLAYED.includes(kind)));
    const trained = newest(files.filter(({ kind }) => kind === "metrics"));
    const results = [
      played.length ? make("section", { class: "results" }, make("h3", { text: `Results (${Words.plural(played.length, "run")})` }), table("files runs-table", ["Choose", "Run", "Result", "Agent", "World", "Episodes", "Date (UTC)", ""], played.map(run))) : null,
      trained.length ? make("section", { class: "results" }, make("h3", { text: `Trainings (${trained.length})` }), table("files runs-table", ["Choose", "Training", "Last numbers", "Made by", "Date (UTC)", ""], trained.map(training))) : null,
    ].filter(Boolean);
    const section = ([kind, own]) => make("section", {}, make("h3", { text: `${KINDS[kind]} (${own.length})` }), table("files", ["Choose", "File", "Size", "Changed (UTC)", "Made by", "Models"], own.map(listed)));
    const all = groups.map(section);
    fill();
    return [
      make("header", { class: "page-head" }, make("h2", { text: title }), make("p", { class: "muted" }, `${Words.plural(files.length, "file")} · `, make("code", { text: about.command }))),
      make("div", { class: "page-bar" }, box, together),
      ...results,
      results.length ? make("header", { class: "page-head" }, make("h2", { id: "all-files", text: "All files" })) : null,
      ...all,
    ].filter(Boolean);
  }

  return { render, written };
})();
