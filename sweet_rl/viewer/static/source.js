// Where the rows come from: out of this page (an exported file), or from the server that sent it.
// Both offer index(), row(position), search(text), which gives the positions of the rows that hold it, and
// picture(id): an address for an image, or null where the picture found no room in the file.
"use strict";

const Source = (() => {
  // Keep in step with text_of in content.py, where a page still stands in what was said.
  function searchableText(row) {
    const parts = [row.task_id, row.description];
    for (const message of row.messages) {
      parts.push(message.content);
      for (const further of [message.html, message.thoughts, message.output, message.reflection]) if (further !== undefined) parts.push(further);
    }
    if (row.name !== undefined) parts.push(row.name);
    if (typeof row.answer === "string") parts.push(row.answer);
    return parts.join("\n").toLowerCase();
  }

  function embedded() {
    // One row or picture a line, each parsed when it is looked at.
    const linesOf = (id) => Dom.byId(id).textContent.split("\n").slice(1);
    const lines = linesOf("rows");
    const pictures = linesOf("pictures");
    const pictureLines = JSON.parse(Dom.byId("picture-lines").textContent);
    let texts = null;
    return {
      index: async () => JSON.parse(Dom.byId("index").textContent),
      row: async (position) => JSON.parse(lines[position]),
      picture: (id) => (Object.hasOwn(pictureLines, id) ? JSON.parse(pictures[pictureLines[id]]) : null),
      search: async (text) => {
        texts ??= lines.map((line) => searchableText(JSON.parse(line)));
        const wanted = text.toLowerCase();
        return texts.flatMap((known, position) => (known.includes(wanted) ? [position] : []));
      },
    };
  }

  function served() {
    async function get(path) {
      const response = await fetch(path);
      if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
      return response.json();
    }
    return {
      index: () => get("api/index"),
      row: (position) => get(`api/rows/${position}`),
      picture: (id) => `api/pictures/${id}`,
      search: (text) => get(`api/search?text=${encodeURIComponent(text)}`),
    };
  }

  const open = () => (Dom.byId("index") ? embedded() : served());

  return { open };
})();
