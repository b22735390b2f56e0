// From held keys to an action: "UPRIGHTFIRE" is the set {UP, RIGHT, FIRE}, as the Arcade Learning Environment names them.

const TOKENS = ["UP", "DOWN", "LEFT", "RIGHT", "FIRE"];

/** The tokens of an action's name, or null where it is not made of them. */
function tokensOf(name) {
  const upper = name.toUpperCase().replaceAll(/[^A-Z]/g, "");
  if (upper === "NOOP") return new Set();
  const found = upper.match(/UP|DOWN|LEFT|RIGHT|FIRE/g) ?? [];
  return found.length && found.join("") === upper ? new Set(found) : null;
}

export class Actions {
  constructor(names) {
    this.names = names;
    this.sets = names.map(tokensOf);
    this.idle = Math.max(0, this.sets.findIndex((set) => set?.size === 0));
    this.tokens = new Set(TOKENS.filter((token) => this.sets.some((set) => set?.has(token))));
    this.unnamed = names.map((_, index) => index).filter((index) => this.sets[index] === null);
  }

  /** The action that uses most of the held tokens and no other. */
  choose(held) {
    let best = this.idle;
    let size = 0;
    this.sets.forEach((set, index) => {
      if (set && set.size > size && [...set].every((token) => held.has(token))) [best, size] = [index, set.size];
    });
    return best;
  }
}
