// Pages of files that are looked at as a whole: metrics as curves, reports as tables, records of runs; several of
// a kind side by side.
"use strict";

const Documents = (() => {
  const { make } = Dom;
  const NAMES = { metrics: "Training metrics", report: "Reports", record: "Records of runs" };

  // parts: [{file, content}], all of one kind.
  function render(parts) {
    const kind = parts[0].file.kind;
    const body = { metrics, report, record }[kind](parts);
    return [make("header", { class: "page-head" }, make("h2", { text: NAMES[kind] }), kind === "record" && parts.length === 1 ? make("p", { class: "muted", text: parts[0].file.name }) : legend(parts)), ...body];
  }

  function legend(parts) {
    return make("ul", { class: "legend" }, parts.map(({ file }, run) => make("li", {}, make("span", { class: `swatch c${(run % 6) + 1}`, "aria-hidden": "true" }), make("strong", { text: Words.letter(run) }), ` ${file.name}`, made(file.record))));
  }

  const made = (record) => (record ? make("span", { class: "muted", text: ` ${[record.stage, Words.date(record.started), record.version].filter(Boolean).join(" · ")}` }) : null);

  function metrics(parts) {
    const names = [...new Set(parts.flatMap(({ content }) => Object.keys(content.curves)))];
    const charts = names.map((name) => {
      const series = parts.map(({ content }, run) => ({ name: Words.letter(run), run, points: content.curves[name] ?? [] })).filter(({ points }) => points.length);
      return { name, element: Charts.line(name, series) };
    });
    const box = make("input", { type: "search", placeholder: "Only curves named", "aria-label": "Only curves named", autocomplete: "off" });
    box.addEventListener("input", () => {
      for (const { name, element } of charts) element.hidden = !name.toLowerCase().includes(box.value.toLowerCase());
    });
    const thinned = parts.filter(({ content }) => content.every > 1);
    const notes = [
      parts.map(({ content }, run) => `${Words.letter(run)}: ${Words.plural(content.rows, "row")}`).join(", "),
      ...thinned.map(({ file, content }) => `${file.name}: every ${content.every}th is drawn`),
    ];
    if (!names.length) return [make("p", { class: "nothing", text: "There are no numbers yet." })];
    return [make("div", { class: "page-bar" }, box, make("span", { class: "muted", text: notes.join("; ") })), make("div", { class: "charts" }, charts.map(({ element }) => element))];
  }

  // Every number by its name; a mean with its interval, and of how many it is, in one cell.
  function leaves(value, prefix = "") {
    if (value === null || typeof value !== "object" || isMean(value) || isCategory(value)) return [[prefix, value]];
    return Object.entries(value).flatMap(([name, one]) => leaves(one, prefix ? `${prefix} · ${name}` : name));
  }

  const isMean = (value) => typeof value.mean === "number" && "low" in value && "high" in value && Object.values(value).every((one) => one === null || typeof one !== "object");

  const isCategory = (value) => typeof value.share === "number" && Array.isArray(value.examples); // of what went wrong

  const number = (value) => (Number.isInteger(value) ? Words.integer(value) : String(Number(value.toPrecision(4)))).replace("-", "−");
  const decimals = (values) => values.map((value) => (values.every((one) => Math.abs(one) < 10) ? value.toFixed(3) : number(value)).replace("-", "−")); // alike

  function figure(value) {
    if (value === undefined) return make("td", { class: "number muted", text: "–" });
    if (typeof value === "number") return make("td", { class: "number", text: number(value) });
    if (value === null || typeof value !== "object") return make("td", { class: "words", text: String(value) });
    if (isCategory(value)) return make("td", { class: "number" }, make("strong", { text: Words.plural(value.episodes, "episode") }), make("span", { class: "muted", text: ` ${Words.percent(value.share)} · such as ${value.examples[0].task}` }));
    const known = [value.mean, value.low, value.high].filter((one) => typeof one === "number");
    const [mean, ...interval] = decimals(known);
    const error = typeof value.error === "number" ? `standard error ${number(value.error)}` : null;
    const rest = Object.entries(value).filter(([name]) => !["mean", "low", "high", "error", "unit"].includes(name));
    const counts = rest.map(([name, one]) => (Number.isInteger(one) && name.endsWith("s") ? Words.plural(one, name.slice(0, -1)) : `${Words.phrase(name)} ${one}`));
    const words = [interval.join(" to "), counts.join(", ")].filter(Boolean).join(" · ");
    return make("td", { class: "number", title: error }, make("strong", { text: mean }), make("span", { class: "muted", text: ` ${words}` }));
  }

  function report(parts) {
    const found = parts.map(({ content }) => new Map(leaves(content)));
    const names = [...new Set(found.flatMap((one) => [...one.keys()]))];
    const groups = Map.groupBy(names, (name) => name.split(" · ").slice(0, -1).join(" · "));
    const heads = () => (parts.length > 1 ? make("thead", {}, make("tr", {}, make("th", { scope: "col" }, make("span", { class: "visually-hidden", text: "What" })), parts.map((_, run) => make("th", { scope: "col", class: "number", text: Words.letter(run) })))) : null);
    const table = (group, own) =>
      make(
        "section",
        {},
        make("h3", { text: group ? group.split(" · ").map(Words.phrase).join(" · ") : "Report" }),
        make("div", { class: "scroller" }, make("table", { class: "numbers report" }, heads(), make("tbody", {}, own.map((name) => make("tr", {}, make("th", { scope: "row", text: Words.phrase(name.split(" · ").at(-1)) }), found.map((one) => figure(one.get(name)))))))),
      );
    return [...groups].map(([group, own]) => table(group, own));
  }

  function record(parts) {
    return parts.map(({ file, content }) => {
      const time = (iso) => (iso ? `${Words.date(iso)} UTC` : null);
      const output = ({ path, bytes, sha256 }) => [path, bytes === undefined ? "" : Words.size(bytes), sha256 ? `sha256 ${sha256.slice(0, 12)}` : ""].filter(Boolean).join(" · ");
      const used = ([role, models]) => Object.entries(models).filter(([model]) => model).map(([model, one]) => `${role}: ${model}, ${Words.integer(one.prompt_tokens ?? 0)} tokens in, ${Words.integer(one.completion_tokens ?? 0)} out`);
      const facts = [
        ["Stage", content.stage],
        ["Status", content.status],
        ["Id", content.id],
        ["Started", time(content.started)],
        ["Finished", time(content.finished)],
        ["Took", content.wall_s === undefined ? null : `${content.wall_s} s`],
        ["Command", content.command],
        ["Version", [content.versions?.sweet_rl, content.library?.commit?.slice(0, 12), content.library?.changed ? "with changes" : ""].filter(Boolean).join(", ")],
        ["Inputs", (content.inputs ?? []).map((one) => output({ ...one, path: one.source }))],
        ["Outputs", (content.outputs ?? []).map(output)],
        ["Models", Object.entries(content.usage ?? {}).flatMap(used)],
        ["Cost", content.cost?.usd === undefined ? null : content.cost.usd === null ? "unknown" : `$${content.cost.usd.toFixed(4)}`],
        ["Error", content.error],
      ].filter(([, value]) => value?.length);
      const shown = (name, value) => (Array.isArray(value) ? value.map((one) => make("p", { text: one })) : make(name === "Command" ? "code" : "span", { text: value }));
      const fold = Chat.fold("provenance", "the whole record", JSON.stringify(content, null, 2), false);
      return make("section", {}, parts.length > 1 ? make("h3", { text: file.name }) : null, make("dl", { class: "record" }, facts.map(([name, value]) => make("div", {}, make("dt", { text: name }), make("dd", {}, shown(name, value))))), fold.button, fold.content);
    });
  }

  return { render };
})();
