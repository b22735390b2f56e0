// Keyboard, touch and gamepad: which tokens are held, and which commands are sent.

const MOVES = {
  ArrowUp: "UP", ArrowDown: "DOWN", ArrowLeft: "LEFT", ArrowRight: "RIGHT",
  KeyW: "UP", KeyS: "DOWN", KeyA: "LEFT", KeyD: "RIGHT", Space: "FIRE",
};
const COMMANDS = {
  Enter: "reset", ".": "pause", e: "step", r: "resync", Backspace: "rewind", g: "every", A: "every", a: "every",
  m: "driver", c: "clip", "[": "back", "]": "forth", "{": "previous", "}": "next", p: "predictor", l: "share", "-": "slower",
  "+": "faster", "=": "faster", t: "theme", "?": "help",
};
const PAD_BUTTONS = { 0: "FIRE", 1: "FIRE", 2: "FIRE", 3: "FIRE", 12: "UP", 13: "DOWN", 14: "LEFT", 15: "RIGHT" };
const PAD_COMMANDS = { 8: "pause", 9: "reset" };
const TILT = 0.5;

export class Keys {
  /** `onHold(action, pressed)` is called when the held action changes, `onCommand(name, repeated)` for everything else. */
  constructor(onHold, onCommand) {
    Object.assign(this, { onHold, onCommand, actions: null, action: 0, fixed: null });
    this.codes = new Set(); // of the keyboard's keys that are down
    this.held = { touch: new Set(), pad: new Set() };
    this.rewinding = false;
    this.padDown = new Set();
    addEventListener("keydown", (event) => this.keyDown(event));
    addEventListener("keyup", (event) => this.keyUp(event));
    addEventListener("blur", () => this.releaseAll());
    addEventListener("gamepadconnected", () => this.pollPad());
  }

  use(actions, touchArea) {
    this.actions = actions;
    this.action = null; // so that the session is sent the held action, whatever it was before
    this.releaseAll();
    touchArea.replaceChildren(...this.touchButtons());
  }

  keyDown(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const focus = document.activeElement;
    const native = focus?.matches("button, select, input");
    if (event.key === "Escape") return focus?.blur();
    if (native && (focus.matches("select, [type=range]") || ["Enter", " ", "Tab"].includes(event.key))) return;
    const token = MOVES[event.code];
    const command = COMMANDS[event.key] ?? (event.shiftKey ? null : COMMANDS[event.key.toLowerCase()]); // caps lock
    const moves = token && !event.shiftKey && (this.actions?.tokens.has(token) || event.code !== "KeyA");
    if (moves) {
      this.codes.add(event.code);
      this.update();
    } else if (/^[0-9]$/.test(event.key) && Number(event.key) < (this.actions?.names.length ?? 0)) {
      this.fixed = Number(event.key);
      this.update();
    } else if (command) {
      this.rewinding ||= command === "rewind";
      if (!event.repeat || ["rewind", "step", "back", "forth"].includes(command)) this.onCommand(command, event.repeat);
    } else return;
    event.preventDefault();
  }

  keyUp(event) {
    this.codes.delete(event.code);
    if (/^[0-9]$/.test(event.key)) this.fixed = null;
    if (event.key === "Backspace") this.endRewind();
    this.update();
  }

  endRewind() {
    if (this.rewinding) this.onCommand("rewound");
    this.rewinding = false;
  }

  releaseAll() {
    this.endRewind();
    this.codes.clear();
    for (const set of Object.values(this.held)) set.clear();
    this.fixed = null;
    this.update();
  }

  update() {
    if (!this.actions) return;
    const held = new Set([...this.codes].map((code) => MOVES[code]));
    for (const set of Object.values(this.held)) for (const token of set) held.add(token);
    const action = this.fixed ?? this.actions.choose(held);
    if (action !== this.action) this.onHold((this.action = action), held.size > 0 || this.fixed !== null);
  }

  pollPad() {
    const pad = [...navigator.getGamepads()].find(Boolean);
    if (!pad) {
      this.held.pad.clear();
      return this.update();
    }
    const down = new Set(pad.buttons.flatMap((button, index) => (button.pressed ? [index] : [])));
    this.held.pad = new Set([...down].flatMap((index) => PAD_BUTTONS[index] ?? []));
    const [x, y] = pad.axes;
    if (x < -TILT) this.held.pad.add("LEFT");
    if (x > TILT) this.held.pad.add("RIGHT");
    if (y < -TILT) this.held.pad.add("UP");
    if (y > TILT) this.held.pad.add("DOWN");
    for (const [index, name] of Object.entries(PAD_COMMANDS)) {
      if (down.has(Number(index)) && !this.padDown.has(Number(index))) this.onCommand(name);
    }
    this.padDown = down;
    this.update();
    requestAnimationFrame(() => this.pollPad());
  }

  /** Buttons for just the moves that the game has. */
  touchButtons() {
    const has = this.actions.tokens;
    const parts = [];
    const sideways = has.has("LEFT") || has.has("RIGHT");
    const places = sideways
      ? { UP: ["▲", "1 / 2"], LEFT: ["◀", "2 / 1"], RIGHT: ["▶", "2 / 3"], DOWN: ["▼", "3 / 2"] }
      : { UP: ["▲", "1 / 1"], DOWN: ["▼", "2 / 1"] };
    const pad = document.createElement("div");
    pad.className = sideways ? "pad" : "pad tall";
    for (const [token, [sign, area]] of Object.entries(places)) {
      if (has.has(token)) pad.append(this.touchButton(sign, token, (button) => (button.style.gridArea = area)));
    }
    if (pad.children.length) parts.push(pad);
    if (has.has("FIRE")) parts.push(this.touchButton("FIRE", "FIRE", (button) => (button.className = "fire")));
    if (this.actions.unnamed.length) {
      const names = document.createElement("div");
      names.className = "names";
      names.append(...this.actions.unnamed.map((index) => this.touchButton(this.actions.names[index], index)));
      parts.push(names);
    }
    return parts;
  }

  touchButton(sign, meaning, dress = () => {}) {
    const button = document.createElement("button");
    button.textContent = sign;
    button.setAttribute("aria-label", String(meaning).toLowerCase());
    button.tabIndex = -1;
    dress(button);
    const set = (down) => {
      button.classList.toggle("down", down);
      if (typeof meaning === "number") this.fixed = down ? meaning : null;
      else if (down) this.held.touch.add(meaning);
      else this.held.touch.delete(meaning);
      this.update();
    };
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      set(true);
    });
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) button.addEventListener(name, () => set(false));
    return button;
  }
}
