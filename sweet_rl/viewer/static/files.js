// The first page of several files: what there is, to look at one or at several of a kind together.
"use strict";

const Files = (() => {
  const { make } = Dom;
  const KINDS = { code: "Trajectories", game: "Trajectories of games", design: "Trajectories of pages", turns: "Turns with candidates", pairs: "Preference pairs", metrics: "Training metrics", report: "Reports", record: "Records of runs" };

  // open(names): show these files.
  function render({ title, files, about }, open) {
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
      const kinds = new Set(files.filter((file) => chosen.has(file.name)).map((file) => file.kind));
      together.disabled = chosen.size < 2 || kinds.size > 1;
      together.textContent = kinds.size > 1 ? "Choose files of one kind" : chosen.size ? `Look at ${chosen.size} together` : "Look at them together";
    }

    function line(file) {
      const check = make("input", { type: "checkbox", "aria-label": `Choose ${file.name}`, onchange: (event) => choose(file.name, event.target.checked) });
      const record = file.record;
      const element = make(
        "tr",
        {},
        make("td", { class: "choice" }, check),
        make("td", {}, make("button", { class: "file-name", type: "button", text: file.name, onclick: () => open([file.name]) })),
        make("td", { class: "number", text: Words.size(file.bytes) }),
        make("td", { class: "when", text: Words.date(file.changed) }),
        make("td", {}, record ? make("span", { title: record.command ?? "", text: [record.stage, record.status === "finished" ? null : record.status].filter(Boolean).join(", ") }) : make("span", { class: "muted", text: "–" })),
        make("td", { class: "models", text: record?.models?.map((model) => String(model).split("/").filter(Boolean).at(-1)).join(", ") || "–" }),
      );
      rows.push({ file, element });
      return element;
    }

    const heads = ["Choose", "File", "Size", "Changed (UTC)", "Made by", "Models"];
    const section = ([kind, own]) =>
      make(
        "section",
        {},
        make("h3", { text: `${KINDS[kind]} (${own.length})` }),
        make("div", { class: "scroller" }, make("table", { class: "files" }, make("thead", {}, make("tr", {}, heads.map((text, i) => make("th", { scope: "col", class: ["choice", "", "number"][i] ?? "" }, make("span", { class: i ? "" : "visually-hidden", text }))))), make("tbody", {}, own.map(line)))),
      );
    return [
      make("header", { class: "page-head" }, make("h2", { text: title }), make("p", { class: "muted" }, `${Words.plural(files.length, "file")} · `, make("code", { text: about.command }))),
      make("div", { class: "page-bar" }, box, together),
      ...groups.map(section),
    ];
  }

  return { render };
})();
