// Making elements. The only way in which this page puts text on the screen: as text, never as HTML.
"use strict";

const Dom = (() => {
  // make("button", {class: "x", text: "Go", onclick: f, data: {row: 3}}, child, "text", null, ...)
  function make(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") element.textContent = value;
      else if (name === "data") Object.assign(element.dataset, value);
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  // The same for drawings.
  function draw(tag, properties = {}, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name === "text") element.textContent = value;
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  const byId = (id) => document.getElementById(id);

  return { make, draw, byId };
})();

// What shows each kind of rows, by its name; and the one that shows the rows at hand.
const Kinds = {};
let Kind = null;

// Words for what the rows hold, said the same way everywhere.
const Words = (() => {
  const number = new Intl.NumberFormat("en");
  const integer = (value) => number.format(value);
  // Rounded down, so that only what is solved reads 1.00.
  const reward = (value) => (Math.floor(value * 100 + 1e-9) / 100).toFixed(2);
  const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–");
  const plural = (count, noun) => `${integer(count)} ${noun}${count === 1 ? "" : "s"}`;
  const phrase = (word) => {
    const text = word.replaceAll("_", " ");
    return text.charAt(0).toUpperCase() + text.slice(1);
  };
  // As the tables of grades have it: every task counts as one; rows without a value, and failed ones, are in no mean.
  const overTasks = (rows, valueOf) => {
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const byTask = Map.groupBy(rows.filter(({ stop }) => !/failed/.test(stop)).map((row) => [row.task, valueOf(row)]).filter(([, value]) => value !== null && value !== undefined), ([task]) => task);
    return mean([...byTask.values()].map((own) => mean(own.map(([, value]) => value))));
  };
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const letter = (run) => LETTERS[run] ?? `#${run + 1}`;
  const size = (bytes) => (bytes < 1e6 ? `${integer(Math.ceil(bytes / 1e3))} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);
  const date = (iso) => (iso ? `${iso.slice(0, 10)} ${iso.slice(11, 16)}` : "–");
  const stop = (reason) => (reason ? phrase(reason) : "Not recorded");

  return { overTasks, integer, reward, percent, plural, phrase, letter, size, date, stop };
})();
