// The page: keys and buttons become commands of a session, its pictures and facts go to the screen.

import { Actions } from "./actions.js";
import { card, firstOfGames, title } from "./cards.js";
import { Keys } from "./keys.js";
import { RemoteSession } from "./remote.js";
import { Screen } from "./screen.js";

const $ = (selector) => document.querySelector(selector);
const PART = 600; // characters of a shared game in one message
const screen = new Screen();
let facts = { paused: false, fps: 15, recording: null, scrub: null };
let welcome = { predictors: [], episodes: [] };
let shared = new URLSearchParams(location.hash.slice(1)).has("moves") ? location.hash.slice(1) : null; // a game to repeat
let started = false; // whether this session has shown a picture
let hinted = false; // whether somebody played, so that nobody needs hints
const requested = {}; // facts that were requested and are not yet true: the next key builds on them
let looking = false; // whether the grid of all actions was requested and has not arrived yet
let lent = false; // whether the third picture shows the future that was left without having been asked
let pausedBefore = null; // whether it was paused before a dialog or a rewind paused it

const on = {
  welcome(message) {
    welcome = message;
    screen.welcome(message);
    const actions = new Actions(message.actions);
    keys.use(actions, $("#touch"));
    if (!hinted) screen.hint(actions);
    fill($("#predictor"), message.predictors, message.predictor);
    fill($("#episode"), message.episodes.map((_, index) => String(index)), "0");
    fillThird(message);
    $("#heat").hidden = !message.samples;
    $("#scrub").hidden = message.episodes.length === 0;
    showPlace();
    if (message.missing) on.note(`There is only the dream: ${message.missing}`);
    if (shared) replay(shared);
    shared = null;
  },
  picture(picture) {
    if (picture.facts.notice && picture.facts.notice !== facts.notice) screen.toast(picture.facts.notice);
    showLeft(picture.facts);
    if (facts.driver === "replay" && picture.facts.driver === "human") screen.toast("The shared game ends here: your turn (. resumes)");
    facts = picture.facts;
    if (!started) $("#toast").classList.remove("shown");
    started = true;
    screen.show(picture);
    showAutoResync();
    showTemperature();
    for (const [name, value] of Object.entries(requested)) {
      if (String(facts[name]) === String(value)) delete requested[name];
      else facts[name] = value;
    }
    showPlace();
  },
  grid(grid) {
    screen.grid(grid);
    if (looking && !$("#every").open) $("#every").showModal();
    looking = false;
  },
  video({ kind, data }) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([data], { type: kind === "gif" ? "image/gif" : "video/mp4" }));
    link.download = `acvp-${facts.predictor}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    screen.toast("The clip is in your downloads");
  },
  link(text) {
    history.replaceState(null, "", `#${text}`);
    const copied = navigator.clipboard?.writeText(location.href) ?? Promise.reject();
    copied.then(() => screen.toast("The link is copied: it repeats this game"), () => screen.toast("The link is in the address bar: it repeats this game"));
  },
  note(text) {
    for (const name of Object.keys(requested)) delete requested[name];
    if (looking && !$("#every").open) resume();
    looking = false;
    screen.toast(text);
  },
  loading(share) {
    screen.loading(share);
  },
  lost(reason) {
    screen.loading(null);
    document.body.classList.add("over");
    screen.toast(`${served ? "Not connected" : "The game could not be loaded"}: ${reason}. Reload the page to play again.`, true);
  },
};

const commands = {
  reset() {
    delete requested.scrub;
    send("reset");
  },
  pause: () => pause(!facts.paused),
  step() {
    if (!facts.paused) pause(true);
    send("step");
  },
  resync: () => send("resync"),
  rewind(repeated) {
    endHint();
    if (!repeated && pausedBefore === null) pausedBefore = facts.paused;
    send("rewind");
  },
  rewound: resume,
  every() {
    pausedBefore = facts.paused;
    pause(true);
    look();
  },
  driver() {
    endHint();
    delete requested.scrub;
    send("change_driver");
  },
  clip() {
    if (facts.recording === null) return send("record");
    screen.toast("Making the clip …");
    send("end_clip", { kind: $("#kind").value });
  },
  share: () => send("share"),
  games: () => choose(),
  back: () => scrubBy(-1),
  forth: () => scrubBy(1),
  previous: () => scrubTo(episode() - 1, 0),
  next: () => scrubTo(episode() + 1, 0),
  predictor() {
    const names = welcome.predictors;
    send("switch", { name: names[(names.indexOf(welcome.predictor) + 1) % names.length] });
  },
  slower: () => setSpeed(facts.fps - (facts.fps > 5 ? 5 : 1)),
  faster: () => setSpeed(facts.fps + (facts.fps >= 5 ? 5 : 1)),
  theme() {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
      || (document.documentElement.style.colorScheme === "" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.style.colorScheme = dark ? "light" : "dark";
    remember("theme", document.documentElement.style.colorScheme);
  },
  help() {
    $("#help").showModal();
    $("#help").scrollTop = 0;
  },
};

function endHint() {
  $("#hint").hidden = hinted = true;
}

function hold(action, pressed) {
  if (pressed) endHint();
  send("hold", { action });
}

const keys = new Keys(hold, (name, repeated) => commands[name](repeated));
let session = null; // until its code is loaded

const served = document.documentElement.dataset.source === "server";

async function makeSession() {
  if (served) return new RemoteSession(on);
  const { LocalSession } = await import("./local.js");
  return new LocalSession(on);
}

async function predictorsAtHand() {
  if (served) return (await fetch("loops")).json();
  return (await (await import("./loading.js")).games()).games;
}

function send(name, fields = {}) {
  session?.send({ do: name, ...fields });
}

/** Assume that a fact is true until the session reports it. */
function request(name, value) {
  facts[name] = requested[name] = value;
}

function pause(on) {
  endHint();
  if (!on) delete requested.scrub;
  request("paused", on);
  send("pause", { on });
}

/** Resume after a dialog or a rewind, if it was not paused before. */
function resume() {
  if (pausedBefore === false) pause(false);
  pausedBefore = null;
}

function look() {
  looking = true;
  send("every_action", { steps: Number($("#ahead").value) });
}

function setSpeed(fps) {
  request("fps", Math.min(60, Math.max(1, fps)));
  send("fps", { fps: facts.fps });
}

/** Repeat a shared game; messages are short, so its text goes in parts. */
function replay(text) {
  for (let at = 0; at < text.length; at += PART) {
    send("replay", { text: text.slice(at, at + PART), last: at + PART >= text.length });
  }
}

/** Show the games at hand, each as a loop that moves, and play the one that is chosen. */
async function choose() {
  session?.stop?.();
  session = null;
  $("#toast").classList.remove("shown");
  document.body.classList.add("choosing");
  $("#start").hidden = false;
  const listed = await predictorsAtHand();
  const [first, others] = served ? firstOfGames(listed) : [listed, []];
  $("#more").hidden = others.length === 0;
  showBetter(listed);
  for (const [id, known] of [["#cards", first], ["#more div", others]]) {
    $(id).replaceChildren(...known.map(({ name, game }) => card(name, game, () => play(name))));
  }
}

/** Say which games have better predictors than those of a page without a server. */
function showBetter(listed) {
  const games = listed.filter(({ better }) => better).map(({ name, game }) => title(game) ?? name);
  $("#better").hidden = games.length === 0;
  $("#better").textContent = `The best predictors of ${new Intl.ListFormat("en").format(games)} do not run in a browser alone yet: `
    + "these are simpler ones, which lose what you control sooner. “acvp play” shows the best.";
}

async function play(predictor = null) {
  document.body.classList.remove("choosing");
  $("#start").hidden = true;
  started = false;
  if (served) screen.toast("Starting the game …", true);
  session = await makeSession();
  session.start(predictor);
}

const episode = () => facts.scrub?.[0] ?? Number($("#episode").value);

function scrubTo(number, frame) {
  if (!welcome.episodes.length) return screen.toast("No recorded episodes: start acvp play with --data");
  const count = welcome.episodes.length;
  const at = ((number % count) + count) % count;
  const there = Math.min(Math.max(frame, 0), welcome.episodes[at] - 1);
  if (facts.paused) request("scrub", [at, there]);
  send("scrub", { episode: at, frame: there });
}

function scrubBy(frames) {
  if (welcome.episodes.length && !facts.paused) pause(true);
  scrubTo(episode(), (facts.scrub?.[1] ?? 0) + frames);
}

/** Offer the difference, a wipe, and the other predictors of the game; keep what was chosen where it is still there. */
function fillThird({ same_game: names, predictor, gives_uncertainty: uncertain }) {
  const select = $("#third");
  const chosen = select.value;
  const others = names.filter((name) => name !== predictor);
  const uncertainty = new Option(uncertain ? "Uncertainty" : "Uncertainty: this predictor has no probabilities", "uncertainty");
  uncertainty.disabled = !uncertain;
  select.replaceChildren(new Option("Difference", "difference"), new Option("Wipe", "wipe"),
    uncertainty, new Option("Other future", "left"), ...others.map((name) => new Option(`Dream: ${name}`, `:${name}`)));
  select.value = [...select.options].some(({ value, disabled }) => value === chosen && !disabled) ? chosen : "difference";
  if (chosen.startsWith(":") && select.value !== chosen) send("compare", { name: "" });
  if (chosen === "uncertainty") send("uncertainty", { on: select.value === "uncertainty" });
}

function chooseThird(value) {
  lent = false;
  const name = value.startsWith(":") ? value.slice(1) : "";
  screen.thirdPicture();
  if (name !== facts.beside) send("compare", { name });
  if (welcome.gives_uncertainty) send("uncertainty", { on: value === "uncertainty" });
}

/** Show the future that was left beside the new one, until it ends, unless something else was chosen. */
function showLeft({ left_steps: steps, agent_steps: now }) {
  const third = $("#third");
  if (steps && String(steps) !== String(facts.left_steps)) {
    if (third.value === "difference") [third.value, lent] = ["left", true];
    screen.toast("Another future: the one you left is shown beside it");
  } else if (lent && (!steps || now > steps[1])) {
    if (third.value === "left") third.value = "difference";
    lent = false;
  }
}

function goTo(step) {
  if (!facts.paused) pause(true);
  send("go", { step });
}

function showTemperature() {
  if (document.activeElement !== $("#temperature")) $("#temperature").value = String(facts.temperature);
  $("#heat span").textContent = facts.temperature.toFixed(1);
}

function setTemperature(temperature) {
  request("temperature", temperature);
  send("temperature", { temperature });
}

function wipeTo({ clientX, buttons, currentTarget }) {
  if (!buttons || $("#third").value !== "wipe") return;
  const { left, width } = currentTarget.getBoundingClientRect();
  $("#wipe").value = String((clientX - left) / width);
  screen.thirdPicture();
}

function showAutoResync() {
  const select = $("#auto");
  if (document.activeElement === select || select.value === facts.auto_resync) return;
  if (![...select.options].some(({ value }) => value === facts.auto_resync)) {
    select.add(new Option(`Auto: ${facts.auto_resync} steps`, facts.auto_resync)); // of --auto-resync
  }
  select.value = facts.auto_resync;
}

function showPlace() {
  if (facts.scrub === null) {
    $("#frame").max = String((welcome.episodes[Number($("#episode").value)] ?? 1) - 1);
    $("#place").textContent = "drag to replay";
    return;
  }
  const [number, frame] = facts.scrub;
  $("#episode").value = String(number);
  $("#frame").max = String(welcome.episodes[number] - 1);
  if (document.activeElement !== $("#frame")) $("#frame").value = String(frame);
  $("#place").textContent = `frame ${frame} of ${welcome.episodes[number] - 1}`;
}

function fill(select, names, chosen) {
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
}

/** Leave a control after it was used with a pointer, so that the keys are the game's again. */
const leave = (event) => pointed && event.target.blur();
let pointed = false;
addEventListener("pointerdown", () => (pointed = true), true);
addEventListener("keydown", () => (pointed = false), true);

/** Keep a choice for the next visit, where the browser lets a page keep anything. */
function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {}
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

for (const button of document.querySelectorAll("[data-do]")) {
  button.addEventListener("click", (event) => {
    if (event.detail) button.blur(); // first: a dialog gives the focus back to what had it
    commands[button.dataset.do](false);
    if (button.dataset.do === "rewind") commands.rewound();
  });
}
$("#predictor").addEventListener("change", (event) => (send("switch", { name: event.target.value }), leave(event)));
$("#third").addEventListener("change", (event) => (chooseThird(event.target.value), leave(event)));
$("#wipe").addEventListener("input", () => screen.thirdPicture());
$("#wipe").addEventListener("change", leave);
for (const name of ["pointerdown", "pointermove"]) $("#difference canvas").addEventListener(name, wipeTo);
$("#temperature").addEventListener("input", (event) => setTemperature(Number(event.target.value)));
$("#temperature").addEventListener("change", leave);
$("#auto").addEventListener("change", (event) => (send("auto_resync", { mode: event.target.value }), leave(event)));
$("#fps").addEventListener("input", (event) => setSpeed(Number(event.target.value)));
$("#fps").addEventListener("change", leave);
$("#episode").addEventListener("change", (event) => (scrubTo(Number(event.target.value), 0), leave(event)));
$("#past").addEventListener("input", (event) => goTo(Number(event.target.value)));
$("#past").addEventListener("change", leave);
$("#frame").addEventListener("input", (event) => scrubTo(episode(), Number(event.target.value)));
$("#frame").addEventListener("change", leave);
$("#kind").addEventListener("change", leave);
$("#ahead").addEventListener("change", look);
$("#ahead").addEventListener("input", () => screen.ahead(Number($("#ahead").value)));
$("#every").addEventListener("close", resume);
document.addEventListener("visibilitychange", () => {
  if (document.hidden && !facts.paused) pause(true);
});
setInterval(() => {
  $("#rate").textContent = facts.paused ? "paused" : `${screen.rate().toFixed(1)} of ${facts.fps} fps`;
  if (document.activeElement !== $("#fps")) $("#fps").value = String(facts.fps);
}, 300);

document.documentElement.style.colorScheme = remembered("theme") ?? "";
if (!served) await (await import("./loading.js")).isolate();
if (shared) await play(new URLSearchParams(shared).get("predictor"));
else if (document.documentElement.dataset.start === "choose") await choose();
else await play();
