// A dialogue as a chat, with what went wrong in it; and small marks that list and detail share. Whatever the
// kind of trajectories: what stands in a bubble beyond prose is the business of `Kind`.
"use strict";

// Small marks that the list and the detail share.
const Show = (() => {
  const { make } = Dom;

  function reward(value, label = "Reward") {
    const fill = make("span", { class: "reward-fill" });
    fill.style.width = `${100 * Math.min(Math.max(value ?? 0, 0), 1)}%`;
    return make(
      "span",
      { class: `reward ${Kind.outcome(value)}`, title: `${label} ${value ?? "not known"}` },
      Kind.bar ? make("span", { class: "reward-bar", "aria-hidden": "true" }, fill) : null,
      make("span", { class: "visually-hidden", text: `${label} ` }),
      make("span", { text: value === null || value === undefined ? "ungraded" : Kind.written(value) }),
    );
  }

  const failures = (count) =>
    count ? make("span", { class: "flagged", text: `⚑ ${count}`, title: Words.plural(count, "failure"), "aria-label": Words.plural(count, "failure") }) : null;

  return { reward, failures };
})();

const Chat = (() => {
  const { make } = Dom;
  const ANSWER_MARKER = "I WANT TO ANSWER:";
  const NO_RESPONSE = "No response.";
  const UNEXPLAINED = "The simulated human could not be asked; the file does not say why.";
  const LONG = 50_000; // characters that are shown at once
  const FENCE = /```([^\n`]*)\n([\s\S]*?)(?:```|$)/g;
  const folds = new WeakMap(); // a folded text to the function that shows or hides it

  // settings: {thoughts, prompts}: whether those are open.
  // say(message, turn, isAnswer): what the agent said in its turn, as {marks, nodes}.
  function render(row, settings, say) {
    const entries = [];
    const failures = Map.groupBy(row.failures, (entry) => entry.turn ?? -1); // those of no turn come last
    const explained = new Set(failures.keys());
    const handsIn = row.answer !== null;
    let agentTurn = -1;
    let prompt = "";
    row.messages.forEach((message, i) => {
      if (message.role !== "assistant") {
        entries.push(other(message, i === 0));
        if (message.content === NO_RESPONSE && !explained.has(agentTurn)) entries.push(note(UNEXPLAINED));
        return;
      }
      agentTurn++;
      prompt = message.more === undefined ? message.input : prompt + message.more;
      entries.push(agent(row, message, agentTurn, prompt, settings, say(message, agentTurn, handsIn && i === row.messages.length - 1)));
      entries.push(...(failures.get(agentTurn) ?? []).map(failure));
      failures.delete(agentTurn);
    });
    if (!row.messages.length) entries.push(note("Nothing was said."));
    entries.push(...[...failures.values()].flat().map(failure));
    if (row.stop !== undefined) entries.push(make("li", { class: "ending", text: ending(row, agentTurn + 1) }));
    if (row.error) entries.push(failure(row.error));
    return make("ol", { class: "chat", role: "list" }, entries);
  }

  function ending(row, turns) {
    const after = `after ${Words.plural(turns, "agent turn")}`;
    return row.stop ? `${Words.stop(row.stop)} ${after}` : `Ended ${after}`;
  }

  function agent(row, message, turn, prompt, settings, said) {
    const thought = thoughtOf(message);
    const credit = Credit.ofTurn(row, turn, prompt, message);
    const folds = [
      message.reflection ? fold("thoughts", "reflection", message.reflection, settings.thoughts) : null,
      thought ? fold("thoughts", thought.title, thought.text, settings.thoughts) : null,
      prompt ? fold("prompts", "exact prompt", prompt, settings.prompts) : null,
      ...credit.folds,
    ].filter(Boolean);
    return make(
      "li",
      { class: "turn assistant", data: { turn } },
      make(
        "p",
        { class: "speaker" },
        make("strong", { text: "Agent" }),
        make("span", { text: `turn ${turn + 1}` }),
        said.marks,
        credit.marks,
        folds.map(({ button }) => button),
      ),
      folds.map(({ content }) => content),
      make("div", { class: "bubble" }, said.nodes),
      message.finish === "length" ? note("Cut off: the token limit was reached.", "p") : null,
    );
  }

  // What the agent wrote beyond what the human saw.
  function thoughtOf(message) {
    if (message.thoughts !== undefined) return { title: "thoughts", text: message.thoughts };
    return message.output === undefined ? null : { title: "raw output", text: message.output };
  }

  function other(message, isFirst) {
    const speaker = message.role === "system" ? "System" : Kind.partner.name;
    return make(
      "li",
      { class: `turn ${message.role}` },
      make(
        "p",
        { class: "speaker" },
        make("strong", { text: speaker }),
        isFirst ? make("span", { text: Kind.partner.opens }) : null,
      ),
      make("div", { class: "bubble" }, prose(message.content)),
    );
  }

  function failure(entry) {
    const status = entry.status ? ` (HTTP ${entry.status})` : "";
    const attempts = entry.attempts > 1 ? ` after ${entry.attempts} attempts` : "";
    const element = note("");
    element.append(make("strong", { text: `${Words.phrase(entry.kind)}${status}${attempts}` }), entry.detail ? `: ${entry.detail}` : "");
    return element;
  }

  const note = (words, tag = "li") => make(tag, { class: "flag", text: words });

  // A text that is shown on demand, and the button that shows it; what is long is made then, and not before.
  // words: the text, or a function that gives nodes.
  function fold(kind, title, words, open) {
    const content = make("pre", { class: `folded ${kind}` });
    if (typeof words === "string" && words.length < LONG) content.textContent = words;
    const button = make("button", { class: "fold", type: "button", text: title, onclick: () => show(content.hidden) });
    const show = (shown) => {
      if (shown && !content.hasChildNodes()) content.append(...(typeof words === "string" ? [words] : words()));
      content.hidden = !shown;
      button.setAttribute("aria-expanded", String(shown));
    };
    folds.set(content, show);
    show(open);
    return { button, content };
  }

  function showFolds(contents, shown) {
    for (const content of contents) folds.get(content)(shown);
  }

  // A message around its answer marker, [before, after]; after is null where nothing is handed in.
  function aroundMarker(content, isAnswer) {
    const marker = isAnswer ? content.indexOf(ANSWER_MARKER) : -1;
    return marker < 0 ? [content, null] : [content.slice(0, marker), content.slice(marker + ANSWER_MARKER.length)];
  }

  const handsIn = () => make("p", { class: "handed-in", text: "Hands in its answer" });

  // Text with fenced code set as code. Of a very long one the beginning, and the rest on demand.
  function prose(content) {
    if (content.length > LONG) return long(content);
    const parts = [];
    const say = (words) => words.trim() && parts.push(make("p", { text: words.trim() }));
    let end = 0;
    for (const match of content.matchAll(FENCE)) {
      say(content.slice(end, match.index));
      parts.push(Kind.block(match[2].replace(/\n$/, "")));
      end = match.index + match[0].length;
    }
    say(content.slice(end));
    return parts;
  }

  function long(content) {
    const text = make("p", { text: content.slice(0, LONG) });
    const label = `show all ${Words.integer(content.length)} characters`;
    const more = make("button", { class: "fold", type: "button", text: label, onclick: () => (text.textContent = content) && more.remove() });
    return [text, more];
  }

  return { render, aroundMarker, handsIn, prose, fold, showFolds, note };
})();
