// What is listed and what is selected: filters, groups, neighbours. Knows nothing of the screen.
"use strict";

class Browse {
  constructor(index) {
    this.kind = index.kind;
    this.metric = index.metric ?? null; // what the rewards are, where known
    this.tasks = index.tasks;
    this.rows = index.rows.map((row, position) => ({
      ...row,
      position,
      outcome: Kind.outcome(row.reward, row),
      stop: row.stop ?? "",
    }));
    this.repeats = this.tasks.map(() => []); // of each task, in order of their number
    for (const row of this.rows) this.repeats[row.task].push(row);
    for (const rows of this.repeats) rows.sort((a, b) => a.repeat - b.repeat);
    this.hasRepeats = this.repeats.some((rows) => rows.length > 1);
    this.grouped = true;
    this.outcome = "all";
    this.stop = "all";
    this.sorting = "file"; // or "best", "worst"
    this.found = null; // a Set of positions while a search is on
    this.selected = null;
    this.update();
  }

  // Recompute what is listed; call after changing a filter.
  update() {
    const all = this.#sorted().flat();
    this.order = new Map(all.map((row, place) => [row, place]));
    this.listed = all.filter((row) => this.#matches(row, this.outcome, this.stop));
    this.isListed = new Set(this.listed);
    // A task is shown with all its repeats: those that the filters leave out are there, but faint.
    this.groups = this.grouped
      ? [...new Set(this.listed.map((row) => row.task))].map((task) => ({ task, rows: this.repeats[task] }))
      : this.listed.map((row) => ({ task: row.task, rows: [row] }));
    this.groupOf = new Map(this.groups.flatMap((group, place) => group.rows.map((row) => [row, place])));
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

  #matches(row, outcome, stop) {
    return (
      (outcome === "all" || row.outcome === outcome) &&
      (stop === "all" || row.stop === stop) &&
      (this.found === null || this.found.has(row.position))
    );
  }

  // How many rows each choice of one filter would list, the other filters being as they are.
  counts(filter) {
    const counts = { all: 0 };
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
    const stops = {};
    for (const row of this.listed) stops[row.stop] = (stops[row.stop] ?? 0) + 1;
    return { rows: this.listed.length, tasks: new Set(this.listed.map((row) => row.task)).size, stops };
  }

  // The hash that names a row, and back. A row's identity is its task and its repeat.
  hashOf(row) {
    return `#${encodeURIComponent(this.tasks[row.task].id)}/${row.repeat}`;
  }

  rowOf(hash) {
    const parts = /^#(.*)\/(\d+)$/.exec(hash);
    if (!parts) return null;
    let id;
    try {
      id = decodeURIComponent(parts[1]);
    } catch {
      return null; // somebody's typing
    }
    const task = this.tasks.findIndex((candidate) => candidate.id === id);
    return task < 0 ? null : (this.repeats[task].find((row) => row.repeat === Number(parts[2])) ?? null);
  }
}
