// Where the rows come from: out of this page (an exported file), out of files beside it (an exported folder), or
// from the server that sent it. All offer files(), index(file, told), row(file, position), document(file),
// search(file, text), which gives the positions of the rows that hold it, and picture(file, id): an address for
// an image, or null where the picture found no room in the file.
"use strict";

const Source = (() => {
  const WAIT_MS = 300;
  const arrived = new Map(); // rows of an exported folder, by the name of their file

  // Keep in step with `text` of each kind, where a page still stands in what was said.
  function searchableText(row) {
    const parts = [row.task_id, row.description];
    for (const message of row.messages ?? []) {
      parts.push(message.content);
      for (const further of [message.html, message.thoughts, message.output, message.reflection]) if (further !== undefined) parts.push(further);
    }
    if (row.name !== undefined) parts.push(row.name);
    if (typeof row.answer === "string") parts.push(row.answer);
    for (const candidate of row.candidates ?? []) parts.push(candidate.text);
    for (const side of [row.before, row.chosen, row.rejected]) if (side !== undefined) parts.push(side);
    return parts.join("\n").toLowerCase();
  }

  const block = (id) => JSON.parse(Dom.byId(id).textContent);

  // What an export has in its page, and what it does not: linesOf(file, place) gives rows, each a text.
  function exported(linesOf, picture) {
    const texts = new Map();
    return {
      live: false,
      files: async () => block("files"),
      result: async (file) => block(`result-${file}`),
      index: async (file) => block(`index-${file}`),
      document: async (file) => block(`document-${file}`),
      row: async (file, position) => JSON.parse(await linesOf(file, position)),
      picture,
      search: async (file, text) => {
        if (!texts.has(file)) {
          const count = block(`index-${file}`).columns.task.length;
          const known = [];
          for (let position = 0; position < count; position++) known.push(searchableText(JSON.parse(await linesOf(file, position))));
          texts.set(file, known);
        }
        const wanted = text.toLowerCase();
        return texts.get(file).flatMap((known, position) => (known.includes(wanted) ? [position] : []));
      },
    };
  }

  // One row or picture a line, each parsed when it is looked at.
  function embedded() {
    const lines = new Map();
    const linesOf = (id) => {
      if (!lines.has(id)) lines.set(id, Dom.byId(id).textContent.split("\n").slice(1));
      return lines.get(id);
    };
    const places = block("picture-lines");
    const picture = (file, id) => (Object.hasOwn(places, `${file}/${id}`) ? JSON.parse(linesOf("pictures")[places[`${file}/${id}`]]) : null);
    return exported(async (file, position) => linesOf(`rows-${file}`)[position], picture);
  }

  // Rows in scripts beside the page, so many in each: a page opened from a disk may read nothing else.
  function beside() {
    const { rows: each, pictures } = block("folder");
    const policy = globalThis.trustedTypes?.createPolicy("rows", {
      createScriptURL: (name) => {
        if (!/^rows\/\d+-\d+\.js$/.test(name)) throw new TypeError(name);
        return name;
      },
    });
    const load = (name) =>
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.onload = () => (arrived.has(name) ? resolve(arrived.get(name)) : reject(new Error(`${name}.js holds no rows`)));
        script.onerror = () => reject(new Error(`rows/${name}.js is not beside the page`));
        script.src = policy ? policy.createScriptURL(`rows/${name}.js`) : `rows/${name}.js`;
        document.head.append(script);
      });
    const linesOf = async (file, position) => {
      const name = `${file}-${Math.floor(position / each)}`;
      const rows = arrived.get(name) ?? (await load(name));
      return rows[position % each];
    };
    const known = new Set(pictures);
    return exported(linesOf, (file, id) => (known.has(`${file}/${id}`) ? `pictures/${file}-${id.replace("/", "-")}.png` : null));
  }

  function served() {
    async function get(path, told) {
      for (;;) {
        const response = await fetch(path);
        if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
        const found = await response.json();
        if (response.status !== 202) return found;
        told?.(found); // is still being made
        await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
      }
    }
    return {
      live: true,
      files: () => get("api/files"),
      result: (file) => get(`api/results/${file}`),
      index: (file, told) => get(`api/index/${file}`, told),
      document: (file) => get(`api/documents/${file}`),
      row: (file, position) => get(`api/rows/${file}/${position}`),
      picture: (file, id) => `api/pictures/${file}/${id}`,
      search: (file, text) => get(`api/search/${file}?text=${encodeURIComponent(text)}`),
    };
  }

  const open = () => (Dom.byId("folder") ? beside() : Dom.byId("files") ? embedded() : served());

  return { open, arrived: (name, rows) => arrived.set(name, rows) };
})();
