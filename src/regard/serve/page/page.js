// The page: a sentence is typed, its translation appears, and what the model looked at.

import { show } from "./view.js";

const PAUSE = 60; // milliseconds without a key before a translation is asked for
const LOOK = 250; // after a translation, before attention is asked for
const LINES = 32; // of a file, asked for at once
const PATIENCE = 20; // times that a busy service is asked again for a part of a file
const SHOWN = 4000; // characters of a response that are shown
const $ = (id) => document.getElementById(id);
let choices = [], limits = {}, choice = null, asked = null, viewed = {};

const post = (path, body, signal) => {
  $("request").textContent = `POST ${path}\n${JSON.stringify(body, null, 1)}`;
  return fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
};

async function ask(path, body, signal) {
  const response = await post(path, body, signal), found = await response.json();
  const text = JSON.stringify(found, null, 1);
  $("response").textContent = `${response.status}\n${text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text}`;
  if (!response.ok) throw new Refused(response.status, found.error?.message ?? found.error);
  return found;
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
  if (error?.name !== "AbortError") $(place).textContent = error ? `${error.message}.` : "";
}

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
  const { signal } = (asked = new AbortController()), text = $("text").value, over = text.length > limits.characters;
  $("count").textContent = `${text.length} / ${limits.characters}`;
  $("count").classList.toggle("over", over);
  if (!text.trim() || over) {
    for (const id of ["said", "alternatives", "view", "read"]) $(id).replaceChildren();
    $("score").textContent = $("gaze").textContent = "";
    return tellOf(over ? new Error(`A text has at most ${limits.characters} characters`) : null);
  }
  $("said").classList.add("stale");
  try {
    await wait(PAUSE, signal);
    const best = $("others").open ? 5 : 1;
    const { translations } = await ask("/api/translate", { text, best, ...choice.ask }, signal);
    translated(translations[0].outputs);
    tellOf(null);
    if (!$("attention").open || !translations[0].outputs[0].text) return;
    await wait(LOOK, signal);
    await look(text.trim(), translations[0].outputs[0].text, signal);
  } catch (error) {
    tellOf(error);
  }
}

function translated([first, ...others]) {
  $("said").textContent = first.text;
  $("said").classList.remove("stale");
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
    if (error.name !== "AbortError") $("view").textContent = `No attention to show: ${error.message}.`;
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
  const end = words.length - 1; // the end mark is no word of the text
  if (spaced(targets.slice(0, end)).join("") === said) $("said").replaceChildren(...spaced(words.slice(0, end)));
}

// Lines of a file, some at a time; what is done can be had even if it stops half-way.
async function file(given) {
  const stopped = new AbortController(), said = [];
  const lines = (await given.text()).split("\n");
  if (lines.at(-1) === "") lines.pop();
  $("file").open = true;
  $("download").hidden = true;
  $("progress").hidden = $("stop").hidden = false;
  $("stop").onclick = () => stopped.abort();
  tellOf(null);
  try {
    while (said.length < lines.length) {
      const some = chunk(lines, said.length);
      const found = await patiently(() => ask("/api/translate", { text: some, ...choice.ask }, stopped.signal), stopped.signal);
      said.push(...found.translations.map((each) => each.outputs[0].text));
      $("progress").value = said.length / lines.length;
      $("progress-told").textContent = `${said.length} of ${lines.length} lines`;
    }
  } catch (error) {
    tellOf(error);
  }
  $("stop").hidden = true;
  const link = $("download");
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob(said.map((line) => `${line}\n`), { type: "text/plain" }));
  link.download = given.name.replace(/(\.[^.]*)?$/, `.${choice.target}$1`);
  link.hidden = said.length === 0;
}

function chunk(lines, at) {
  const some = [];
  let size = 0;
  for (const line of lines.slice(at, at + LINES)) {
    if (line.length > limits.characters) {
      if (some.length) break;
      throw new Error(`Line ${at + 1} has ${line.length} characters, and ${limits.characters} are taken; split it`);
    }
    if ((size += line.length) > limits.all_characters) break;
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
  $("tell").disabled = !($("hush").disabled = false);
  try {
    const response = await post("/v1/completions", { model: choice.ask.model, prompt: area.value, stream: true, ...how }, signal);
    if (!response.ok) throw new Error((await response.json()).error.message);
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
    tellOf(null, "trouble");
  } catch (error) {
    tellOf(error, "trouble");
  }
  $("tell").disabled = !($("hush").disabled = true);
}

function choose(i) {
  choice = choices[i];
  const translates = choice.task === "translation";
  $("model").value = i;
  $("translator").hidden = !translates;
  $("teller").hidden = translates;
  viewed = {};
  if (!translates) return;
  $("source-name").textContent = choice.names[0];
  $("target-name").textContent = choice.names[1];
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
  const { models, languages, limits: told } = await (await fetch("/api/models")).json();
  limits = told;
  for (const { name, task, directions } of models) {
    if (task !== "translation") choices.push({ task, name, ask: { model: name } });
    for (const { source, target } of directions) {
      const names = [languages[source], languages[target]];
      choices.push({ task, name: `${names.join(" → ")} · ${name}`, source, target, names, ask: { model: name, source, target } });
    }
  }
  choices.forEach((each, i) => $("model").append(new Option(each.name, i)));
  choose(0);
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
  await navigator.clipboard.writeText($("said").textContent);
  $("copy").textContent = "Copied";
  setTimeout(() => ($("copy").textContent = "Copy"), 1500);
};
$("pick").onchange = () => $("pick").files[0] && file($("pick").files[0]);
$("theme").onclick = () => {
  const { classList } = document.body, system = matchMedia("(prefers-color-scheme: dark)").matches;
  const dark = !(classList.contains("dark") || (system && !classList.contains("light")));
  localStorage.setItem("dark", dark);
  dress(dark);
};
if (localStorage.getItem("dark") !== null) dress(localStorage.getItem("dark") === "true");
for (const [name, on] of [["dragover", true], ["dragleave", false], ["drop", false]])
  document.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", on);
    if (name === "drop" && choice?.task === "translation" && event.dataTransfer.files[0]) file(event.dataTransfer.files[0]);
  });
begin().catch(tellOf);
