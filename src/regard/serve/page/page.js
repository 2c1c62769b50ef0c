// The page: a text is typed, its translation or whatever else the model says appears, and what the model looked at.

import { show } from "./view.js";

const PAUSE = 60; // milliseconds without a key before a translation is asked for
const LOOK = 250; // after a translation, before attention is asked for
const LINES = 32; // of a file, asked for at once
const PATIENCE = 20; // times that a busy service is asked again for a part of a file
const SHOWN = 4000; // characters of a response that are shown
const MANY = 20; // labels, or numbers of a vector, that are shown
const EACH_LINE = ", each on a line of its own";
const $ = (id) => document.getElementById(id);
let choices = [], limits = {}, choice = null, asked = null, reading = null, viewed = {};

// What is sent and comes back is shown; attention, which is asked for after a translation, stands below it.
function note(id, path, text) {
  $(id).textContent = path === "/api/attention" ? `${$(id).textContent}\n\n${text}` : text;
}

function post(path, body, signal) {
  note("request", path, `POST ${path}\n${JSON.stringify(body, null, 1)}`);
  const headers = { "Content-Type": "application/json" };
  return reach(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function reach(path, how) {
  try {
    return await fetch(path, how);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Error("the service cannot be reached");
  }
}

async function ask(path, body, signal) {
  const response = await post(path, body, signal), found = await answer(response);
  const text = JSON.stringify(found, (key, value) => (key === "weights" ? `${value.slice(0, 20)} …` : value), 1);
  note("response", path, `${response.status}\n${text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text}`);
  return found;
}

async function answer(response) {
  const found = await response.json().catch((error) => {
    if (error.name === "AbortError") throw error;
  });
  if (response.ok && found) return found;
  const why = found?.error?.message ?? found?.error ?? "the service gave no answer";
  $("response").textContent = `${response.status}\n${why}`;
  throw new Refused(response.status, why);
}

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const wait = (time, signal) =>
  new Promise((then, stop) => {
    const timer = setTimeout(then, time);
    signal?.addEventListener("abort", () => (clearTimeout(timer), stop(signal.reason)));
  });

function tellOf(error, place = "problem") {
  if (error?.name !== "AbortError") $(place).textContent = error ? sentence(error.message) : "";
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;
const length = (text) => [...text].length; // in characters, as the service counts

function part(text, name = "") {
  const made = document.createElement("span");
  made.textContent = text;
  made.className = name;
  return made;
}

const spaced = (parts) => parts.flatMap((each, i) => (i ? [" ", each] : [each]));

// As one types: what was asked before is dropped, also by the service.
async function typed() {
  asked?.abort();
  const { signal } = (asked = new AbortController()), text = $("text").value, size = length(text);
  const translates = choice.kind === "translate", parts = text.trim().split("\n");
  const over = size > limits.characters;
  $("count").textContent = `${size} / ${limits.characters}`;
  $("count").classList.toggle("over", over);
  if (!text.trim() || over || parts.length < choice.parts) {
    clear();
    return tellOf(over ? new Error(`A text has at most ${limits.characters} characters`) : null);
  }
  $("said").classList.add("stale");
  try {
    await wait(PAUSE, signal);
    const said = translates ? await translate(text, signal) : await run(choice.parts > 1 ? parts.join("\t") : text, signal);
    tellOf(null);
    if (!$("attention").open || !said) return;
    await wait(LOOK, signal);
    await look(choice.parts > 1 ? parts.join("\t") : text.trim(), said, signal);
  } catch (error) {
    if (error.name !== "AbortError") clear();
    tellOf(error);
  }
}

// Nothing is shown that belongs to another text.
function clear() {
  for (const id of ["said", "alternatives", "view", "read", "score", "gaze"]) $(id).replaceChildren();
  $("said").classList.remove("stale");
  $("copy").disabled = true;
}

async function translate(text, signal) {
  const best = $("others").open ? 5 : 1;
  const { translations } = await ask("/api/translate", { text, best, ...choice.ask }, signal);
  translated(translations[0].outputs);
  return translations[0].outputs[0].text;
}

// What a model says that neither translates nor goes on with a text, by what its answer holds.
async function run(text, signal) {
  const { results: [result] } = await ask("/api/run", { text, ...choice.ask, options: choice.options }, signal);
  $("said").replaceChildren(...answered(text, result));
  $("said").classList.remove("stale");
  $("score").textContent = result.start === undefined ? "" : `probability ${result.probability.toFixed(3)}`;
  return result.line;
}

function answered(text, { line, vector, blanks, all, start, end, answer, text: filled }) {
  if (vector) return [`${vector.slice(0, MANY).map((x) => x.toFixed(3)).join("  ")} … (${vector.length} numbers)`];
  if (blanks) return [part(filled, "filled"), ...blanks.map((words) => bars(words.map((each) => [each.word, each.probability])))];
  if (all) return [bars(all.slice(0, MANY).map((each) => [each.label, each.probability]))];
  if (Array.isArray(answer)) return spaced(text.trim().split(/\s+/).map((word, i) => tagged(word, answer[i])));
  if (start === undefined) return [line];
  const letters = [...text.split("\t")[0]], piece = (...places) => letters.slice(...places).join("");
  return [piece(0, start), part(piece(start, end), "span"), piece(end)];
}

function bars(rows) {
  const list = document.createElement("ol");
  list.className = "bars";
  for (const [label, share] of rows) {
    const item = document.createElement("li");
    item.style.setProperty("--share", share);
    item.append(part(label), " ", part(share.toFixed(3)));
    list.append(item);
  }
  return list;
}

function tagged(word, tag = "") {
  const both = part("", "tagged");
  both.append(part(word, tag === "O" ? "" : "span"), part(tag, "tag"));
  return both;
}

function translated([first, ...others]) {
  $("said").textContent = first.text;
  $("said").classList.remove("stale");
  $("copy").disabled = !first.text;
  $("score").textContent = first.text ? `score ${first.score.toFixed(3)}` : "";
  $("read").replaceChildren();
  $("gaze").textContent = "";
  const items = others.map((output) => {
    const item = document.createElement("li");
    item.append(output.text, part(output.score.toFixed(3), "score"));
    return item;
  });
  $("alternatives").replaceChildren(...items);
}

async function look(text, said, signal) {
  if (text.includes("\n")) {
    $("view").textContent = "Attention is shown for a single line.";
    return;
  }
  try {
    const data = await ask("/api/attention", { text, ...choice.ask }, signal);
    if (data.maps.length) viewed = show($("view"), data, viewed, (map) => map && spell(map, said));
    else $("view").textContent = "This model has no attention.";
  } catch (error) {
    if (error.name !== "AbortError") $("view").textContent = `No attention to show: ${error.message.replace(/\.$/, "")}.`;
  }
}

// The words of the output: pointed at, each lights up what it looked at among the words that were read.
function spell({ cells, labels: [targets, sources] }, said) {
  const read = sources.map((word) => part(word));
  const words = targets.map((word, i) => {
    const made = part(word, "word"), most = cells[i].map((weight, c) => [weight, c]).sort((a, b) => b[0] - a[0]);
    made.tabIndex = 0;
    const light = (on) => {
      read.forEach((each, c) => each.style.setProperty("--weight", on ? cells[i][c] : 0));
      const told = most.slice(0, 3).map(([weight, c]) => `${sources[c]} ${weight.toFixed(2)}`);
      $("gaze").textContent = on ? `${word} ← ${told.join(", ")}` : "";
    };
    made.onmouseenter = made.onfocus = () => light(true);
    made.onmouseleave = made.onblur = () => light(false);
    return made;
  });
  $("read").replaceChildren(...spaced(read));
  // The end mark, which an output that was cut has not, is no word of the text.
  const count = [words.length - 1, words.length].find((n) => targets.slice(0, n).join(" ") === said);
  if (count) $("said").replaceChildren(...spaced(words.slice(0, count)));
}

// Lines of a file, some at a time; what is done can be had even if it stops half-way.
async function file(given) {
  await begun; // it may come before the models are known
  if (choice?.kind !== "translate") return;
  reading?.abort();
  const own = (reading = new AbortController()), { ask: how, target } = choice, said = [], link = $("download");
  const tell = (lines) => {
    $("progress").value = said.length / Math.max(1, lines.length);
    $("progress-told").textContent = `${said.length} of ${lines.length} lines`;
  };
  $("file").open = link.hidden = true;
  $("progress").hidden = $("stop").hidden = false;
  $("stop").onclick = () => own.abort();
  tellOf(null, "file-problem");
  try {
    const lines = (await given.text()).split(/\r?\n/);
    if (lines.at(-1) === "") lines.pop();
    for (tell(lines); said.length < lines.length; tell(lines)) {
      const some = chunk(lines, said.length);
      const found = await patiently(() => ask("/api/translate", { text: some, ...how }, own.signal), own.signal);
      said.push(...found.translations.map((each) => each.outputs[0].text));
    }
  } catch (error) {
    if (own === reading) tellOf(error, "file-problem");
  }
  if (own !== reading) return; // another file came
  const held = document.activeElement === $("stop");
  $("stop").hidden = true;
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob(said.map((line) => `${line}\n`), { type: "text/plain" }));
  link.download = given.name.replace(/(\.[^.]*)?$/, `.${target}$1`);
  link.hidden = said.length === 0;
  if (held) link.focus();
}

function chunk(lines, at) {
  const some = [];
  let size = 0;
  for (const line of lines.slice(at, at + LINES)) {
    const own = length(line);
    if (own > limits.characters) {
      if (some.length) break;
      throw new Error(`Line ${at + 1} has ${own} characters, and ${limits.characters} are taken; split it`);
    }
    if ((size += own) > limits.all_characters) break;
    some.push(line);
  }
  return some;
}

async function patiently(act, signal) {
  for (let tries = 1; ; tries++) {
    try {
      return await act();
    } catch (error) {
      if (error.status !== 503 || tries === PATIENCE) throw error;
      await wait(1000, signal);
    }
  }
}

// A text that goes on, as it is told.
async function tell() {
  asked?.abort();
  const { signal } = (asked = new AbortController()), area = $("prompt");
  const how = { max_tokens: Number($("tokens").value), temperature: Number($("temperature").value) };
  telling(true);
  tellOf(null);
  try {
    const response = await post("/v1/completions", { model: choice.ask.model, prompt: area.value, stream: true, ...how }, signal);
    if (!response.ok) await answer(response);
    let rest = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const events = (rest + piece.value).split("\n\n");
      rest = events.pop();
      for (const event of events.filter((each) => each.startsWith("data: {"))) {
        const found = JSON.parse(event.slice(6));
        if (found.error) throw new Error(found.error.message);
        area.value += found.choices.map((each) => each.text).join("");
        area.scrollTop = area.scrollHeight;
        $("response").textContent = event;
      }
    }
  } catch (error) {
    tellOf(error);
  }
  telling(false);
}

// One of its two buttons can be pressed, and has the focus if the other had it.
function telling(on) {
  const [next, last] = on ? [$("hush"), $("tell")] : [$("tell"), $("hush")], held = document.activeElement === last;
  next.disabled = false;
  last.disabled = true;
  if (held) next.focus();
}

function choose(i) {
  asked?.abort();
  choice = choices[i];
  const translates = choice.kind === "translate", writes = choice.kind === "generate";
  $("model").value = i;
  $("translator").hidden = writes;
  $("teller").hidden = !writes;
  for (const id of ["swap", "copy", "others", "file", "moved"]) $(id).hidden = !translates;
  viewed = {};
  tellOf(null);
  if (writes) return;
  $("translator").ariaLabel = $("said").ariaLabel = translates ? "Translation" : "Answer";
  $("text").placeholder = translates ? "Type a sentence, or drop a text file" : `Type ${choice.reads}`;
  $("source-name").textContent = choice.names[0];
  $("target-name").textContent = choice.names[1];
  if (!translates) return void typed();
  const back = choices.findIndex((each) => each.source === choice.target && each.target === choice.source);
  $("swap").disabled = back < 0;
  $("swap").title = back < 0 ? `No model here translates ${choice.names[1]} to ${choice.names[0]}` : "Swap languages";
  $("swap").onclick = () => {
    $("text").value = $("said").textContent || $("text").value;
    choose(back);
  };
  typed();
}

async function begin() {
  const { models, languages, limits: told } = await answer(await reach("/api/models"));
  limits = told;
  $("tokens").max = limits.tokens;
  for (const { name, verbs, parts, reads, options, directions } of models) {
    const kind = ["translate", "generate"].find((verb) => verbs.includes(verb)) ?? "run";
    const names = [`${reads[0].toUpperCase()}${reads.slice(1)}${parts > 1 ? EACH_LINE : ""}`, "Answer"];
    if (kind !== "translate") choices.push({ kind, name, names, parts, reads, options, ask: { model: name } });
    for (const { source, target } of directions) {
      const names = [languages[source], languages[target]], ask = { model: name, source, target };
      choices.push({ kind, name: `${names.join(" → ")} · ${name}`, source, target, names, parts, ask });
    }
  }
  choices.forEach((each, i) => $("model").append(new Option(each.name, i)));
  choose(0);
  $(choice.kind === "generate" ? "prompt" : "text").focus();
}

function remember(dark) {
  try {
    if (dark !== undefined) localStorage.setItem("dark", dark);
    return localStorage.getItem("dark");
  } catch {
    return null; // some browsers are told to keep nothing
  }
}

function dress(dark) {
  document.body.classList.toggle("dark", dark);
  document.body.classList.toggle("light", !dark);
}

$("model").onchange = () => choose(Number($("model").value));
$("text").oninput = typed;
$("others").ontoggle = $("attention").ontoggle = () => choice && typed();
$("tell").onclick = tell;
$("hush").onclick = () => asked?.abort();
$("copy").onclick = async () => {
  try {
    await navigator.clipboard.writeText($("said").textContent);
  } catch { // pages from another machine get no clipboard unless by https; what is selected can be copied
    getSelection().selectAllChildren($("said"));
    document.execCommand("copy");
  }
  $("copy").textContent = "Copied";
  setTimeout(() => ($("copy").textContent = "Copy"), 1500);
};
$("pick").onclick = () => ($("pick").value = ""); // so that the same file can be chosen again
$("pick").onchange = () => $("pick").files[0] && file($("pick").files[0]);
$("theme").onclick = () => {
  const { classList } = document.body, system = matchMedia("(prefers-color-scheme: dark)").matches;
  const dark = !(classList.contains("dark") || (system && !classList.contains("light")));
  dress(dark);
  remember(dark);
};
if (remember() !== null) dress(remember() === "true");
for (const [name, on] of [["dragover", true], ["dragleave", false], ["drop", false]])
  document.addEventListener(name, (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.toggle("dropping", on);
    if (name === "drop" && event.dataTransfer.files[0]) file(event.dataTransfer.files[0]);
  });
const begun = begin().catch((error) => tellOf(error));
