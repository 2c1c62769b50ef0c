// The page: a sentence is typed, its translation appears, and what the model looked at.

import { across, show } from "./view.js";

const PAUSE = 120; // milliseconds without a key before a translation is asked for
const LOOK = 500; // and before attention is
const LINES = 32; // of a file, asked for at once
const $ = (id) => document.getElementById(id);
let models = [], limits = {}, direction = null, asked = null, looking = null;

async function ask(path, body, signal) {
  $("request").textContent = `POST ${path}\n${JSON.stringify(body, null, 1)}`;
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  const found = await response.json();
  const text = JSON.stringify(found, null, 1);
  $("response").textContent = `${response.status}\n${text.length > 4000 ? `${text.slice(0, 4000)} …` : text}`;
  if (!response.ok) throw new Error(found.error?.message ?? found.error ?? response.statusText);
  return found;
}

function later(act, pause) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, pause);
  };
}

function problem(error) {
  if (error?.name !== "AbortError") $("problem").textContent = error ? `${error.message}.` : "";
}

async function translate() {
  asked?.abort();
  const text = $("text").value, own = (asked = new AbortController());
  if (!text.trim() || text.length > limits.characters) {
    $("said").replaceChildren();
    $("alternatives").replaceChildren();
    return;
  }
  $("said").classList.add("stale");
  try {
    const best = $("others").open ? 4 : 1;
    const found = await ask("/api/translate", { text, best, ...direction.ask }, own.signal);
    const outputs = found.translations[0].outputs;
    $("said").textContent = outputs[0].text;
    $("said").classList.remove("stale");
    $("alternatives").replaceChildren(
      ...outputs.slice(1).map((output) => {
        const item = document.createElement("li");
        item.textContent = `${output.text}  (${output.score.toFixed(3)})`;
        return item;
      }),
    );
    problem(null);
  } catch (error) {
    problem(error);
  }
}

async function look() {
  looking?.abort();
  const text = $("text").value.trim(), own = (looking = new AbortController());
  if (!$("attention").open || !text || text.includes("\n") || text.length > limits.characters) {
    $("view").replaceChildren();
    return;
  }
  try {
    const data = await ask("/api/attention", { text, ...direction.ask }, own.signal);
    show($("view"), data);
    spell(data);
  } catch (error) {
    if (error.name !== "AbortError") $("view").textContent = `No attention to show: ${error.message}.`;
  }
}

// The words of the output: pointed at, each lights up what it looked at in the source, which is written out below.
function spell(data) {
  const found = across(data), said = $("said").textContent;
  $("mirror").hidden = !found;
  if (!found) return;
  const [targets, sources] = found.labels;
  const mirror = sources.map((word) => part(word));
  const words = targets.slice(0, -1).map((word, i) => {
    const made = part(word);
    made.className = "word";
    made.tabIndex = 0;
    const light = (on) => mirror.forEach((each, c) => each.style.setProperty("--weight", on ? found.cells[i][c] : 0));
    made.onmouseenter = made.onfocus = () => light(true);
    made.onmouseleave = made.onblur = () => light(false);
    return made;
  });
  $("mirror").replaceChildren(...spaced(mirror));
  if (words.map((word) => word.textContent).join(" ") === said) $("said").replaceChildren(...spaced(words));
}

function part(text) {
  const made = document.createElement("span");
  made.textContent = text;
  return made;
}

const spaced = (parts) => parts.flatMap((each, i) => (i ? [" ", each] : [each]));

function count() {
  const size = $("text").value.length;
  $("count").textContent = `${size} / ${limits.characters}`;
  $("count").classList.toggle("over", size > limits.characters);
}

const soon = later(translate, PAUSE), soonLook = later(look, LOOK);
function typed() {
  count();
  soon();
  soonLook();
}

async function file(given) {
  $("file").hidden = false;
  $("download").hidden = true;
  const lines = (await given.text()).split("\n"), said = [];
  if (lines.at(-1) === "") lines.pop();
  let stopped = false;
  $("stop").onclick = () => (stopped = true);
  for (let at = 0; at < lines.length && !stopped; at += LINES) {
    try {
      const found = await ask("/api/translate", { text: lines.slice(at, at + LINES), ...direction.ask });
      said.push(...found.translations.map((each) => each.outputs[0]?.text ?? ""));
      problem(null);
    } catch (error) {
      problem(error);
      break;
    }
    $("progress").value = said.length / lines.length;
    $("progress-told").textContent = `${said.length} of ${lines.length} lines`;
  }
  const link = $("download");
  link.href = URL.createObjectURL(new Blob([`${said.join("\n")}\n`], { type: "text/plain" }));
  link.download = given.name.replace(/(\.[^.]*)?$/, `.${direction.target}$1`);
  link.hidden = said.length === 0;
}

async function tell() {
  asked?.abort();
  const own = (asked = new AbortController()), area = $("prompt");
  const body = { model: direction.ask.model, prompt: area.value, stream: true, max_tokens: Number($("tokens").value), temperature: Number($("temperature").value) };
  $("request").textContent = `POST /v1/completions\n${JSON.stringify(body, null, 1)}`;
  try {
    const response = await fetch("/v1/completions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: own.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    let rest = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const events = (rest + part.value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (!event.startsWith("data: {")) continue;
        const found = JSON.parse(event.slice(6));
        if (found.error) throw new Error(found.error.message);
        area.value += found.choices.map((choice) => choice.text).join("");
        $("response").textContent = event;
      }
    }
    problem(null);
  } catch (error) {
    problem(error);
  }
}

function choose(i) {
  direction = models[i];
  $("translator").hidden = direction.task !== "translation";
  $("teller").hidden = direction.task === "translation";
  $("source-name").textContent = direction.source;
  $("target-name").textContent = direction.target;
  const back = models.findIndex((each) => each.source === direction.target && each.target === direction.source);
  $("swap").disabled = back < 0;
  $("swap").onclick = () => {
    $("text").value = $("said").textContent || $("text").value;
    $("model").value = back;
    choose(back);
  };
  typed();
}

async function begin() {
  const found = await (await fetch("/api/models")).json();
  limits = found.limits;
  for (const model of found.models) {
    if (model.task !== "translation") models.push({ task: model.task, name: model.name, ask: { model: model.name } });
    for (const { source, target } of model.directions)
      models.push({ task: "translation", name: `${source} → ${target} (${model.name})`, source, target, ask: { model: model.name, source, target } });
  }
  models.forEach((each, i) => $("model").append(new Option(each.name, i)));
  $("model").onchange = () => choose(Number($("model").value));
  choose(0);
}

$("text").oninput = typed;
$("others").ontoggle = translate;
$("attention").ontoggle = look;
$("tell").onclick = tell;
$("copy").onclick = async () => {
  await navigator.clipboard.writeText($("said").textContent);
  $("copy").textContent = "Copied";
  setTimeout(() => ($("copy").textContent = "Copy"), 1500);
};
$("pick").onchange = () => $("pick").files[0] && file($("pick").files[0]);
$("theme").onclick = () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.body.classList.contains("dark") || (dark && !document.body.classList.contains("light"));
  document.body.classList.toggle("dark", !now);
  document.body.classList.toggle("light", now);
};
for (const [name, on] of [["dragover", true], ["dragleave", false], ["drop", false]])
  document.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", on);
    if (name === "drop" && event.dataTransfer.files[0]) file(event.dataTransfer.files[0]);
  });
begin().catch(problem);
