// A session on the server: JSON commands go there, pictures and facts come back (acvp/play/protocol.py).

const PICTURE = 1;
const GRID = 2;

/** Turns one world's messages into pictures; keeps the last values, of which only changes arrive. */
class FrameReader {
  constructor() {
    this.values = new Uint8Array();
    this.palette = new Uint8Array();
  }

  read({ form, size: [height, width], palette, whole }, bytes) {
    if (whole) this.values = new Uint8Array(bytes.length);
    if (palette !== undefined) this.palette = Uint8Array.from(palette.match(/../g), (pair) => parseInt(pair, 16));
    for (let i = 0; i < bytes.length; i += 1) this.values[i] ^= bytes[i];
    return toImage(this.values, form === "palette" ? this.palette : null, width, height);
  }
}

/** Gray, palette or RGB bytes as an image. */
export function toImage(values, palette, width, height) {
  const image = new ImageData(width, height);
  const channels = values.length / (width * height);
  for (let i = 0, o = 0; o < image.data.length; i += channels, o += 4) {
    for (let c = 0; c < 3; c += 1) image.data[o + c] = palette ? palette[3 * values[i] + c] : values[channels === 1 ? i : i + c];
    image.data[o + 3] = 255;
  }
  return image;
}

const PICTURES = ["real", "imagined", "other", "left", "uncertainty"]; // in the order of a message

/** How many bytes a world's part of a message has. */
const length = ({ form, size: [height, width] }) => height * width * (form === "rgb" ? 3 : 1);

export class RemoteSession {
  /** `on` has welcome, picture, grid, video, link, note and lost, each called with what arrived. */
  constructor(on) {
    this.on = on;
    this.readers = Object.fromEntries(PICTURES.map((name) => [name, new FrameReader()]));
  }

  /** Start a session with a predictor, or with the first one. */
  start(predictor = null) {
    const query = predictor === null ? "" : `?predictor=${encodeURIComponent(predictor)}`;
    this.socket = new WebSocket(`ws://${location.host}/play${query}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = ({ data }) => (typeof data === "string" ? this.readText(data) : this.readBinary(data));
    this.socket.onclose = ({ reason }) => this.on.lost(reason || "the server has gone");
  }

  stop() {
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close();
  }

  send(command) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(command));
  }

  readText(text) {
    const { welcome, note, link } = JSON.parse(text);
    if (link) this.on.link(link);
    if (welcome) this.on.welcome(welcome);
    if (note) this.on.note(note);
  }

  readBinary(buffer) {
    const view = new DataView(buffer);
    const start = 5 + view.getUint32(1, true);
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 5, start - 5)));
    const payload = new Uint8Array(buffer, start);
    const kind = view.getUint8(0);
    if (kind === PICTURE) this.readPicture(header, payload);
    else if (kind === GRID) this.readGrid(header, payload);
    else this.on.video({ kind: header.kind, data: payload });
  }

  readPicture(facts, payload) {
    const pictures = {};
    let at = 0;
    for (const name of PICTURES) {
      pictures[name] = null;
      if (!facts[name]) continue;
      const size = length(facts[name]);
      pictures[name] = this.readers[name].read(facts[name], payload.subarray(at, at + size));
      at += size;
    }
    this.on.picture({ facts, ...pictures });
    this.socket.send(`#${facts.picture}`);
  }

  readGrid({ steps, shape: [count, height, width, channels], real }, payload) {
    const size = height * width * channels;
    const image = (index) => toImage(payload.subarray(index * size, (index + 1) * size), null, width, height);
    const row = (first) => Array.from({ length: count }, (_, index) => image(first + index));
    this.on.grid({ steps, imagined: row(0), real: real ? row(count) : null });
  }
}
