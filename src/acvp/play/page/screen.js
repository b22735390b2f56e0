// Everything that is drawn: pictures, live metrics, the grid of all actions.

const $ = (selector, within = document) => within.querySelector(selector);
const FIGURES = ["real", "dream", "difference"];
const HISTORY = 150; // steps in the curve of wrong pixels
const SHORTEST = 45; // steps that its width stands for at least
const SPREAD = 2; // factor by which the difference is amplified

const signed = (value) => (value > 0 ? `+${value}` : String(value).replace("-", "−"));
const grouped = (value) => value.toLocaleString("en").replaceAll(",", " ");

/** The difference of two pictures of one size. */
function difference(a, b) {
  const result = new ImageData(a.width, a.height);
  for (let i = 0; i < a.data.length; i += 1) result.data[i] = i % 4 === 3 ? 255 : SPREAD * Math.abs(a.data[i] - b.data[i]);
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
    this.steps = -1;
    const observer = new ResizeObserver(() => this.fit());
    observer.observe(document.body);
    for (const id of FIGURES) observer.observe(document.getElementById(id));
  }

  welcome(welcome) {
    this.actions = welcome.actions;
    this.errors = [];
    $("#game").textContent = welcome.game;
    const [height, width, channels] = welcome.frame;
    $("#real span").textContent = `${width}×${height}${channels === 1 ? " gray" : ""}, as the predictor sees it`;
  }

  show({ facts, real, imagined }) {
    document.body.classList.toggle("dream-only", !real);
    document.body.classList.toggle("over", facts.over);
    paint($("#dream canvas"), imagined);
    if (real) {
      paint($("#real canvas"), real);
      paint($("#difference canvas"), difference(real, imagined));
    }
    this.fit();
    this.label(facts);
    this.measure(facts);
    this.count();
  }

  label(facts) {
    const watching = facts.watching !== null;
    $("#dream").className = watching ? "watching" : facts.steps ? "dreaming" : "";
    const action = facts.action === null ? "" : this.actions[facts.action].toLowerCase();
    $("#dream span").textContent = watching ? `watches: ${facts.watching.join(" of ")} frames` : action;
    $("[data-do=pause] span").textContent = facts.paused ? "Resume" : "Pause";
    $("[data-do=pause]").classList.toggle("on", facts.paused);
    $("[data-do=driver] span").textContent = { human: "Agent", agent: "You", recording: "Take over" }[facts.driver];
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
      this.metric("wrong", grouped(facts.wrong_pixels), `${percent} %, squared error ${facts.squared_error.toFixed(1)}`);
      this.curve();
    }
    const found = {
      true: ["found", "near its real place in the dream", "good"],
      false: ["lost", "not near its real place in the dream", "bad"],
      null: ["–", "position unknown", ""],
    };
    this.metric("object", ...found[facts.object_found]);
    this.rewards(facts);
  }

  horizon(facts) {
    const termination = facts.termination === null ? "" : `, game over predicted: ${Math.round(100 * facts.termination)} %`;
    return `${(facts.steps / facts.fps).toFixed(1)} s${termination}`;
  }

  rewards(facts) {
    const imagined = facts.imagined_reward === null ? "–" : signed(facts.imagined_reward);
    const line = $("#reward p");
    const real = document.body.classList.contains("dream-only") ? [] : [signed(facts.real_reward), label(" real  ")];
    line.replaceChildren(...real, label(imagined, "imagined"), label(" dream"));
    const score = document.body.classList.contains("dream-only") ? "" : `score ${facts.score}`;
    $("#reward small").textContent = facts.imagined_reward === null ? `${score}${score && ", "}this predictor predicts no rewards` : score;
  }

  metric(id, value, note, kind = "") {
    const box = document.getElementById(id);
    $("p", box).textContent = value;
    $("p", box).className = kind;
    $("small", box).textContent = note;
  }

  remember(facts) {
    if (facts.agent_steps < this.agentSteps) this.errors = this.errors.slice(0, Math.max(0, this.errors.length - this.agentSteps + facts.agent_steps));
    else if (facts.agent_steps !== this.agentSteps) this.errors.push(facts.wrong_pixels ?? 0);
    this.agentSteps = facts.agent_steps;
    this.errors = this.errors.slice(-HISTORY);
  }

  /** The last wrong-pixel counts as a filled curve. */
  curve() {
    const canvas = $("#wrong canvas");
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((side) => Math.round(side * devicePixelRatio));
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const top = Math.max(1, ...this.errors);
    const apart = width / (Math.max(this.errors.length, SHORTEST) - 1);
    const at = (value, index) => [apart * index, height - 2 - (height - 4) * (value / top)];
    const color = getComputedStyle($("#dream b")).color;
    context.beginPath();
    this.errors.forEach((value, index) => context.lineTo(...at(value, index)));
    context.strokeStyle = color;
    context.lineWidth = 1.5 * devicePixelRatio;
    context.stroke();
    context.lineTo(apart * (this.errors.length - 1), height);
    context.lineTo(0, height);
    context.globalAlpha = 0.15;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
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

  /** Give all pictures the largest size that fits their places. */
  fit() {
    const figures = FIGURES.map((id) => document.getElementById(id)).filter((figure) => figure.offsetParent);
    const canvas = $("#dream canvas");
    const scales = figures.map((figure) => {
      const caption = $("figcaption", figure).offsetHeight + 18;
      return Math.min((figure.clientWidth - 8) / canvas.width, (figure.clientHeight - caption) / canvas.height);
    });
    const scale = crisp(Math.max(0.5, Math.min(...scales)));
    for (const figure of figures) {
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

  ahead(steps) {
    $("#every output").textContent = steps === 1 ? "1 step" : `${steps} steps`;
  }

  toast(text, stays = false) {
    const toast = $("#toast");
    toast.textContent = text;
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
