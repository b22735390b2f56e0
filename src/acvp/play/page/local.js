// A session without a server: predictor and agent run here, as ONNX graphs, from a few stored starts.

import { games, load, unzipped } from "./loading.js";
import { toImage } from "./remote.js";
import { binaryOf, fasterOnGpu, kindOfRuntime, startRuntime } from "./runtime.js";

const KEPT_BYTES = 64e6; // for rewinding
const LONGEST_HOLD = 20; // steps for which the random agent keeps an action, at most
const SEEN = 4; // frames that an agent sees at once
const LONGEST_LINK = 20_000; // steps of a shared game

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const largest = (values) => values.indexOf(Math.max(...values));

export class LocalSession {
  /** `on` has welcome, picture, grid, note, loading, link and lost, each called with what there is. */
  constructor(on) {
    this.on = on;
    this.settings = { paused: false, fps: 15, driver: "human", policy: "random" };
    this.held = 0;
    this.tapped = null;
    this.turn = Promise.resolve(); // commands and steps, one after another
    this.agent = { action: 0, left: 0 };
    this.stopped = false;
    this.text = ""; // of a shared game, whose parts arrive one by one
  }

  /** Play a predictor, or the first one, from now on. */
  async start(name) {
    this.turn = this.load(name); // commands that arrive meanwhile run after it
    await this.turn;
    if (this.now) this.play();
  }

  stop() {
    this.stopped = true;
  }

  async load(name) {
    try {
      const { runtime, games: known } = await games();
      const game = known.find((other) => other.name === name) ?? known[0];
      await this.fetch(game, runtime);
      this.names = known.map((other) => other.name);
    } catch (error) {
      return this.on.lost(error.message);
    }
    const { game, actions, name: predictor, frame, policy } = this.about;
    this.settings.policy = policy ?? "random";
    this.on.welcome({ game, actions, frame, predictors: this.names, predictor, samples: false, same_game: [], episodes: [], missing: null });
    this.number = 0;
    await this.reset();
  }

  /** Fetch a game, and the runtime where it is still missing. */
  async fetch({ name, files }, runtime) {
    const sizes = (folder, names) => Object.fromEntries(Object.entries(names).map(([file, size]) => [`${folder}/${file}`, size]));
    const folder = encodeURIComponent(name);
    const { "loop.gif": _, ...needed } = files;
    this.kind ??= await kindOfRuntime();
    const binary = this.ort ? {} : { [binaryOf(this.kind)]: runtime[binaryOf(this.kind)] };
    const found = await load({ ...sizes(folder, needed), ...sizes("ort", binary) }, (share) => this.on.loading(share));
    const file = (own) => found[`${folder}/${own}`];
    this.ort ??= await startRuntime(this.kind, found[`ort/${binaryOf(this.kind)}`]);
    this.about = JSON.parse(new TextDecoder().decode(file("predictor.json")));
    const graph = (own) => file(own) && this.ort.InferenceSession.create(file(own), { executionProviders: ["wasm"] });
    this.graphs = { observe: await graph("observe.onnx"), step: await graph("step.onnx"), agent: await graph("agent.onnx") };
    this.starts = await unzipped(file("starts.bin"));
    await this.chooseProcessor(file("step.onnx"));
    this.on.loading(null);
  }

  /** Run the steps on the GPU where that is better. */
  async chooseProcessor(data) {
    let [gpu, why] = [null, "none"];
    if (this.kind === "webgpu") {
      await this.startFrom(0);
      const run = async (graph, step) => (await this.after(this.now, step % this.about.actions.length, graph)).frame;
      [gpu, why] = await fasterOnGpu(this.ort, data, this.graphs.step, run);
      this.now = null;
    }
    this.graphs.step = gpu ?? this.graphs.step;
    document.body.dataset.gpu = why;
  }

  /** Run a command of the page after what is running now. */
  send({ do: name, ...fields }) {
    if (name === "hold") return this.hold(fields.action);
    const work = { step: () => this.step(), reset: () => this.reset(), resync: () => this.startFrom(this.startIndex),
      switch: () => this.switch(fields.name), share: () => this.share(), replay: () => this.replay(fields),
      rewind: () => this.rewind(), go: () => this.go(fields.step), every_action: () => this.everyAction(fields.steps),
      pause: () => (this.settings.paused = fields.on), fps: () => (this.settings.fps = fields.fps),
      change_driver: () => (this.settings.driver = this.settings.driver === "human" ? "agent" : "human"),
      compare: () => {} }[name];
    if (work) this.next(work);
    else this.on.note("This page has no server: that is not possible here");
  }

  /** Do some work after what is running now and show the result; an error is shown, and the game pauses. */
  next(work) {
    this.turn = this.turn.then(async () => {
      if (!this.now || this.stopped) return; // it could not be loaded, or was left
      await work();
      this.show();
    }).catch((error) => {
      this.settings.paused = true;
      this.on.note(error.message);
    });
    return this.turn;
  }

  hold(action) {
    this.held = action;
    if (action) this.tapped = action;
  }

  /** Take steps at the chosen speed. */
  async play() {
    for (let due = performance.now(); !this.stopped; due = Math.max(due + 1000 / this.settings.fps, performance.now())) {
      await new Promise((done) => setTimeout(done, due - performance.now()));
      if (this.settings.paused || this.stopped) continue;
      await this.next(() => this.step());
    }
  }

  async reset() {
    await this.startFrom(this.number++ % this.about.starts);
  }

  /** Start from one of the stored starts. */
  async startFrom(start) {
    const [height, width, channels] = this.about.frame;
    const size = this.about.context * height * width * channels;
    const frames = this.starts.subarray(start * size, (start + 1) * size);
    const tensor = new this.ort.Tensor("uint8", frames, [1, this.about.context, height, width, channels]);
    const state = this.nextState(await this.graphs.observe.run({ frames: tensor }));
    const bytes = height * width * channels;
    const seen = Array.from({ length: SEEN }, (_, back) => frames.subarray(Math.max(0, size - (SEEN - back) * bytes)).subarray(0, bytes));
    this.startIndex = start;
    this.actions = []; // since the start, for a link
    [this.past, this.later, this.left] = [[], [], null]; // states before and after now, and the frames of a future that was left
    this.now = { state, seen, frame: seen.at(-1), steps: 0, action: null, imaginedReward: 0, termination: null };
  }

  async step() {
    const before = this.now;
    const action = await this.nextAction();
    if (action === null) return;
    this.now = await this.after(before, action);
    this.actions = [...this.actions.slice(0, before.steps), action];
    if (this.later.length) this.left = new Map(this.later.map((state) => [state.steps, state.frame]));
    this.later = [];
    const bytes = Object.values(before.state).reduce((sum, tensor) => sum + tensor.data.byteLength, 0);
    this.past = [...this.past, before].slice(-Math.max(1, Math.floor(KEPT_BYTES / bytes)));
  }

  async after(before, action, graph = this.graphs.step) {
    const vector = new Float32Array(this.about.actions.length);
    vector[action] = 1;
    const inputs = { ...before.state, action: new this.ort.Tensor("float32", vector, [1, vector.length]) };
    const used = new Set(graph.inputNames);
    const outputs = await graph.run(Object.fromEntries(Object.entries(inputs).filter(([name]) => used.has(name))));
    const state = this.nextState(outputs);
    const reward = this.about.outcome ? largest([...outputs.reward.data]) - 1 : 0;
    const termination = this.about.outcome ? sigmoid(outputs.termination.data[0]) : null;
    const seen = [...before.seen.slice(1), outputs.frame.data];
    return { state, seen, frame: outputs.frame.data, steps: before.steps + 1, action, imaginedReward: before.imaginedReward + reward, termination };
  }

  /** The state that goes into the next step. */
  nextState(outputs) {
    return Object.fromEntries(this.about.state.map((name) => [`state_${name}`, outputs[`next_${name}`]]));
  }

  /** The action to take now; null where a shared game ends, which pauses. */
  async nextAction() {
    if (this.settings.driver === "replay") {
      if (this.now.steps < this.script.length) return this.script[this.now.steps];
      Object.assign(this.settings, { driver: "human", paused: true });
      return null;
    }
    if (this.settings.driver === "agent") return this.graphs.agent ? this.bestAction() : this.randomAction();
    const action = this.tapped ?? this.held;
    this.tapped = null;
    return action;
  }

  /** What the packaged agent of the game does. */
  async bestAction() {
    const shape = [1, SEEN, ...this.about.frame];
    const frames = new Uint8Array(shape.reduce((a, b) => a * b));
    this.now.seen.forEach((frame, index) => frames.set(frame, index * frame.length));
    const { action } = await this.graphs.agent.run({ frames: new this.ort.Tensor("uint8", frames, shape) });
    return Number(action.data[0]);
  }

  randomAction() {
    if (this.agent.left-- <= 0) {
      const pick = (count) => Math.floor(count * Math.random());
      this.agent = { action: pick(this.about.actions.length), left: pick(LONGEST_HOLD) };
    }
    return this.agent.action;
  }

  async switch(name) {
    this.now = null;
    this.settings.driver = "human";
    await this.load(name);
  }

  share() {
    const runs = [];
    for (const action of this.actions.slice(0, this.now.steps)) {
      if (runs.at(-1)?.action === action) runs.at(-1).count += 1;
      else runs.push({ action, count: 1 });
    }
    const moves = runs.map(({ action, count }) => (count === 1 ? `${action}` : `${action}x${count}`)).join("-");
    this.on.link(`predictor=${encodeURIComponent(this.about.name)}&start=${this.startIndex}&moves=${moves}`);
  }

  /** Repeat a shared game: its start, then its actions. */
  async replay({ text, last }) {
    this.text += text;
    if (!last) return;
    const values = new URLSearchParams(this.text);
    this.text = "";
    const tokens = (values.get("moves") ?? "").split("-").filter(Boolean).map((token) => /^(\d{1,3})(?:x(\d{1,6}))?$/.exec(token));
    const start = Number(values.get("start"));
    const script = [];
    for (const token of tokens) {
      const [action, count] = token ? [Number(token[1]), Number(token[2] ?? 1)] : [NaN, 0];
      if (!(action < this.about.actions.length) || script.length + count > LONGEST_LINK) throw new Error("This link is damaged: it cannot be repeated");
      for (let step = 0; step < count; step += 1) script.push(action);
    }
    if (!(start >= 0 && start < this.about.starts)) throw new Error("This link is of another version of this page: it cannot be repeated");
    await this.startFrom(Math.floor(start));
    this.script = script;
    Object.assign(this.settings, { driver: "replay", paused: false });
  }

  rewind() {
    this.settings.paused = true;
    if (this.past.length) this.go(this.past.at(-1).steps);
    else this.on.note("nothing earlier is kept");
  }

  /** Go back or forward to the last state kept that is not after a step, and pause there. */
  go(step) {
    this.settings.paused = true;
    const all = [...this.past, this.now, ...this.later];
    const index = Math.max(0, all.findLastIndex(({ steps }) => steps <= step));
    [this.past, this.now, this.later] = [all.slice(0, index), all[index], all.slice(index + 1)];
  }

  async everyAction(steps) {
    const imagined = [];
    for (let action = 0; action < this.about.actions.length; action += 1) {
      let now = this.now;
      for (let step = 0; step < steps; step += 1) now = await this.after(now, action);
      imagined.push(this.image(now.frame));
    }
    this.on.grid({ steps, imagined, real: null });
  }

  image(frame) {
    const [height, width] = this.about.frame;
    return toImage(frame, null, width, height);
  }

  show() {
    const { frame, steps, action, imaginedReward, termination } = this.now;
    const facts = {
      ...this.settings, predictor: this.about.name, agent_steps: steps, steps, action, termination, watching: null, wrong_pixels: null,
      pixels: null, squared_error: null, object_found: null, score: 0, real_reward: 0,
      imagined_reward: this.about.outcome ? imaginedReward : null,
      over: false, recording: null, scrub: null, auto_resync: "off", notice: "", temperature: 0, beside: "", other_wrong_pixels: null,
      expected_wrong: null, history: [this.past[0]?.steps ?? steps, this.later.at(-1)?.steps ?? steps],
      left_steps: this.left && [Math.min(...this.left.keys()), Math.max(...this.left.keys())],
    };
    const left = this.left?.get(steps);
    this.on.picture({ facts, real: null, imagined: this.image(frame), left: left ? this.image(left) : null });
  }
}
