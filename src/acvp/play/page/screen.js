// Everything that is drawn: pictures, live metrics, the grid of all actions.

import { title } from "./cards.js";

const $ = (selector, within = document) => within.querySelector(selector);
const FIGURES = ["real", "dream", "difference"];
const HISTORY = 150; // steps in the curve of wrong pixels
const LABELS = { 1: "1", 10: "10", 100: "100", 1000: "1k", 10000: "10k" }; // of its axis
const DOUBT = [255, 170, 40];
const SPREAD = 2; // factor by which the difference is amplified

const signed = (value) => (value > 0 ? `+${value}` : String(value).replace("-", "−"));
const grouped = (value) => value.toLocaleString("en").replaceAll(",", " ");
const wrongPixels = (count) => `${grouped(count)} wrong pixel${count === 1 ? "" : "s"}`;

/** The difference of two pictures of one size. */
function difference(a, b) {
  const result = new ImageData(a.width, a.height);
  for (let i = 0; i < a.data.length; i += 1) result.data[i] = i % 4 === 3 ? 255 : SPREAD * Math.abs(a.data[i] - b.data[i]);
  return result;
}

/** The left part of one picture and the right part of another of the same size, with a line between them. */
function wipe(left, right, share) {
  const edge = Math.round(share * left.width);
  const result = new ImageData(left.width, left.height);
  for (let i = 0; i < left.data.length; i += 4) {
    const column = (i / 4) % left.width;
    const from = column < edge ? left : right;
    for (let c = 0; c < 4; c += 1) result.data[i + c] = column === edge ? 255 : from.data[i + c];
  }
  return result;
}

/** A dimmed gray picture with the probability that each pixel is wrong over it, where it is known, in the color of warnings. */
function doubted(picture, uncertainty) {
  const result = new ImageData(picture.width, picture.height);
  for (let i = 0; i < picture.data.length; i += 4) {
    const gray = 0.35 * (0.3 * picture.data[i] + 0.59 * picture.data[i + 1] + 0.11 * picture.data[i + 2]);
    const share = Math.sqrt((uncertainty?.data[i] ?? 0) / 255); // so that small ones are seen
    DOUBT.forEach((value, c) => (result.data[i + c] = gray + share * (value - gray)));
    result.data[i + 3] = 255;
  }
  return result;
}

function paint(canvas, picture) {
  if (canvas.width !== picture.width || canvas.height !== picture.height) {
    [canvas.width, canvas.height] = [picture.width, picture.height];
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/** Enlarge by a whole number of the display's own pixels, unless that would leave much of the room empty. */
function crisp(scale) {
  const real = scale * devicePixelRatio;
  return Math.floor(real) >= 0.85 * real ? Math.floor(real) / devicePixelRatio : scale;
}

export class Screen {
  constructor() {
    this.errors = [];
    this.times = [];
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(document.body);
    for (const id of FIGURES) observer.observe(document.getElementById(id));
  }

  welcome(welcome) {
    this.actions = welcome.actions;
    this.dreamOnly = document.documentElement.dataset.source === "onnx" || Boolean(welcome.missing);
    this.errors = [];
    $("#game").textContent = title(welcome.game) ?? welcome.game;
    $("#game").title = welcome.game;
    const [height, width, channels] = welcome.frame;
    $("#real").title = `${width}×${height}${channels === 1 ? " gray" : ""}, as the predictor sees it`;
  }

  show(picture) {
    const { facts, real, imagined, left } = picture;
    document.body.classList.toggle("dream-only", !real);
    document.body.classList.toggle("over", facts.over);
    document.body.classList.toggle("branched", Boolean(facts.left_steps));
    paint($("#dream canvas"), imagined);
    if (real) paint($("#real canvas"), real);
    this.last = picture;
    if (real || left) this.thirdPicture();
    this.past(facts);
    this.fit();
    this.label(facts);
    this.measure(facts);
    this.count();
  }

  /** What the third picture shows: the difference, a wipe between real and dream, or the dream of another predictor. */
  thirdPicture() {
    if (!this.last) return;
    const { facts, real, imagined, other, left, uncertainty } = this.last;
    const mode = real ? $("#third").value : "left";
    const expected = facts.expected_wrong == null ? "from the next step on" : `expects ${wrongPixels(Math.round(facts.expected_wrong))}`;
    const note = { difference: "black where it is right", wipe: "", uncertainty: expected, left: this.leftNote(facts) }[mode];
    $("#wipe").hidden = mode !== "wipe";
    if (left) this.left = left;
    const ended = mode === "left" && facts.left_steps && facts.agent_steps > facts.left_steps[1];
    if (mode === "left") paint($("#difference canvas"), left ?? (ended ? this.left : null) ?? imagined);
    else if (mode === "uncertainty") paint($("#difference canvas"), doubted(imagined, uncertainty));
    else if (mode === "wipe") paint($("#difference canvas"), wipe(real, imagined, Number($("#wipe").value)));
    else paint($("#difference canvas"), note === undefined && other ? other : difference(real, imagined));
    $("#difference span").textContent = note ?? (facts.other_wrong_pixels === null ? "" : wrongPixels(facts.other_wrong_pixels));
    $("#difference span").hidden = mode === "wipe";
    $("#difference").classList.toggle("dreaming", note === undefined || mode === "left");
  }

  /** What is left to see of the future that was left. */
  leftNote({ left_steps: steps, agent_steps: now }) {
    if (!steps) return "go back and take another action";
    if (now < steps[0]) return "the same so far";
    return now > steps[1] ? `its last, step ${grouped(steps[1])}` : `step ${grouped(now)}`;
  }

  /** Where in its history the session is. */
  past({ history: [first, last], agent_steps: now }) {
    const slider = $("#past");
    [slider.min, slider.max] = [String(first), String(Math.max(last, first + 1))];
    if (document.activeElement !== slider || last === now) slider.value = String(now);
    $("#history span").textContent = now < last ? `step ${grouped(now)} of ${grouped(last)}` : `step ${grouped(now)}`;
  }

  label(facts) {
    const watching = facts.watching !== null;
    $("#dream").className = watching ? "watching" : facts.steps ? "dreaming" : "";
    const action = facts.action === null ? "" : this.actions[facts.action].toLowerCase();
    $("#dream span").textContent = watching ? `watches: ${facts.watching.join(" of ")} frames` : action;
    $("#real span").textContent = { human: "you play", agent: facts.policy.startsWith("agent:") ? "the agent plays" : `the agent plays (${facts.policy})`, recording: "a recording plays", replay: "a shared game" }[facts.driver];
    $("[data-do=pause] span").textContent = facts.paused ? "Resume" : "Pause";
    $("[data-do=pause]").classList.toggle("on", facts.paused);
    $("[data-do=driver] span").textContent = { human: "Watch agent", agent: "Play yourself", recording: "Take over", replay: "Take over" }[facts.driver];
    $("[data-do=driver]").classList.toggle("on", facts.driver !== "human");
    $("[data-do=clip]").classList.toggle("on", facts.recording !== null);
    $("[data-do=clip] span").textContent = facts.recording === null ? "Clip" : `Save ${(facts.recording / 15).toFixed(1)} s`;
  }

  measure(facts) {
    this.metric("steps", grouped(facts.steps), facts.over ? "the real game is over: press Enter" : this.horizon(facts));
    this.remember(facts);
    if (facts.wrong_pixels !== null) {
      const share = (100 * facts.wrong_pixels) / facts.pixels;
      const percent = facts.wrong_pixels && share < 0.01 ? "< 0.01" : share.toFixed(share < 10 ? 2 : 1);
      const { median, worst } = this.summary();
      this.metric("wrong", grouped(facts.wrong_pixels), `median ${grouped(median)}, worst ${grouped(worst)}`);
      $("#wrong p").append(label(` ${percent} %`, "more"));
      $("#wrong small").append(label(`, squared error ${facts.squared_error.toFixed(1)}`, "more"));
      $("#wrong").title = `${percent} % of the pixels, squared error ${facts.squared_error.toFixed(1)}; median and worst of the last ${HISTORY} steps`;
      this.curve(facts.agent_steps, facts.pixels);
    }
    const found = {
      true: ["found", "near its real position", "good"],
      false: ["lost", "not near its real position", "bad"],
      null: ["–", "position unknown", ""],
    };
    this.metric("object", ...found[facts.object_found]);
    this.rewards(facts);
  }

  horizon(facts) {
    const termination = facts.termination === null ? "" : `, game over: ${Math.round(100 * facts.termination)} %`;
    return `${(facts.steps / facts.fps).toFixed(1)} s${termination}`;
  }

  rewards(facts) {
    const imagined = facts.imagined_reward === null ? "–" : signed(facts.imagined_reward);
    const line = $("#reward p");
    const real = document.body.classList.contains("dream-only") ? [] : [signed(facts.real_reward), label(" real  ")];
    line.replaceChildren(...real, label(imagined, "imagined"), label(" dream"));
    const score = document.body.classList.contains("dream-only") ? "" : `score ${facts.score}`;
    $("#reward small").textContent = facts.imagined_reward === null ? `${score}${score && ", "}none predicted` : score;
  }

  metric(id, value, note, kind = "") {
    const box = document.getElementById(id);
    $("p", box).textContent = value;
    $("p", box).className = kind;
    $("small", box).textContent = note;
  }

  /** Keep the wrong pixels of a step; a rewind, a reset or another predictor drops what came after it. */
  remember(facts) {
    if (facts.wrong_pixels === null) return;
    this.errors = this.errors.filter(([step]) => step < facts.agent_steps && step > facts.agent_steps - HISTORY);
    this.errors.push([facts.agent_steps, facts.wrong_pixels]);
  }

  /** Median and worst of the wrong pixels in the curve. */
  summary() {
    const sorted = this.errors.map(([, wrong]) => wrong).sort((a, b) => a - b);
    return { median: sorted[Math.floor((sorted.length - 1) / 2)] ?? 0, worst: sorted.at(-1) ?? 0 };
  }

  /** The last wrong-pixel counts as a filled curve; both axes are fixed, the one of counts from 0 to all pixels is logarithmic. */
  curve(now, pixels) {
    const canvas = $("#wrong canvas");
    const scale = devicePixelRatio;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.round(side * scale));
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const context = canvas.getContext("2d");
    const left = 22 * scale;
    const x = (step) => left + (width - left - 2) * (1 - (now - step) / HISTORY);
    const y = (wrong) => height - 2 - (height - 4) * (Math.log1p(wrong) / Math.log1p(pixels));
    context.clearRect(0, 0, width, height);
    this.axis(context, left, width, pixels, y);
    const color = getComputedStyle($("#dream b")).color;
    context.beginPath();
    for (const [step, wrong] of this.errors) context.lineTo(x(step), y(wrong));
    context.strokeStyle = context.fillStyle = color;
    context.lineWidth = 1.5 * scale;
    context.stroke();
    context.lineTo(x(now), y(0));
    context.lineTo(x(this.errors[0]?.[0] ?? now), y(0));
    context.globalAlpha = 0.15;
    context.fill();
    context.globalAlpha = 1;
  }

  axis(context, left, width, pixels, y) {
    context.font = `${9 * devicePixelRatio}px system-ui, sans-serif`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = context.strokeStyle = getComputedStyle($("#wrong h2")).color;
    context.lineWidth = 1;
    let last = Infinity;
    for (const [count, text] of Object.entries(LABELS)) {
      if (Number(count) > pixels) break;
      context.globalAlpha = 0.25;
      context.beginPath();
      context.moveTo(left, y(Number(count)));
      context.lineTo(width, y(Number(count)));
      context.stroke();
      context.globalAlpha = 1;
      if (last - y(Number(count)) < 9 * devicePixelRatio) continue; // no room for its label
      last = y(Number(count));
      context.fillText(text, left - 4, Math.max(last, 5 * devicePixelRatio));
    }
  }

  count() {
    this.times = [...this.times.slice(-200), performance.now()];
  }

  /** The true rate: pictures shown in the last second and a half. */
  rate() {
    const now = performance.now();
    const recent = this.times.filter((time) => now - time < 1500);
    return recent.length > 1 ? ((recent.length - 1) * 1000) / Math.max(now - recent[0], 300) : 0;
  }

  /** Give the pictures of a row the largest size that fits their places. */
  fit() {
    const figures = FIGURES.map((id) => document.getElementById(id)).filter((figure) => figure.offsetParent);
    const canvas = $("#dream canvas");
    const room = (figure) => {
      const caption = $("figcaption", figure).offsetHeight + 18;
      return Math.min((figure.clientWidth - 8) / canvas.width, (figure.clientHeight - caption) / canvas.height);
    };
    for (const figure of figures) {
      const row = figures.filter((other) => other.offsetTop === figure.offsetTop);
      const scale = crisp(Math.max(0.5, Math.min(...row.map(room))));
      const style = $("canvas", figure).style;
      [style.width, style.height] = [`${canvas.width * scale}px`, `${canvas.height * scale}px`];
    }
  }

  grid({ steps, imagined, real }) {
    const scale = Math.max(1, Math.floor(170 / imagined[0].width));
    const cells = imagined.map((picture, index) => {
      const cell = document.createElement("section");
      const name = document.createElement("h3");
      name.textContent = `${index}  ${this.actions[index].toLowerCase()}`;
      cell.append(name, thumbnail("dream", picture, scale));
      if (real) cell.append(thumbnail("real", real[index], scale));
      return cell;
    });
    $("#grid").replaceChildren(...cells);
    this.ahead(steps);
  }

  /** Which keys move, in words, until one is pressed. */
  hint(actions) {
    const has = (token) => actions.tokens.has(token);
    const arrows = [["LEFT", "←"], ["UP", "↑"], ["DOWN", "↓"], ["RIGHT", "→"]].filter(([token]) => has(token)).map(([, sign]) => sign);
    const parts = [...(arrows.length ? [[...arrows, "move"]] : []), ...(has("FIRE") ? [["space", "fire"]] : [])];
    if (actions.unnamed.length) parts.push(["0", "–", "9", "act"]);
    parts.push(["r", this.dreamOnly ? "restart the dream" : "resync the dream"], ["?", "help"]);
    $("#hint").replaceChildren(...parts.map(([...signs]) => {
      const [text, group] = [signs.pop(), document.createElement("span")];
      group.append(...signs.map((sign) => Object.assign(document.createElement("kbd"), { textContent: sign })), ` ${text}`);
      return group;
    }));
    $("#hint").hidden = false;
  }

  /** How much of a game has been loaded; null: all of it. */
  loading(share) {
    $("#loading").hidden = share === null;
    document.body.classList.toggle("loading", share !== null);
    $("#loading progress").value = share ?? 1;
    $("#loading span").textContent = share === 1 ? "Starting the network …" : "Loading the game …";
  }

  ahead(steps) {
    $("#every output").textContent = steps === 1 ? "1 step" : `${steps} steps`;
  }

  toast(text, stays = false) {
    const toast = $("#toast");
    if (toast.textContent !== text || !toast.classList.contains("shown")) toast.textContent = text; // a screen reader reads it once
    toast.classList.add("shown");
    clearTimeout(this.hiding);
    if (!stays) this.hiding = setTimeout(() => toast.classList.remove("shown"), 2500 + 30 * text.length);
  }
}

function label(text, kind = "") {
  const element = document.createElement("i");
  element.textContent = text;
  element.className = kind;
  return element;
}

function thumbnail(name, picture, scale) {
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = name;
  const canvas = document.createElement("canvas");
  paint(canvas, picture);
  canvas.style.width = `${picture.width * scale}px`;
  figure.append(canvas, caption);
  return figure;
}
