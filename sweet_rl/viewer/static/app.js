// Joins the parts: filters and keys change what is listed or selected, and what is selected is shown.
"use strict";

(async () => {
  const { make, byId } = Dom;
  const SEARCH_DELAY_MS = 150;
  const WAIT_MS = 300; // rendering and grading may take their time; what is quicker need not be announced
  const LOOK_AGAIN_MS = 5000; // at files that may grow
  const ROWS = ["code", "game", "design", "turns", "pairs"];

  const source = Source.open();
  const settings = { thoughts: false, prompts: false };
  const detail = byId("detail");
  const page = byId("page");
  const search = byId("search");
  let listing; // what files there are
  let names = []; // of those that are looked at
  let browse = null;
  let list = null;
  let overall = null; // how all episodes of the one file did
  let beside = false;
  let KEYS = {};

  try {
    listing = await source.files();
  } catch (error) {
    view("page");
    page.append(make("p", { class: "nothing", text: `The files could not be loaded: ${error.message}` }));
    return;
  }
  const files = listing.files.filter(({ kind }) => kind !== "credit"); // scores are shown with their dialogues
  byId("home").hidden = files.length < 2;
  byId("about").textContent = `sweet_rl ${listing.about.version} · ${Words.date(listing.about.made)} UTC · ${listing.about.command}`;
  // ---- addresses

  function address() {
    return Address.of({ names: files.length > 1 ? names : [], browse, text: search.value.trim(), beside });
  }

  // What is looked at and where stands in the address, so that a link gives the same view to others.
  function remember({ step = false } = {}) {
    if (location.hash === address() || (!location.hash && address() === "#")) return;
    try {
      if (step) history.pushState(null, "", address());
      else history.replaceState(null, "", address());
    } catch {
      // a page inside another one, as in a notebook, has no address of its own
    }
  }

  async function route() {
    if (!files.length) {
      view("page");
      page.replaceChildren(make("p", { class: "nothing", text: "There is nothing to show." }));
      return;
    }
    const { row, given, wanted } = Address.parse(location.hash, files);
    if (wanted.join() !== names.join() || (!browse && !page.hasChildNodes())) await openFiles(wanted);
    if (!browse) return;
    const named = browse.rowOf(row, Number(given.get("run") ?? 0));
    const known = ["q", "outcome", "stop", "sort", "than", "flat", "beside"];
    if (known.some((name) => given.has(name)) || named) await adopt(given);
    if (named) await select(named, { open: true });
    else if (!browse.selected && browse.rows.length) await select(browse.listed[0] ?? browse.rows[0]);
    else if (!browse.rows.length) detail.replaceChildren(make("p", { class: "nothing", text: "This file holds no rows." }));
  }

  // Filters, as an address names them.
  async function adopt(given) {
    const valid = (name, plain, known) => (known.includes(given.get(name)) ? given.get(name) : plain);
    browse.outcome = valid("outcome", "all", Kind.filters.map(([name]) => name));
    browse.stop = valid("stop", "all", browse.rows.map(({ stop }) => stop));
    browse.sorting = valid("sort", "file", ["best", "worst"]);
    browse.than = valid("than", "all", browse.runs.length > 1 ? Array.from(byId("than").options, ({ value }) => value) : []);
    browse.grouped = given.get("flat") !== "1";
    beside = given.get("beside") === "1" && browse.runs.length > 1;
    byId("sorting").value = browse.sorting;
    byId("grouped").checked = browse.grouped;
    if (search.value.trim() !== (given.get("q") ?? "")) {
      search.value = given.get("q") ?? "";
      browse.found = await found();
    }
    refilter();
  }

  // ---- files

  async function openFiles(wanted) {
    names = wanted;
    browse = null;
    detail.replaceChildren();
    const chosen = wanted.map((name) => files.find((file) => file.name === name));
    document.title = chosen.length ? chosen.map(({ name }) => name).join(", ") : listing.title;
    byId("title").textContent = document.title;
    byId("figures").replaceChildren();
    byId("stops").replaceChildren();
    if (!chosen.length) {
      view("page");
      page.replaceChildren(...Files.render({ ...listing, files }, (some) => show(some), source.result));
      return;
    }
    try {
      if (!ROWS.includes(chosen[0].kind)) {
        view("page");
        const parts = await Promise.all(chosen.map(async (file) => ({ file, content: await source.document(file.id) })));
        page.replaceChildren(...Documents.render(parts));
      } else await openRows(chosen);
    } catch (error) {
      view("page");
      page.replaceChildren(make("p", { class: "nothing", text: error.message }));
    }
  }

  async function openRows(chosen) {
    view("page");
    const parts = await Promise.all(chosen.map(async (file) => ({ file, index: await source.index(file.id, (made) => page.replaceChildren(progress(file, made))) })));
    Kind = Kinds[parts[0].index.kind];
    overall = chosen.length === 1 && ["code", "game", "design"].includes(parts[0].index.kind) ? await source.result(chosen[0].id) : null;
    browse = new Browse(parts);
    beside = false;
    page.replaceChildren();
    document.body.dataset.view = "list";
    search.value = "";
    search.placeholder = Kind.search;
    byId("sorting").value = "file";
    byId("grouped").checked = true;
    byId("grouping").hidden = !browse.hasRepeats;
    byId("fresh").hidden = true;
    detail.dataset.kind = browse.kind;
    setKeys();
    list = new List(byId("list"), browse, (row) => select(row, { open: true }));
    showRelations();
    showFilters();
  }

  function progress(file, { done, of }) {
    const bar = make("progress", { max: of, value: done, "aria-label": "indexed" });
    return make("div", { class: "nothing", role: "status" }, make("p", { text: `${file.name} is being indexed: ${Words.size(done)} of ${Words.size(of)}. The index is kept beside the file.` }), bar);
  }

  // Look at other files; the way back is the browser's.
  async function show(wanted) {
    await openFiles(wanted);
    remember({ step: true });
    if (browse) await select(browse.listed[0] ?? null);
  }

  // A file that is being written: what is new waits until it is asked for.
  async function lookAgain() {
    if (document.hidden || !browse) return;
    const now = await source.files().catch(() => null);
    const grown = now?.files.filter(({ name, bytes }) => names.includes(name) && files.find((file) => file.name === name).bytes !== bytes);
    if (!grown?.length) return;
    const button = byId("fresh");
    button.textContent = `${grown.map(({ name }) => name).join(", ")} has changed: show it`;
    button.hidden = false;
    button.onclick = async () => {
      for (const { name, bytes } of grown) files.find((file) => file.name === name).bytes = bytes;
      const there = location.hash;
      await openFiles(names);
      history.replaceState(null, "", there);
      await route();
    };
  }

  // ---- selection

  // `open`: on a narrow window, go from the list to the trajectory.
  async function select(row, { open = false, again = false } = {}) {
    if (row === null) return;
    if (open) view("detail");
    if (row === browse.selected && !again) return;
    browse.selected = row;
    list.reveal();
    remember();
    const here = browse;
    let content;
    const waiting = setTimeout(() => detail.replaceChildren(make("p", { class: "nothing", role: "status", text: "This row is being prepared." })), WAIT_MS);
    try {
      content = await rendered(row);
    } catch (error) {
      content = [make("p", { class: "nothing", text: `This row could not be loaded: ${error.message}` })];
    }
    clearTimeout(waiting);
    if (browse !== here || browse.selected !== row) return; // somebody went on meanwhile
    detail.classList.toggle("wide", beside);
    detail.replaceChildren(...content.filter(Boolean));
    detail.scrollTop = 0;
    highlight();
  }

  async function rendered(row) {
    const fileOf = (entry) => browse.runs[entry.run].id;
    const pictureOf = (entry) => (id) => source.picture(fileOf(entry), id);
    const actions = { select, back: () => view("list"), beside: toggleBeside, isBeside: beside, picture: pictureOf(row) };
    if (!beside) return Detail.render(await source.row(fileOf(row), row.position), browse, settings, actions);
    const columns = await Promise.all(
      browse.beside(row).map(async (entry) => (entry ? { entry, row: await source.row(fileOf(entry), entry.position), picture: pictureOf(entry) } : { entry, row: null })),
    );
    return Detail.renderBeside(columns, browse, settings, actions);
  }

  function toggleBeside() {
    if (browse.runs.length < 2) return;
    beside = !beside;
    remember();
    select(browse.selected, { again: true });
  }

  // On a narrow window there is room for one of "list" and "detail"; the other takes the focus with it.
  function view(name) {
    document.body.dataset.view = name;
    if (name === "page" || !list) return;
    if (!byId("list").checkVisibility()) detail.focus({ preventScroll: true });
    else if (!detail.checkVisibility()) list.focus();
  }

  // ---- filters

  function refilter() {
    browse.update();
    list.refresh();
    list.reveal();
    showFilters();
    remember();
  }

  const filters = () => [["all", "All"], ...Kind.filters];

  // What one run does and another does not, for every two of them.
  function showRelations() {
    const several = browse.runs.length > 1;
    byId("comparing").hidden = byId("runs").hidden = !several;
    if (!several) return;
    const runs = browse.runs.map((_, run) => run);
    const pairs = runs.flatMap((one) => runs.filter((other) => other !== one).map((other) => [one, other]));
    const hows = [...(Kind.filters.some(([name]) => name === "solved") ? [["solves", "solves,", "does not"]] : []), ["better", "is better than", ""]];
    byId("than").replaceChildren(
      make("option", { value: "all", text: "Any task" }),
      ...hows.flatMap(([how, does, ends]) => pairs.map(([one, other]) => make("option", { value: `${how}:${one}:${other}`, text: `${Words.letter(one)} ${does} ${Words.letter(other)}${ends ? ` ${ends}` : ""}` }))),
    );
  }

  function showRuns() {
    byId("than").value = browse.than;
    const names = Kind.figures(browse.listed, browse).map(([name]) => name);
    const head = ["Run", ...names].map((text) => make("th", { scope: "col", text }));
    const rows = browse.runs.map((file, run) => {
      const own = browse.listed.filter((row) => row.run === run);
      const figures = own.length ? Kind.figures(own, browse).map(([, value]) => value) : names.map(() => "–");
      const name = make("th", { scope: "row", title: file.name }, make("span", { class: "run-letter", text: Words.letter(run) }), ` ${file.name}`);
      return make("tr", {}, name, figures.map((text) => make("td", { text })));
    });
    byId("runs").replaceChildren(make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows));
  }

  function showFilters() {
    const outcomes = browse.counts("outcome");
    byId("rewards").replaceChildren(
      ...filters().map(([name, label], i) =>
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
      make("option", { value: "all", text: `${Kind.reasons ?? "Any stop reason"} (${Words.integer(stops.all)})` }),
      ...names.map((name) => make("option", { value: name, text: `${Words.stop(name)} (${Words.integer(stops[name] ?? 0)})` })),
    );
    byId("stop").value = browse.stop;
    byId("count").textContent = `${Words.plural(browse.listed.length, "row")} of ${Words.integer(browse.rows.length)}`;
    if (browse.broken.length) byId("count").append(make("span", { class: "flagged", title: browse.broken.join("\n"), text: ` ⚑ ${Words.plural(browse.broken.length, "line")} cannot be read` }));
    showFigures();
    if (browse.runs.length > 1) showRuns();
  }

  function showFigures() {
    const figures = browse.figures();
    const figure = (name, value, also) =>
      make("div", {}, make("dt", { text: name }), make("dd", {}, value, also ? make("span", { class: "also", text: also }) : null));
    byId("figures").replaceChildren(
      figure("Rows", Words.integer(figures.rows), Words.plural(figures.tasks, "task")),
      ...(browse.runs.length > 1 ? [] : withInterval(Kind.figures(browse.listed, browse)).map((parts) => figure(...parts))), // of each run: below
    );
    const stops = Object.entries(figures.stops).sort(([, a], [, b]) => b - a);
    byId("stops").replaceChildren(
      ...stops.map(([name, count]) =>
        make("button", { type: "button", class: "stop", "aria-pressed": String(browse.stop === name), title: `Only rows that ended so`, onclick: () => setStop(browse.stop === name ? "all" : name) }, make("strong", { text: Words.integer(count) }), ` ${Words.stop(name)}`),
      ),
    );
  }

  // Of a whole file the main number is that of the results: a mean over tasks, with its interval.
  function withInterval(figures) {
    if (!overall || browse.listed.length < browse.rows.length) return figures;
    const { number, failed } = overall;
    const own = number && figures.find(([known]) => known.toLowerCase().endsWith({ similarity: "score" }[number.name] ?? number.name));
    const [mean, interval] = number ? Files.written(own && !own[1].endsWith("%") ? { ...number, unit: "number" } : number) : [];
    const main = number ? [[own?.[0] ?? Words.phrase(number.name), mean, [interval, own?.[2]].filter(Boolean).join(" · ")]] : [];
    return [...main, ...figures.filter((one) => one !== own), ...(failed ? [["Failed", Words.integer(failed)]] : [])];
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

  byId("than").addEventListener("change", (event) => {
    browse.than = event.target.value;
    refilter();
  });
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
    let now;
    try {
      now = await found();
    } catch (error) {
      byId("count").textContent = `The search failed: ${error.message}`;
      return;
    }
    if (text !== search.value) return; // somebody typed on meanwhile
    browse.found = now;
    refilter();
    highlight();
  }

  async function found() {
    const text = search.value.trim();
    return text ? Promise.all(browse.runs.map(async ({ id }) => new Set(await source.search(id, text)))) : null;
  }

  const highlight = () => Highlights.mark(detail, search.value);

  // ---- keys

  function toggle(setting) {
    settings[setting] = !settings[setting];
    Chat.showFolds(detail.querySelectorAll(`.folded.${setting}`), settings[setting]);
  }

  function setKeys() {
    KEYS = {
      j: () => select(browse.neighbour(1)),
      k: () => select(browse.neighbour(-1)),
      "]": () => select(browse.sibling(1)),
      "[": () => select(browse.sibling(-1)),
      "/": () => {
        view("list");
        search.select();
      },
      g: () => browse.hasRepeats && setGrouped(!browse.grouped),
      t: () => toggle("thoughts"),
      p: () => toggle("prompts"),
      s: toggleBeside,
      o: () => setSorting({ file: "best", best: "worst", worst: "file" }[browse.sorting]),
      ...Kind.keys,
    };
    for (const [id, , key] of Kind.jumps) KEYS[key] = () => Detail.goTo(id);
    KEYS.ArrowDown = KEYS.j;
    KEYS.ArrowUp = KEYS.k;
    filters().forEach(([name], i) => (KEYS[String(i + 1)] = () => setOutcome(name)));
    showHelp();
  }

  const ALWAYS = { "?": () => byId("help").showModal(), h: () => files.length > 1 && show([]) };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const isArrow = event.key.startsWith("Arrow");
    if (event.target === search) {
      if (event.key === "Escape" || event.key === "Enter" || isArrow) leaveSearch(event);
      return;
    }
    if (event.target instanceof HTMLSelectElement || (event.target instanceof HTMLInputElement && event.target.type === "search") || (event.target.type === "range" && (isArrow || event.key.startsWith("Page")))) return;
    if (isArrow && detail.contains(event.target)) return; // there, arrows scroll
    const known = browse ? { ...ALWAYS, ...KEYS } : ALWAYS;
    const act = Object.hasOwn(known, event.key) ? known[event.key] : null;
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // The keys of this kind of trajectories, between those of every kind and the one for the help itself.
  function showHelp() {
    const entry = ([names, words]) => make("div", { class: "own" }, make("dt", {}, names.flatMap((name) => [make("kbd", { text: name }), " "])), make("dd", { text: words }));
    const places = Kind.jumps.map(([, text]) => text.toLowerCase()).join(", ");
    const own = [
      [filters().map((_, i) => String(i + 1)).filter((_, i, all) => i === 0 || i === all.length - 1), filters().map(([, label]) => label.toLowerCase()).join(", ")],
      ...Kind.help,
      [Kind.jumps.map(([, , key]) => key), `go to ${places}`],
    ];
    for (const old of byId("keys").querySelectorAll(".own")) old.remove();
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
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("home").addEventListener("click", () => show([]));

  await route();
  addEventListener("hashchange", route);
  if (source.live) setInterval(lookAgain, LOOK_AGAIN_MS);
})();
