// The list on the left. Only what can be seen is in the document, so that a file of any length scrolls smoothly.
"use strict";

class List {
  static #HEIGHT = 82; // of an entry with one line of chips or none; app.css must agree
  static #CHIP_LINE = 30;
  static #CHIP_WIDTH = 40;
  static #MARGIN = 600; // pixels made beyond the visible ones

  constructor(container, browse, onSelect) {
    this.container = container;
    this.browse = browse;
    this.onSelect = onSelect;
    this.canvas = Dom.make("ol", { class: "entries", role: "list", "aria-label": "Tasks" });
    this.empty = Dom.make("p", { class: "nothing", text: "Nothing matches these filters." });
    container.replaceChildren(this.canvas);
    container.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => this.#layout()).observe(container);
    this.#layout();
  }

  // After the filters changed.
  refresh() {
    this.container.scrollTop = 0;
    this.#layout();
  }

  // After the selection changed: bring it into view.
  reveal() {
    const place = this.browse.groupOf.get(this.browse.selected);
    if (place !== undefined) {
      const top = this.tops[place];
      const bottom = this.tops[place + 1];
      const { scrollTop, clientHeight } = this.container;
      if (top < scrollTop) this.container.scrollTop = top;
      else if (bottom > scrollTop + clientHeight) this.container.scrollTop = bottom - clientHeight;
    }
    this.#draw();
    for (const element of this.drawn.values()) this.#mark(element);
    if (this.container.contains(document.activeElement)) this.focus();
  }

  focus() {
    const current = this.canvas.querySelector("[aria-current=true]");
    (current ?? this.container).focus({ preventScroll: true });
  }

  #layout() {
    const perLine = Math.max(1, Math.floor((this.container.clientWidth - 34) / List.#CHIP_WIDTH));
    this.tops = [0];
    for (const { rows } of this.browse.groups) {
      const chipLines = rows.length > 1 ? Math.ceil(rows.length / perLine) : 0;
      this.tops.push(this.tops.at(-1) + List.#HEIGHT + chipLines * List.#CHIP_LINE);
    }
    this.drawn = new Map();
    this.canvas.replaceChildren();
    this.canvas.style.height = `${this.tops.at(-1)}px`;
    if (this.browse.groups.length) this.empty.remove();
    else this.container.append(this.empty);
    this.#draw();
  }

  // The entry at a height, by bisection.
  #at(y) {
    let low = 0;
    let high = this.browse.groups.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #draw() {
    const first = this.#at(this.container.scrollTop - List.#MARGIN);
    const last = this.#at(this.container.scrollTop + this.container.clientHeight + List.#MARGIN);
    for (const [place, element] of this.drawn) {
      if (place >= first && place <= last) continue;
      if (element.contains(document.activeElement)) this.container.focus({ preventScroll: true });
      element.remove();
      this.drawn.delete(place);
    }
    for (let place = first; place <= Math.min(last, this.browse.groups.length - 1); place++) {
      if (!this.drawn.has(place)) this.#insert(place, this.#entry(place));
    }
  }

  // In document order, which is the order in which Tab goes through them.
  #insert(place, element) {
    let next = null;
    for (const [other, candidate] of this.drawn) {
      if (other > place && (next === null || other < next[0])) next = [other, candidate];
    }
    this.canvas.insertBefore(element, next === null ? null : next[1]);
    this.drawn.set(place, element);
  }

  #entry(place) {
    const { task, rows } = this.browse.groups[place];
    const title = Dom.make("span", { class: "entry-title", text: this.browse.tasks[task].summary || "(no description)" });
    const content = rows.length > 1 ? this.#repeats(title, rows) : [this.#single(title, rows[0])];
    const element = Dom.make(
      "li",
      { class: "entry", "aria-setsize": this.browse.groups.length, "aria-posinset": place + 1 },
      content,
    );
    element.style.top = `${this.tops[place]}px`;
    element.style.height = `${this.tops[place + 1] - this.tops[place]}px`;
    this.#mark(element);
    return element;
  }

  #single(title, row) {
    return this.#button(
      row,
      { class: "entry-main" },
      title,
      Dom.make(
        "span",
        { class: "entry-meta" },
        Kind.graded === false ? null : Show.reward(row.reward),
        this.browse.hasRepeats ? Dom.make("span", { text: this.#named(row) }) : null,
        Dom.make("span", { text: Words.stop(row.stop) }),
        Dom.make("span", { text: List.#size(row) }),
        Show.failures(row.failures),
      ),
    );
  }

  static #size = (row) => Kind.size?.(row) ?? Words.plural(row.turns, "turn");

  // What tells a row from the others of its task.
  #named(row) {
    const turn = row.turn === undefined ? "" : `, turn ${row.turn + 1}`;
    const repeat = `repeat ${row.repeat}${turn}`;
    return this.browse.runs.length > 1 ? `${Words.letter(row.run)}, ${repeat}` : repeat;
  }

  #repeats(title, rows) {
    const facts = Kind.group(rows) ?? [Words.plural(rows.length, "repeat"), "ungraded"];
    const failures = rows.reduce((sum, row) => sum + row.failures, 0);
    const target = rows.find((row) => this.browse.isListed.has(row));
    return [
      Dom.make(
        "button",
        { class: "entry-main", type: "button", onclick: () => this.onSelect(target) },
        title,
        Dom.make("span", { class: "entry-meta" }, facts.map((text) => Dom.make("span", { text })), Show.failures(failures)),
      ),
      Dom.make("div", { class: "chips" }, rows.map((row) => this.#chip(row))),
    ];
  }

  #chip(row) {
    const reward = row.reward === null ? "ungraded" : `reward ${Kind.written(row.reward)}`;
    const facts = [reward, Words.stop(row.stop).toLowerCase(), List.#size(row)];
    const name = this.#named(row);
    const label = `${name.charAt(0).toUpperCase()}${name.slice(1)}: ${facts.join(", ")}`;
    const short = row.turn === undefined ? String(row.repeat) : this.browse.hasDialogues ? `${row.repeat}.${row.turn + 1}` : String(row.turn + 1);
    const shown = this.browse.runs.length > 1 ? `${Words.letter(row.run)}${short}` : short;
    const faint = this.browse.isListed.has(row) ? "" : " faint";
    const bar = Dom.make("span", { class: "chip-bar" });
    bar.style.width = `${100 * Math.min(Math.max(row.reward ?? 0, 0), 1)}%`;
    return this.#button(
      row,
      { class: `chip ${row.outcome}${faint}`, title: label, "aria-label": label.includes(shown) ? label : `${shown}, ${label}` },
      shown,
      Kind.bar ? bar : null,
    );
  }

  #button(row, properties, ...children) {
    const data = { position: row.position, run: row.run };
    return Dom.make("button", { type: "button", data, onclick: () => this.onSelect(row), ...properties }, ...children);
  }

  #mark(element) {
    const { selected } = this.browse;
    let holds = false;
    for (const button of element.querySelectorAll("button[data-position]")) {
      const { position, run } = button.dataset;
      const isSelected = selected !== null && Number(position) === selected.position && Number(run) === selected.run;
      button.setAttribute("aria-current", String(isSelected));
      holds ||= isSelected;
    }
    element.classList.toggle("selected", holds);
  }
}
