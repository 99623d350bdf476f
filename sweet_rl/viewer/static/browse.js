// What is listed and what is selected: filters, groups, neighbours. Knows nothing of the screen.
"use strict";

const OUTCOMES = ["solved", "partial", "zero", "ungraded"];

class Browse {
  constructor(index) {
    this.tasks = index.tasks;
    this.rows = index.rows.map((row, position) => ({
      ...row,
      position,
      outcome: Words.outcome(row.reward),
      stop: row.stop ?? "",
    }));
    this.repeats = this.tasks.map(() => []); // of each task, in order of their number
    for (const row of this.rows) this.repeats[row.task].push(row);
    for (const rows of this.repeats) rows.sort((a, b) => a.repeat - b.repeat);
    this.hasRepeats = this.repeats.some((rows) => rows.length > 1);
    this.grouped = true;
    this.outcome = "all";
    this.stop = "all";
    this.found = null; // a Set of positions while a search is on
    this.selected = null;
    this.update();
  }

  // Recompute what is listed; call after changing a filter.
  update() {
    const listed = this.rows.filter((row) => this.#matches(row, this.outcome, this.stop));
    const included = new Set(listed);
    this.listed = this.grouped ? [...new Set(listed.map((row) => row.task))].flatMap((task) => this.repeats[task].filter((row) => included.has(row))) : listed;
    // A group is shown whole: repeats that the filters leave out are there, dimmed.
    this.groups = this.grouped
      ? [...new Set(listed.map((row) => row.task))].map((task) => ({ task, rows: this.repeats[task] }))
      : listed.map((row) => ({ task: row.task, rows: [row] }));
    this.included = included;
    this.places = new Map(this.listed.map((row, place) => [row, place]));
    this.groupOf = new Map(this.groups.flatMap((group, place) => group.rows.map((row) => [row, place])));
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
      const matches = filter === "outcome" ? this.#matches(row, "all", this.stop) : this.#matches(row, this.outcome, "all");
      if (!matches) continue;
      counts.all++;
      counts[row[filter]] = (counts[row[filter]] ?? 0) + 1;
    }
    return counts;
  }

  // The row `step` places further in the list; of a row that is not listed, the nearest one in that direction.
  neighbour(step) {
    if (!this.listed.length) return null;
    if (this.selected === null) return this.listed[0];
    const place = this.places.get(this.selected);
    if (place !== undefined) return this.listed[Math.min(Math.max(place + step, 0), this.listed.length - 1)];
    const key = (row) => (this.grouped ? [row.task, row.repeat] : [row.position, 0]);
    const [a, b] = key(this.selected);
    const after = this.listed.findIndex((row) => key(row)[0] > a || (key(row)[0] === a && key(row)[1] > b));
    if (step > 0) return this.listed[after < 0 ? this.listed.length - 1 : after];
    return this.listed[Math.max((after < 0 ? this.listed.length : after) - 1, 0)];
  }

  // Another repeat of the selected task, listed or not.
  sibling(step) {
    if (this.selected === null) return null;
    const rows = this.repeats[this.selected.task];
    return rows[rows.indexOf(this.selected) + step] ?? null;
  }

  figures() {
    const graded = this.listed.filter((row) => row.reward !== null);
    const published = this.listed.filter((row) => row.published !== null);
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const stops = {};
    for (const row of this.listed) stops[row.stop] = (stops[row.stop] ?? 0) + 1;
    return {
      rows: this.listed.length,
      tasks: new Set(this.listed.map((row) => row.task)).size,
      graded: graded.length,
      success: mean(graded.map((row) => Number(row.reward >= 1))),
      reward: mean(graded.map((row) => row.reward)),
      publishedSuccess: published.length ? mean(published.map((row) => Number(row.published >= 1))) : null,
      publishedReward: published.length ? mean(published.map((row) => row.published)) : null,
      stops,
    };
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
