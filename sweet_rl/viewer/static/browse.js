// What is listed and what is selected: filters, groups, neighbours. Knows nothing of the screen.
"use strict";

class Browse {
  // parts: [{file, index}], one for each run that is looked at; all of one kind.
  constructor(parts) {
    this.runs = parts.map(({ file }) => file);
    this.kind = parts[0].index.kind;
    this.broken = parts.flatMap(({ file, index }) => (index.broken ?? []).map(([line, why]) => `${file.name}, line ${line}: ${why}`));
    this.tasks = []; // of all runs
    this.rows = [];
    const places = new Map();
    parts.forEach(({ index }, run) => this.#add(index, run, places));
    this.metric = this.#metric(); // what the rewards are, where known
    this.repeats = this.tasks.map(() => []); // of each task, run by run, in order of their number
    for (const row of this.rows) this.repeats[row.task].push(row);
    for (const rows of this.repeats) rows.sort((a, b) => a.run - b.run || a.repeat - b.repeat || (a.turn ?? 0) - (b.turn ?? 0));
    this.hasRepeats = this.repeats.some((rows) => rows.length > 1);
    this.hasDialogues = this.rows.some((row) => row.turn !== undefined && row.repeat > 0); // several of a task, turn by turn
    this.grouped = true;
    this.outcome = "all";
    this.stop = "all";
    this.than = "all"; // or "solves:0:1", "better:0:1": which run does what the other one does not
    this.sorting = "file"; // or "best", "worst"
    this.found = null; // for each run a Set of positions, while a search is on
    this.selected = null;
    this.update();
  }

  #add(index, run, places) {
    const own = index.tasks.map((task) => {
      if (!places.has(task.id)) places.set(task.id, this.tasks.push(task) - 1);
      return places.get(task.id);
    });
    const names = Object.keys(index.columns);
    for (let position = 0; position < index.columns.task.length; position++) {
      const row = { run, position };
      for (const name of names) row[name] = index.columns[name][position];
      row.task = own[row.task];
      row.outcome = Kind.outcome(row.reward, row);
      row.stop ??= "";
      this.rows.push(row);
    }
  }

  #metric() {
    const counts = new Map();
    for (const { metric } of this.rows) if (metric) counts.set(metric, (counts.get(metric) ?? 0) + 1);
    return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? null;
  }

  // Recompute what is listed; call after changing a filter.
  update() {
    this.#compare();
    const all = this.#sorted().flat();
    this.order = new Map();
    all.forEach((row, place) => this.order.set(row, place));
    this.listed = all.filter((row) => this.#matches(row, this.outcome, this.stop));
    this.isListed = new Set(this.listed);
    // A task is shown with all its repeats: those that the filters leave out are there, but faint.
    this.groups = this.grouped
      ? [...new Set(this.listed.map((row) => row.task))].map((task) => ({ task, rows: this.repeats[task] }))
      : this.listed.map((row) => ({ task: row.task, rows: [row] }));
    this.groupOf = new Map();
    this.groups.forEach(({ rows }, place) => rows.forEach((row) => this.groupOf.set(row, place)));
  }

  // Rows as they go together, best or worst first where asked; those without a reward come last.
  #sorted() {
    const together = this.grouped ? this.repeats : this.rows.map((row) => [row]);
    if (this.sorting === "file") return together;
    const sign = this.sorting === "best" ? -1 : 1;
    const scored = together.map((rows) => {
      const rewards = rows.map((row) => row.reward).filter((reward) => reward !== null);
      return { rows, score: rewards.length ? (sign * rewards.reduce((sum, reward) => sum + reward, 0)) / rewards.length : Infinity };
    });
    return scored.sort((a, b) => (a.score === b.score ? 0 : a.score - b.score)).map(({ rows }) => rows);
  }

  // The tasks that `than` asks for: a run solves one where any of its repeats is right.
  #compare() {
    this.fitting = null;
    const [how, one, other] = this.than.split(":");
    if (other === undefined) return;
    const rewards = (rows, run) => rows.filter((row) => row.run === Number(run) && row.reward !== null).map((row) => row.reward);
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    this.fitting = this.repeats.map((rows) => {
      const [ours, theirs] = [rewards(rows, one), rewards(rows, other)];
      if (!ours.length || !theirs.length) return false;
      return how === "solves" ? Math.max(...ours) >= 1 && Math.max(...theirs) < 1 : mean(ours) > mean(theirs) + 1e-9;
    });
  }

  #matches(row, outcome, stop) {
    return (
      (this.fitting === null || this.fitting[row.task]) &&
      (outcome === "all" || row.outcome === outcome) &&
      (stop === "all" || row.stop === stop) &&
      (this.found === null || this.found[row.run].has(row.position))
    );
  }

  // How many rows each choice of one filter would list, the other filters being as they are.
  counts(filter) {
    const counts = Object.assign(Object.create(null), { all: 0 }); // names are the files': "constructor" is one
    for (const row of this.rows) {
      const [outcome, stop] = filter === "outcome" ? ["all", this.stop] : [this.outcome, "all"];
      if (!this.#matches(row, outcome, stop)) continue;
      counts.all++;
      counts[row[filter]] = (counts[row[filter]] ?? 0) + 1;
    }
    return counts;
  }

  // The next (step 1) or previous (step -1) listed row; the selected one itself need not be listed.
  neighbour(step) {
    if (this.selected === null) return this.listed[0] ?? null;
    const here = this.order.get(this.selected);
    if (step > 0) return this.listed.find((row) => this.order.get(row) > here) ?? null;
    return this.listed.findLast((row) => this.order.get(row) < here) ?? null;
  }

  // Another repeat of the selected task, listed or not.
  sibling(step) {
    if (this.selected === null) return null;
    const rows = this.repeats[this.selected.task];
    return rows[rows.indexOf(this.selected) + step] ?? null;
  }

  figures() {
    const stops = Object.create(null);
    for (const row of this.listed) stops[row.stop] = (stops[row.stop] ?? 0) + 1;
    return { rows: this.listed.length, tasks: new Set(this.listed.map((row) => row.task)).size, stops };
  }

  // Rows of the other runs that stand beside one: of the same task, of the same repeat where there is one.
  beside(row) {
    const rows = this.repeats[row.task];
    return this.runs.map((_, run) => {
      if (run === row.run) return row;
      const own = rows.filter((other) => other.run === run);
      return own.find((other) => other.repeat === row.repeat && other.turn === row.turn) ?? own[0] ?? null;
    });
  }

  // The name of a row in addresses, and back: its task, its repeat and, of turns, its turn.
  nameOf(row) {
    const turn = row.turn === undefined ? "" : `.${row.turn}`;
    return `${encodeURIComponent(this.tasks[row.task].id)}/${row.repeat}${turn}`;
  }

  rowOf(name, run = 0) {
    const parts = /^(.*)\/(\d+)(?:\.(\d+))?$/.exec(name);
    if (!parts) return null;
    let id;
    try {
      id = decodeURIComponent(parts[1]);
    } catch {
      return null; // somebody's typing
    }
    const task = this.tasks.findIndex((candidate) => candidate.id === id);
    if (task < 0) return null;
    const fits = (row) => row.repeat === Number(parts[2]) && (parts[3] === undefined || row.turn === Number(parts[3]));
    return this.repeats[task].find((row) => row.run === run && fits(row)) ?? this.repeats[task].find(fits) ?? null;
  }
}
