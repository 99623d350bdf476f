// Where the rows come from: out of this page (an exported file), or from the server that sent it.
// Both offer index(), row(position), and search(text), which gives the positions of the rows that hold it.
"use strict";

const Source = (() => {
  // Keep in step with searchable_text in content.py.
  function searchableText(row) {
    const parts = [row.task_id, row.description];
    for (const message of row.messages) {
      parts.push(message.content);
      if (message.output !== undefined) parts.push(message.output);
    }
    parts.push(row.answer ?? "");
    return parts.join("\n").toLowerCase();
  }

  function embedded() {
    // One row a line, each parsed when it is looked at.
    const lines = Dom.byId("rows").textContent.split("\n").slice(1);
    let texts = null;
    return {
      index: async () => JSON.parse(Dom.byId("index").textContent),
      row: async (position) => JSON.parse(lines[position]),
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
      search: (text) => get(`api/search?text=${encodeURIComponent(text)}`),
    };
  }

  const open = () => (Dom.byId("index") ? embedded() : served());

  return { open };
})();
