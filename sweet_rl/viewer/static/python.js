// Python source to coloured text: comments, strings, numbers, keywords, names being defined.
// A reader's aid, not a parser: on text that is not Python it only colours differently.
"use strict";

const Python = (() => {
  const KEYWORDS = new Set(
    ("False None True and as assert async await break class continue def del elif else except finally for from " +
      "global if import in is lambda match nonlocal not or pass raise return try while with yield").split(" "),
  );
  const TOKEN = new RegExp(
    [
      "(?<comment>#[^\\n]*)",
      "(?<string>\\b[rbfuRBFU]{0,2}(?:\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$))" +
        "|\\b[rbfuRBFU]{1,2}(?:\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?)" +
        "|\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)" +
        "|\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?)",
      "(?<number>\\b\\d[\\w.]*)",
      "(?<word>[\\p{L}_][\\p{L}\\p{N}_]*)",
    ].join("|"),
    "gu",
  );

  // Lines of [{text, kind}]; a token that spans lines is cut at their ends.
  function lines(source) {
    const result = [[]];
    const add = (text, kind) => {
      text.split("\n").forEach((part, i) => {
        if (i) result.push([]);
        if (part) result.at(-1).push({ text: part, kind });
      });
    };
    let end = 0;
    let previousWord = "";
    for (const match of source.matchAll(TOKEN)) {
      add(source.slice(end, match.index), "");
      end = match.index + match[0].length;
      const { comment, string, number, word } = match.groups;
      if (comment) add(comment, "comment");
      else if (string) add(string, "string");
      else if (number) add(number, "number");
      else if (KEYWORDS.has(word)) add(word, "keyword");
      else add(word, previousWord === "def" || previousWord === "class" ? "defined" : "");
      previousWord = word ?? "";
    }
    add(source.slice(end), "");
    return result;
  }

  // A line's tokens as nodes; characters for which `marked` holds are wrapped in <mark>.
  function nodes(tokens, marked = null) {
    const result = [];
    let column = 0;
    for (const { text, kind } of tokens) {
      for (const [part, isMarked] of runs(text, column, marked)) {
        const node = kind ? Dom.make("span", { class: `py-${kind}`, text: part }) : document.createTextNode(part);
        result.push(isMarked ? Dom.make("mark", {}, node) : node);
      }
      column += text.length;
    }
    return result;
  }

  function runs(text, column, marked) {
    if (!marked) return [[text, false]];
    const result = [];
    let start = 0;
    for (let i = 1; i <= text.length; i++) {
      if (i < text.length && marked[column + i] === marked[column + start]) continue;
      result.push([text.slice(start, i), marked[column + start]]);
      start = i;
    }
    return result;
  }

  function block(source) {
    const code = Dom.make("code");
    lines(source).forEach((tokens, i) => code.append(...(i ? ["\n"] : []), ...nodes(tokens)));
    return Dom.make("pre", { class: "code" }, code);
  }

  return { lines, nodes, block };
})();
