// Addresses of views: #TASK/REPEAT?in=FILE,FILE&run=1&q=TEXT&..., all but the defaults, so that a link gives the
// same view to others.
"use strict";

const Address = (() => {
  const PLAIN = { q: "", outcome: "all", stop: "all", sort: "file", than: "all", flat: "", run: "0", beside: "" };

  // The row's name, the filters as they are given, and the names of the files; none of these: the list of files.
  function parse(hash, files) {
    const [row, query] = hash.slice(1).split(/\?(.*)/s);
    const given = new URLSearchParams(query);
    const named = (given.get("in") ?? "").split(",").map(decodeSafely);
    const known = named.map((name) => files.find((file) => file.name === name)).filter(Boolean);
    const wanted = known.filter(({ kind }) => kind === known[0].kind).map(({ name }) => name); // others cannot stand beside it
    return { row, given, wanted: wanted.length || files.length > 1 ? wanted : [files[0].name] };
  }

  function decodeSafely(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return ""; // somebody's typing
    }
  }

  function of({ names, browse, text, beside }) {
    const given = new URLSearchParams();
    if (names.length) given.set("in", names.map(encodeURIComponent).join(","));
    if (browse) {
      const { outcome, stop, sorting, than, grouped, selected } = browse;
      const now = { q: text, outcome, stop, sort: sorting, than, flat: grouped ? "" : "1", run: String(selected?.run ?? 0), beside: beside ? "1" : "" };
      for (const [name, value] of Object.entries(now)) if (value !== PLAIN[name]) given.set(name, value);
    }
    const row = browse?.selected ? browse.nameOf(browse.selected) : "";
    const query = given.toString();
    return `#${row}${query ? `?${query}` : ""}`;
  }

  return { parse, of };
})();
