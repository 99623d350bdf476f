// Joins the parts: filters and keys change what is listed or selected, and what is selected is shown.
"use strict";

(async () => {
  const { make, byId } = Dom;
  const FILTERS = [["all", "All"], ...Kind.filters];
  const SEARCH_DELAY_MS = 150;
  const WAIT_MS = 300; // rendering and grading may take their time; what is quicker need not be announced

  const source = Source.open();
  const settings = { thoughts: false, prompts: false };
  const detail = byId("detail");
  const search = byId("search");
  let browse;
  let list;

  try {
    browse = new Browse(await source.index());
  } catch (error) {
    detail.append(make("p", { class: "nothing", text: `The rows could not be loaded: ${error.message}` }));
    return;
  }
  byId("grouping").hidden = !browse.hasRepeats;
  search.placeholder = Kind.search;
  detail.dataset.kind = browse.kind;
  showHelp();
  list = new List(byId("list"), browse, (row) => select(row, { open: true }));
  showFilters();
  const named = browse.rowOf(location.hash);
  if (named) await select(named, { open: true });
  else if (browse.rows.length) await select(browse.listed[0]);
  else detail.append(make("p", { class: "nothing", text: "This file holds no trajectories." }));

  // ---- selection

  // `open`: on a narrow window, go from the list to the trajectory.
  async function select(row, { open = false } = {}) {
    if (row === null) return;
    if (open) view("detail");
    if (row === browse.selected) return;
    browse.selected = row;
    list.reveal();
    history.replaceState(null, "", browse.hashOf(row));
    let content;
    const waiting = setTimeout(() => detail.replaceChildren(make("p", { class: "nothing", role: "status", text: "This row is being prepared." })), WAIT_MS);
    try {
      content = Detail.render(await source.row(row.position), browse, settings, { select, back: () => view("list"), picture: source.picture });
    } catch (error) {
      content = [make("p", { class: "nothing", text: `This row could not be loaded: ${error.message}` })];
    }
    clearTimeout(waiting);
    if (browse.selected !== row) return; // somebody went on meanwhile
    detail.replaceChildren(...content.filter(Boolean));
    detail.scrollTop = 0;
    highlight();
  }

  // On a narrow window there is room for one of "list" and "detail"; the other takes the focus with it.
  function view(name) {
    document.body.dataset.view = name;
    if (!byId("list").checkVisibility()) detail.focus({ preventScroll: true });
    else if (!detail.checkVisibility()) list.focus();
  }

  addEventListener("hashchange", () => select(browse.rowOf(location.hash), { open: true }));

  // ---- filters

  function refilter() {
    browse.update();
    list.refresh();
    list.reveal();
    showFilters();
  }

  function showFilters() {
    const outcomes = browse.counts("outcome");
    byId("rewards").replaceChildren(
      ...FILTERS.map(([name, label], i) =>
        make(
          "button",
          { type: "button", class: name, "aria-pressed": String(browse.outcome === name), title: `${label} (${i + 1})`, onclick: () => setOutcome(name) },
          make("span", { text: label }),
          make("span", { class: "segment-count", text: Words.integer(outcomes[name] ?? 0) }),
        ),
      ),
    );
    const stops = browse.counts("stop");
    const names = [...new Set(browse.rows.map((row) => row.stop))].sort();
    byId("stop").replaceChildren(
      make("option", { value: "all", text: `Any stop reason (${Words.integer(stops.all)})` }),
      ...names.map((name) => make("option", { value: name, text: `${Words.stop(name)} (${Words.integer(stops[name] ?? 0)})` })),
    );
    byId("stop").value = browse.stop;
    byId("count").textContent = `${Words.plural(browse.listed.length, "row")} of ${Words.integer(browse.rows.length)}`;
    showFigures();
  }

  function showFigures() {
    const figures = browse.figures();
    const figure = (name, value, also) =>
      make("div", {}, make("dt", { text: name }), make("dd", {}, value, also ? make("span", { class: "also", text: also }) : null));
    byId("figures").replaceChildren(
      figure("Rows", Words.integer(figures.rows), Words.plural(figures.tasks, "task")),
      ...Kind.figures(browse.listed, browse).map((parts) => figure(...parts)),
    );
    const stops = Object.entries(figures.stops).sort(([, a], [, b]) => b - a);
    byId("stops").replaceChildren(
      ...stops.map(([name, count]) =>
        make("button", { type: "button", class: "stop", "aria-pressed": String(browse.stop === name), title: `Only rows that ended so`, onclick: () => setStop(browse.stop === name ? "all" : name) }, make("strong", { text: Words.integer(count) }), ` ${Words.stop(name)}`),
      ),
    );
  }

  function setOutcome(name) {
    browse.outcome = name;
    refilter();
  }

  function setStop(name) {
    browse.stop = name;
    refilter();
  }

  function setSorting(sorting) {
    byId("sorting").value = sorting;
    browse.sorting = sorting;
    refilter();
  }

  function setGrouped(grouped) {
    byId("grouped").checked = grouped;
    browse.grouped = grouped;
    refilter();
  }

  byId("stop").addEventListener("change", (event) => setStop(event.target.value));
  byId("sorting").addEventListener("change", (event) => setSorting(event.target.value));
  byId("grouped").addEventListener("change", (event) => setGrouped(event.target.checked));

  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(runSearch, SEARCH_DELAY_MS);
  });

  async function runSearch() {
    const text = search.value;
    let found;
    try {
      found = text.trim() ? new Set(await source.search(text)) : null;
    } catch (error) {
      byId("count").textContent = `The search failed: ${error.message}`;
      return;
    }
    if (text !== search.value) return; // somebody typed on meanwhile
    browse.found = found;
    refilter();
    highlight();
  }

  // Marks the searched text in the trajectory, where the browser can do it without touching the document.
  function highlight() {
    if (!globalThis.Highlight) return;
    const ranges = [];
    const wanted = search.value.toLowerCase();
    if (wanted.trim()) {
      const thoughts = [...detail.querySelectorAll(".folded.thoughts")];
      Chat.showFolds(thoughts.filter((thought) => thought.textContent.toLowerCase().includes(wanted)), true);
      const walker = document.createTreeWalker(detail, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const text = walker.currentNode.data.toLowerCase();
        if (text.length !== walker.currentNode.length) continue; // rare letters change length: places would be wrong
        for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
          const range = new Range();
          range.setStart(walker.currentNode, at);
          range.setEnd(walker.currentNode, at + wanted.length);
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }

  // ---- keys

  function toggle(setting) {
    settings[setting] = !settings[setting];
    Chat.showFolds(detail.querySelectorAll(`.folded.${setting}`), settings[setting]);
  }

  const KEYS = {
    j: () => select(browse.neighbour(1)),
    k: () => select(browse.neighbour(-1)),
    "]": () => select(browse.sibling(1)),
    "[": () => select(browse.sibling(-1)),
    "/": () => {
      view("list");
      search.select();
    },
    "?": () => byId("help").showModal(),
    g: () => browse.hasRepeats && setGrouped(!browse.grouped),
    t: () => toggle("thoughts"),
    p: () => toggle("prompts"),
    o: () => setSorting({ file: "best", best: "worst", worst: "file" }[browse.sorting]),
    ...Kind.keys,
  };
  for (const [id, , key] of Kind.jumps) KEYS[key] = () => Detail.goTo(id);
  KEYS.ArrowDown = KEYS.j;
  KEYS.ArrowUp = KEYS.k;
  FILTERS.forEach(([name], i) => (KEYS[String(i + 1)] = () => setOutcome(name)));

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const isArrow = event.key.startsWith("Arrow");
    if (event.target === search) {
      if (event.key === "Escape" || event.key === "Enter" || isArrow) leaveSearch(event);
      return;
    }
    if (event.target instanceof HTMLSelectElement || (event.target.type === "range" && (isArrow || event.key.startsWith("Page")))) return;
    if (isArrow && detail.contains(event.target)) return; // there, arrows scroll
    const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // The keys of this kind of trajectories, between those of every kind and the one for the help itself.
  function showHelp() {
    const entry = ([names, words]) => make("div", {}, make("dt", {}, names.flatMap((name) => [make("kbd", { text: name }), " "])), make("dd", { text: words }));
    const places = Kind.jumps.map(([, text]) => text.toLowerCase()).join(", ");
    const own = [
      [FILTERS.map((_, i) => String(i + 1)).filter((_, i) => i === 0 || i === FILTERS.length - 1), FILTERS.map(([, label]) => label.toLowerCase()).join(", ")],
      ...Kind.help,
      [Kind.jumps.map(([, , key]) => key), `go to ${places}`],
    ];
    byId("keys").lastElementChild.before(...own.map(entry));
  }

  function leaveSearch(event) {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") return;
    event.preventDefault();
    if (event.key === "Escape" && search.value) {
      search.value = "";
      runSearch();
    } else {
      list.focus();
      if (event.key !== "Escape" && !browse.isListed.has(browse.selected)) select(browse.listed[0] ?? null);
    }
  }

  byId("skip").addEventListener("click", () => detail.focus());
  byId("help-button").addEventListener("click", KEYS["?"]);
})();
