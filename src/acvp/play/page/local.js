// A session without a server: the predictor runs here, as ONNX graphs, from a few stored starts.

import { toImage } from "./remote.js";

const KEPT_BYTES = 64e6; // for rewinding
const LONGEST_HOLD = 20; // steps for which the random agent keeps an action, at most

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const largest = (values) => values.indexOf(Math.max(...values));

export class LocalSession {
  /** `on` has welcome, picture, grid and note, each called with what there is. */
  constructor(on) {
    this.on = on;
    this.settings = { paused: false, fps: 15, driver: "human", policy: "random" };
    this.held = 0;
    this.tapped = null;
    this.turn = Promise.resolve(); // commands and steps, one after another
    this.agent = { action: 0, left: 0 };
  }

  async start() {
    this.turn = this.load(); // commands that arrive meanwhile run after it
    await this.turn;
    if (this.now) this.play();
  }

  async load() {
    const place = (name) => new URL(name, document.baseURI);
    try {
      this.about = await (await fetch(place("predictor.json"))).json();
      this.ort = await import(place("ort/ort.wasm.min.mjs"));
      this.ort.env.wasm.wasmPaths = place("ort/").href;
      if (!globalThis.crossOriginIsolated) this.ort.env.wasm.numThreads = 1;
      const load = (name) => this.ort.InferenceSession.create(place(name).href, { executionProviders: ["wasm"] });
      this.graphs = { observe: await load("observe.onnx"), step: await load("step.onnx") };
      const packed = (await fetch(place("starts.bin"))).body.pipeThrough(new DecompressionStream("gzip"));
      this.starts = new Uint8Array(await new Response(packed).arrayBuffer());
    } catch (error) {
      return this.on.lost(error.message);
    }
    const { game, actions, name, frame } = this.about;
    this.on.welcome({ game, actions, frame, predictors: [name], predictor: name, samples: false, same_game: [], episodes: [], missing: null });
    this.number = 0;
    await this.reset();
  }

  /** Run a command of the page after what is running now. */
  send({ do: name, ...fields }) {
    if (name === "hold") return this.hold(fields.action);
    const work = { step: () => this.step(), reset: () => this.reset(), resync: () => this.startFrom(this.startIndex),
      rewind: () => this.rewind(), every_action: () => this.everyAction(fields.steps),
      pause: () => (this.settings.paused = fields.on), fps: () => (this.settings.fps = fields.fps),
      change_driver: () => (this.settings.driver = this.settings.driver === "human" ? "agent" : "human") }[name];
    if (work) this.next(work);
    else this.on.note("This page has no server: that is not possible here");
  }

  /** Do some work after what is running now and show the result; an error is shown, and the game pauses. */
  next(work) {
    this.turn = this.turn.then(async () => {
      if (!this.now) return; // it could not be loaded
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
    for (let due = performance.now(); ; due = Math.max(due + 1000 / this.settings.fps, performance.now())) {
      await new Promise((done) => setTimeout(done, due - performance.now()));
      if (this.settings.paused) continue;
      await this.next(() => this.step());
    }
  }

  async reset() {
    await this.startFrom(this.number++ % this.about.starts);
    this.past = [];
  }

  /** Start from one of the stored starts. */
  async startFrom(start) {
    const [height, width, channels] = this.about.frame;
    const size = this.about.context * height * width * channels;
    const frames = this.starts.subarray(start * size, (start + 1) * size);
    const tensor = new this.ort.Tensor("uint8", frames, [1, this.about.context, height, width, channels]);
    const state = this.nextState(await this.graphs.observe.run({ frames: tensor }));
    const last = frames.subarray(size - height * width * channels);
    this.startIndex = start;
    this.now = { state, frame: last, steps: 0, action: null, imaginedReward: 0, termination: null };
  }

  async step() {
    const before = this.now;
    this.now = await this.after(before, this.nextAction());
    const bytes = Object.values(before.state).reduce((sum, tensor) => sum + tensor.data.byteLength, 0);
    this.past = [...this.past, before].slice(-Math.max(1, Math.floor(KEPT_BYTES / bytes)));
  }

  async after(before, action) {
    const vector = new Float32Array(this.about.actions.length);
    vector[action] = 1;
    const inputs = { ...before.state, action: new this.ort.Tensor("float32", vector, [1, vector.length]) };
    const used = new Set(this.graphs.step.inputNames);
    const outputs = await this.graphs.step.run(Object.fromEntries(Object.entries(inputs).filter(([name]) => used.has(name))));
    const state = this.nextState(outputs);
    const reward = this.about.outcome ? largest([...outputs.reward.data]) - 1 : 0;
    const termination = this.about.outcome ? sigmoid(outputs.termination.data[0]) : null;
    return { state, frame: outputs.frame.data, steps: before.steps + 1, action, imaginedReward: before.imaginedReward + reward, termination };
  }

  /** The state that goes into the next step. */
  nextState(outputs) {
    return Object.fromEntries(this.about.state.map((name) => [`state_${name}`, outputs[`next_${name}`]]));
  }

  nextAction() {
    if (this.settings.driver === "agent") {
      if (this.agent.left-- <= 0) {
        const pick = (count) => Math.floor(count * Math.random());
        this.agent = { action: pick(this.about.actions.length), left: pick(LONGEST_HOLD) };
      }
      return this.agent.action;
    }
    const action = this.tapped ?? this.held;
    this.tapped = null;
    return action;
  }

  rewind() {
    this.settings.paused = true;
    if (this.past.length) this.now = this.past.pop();
    else this.on.note("nothing earlier is kept");
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
    };
    this.on.picture({ facts, real: null, imagined: this.image(frame) });
  }
}
